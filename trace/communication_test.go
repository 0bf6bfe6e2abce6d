package trace_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// TestFused has the names of kernels that communicate inside, and names that only look so.
func TestFused(t *testing.T) {
	for kernel, want := range map[string]string{
		"void deep_gemm::sm100_fp8_fp4_mega_moe_impl<192u, 7168u, 2048u, 256u>(void*, int*)":                             "all_to_all before and after",
		"void deep_gemm::sm90_fp8_mega_moe_impl<7168u, 2048u>(void*)":                                                    "all_to_all before and after",
		"kernel_cutlass_fc1fc2_kernel_impl_flashinferMegaMoE_object_at_0":                                                "all_to_all before and after",
		"mega_kernel_dispatch_token_moe_grouped_gemm":                                                                    "all_to_all before",
		"mega_kernel_moe_grouped_gemm_combine_token":                                                                     "all_to_all after",
		"void cutlass::Kernel2<bytedance::flux::FluxGemmKernel<GemmMeta<cute::C<(bytedance::flux::CommOpEnum)2>>, int>>": "reduce_scatter after",
		"void cutlass::Kernel2<bytedance::flux::FluxGemmKernel<GemmMeta<cute::C<(bytedance::flux::CommOpEnum)4>>, int>>": "all_gather before",
		"void cutlass::Kernel2<bytedance::flux::FluxGemmKernel<GemmMeta<cute::C<(bytedance::flux::CommOpEnum)0>>, int>>": "",
		"void cutlass::Kernel2<bytedance::flux::FluxGemmKernel<...>>":                                                    "communication",
		"kernel_gemm_rs_producer_persistent":                                                                             "reduce_scatter after",
		"kernel_gemm_rs_producer_fuse_scatter":                                                                           "reduce_scatter after",
		"kernel_consumer_gemm_persistent":                                                                                "all_gather before",
		"kernel_consumer_flash_attn_forward":                                                                             "all_gather before",
		"kernel_fused_gemm_allreduce":                                                                                    "all_reduce after",
		"persistent_gemm_all_scatter":                                                                                    "all_gather after",
		"persistent_gemm_all_reduce_ring_based":                                                                          "all_reduce after",
		"_fused_all_gather_matmul_kernel":                                                                                "all_gather before",
		"gemm_one_shot_all_reduce_kernel":                                                                                "all_reduce after",
		"void kittens::py::global_kernel_unclustered<config, globals, &(attn_comm_partial_kernel(globals const&))>":      "send_recv before",
		"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT":                                                                      "",
		"kernel_persistent_gemm_notify":                                                                                  "", // the communication is another kernel's
		"one_shot_all_reduce_kernel":                                                                                     "",
		"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)":                                                         "",
	} {
		if _, _, got := trace.Fused(kernel); got != want {
			t.Errorf("%s: %q, want %q", kernel, got, want)
		} else if got != "" && (trace.Communicates(kernel) || trace.LooksLikeCommunication(kernel)) {
			t.Errorf("%s is a collective too", kernel)
		}
	}
}

