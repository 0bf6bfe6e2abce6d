package lift

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// TestRoles has the role that the name of a kernel gives it, and of attention the phase: "attention", and
// "prefill" or "decode" where only one of them runs it. The names are those that the libraries define.
func TestRoles(t *testing.T) {
	role := [...]string{workload.ClassUnknown: "unknown", "sweep", "light", "matrix", "lookup", "dense", "heavy"}
	for name, want := range map[string]string{
		// FlashInfer, of which SGLang and vLLM take norms, activations, attention and sampling
		"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)":                                                                   "sweep",
		"void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(float silu<float>(float const&))>(__nv_bfloat16*)":                                "sweep",
		"void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheHeadParallelismKernel<true, 64u, 8u, 8u, __nv_bfloat16, long>()":                               "sweep",
		"void flashinfer::AppendPagedKVCacheKernel<128u, 8u, 16u>(flashinfer::paged_kv_t<__nv_bfloat16, int>)":                                              "sweep",
		"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 128u, 2u, 2u>, PagedParams>()":               "prefill",
		"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)0, 16u, 1u, 4u>, PagedParams>()":                "decode",
		"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)0, (unsigned int)16, (unsigned int)1>, T2>(T2)": "decode",
		"void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u, 8u, 16u, 1u, 8u>()":                                     "decode",
		"void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u>(float*)":                                                               "light",
		"void flashinfer::mla::hopper::BatchMLAPageAttentionHopperKernel<flashinfer::mla::hopper::HopperKernelTraits<false>>()":                             "decode",
		"void flashinfer::mla::BatchMLAPagedAttentionKernel<flashinfer::mla::KernelTraits<true>>()":                                                         "decode",
		"void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(float*)":                                                                          "light",
		"create_flashinfer_kv_indices_triton":                                                                                    "light",
		"fmhaSm100aKernel_QkvE4m3OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext":                                  "prefill",
		"fmhaSm100fKernel_QkvBfloat16OBfloat16HQk576HV512HVPerCta256PagedKvDenseP32MultiCtasKvVarSeqQ16Kv128StaticSwapsAbForGen": "decode",
		"bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s6_et64x8_m64x8x32_cga1x1x1_16dp256b_TN_transOut_schedS_sm100f":                     "matrix",
		// FlashAttention and FlashMLA
		"void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, true>(flash::Flash_fwd_params)":            "attention",
		"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>()": "attention",
		"void flash::prepare_varlen_num_blocks_kernel<1, true>(int)":                                                               "light",
		"void sm90::flash_fwd_splitkv_mla_kernel<cutlass::bfloat16_t, sm90::Traits<cutlass::bfloat16_t>>(DecodingParams)":          "decode",
		"get_mla_metadata_kernel(GetDecodingMetadataParams)":                                                                       "light",
		"void sm90::fwd::sparse_attn_fwd_kernel<576, false>(SparsePrefillParams)":                                                  "prefill",
		// TensorRT-LLM
		"fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv_128_causal_sm90_kernel": "prefill",
		"kernel_mha": "decode",
		"void mmha::masked_multihead_attention_kernel<__nv_bfloat16, 128>(int)": "decode",
		// vLLM
		"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(__nv_bfloat16 const*)":    "sweep",
		"void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, unsigned char>()":                                                        "sweep",
		"void vllm::merge_attn_states_kernel<__nv_bfloat16, 128u>(__nv_bfloat16*)":                                                      "light",
		"void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)":                                                          "sweep",
		"void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&)), true>()": "sweep",
		"void vllm::fused_add_rms_norm_static_fp8_quant_kernel<c10::BFloat16, 8, c10::Float8_e4m3fn>()":                                 "sweep",
		"void vllm::dynamic_per_token_scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>()":                             "sweep",
		"void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, 32, int, __nv_bfloat16>()":                                                    "sweep",
		"void vllm::moe::moe_align_block_size_kernel<int>(int const*)":                                                                  "light",
		"void marlin_moe_wna16::Marlin<__nv_bfloat16, 1125899906909960l, 256, 4, 16, 4, false, 4, 2, false>()":                          "matrix",
		"void marlin::Marlin<__half, 4503599627371532l, 128, 1, 8, 4>()":                                                                "matrix",
		"void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>(int)":                                                                "matrix",
		"void LLGemm1_kernel<__half, 4>(float4 const*)":                                                                                 "matrix",
		"void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0, 16, 128>()":          "decode",
		"kernel_unified_attention_2d":                    "attention",
		"kernel_unified_attention_3d":                    "decode",
		"batched_triton_kernel":                          "heavy",
		"fused_moe_kernel":                               "heavy",
		"fused_moe_kernel_gptq_awq":                      "heavy",
		"_w8a8_block_fp8_matmul":                         "matrix",
		"triton_tem_fused_addmm_1":                       "matrix",
		"triton_poi_fused_constant_pad_nd_moe_forward_0": "light",
		// SGLang
		"_fwd_grouped_kernel_stage1": "decode",
		"_fwd_kernel_stage2":         "decode",
		"per_token_group_quant_8bit_kernel<__nv_bfloat16, __nv_fp8_e4m3, false, false, float>": "sweep",
		"set_mla_kv_buffer_kernel": "sweep",
		"void router_gemm_kernel_float_output<__nv_bfloat16, 128, 8, 1, 256, 7168>()": "matrix",
		"moe_fused_gate_kernel<float, 32, 256, 8, 4, 24, 6>":                          "light",
		// DeepGEMM
		"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 2112u, 7168u, 1u, 64u, 16u, 128u, 32u, 12u, 8u>()": "matrix",
		"void deep_gemm::transpose_fp32<512u, 64u, 57u, 8u>(float const*)":                              "sweep",
		"void deep_gemm::smxx_paged_mqa_logits_metadata<64u, 256u, 132u>(unsigned int)":                 "light",
		// aiter and CK
		"aiter::mla_dec_stage1_bf16_a16w16_subQ16_mqa16":                                                          "decode",
		"_ZN5aiter44PA_A16W8_BLK256_1TG_4W_16mx1_64nx4_MTP_PS_PBE":                                                "decode",
		"aiter::mla_pfl_bf16_a16w16_causal_subQ128_mqa128":                                                        "prefill",
		"aiter::fmha_fwd_hd128_bf16_causal_rtna_group":                                                            "prefill",
		"void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<int>>>()":           "prefill",
		"void ck_tile::kentry<2, ck_tile::FmhaBatchPrefillWithPagedKVCacheKernel<int>>()":                         "prefill",
		"void ck_tile::kentry<2, ck_tile::FmhaFwdSplitKVKernel<int>>()":                                           "decode",
		"void aiter::add_rmsnorm_quant_kernel<__hip_bfloat16, __hip_bfloat16, 256, 24, true, false, false, 1>()":  "sweep",
		"void aiter::local_device_load_rmsnorm<__hip_bfloat16, 512, 2, false>(aiter::RankSignals)":                "sweep",
		"void aiter::grouped_topk_kernel<float, float __vector(4), 8, true, true, false>(float*)":                 "light",
		"void ck_tile::kentry<2, ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblemEx<int, float, 1>>>()":       "light",
		"void ck_tile::kentry<2, ck_tile::MoeFlatmmKernel<int>>()":                                                "matrix",
		"void ck::kernel_moe_gemm<ck::GridwiseMoeGemm<ck::tensor_layout::gemm::RowMajor>, true>()":                "matrix",
		"aiter::fmoe_bf16_blockscaleFp8_g1u1_novs_silu_1tg_ps_32x256":                                             "heavy",
		"aiter::f4gemm_bf16_per1x32Fp4_BpreShuffle_128x512":                                                       "matrix",
		"void kn_entry_2c_sbhd_cached_indirect_inplace<OpCachedFwd, 1, true, false, true, true, c10::BFloat16>()": "sweep",
		// recommenders
		"void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int)": "sweep",
		"_convert_req_index_to_global_index_kernel":                     "light",
	} {
		name := trace.Demangle(name)
		got := role[workload.ClassOf(name)]
		if is, prefill, decode := attention(name); prefill {
			got = "prefill"
		} else if decode {
			got = "decode"
		} else if is {
			got = "attention"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Norms of 32 workgroups: a row each, or as many as their template states.
func TestNormRows(t *testing.T) {
	ck := "void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<ck_tile::Rmsnorm2dFwdPipelineOnePass<ck_tile::Rmsnorm2dFwdPipelineProblem<float, ck_tile::Generic2dBlockShape<ck_tile::sequence<4, 1024>, ck_tile::sequence<1, 128>>>>>>"
	for name, want := range map[string]int64{
		"void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)":                              32,
		"void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)":                                      32,
		"void vllm::fused_add_rms_norm_static_fp8_quant_kernel<c10::BFloat16, 8, c10::Float8_e4m3fn>()":        32,
		"void vllm::rms_norm_dynamic_per_token_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn, true>()":        32,
		"void aiter::add_rmsnorm_quant_kernel<__hip_bfloat16, __hip_bfloat16, 256, 24, true>(__hip_bfloat16*)": 32,
		"aiter::add_rmsnorm_quant_kernel<__hip_bfloat16, __hip_bfloat16, 256, 24, true, false, false, 2>":      64,
		ck: 128,
		"void ck_tile::kentry<1, ck_tile::FmhaFwdKernel<ck_tile::TileFmhaShape<ck_tile::sequence<4, 1024>>>>": 0,
		"triton_red_fused_add_mean_mul_pow_rsqrt_0":                                                           0,
	} {
		op := &workload.Op{Kernel: &workload.Kernel{Name: name, Tiling: workload.Tiling{WGs: 32}}, Kind: trace.Compute}
		if got := normRows(op); got != want {
			t.Errorf("%s: %d rows, want %d", name, got, want)
		}
	}
}

// The columns and depth for which DeepGEMM compiles a kernel, and its tile.
func TestDeepGEMM(t *testing.T) {
	for name, want := range map[string]string{
		"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u, 1u, 256u, 112u, 128u, 32u, 3u, 1u, 128u, 256u, 2u, true, 128u, (deep_gemm::GemmType)0, deep_gemm::EpilogueIdentity>(float*)":  "7168 2048 [256 112 128] true",
		"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 0u, 2048u, 1u, 64u, 16u, 128u, 32u, 3u, 1u, 128u, 256u, 2u, true, 128u, (deep_gemm::GemmType)0, deep_gemm::EpilogueIdentity>(float*)":       "0 2048 [64 16 128] true",
		"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u, 32u, 128u, 112u, 128u, 32u, 3u, 1u, 128u, 256u, 2u, true, 132u, (deep_gemm::GemmType)1, deep_gemm::EpilogueIdentity>(float*)": "0 0 [0 0 0] false",
	} {
		n, k, tile, ok := trace.DeepGEMM(name)
		if got := fmt.Sprint(n, k, tile, ok); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