// TestCommunicationKernels has one name as profilers write it for every family of the table.
func TestCommunicationKernels(t *testing.T) {
	for _, c := range []struct {
		kernel string
		op     trace.CollectiveOp
	}{
		{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", trace.AllReduce},
		{"ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)", trace.AllReduce},
		{"ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<4096ul>) [clone .kd]", trace.UnknownOp},
		{"mscclKernel_Sum_half_LL(ncclDevComm*, mscclAlgo*, mscclWork*)", trace.UnknownOp},
		{"void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*, int*, long*, int*)", trace.AllToAll},
		{"void deep_ep::internode_ll::combine<(bool)0, (int)6144, (int)11, (int)4>(void *, void *)", trace.AllToAll},
		{"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(T1 *, float *)", trace.AllToAll},
		{"void deep_ep::intranode::cached_notify_combine<8>(void**, int*, int)", trace.Barrier},
		{"void deep_ep::internode::notify_dispatch<false, 4>(int const*, int*, int)", trace.Barrier},
		{"_ZN7deep_ep9intranode8dispatchILi8ELi768ELi8192EEEvP4int4Pf", trace.AllToAll},
		{"void primus_turbo::deep_ep::intranode::cached_notify_dispatch<8>(int const*, int)", trace.Barrier},
		{"void deep_ep::bucket::nvlink_all_reduce<8, 24, 1024, 1l, true, 0>(ncclDevComm)", trace.AllReduce},
		{"void deep_ep::bucket::rdma_all_gather<8>(ncclDevComm)", trace.AllGather},
		{"void deep_ep::pp::pp_recv_impl<4, 2>(ncclDevComm)", trace.SendRecv},
		{"void nixl_ep::ep_kernels::dispatch<true, 7168>(void*)", trace.AllToAll},
		{"void dpsk::ep::internode::dispatch<false, 4, false>(int4*)", trace.AllToAll},
		{"void dpsk::ep::internode::combine<4, true, __nv_bfloat16>(int4*)", trace.AllToAll},
		{"void dpsk::ep::internode::cached_notify<false>(int)", trace.Barrier},
		{"_ZN4dpsk2ep9internode8dispatchILb0ELi4ELb0EEEvP4int4", trace.AllToAll},
		{"void deep_ep::elastic::dispatch_impl<24, 32, 8>(void*, void*)", trace.AllToAll},
		{"void deep_ep::elastic::hybrid_combine_impl<24>(void*)", trace.AllToAll},
		{"void hybrid_ep::dispatch_kernel<unsigned char, 8>(hybrid_ep::dispatch_kernel_param_t<unsigned char>)", trace.AllToAll},
		{"void hybrid_ep::device_sync_kernel<2>(unsigned int*)", trace.Barrier},
		{"nccl_ep_jit_ht_dispatch_kernel", trace.AllToAll},
		{"mooncake_ep_jit_dispatch_kernel", trace.AllToAll},
		{"void uccl::internode_ll::combine<7168, 9>(void*)", trace.AllToAll},
		{"void uccl::intranode::notify_dispatch<8>(int const*)", trace.Barrier},
		{"OneShotAllGatherSdmaKernel_u32", trace.AllGather},
		{"void mori::collective::OneShotAll2allSdmaKernel<unsigned int>(int, int)", trace.AllToAll},
		{"void mori::collective::PipelinedAllReduceSdmaKernel<hip_bfloat16, 1>(int, int)", trace.AllReduce},
		{"void tensorrt_llm::kernels::fused_moe_impl::moeAllToAllKernel<8, false>(tensorrt_llm::kernels::FusedMoeCommKernelParam)", trace.AllToAll},
		{"void flashinfer::trtllm_alltoall::moeAllToAllKernel(flashinfer::trtllm_alltoall::MoeEpWorldInfo)", trace.AllToAll},
		{"void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, __nv_bfloat16>(__nv_bfloat16*)", trace.AllReduce},
		{"void flashinfer::trtllm_moe_allreduce_fusion::moereduce_allreduce_fusion_kernel_oneshot_lamport<__nv_bfloat16, 8>()", trace.AllReduce},
		{"void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>((anonymous namespace)::AllReducePushData)", trace.AllReduce},
		{"void aiter::cross_device_reduce_2stage_write_mode<__hip_bfloat16, 8>(aiter::RankData*)", trace.AllReduce},
		{"persistent_all_reduce_two_shot", trace.AllReduce},
		{"persistent_all_to_all", trace.AllToAll},
		{"void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs<hip_bfloat16>)", trace.AllToAll},
		{"EpCombineInterNodeV1KernelLowLatency_bf16", trace.AllToAll},
		{"void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<tensorrt_llm::kernels::moe_comm::WarpPolicy, 8>(int const*)", trace.AllToAll},
		{"void rose::a2a_combine_recv_kernel<true, 16, 8>(unsigned long)", trace.AllToAll},
		{"void vllm::cross_device_reduce_1stage<__half, 4>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, __half*, int, int)", trace.AllReduce},
		{"void sglang::cross_device_reduce_2stage<__nv_bfloat16, 8>(sglang::RankData*)", trace.AllReduce},
		{"void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)", trace.AllReduce},
		{"void aiter::allgather_lastdim<__hip_bfloat16, 8>(aiter::RankData*)", trace.AllGather},
		{"void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, quickreduce::CodecQ4<__half, 8>, true>, __half>(void const*)", trace.AllReduce},
		{"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>()", trace.AllReduce},
		{"void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, __nv_bfloat16, true, float4>()", trace.AllReduce},
		{"void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 4, true, false>(tensorrt_llm::kernels::AllReduceParams)", trace.AllReduce},
		{"void userbuffers_fp16_sum_inplace_gpu_rw_ag<2>(int, int, int, int, int, int, int, void**, int, unsigned long)", trace.AllGather},
		{"void userbuffers_fp16_sum_inplace_gpu_rr_rs<2>(int, int, int, int, int, int, int, void**, int, unsigned long)", trace.ReduceScatter},
		{"userbuffers_fp16_sum_inplace_gpu_mc(int, int, int, int*, int*, float4*, float4*)", trace.AllReduce},
		{"kuserbuffers_pushrecv(int, int, int, int, int*, int*, int, unsigned long)", trace.SendRecv},
		{"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**, unsigned long)", trace.AllReduce},
		{"void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", trace.AllReduce},
		{"void (anonymous namespace)::multimem_all_gather_kernel<16>(char*, char*)", trace.AllGather},
		{"void c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int)", trace.Barrier},
		{"c10d::nvshmem_extension::allToAllV(void*, void*, long*, long*)", trace.AllToAll},
		{"one_shot_all_reduce_kernel_optimized", trace.AllReduce},
		{"void mscclpp::collective::allreducePacket<__half, (mscclpp::ReduceOp)0>(__half*)", trace.AllReduce},
		{"void mscclpp::collective::allgatherFullmesh2<true>(void*)", trace.AllGather},
		{"void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int, int)", trace.Barrier},
		{"rocshmem::rocshmem_barrier_all_kernel() [clone .kd]", trace.Barrier},
		{"void rocshmem::rocshmem_reduce_on_stream_kernel<float, (rocshmem::ROCSHMEM_OP)0>(rocshmem::rocshmem_team_t)", trace.AllReduce},
		{"void sync_on_stream_kernel_threadgroup<(threadgroup_t)2>(int)", trace.Barrier},
		{"signal_wait_until_on_stream_kernel(unsigned long*, int, unsigned long)", trace.Barrier},
		{"void broadcast_on_stream_kernel<int>(int, int*, int const*, unsigned long, int)", trace.Broadcast},
		{"void alltoall_on_stream_kernel<int, (threadgroup_t)2>(int)", trace.AllToAll},
		{"void reducescatter_on_stream_kernel<float, (rdxn_ops)3>(int)", trace.ReduceScatter},
		{"void fcollect_on_stream_kernel<__half>(int, __half*)", trace.AllGather},
		{"void rdxn_on_stream_kernel<float, (rdxn_ops)3>(int, float*)", trace.AllReduce},
		{"nvshmemi_proxy_rma_entrypoint(void*, void*, rma_bytesdesc, int, nvshmemi_op_t)", trace.SendRecv},
		{"nvshmemi_proxy_rma_signal_entrypoint(void*, void*, rma_bytesdesc, unsigned long*)", trace.SendRecv},
		{"void aiter::reduce_scatter_split_first_dim<__hip_bfloat16, 8>(aiter::RankData*)", trace.ReduceScatter},
		{"void aiter::allReduceQuantFp8<__half, 128, 8, 4, (void*)0>(aiter::RankData*)", trace.AllReduce},
		{"void aiter::fused_allreduce_rmsnorm_lamport<__hip_bfloat16, 8, 512, 2, false>(aiter::RankData*)", trace.AllReduce},
		{"void aiter::allreduce_prototype_twoshot<aiter::AllReduceTwoshot<__half, aiter::CodecQ4<__half, 8>, true>, __half>(void const*)", trace.AllReduce},
		{"void vllm::tensorrt_llm::minimax_reduce_rms_kernel_lamport<__nv_bfloat16, 4, true>(vllm::tensorrt_llm::MiniMaxReduceRMSParams)", trace.AllReduce},
		{"void sglang::allreduce_LL_1node<__half>(__half*)", trace.AllReduce},
		{"void flashinfer::trtllm_moe_allreduce_fusion::moefinalize_allreduce_fusion_kernel_oneshot_lamport<__nv_bfloat16, 4>()", trace.AllReduce},
		{"void flashinfer::helixAllToAllKernel<true>(flashinfer::HelixAllToAllParams)", trace.AllToAll},
		{"EpDispatchLowLatencyAsyncSendTransfer_fp8_fnuz", trace.AllToAll},
		{"EpCombineLowLatencyAsyncRecvTransfer_bf16", trace.AllToAll},
		{"EpCombineIntraNodeKernel_bf16_nop2p_fp8_blockwise", trace.AllToAll},
		{"EpCombineSyncBarrier_bf16", trace.Barrier},
		{"kernel_dispatch_token_intra_node", trace.AllToAll},
	} {
		if !trace.Communicates(c.kernel) {
			t.Errorf("%s counts as compute", c.kernel)
		}
		if got := trace.KernelOp(c.kernel); got != c.op {
			t.Errorf("%s is %v, want %v", c.kernel, got, c.op)
		}
	}
}

func TestOfAnotherLibrary(t *testing.T) {
	for kernel, want := range map[string]bool{
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)":           false,
		"ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<4096ul>) [clone .kd]":               false,
		"mscclKernel_Sum_half_LL(ncclDevComm*, mscclAlgo*, mscclWork*)":                       false,
		"void sglang::cross_device_reduce_2stage<__nv_bfloat16, 8>(sglang::RankData*)":        true,
		"void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*, int*, long*)": true,
		"void mscclpp::collective::allreducePacket<__half, (mscclpp::ReduceOp)0>(__half*)":    true,
		"all_reduce": false, // of a workload file
	} {
		if got := trace.OfAnotherLibrary(kernel); got != want {
			t.Errorf("%s: %v", kernel, got)
		}
	}
}

func TestComputeKernelsDoNotCommunicate(t *testing.T) {
	for _, kernel := range []string{
		"ampere_fp16_s16816gemm_fp16_128x128",
		"triton_poi_fused_add_all_reduce_4",
		"triton_red_fused__to_copy_all_gather_into_tensor_wait_tensor_2",
		"void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*)",
		"void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>, ncclSum>(float*)",
		"void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>(Flash_fwd_params)",
		"__amd_rocclr_copyBuffer.kd",
		"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::lambda(all_reduce)>(int)",
		"fused_moe_kernel",
		"triton_mm_all_reduce_1",
		"void deep_ep::elastic::dispatch_copy_epilogue_impl<8, 1024>(void*, void*)",
		"_combined_routing_compute",
		"moeAllToAllMemsetKernel",
		"moeA2APrepareDispatchKernel(int*, int*, int, unsigned int*)",
		"void tensorrt_llm::kernels::moe_comm::moeA2APrepareCombineKernel<tensorrt_llm::kernels::moe_comm::WarpPolicy>()",
		"EpDispatchCopyToStaging_bf16",
		"EpDispatchLowLatencyAsyncSendCopySlotAssign_bf16",
		"EpCombineLowLatencyAsyncRecvCopy_bf16",
		"EpCombineAll_bf16",
		"void aiter::local_device_load_rmsnorm<__hip_bfloat16, 512, 2, false>(aiter::RankSignals)",
		"void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<__nv_bfloat16, 7168, 512, 1, true>()",
		"void aiter::lamport_prefill_sentinel<__hip_bfloat16>(aiter::RankSignals, int, int)",
	} {
		if trace.Communicates(kernel) || trace.LooksLikeCommunication(kernel) {
			t.Errorf("%s counts as communication", kernel)
		}
	}
}

func TestLooksLikeCommunication(t *testing.T) {
	for _, kernel := range []string{
		"void mylib::ring_allgather_kernel<float>(float*)",
		"my_moe_token_dispatch_kernel",
		"void acme::comm::push_tiles<8>(void*)",
		"p2p_copy_kernel",
		"kernel_ag_intra_node_nvls_multimem",
	} {
		if !trace.LooksLikeCommunication(kernel) {
			t.Errorf("%s does not look like communication", kernel)
		}
		if trace.Communicates(kernel) {
			t.Errorf("%s is known: choose another name for this test", kernel)
		}
	}
}

// All-reduce kernels of one shot, of two and by the switch, by the names that traces of vLLM, SGLang, PyTorch, TensorRT-LLM,
// FlashInfer, aiter and quick reduce hold; the library's are none.
func TestShots(t *testing.T) {
	for kernel, want := range map[string]trace.Shots{
		"void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)":                        trace.OneShot,
		"void vllm::cross_device_reduce_2stage<__half, 4>(vllm::RankData*)":                                   trace.TwoShot,
		"void aiter::allreduce_fusion_kernel_1stage<bf16, 8>(void*)":                                          trace.OneShot,
		"void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<half, 8>>(half const*)":  trace.TwoShot,
		"void one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(unsigned long, unsigned long)":                 trace.OneShot,
		"void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)":                                  trace.Multimem,
		"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, half>(Params)":  trace.OneShot,
		"void tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8>(tensorrt_llm::kernels::AllReduceParams)": trace.TwoShot,
		"void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)":                  trace.TwoShot,
		"void aiter::fused_allreduce_rmsnorm_lamport<__hip_bfloat16, 8, 512, 2, false>(aiter::RankData*)":     trace.TwoShot,
		"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)":                          "",
		"ncclSymkDevKernel_AllReduce_Sum_bf16_AGxLL_R(ncclSymkDevWorkArgs)":                                   "",
	} {
		if got := trace.ShotsOf(kernel); got != want {
			t.Errorf("%s: %q, want %q", kernel, got, want)
		}
	}
}

func TestWithNorm(t *testing.T) {
	for kernel, want := range map[string]bool{
		"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, true>()": true,
		"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)0, __nv_bfloat16, 8, false, true>()": false,
		"void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, __nv_bfloat16, true, float4>()":                                                                            true,
		"void aiter::fused_allreduce_rmsnorm_lamport<__hip_bfloat16, 8, 512, 2, false>(aiter::RankData*)":                                                                                    true,
		"void aiter::allreduce_fusion_kernel_1stage<bf16, 8>(void*)":                                                                                                                         true,
		"void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)":                                                                                                 false, // the norm is a kernel of its own
		"void vllm::tensorrt_llm::minimax_reduce_rms_kernel_lamport<__nv_bfloat16, 4, true>()":                                                                                               true,
		"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)":                                                                                                           false,
	} {
		if got := trace.WithNorm(kernel); got != want {
			t.Errorf("%s: %v", kernel, got)
		}
	}
}

func TestRanksInKernel(t *testing.T) {
	for name, want := range map[string]int{
		"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*, vllm::RankSignals)":                                                                                        4,
		"void sglang::cross_device_reduce_2stage<__hip_bfloat16, 8>(sglang::RankData*)":                                                                                                      8,
		"void aiter::cross_device_reduce_1stage_naive<c10::BFloat16, 8, true>(aiter::RankData*)":                                                                                             8,
		"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)":                                                                                                                             8,
		"void deep_ep::intranode::combine<__nv_bfloat16, 4, 768, 4096>(__nv_bfloat16*)":                                                                                                      4,
		"void deep_ep::intranode::cached_notify_combine<(int)2>(void**)":                                                                                                                     2,
		"void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)":                                                                                                                     0,
		"void aiter::reduce_scatter_split_lastdim<__hip_bfloat16, 8>(aiter::RankData*)":                                                                                                      8,
		"void aiter::fused_allreduce_rmsnorm_lamport<__hip_bfloat16, 4, 512, 2, false>(aiter::RankData*)":                                                                                    4,
		"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, true>()": 8,
		"void flashinfer::trtllm_moe_allreduce_fusion::moereduce_allreduce_fusion_kernel_oneshot_lamport<__nv_bfloat16, 4>()":                                                                4,
		"void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, quickreduce::CodecQ4<__half, 8>, true>, __half>()":                                              8,
		"void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>()":                                                                                             8,
		"void vllm::cross_device_reduce_2stage<__half, (int)4>(vllm::RankData*)":                                                                                                             4,
		"void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 4, true, false>(tensorrt_llm::kernels::AllReduceParams)":                                                                 4,
		"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>()":                                                                                             0,
		"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)":                                                                                                                  0,
		"void rcclGenericKernel<2, false>(ncclDevKernelArgsStorage<4096ul>)":                                                                                                                 0,
		"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>()":                                                                                    0,
	} {
		if got := trace.RanksInKernel(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
