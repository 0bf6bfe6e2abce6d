package trace

import "strings"

// A fusedKernel recognises the kernels of one library that compute and communicate at once, by their names.
type fusedKernel struct {
	words        string       // as those of a communicationKernel, in the name with its template arguments
	reads, sends CollectiveOp // what brings the input of its compute, what takes the result away; UnknownOp: nothing, or not told
	source       string       // where the library defines the kernels; "": they do not communicate, despite the words
}

// fusedKernels are the known kernels that communicate inside. Earlier rows win.
//
// A kernel whose tiles wait for chunks that a copy engine brings counts too: it holds its compute units while it waits. One that
// only posts flags for a communication kernel beside it does not.
var fusedKernels = [...]fusedKernel{
	{"mega_moe_impl", AllToAll, AllToAll, "deepseek-ai/DeepGEMM deep_gemm/include/deep_gemm/impls, for sm90 in branches"},
	{"fc1fc2_kernel_impl megamoe", AllToAll, AllToAll, "flashinfer-ai/flashinfer, and NVIDIA/TensorRT-LLM: MegaMoE in CuTe DSL"},
	{"mega_kernel_dispatch_token_moe_grouped_gemm", AllToAll, UnknownOp, "ByteDance-Seed/Triton-distributed kernels/*/ep_all2all_fused.py"},
	{"mega_kernel_moe_grouped_gemm_combine_token", UnknownOp, AllToAll, "as above"},
	{"kernel_gemm_rs_producer", UnknownOp, ReduceScatter, "as above, gemm_reduce_scatter.py; AMD-AGI/Primus-Turbo triton/async_tp"},
	{"kernel_consumer_gemm|kernel_fused_ag_gemm", AllGather, UnknownOp, "as above, allgather_gemm.py"},
	{"kernel_consumer_m_parallel_scatter_group_gemm", AllGather, UnknownOp, "as above, allgather_group_gemm.py"},
	{"kernel_consumer_flash_attn_forward", AllGather, UnknownOp, "as above, sp_ag_attention_{intra,inter}_node.py"},
	{"kernel_all_to_all_gemm_consumer", AllToAll, UnknownOp, "as above, all_to_all_single_gemm.py"},
	{"kernel_gemm_a2a_producer", UnknownOp, AllToAll, "as above, ulysses_sp_infer_gemm_a2a.py"},
	{"fluxgemmkernel commopenum)0", UnknownOp, UnknownOp, ""},
	{"fluxgemmkernel commopenum)1|commopenum)4|commopenum)5", AllGather, UnknownOp, "bytedance/flux include/flux/flux.h: CommOpEnum"},
	{"fluxgemmkernel commopenum)2|commopenum)3", UnknownOp, ReduceScatter, "as above"},
	{"fluxgemmkernel commopenum)6|commopenum)7", UnknownOp, AllToAll, "as above"},
	{"fluxgemmkernel commopenum)8|commopenum)9", AllToAll, UnknownOp, "as above"},
	{"fluxgemmkernel", UnknownOp, UnknownOp, "as above, in names that are cut off"},
	{"persistent_gemm_all_scatter|matmul_all_gather_kernel", UnknownOp, AllGather, "ROCm/iris examples, iris/ops/matmul_all_gather.py"},
	{"persistent_gemm_all_reduce|matmul_all_reduce_kernel", UnknownOp, AllReduce, "ROCm/iris examples, iris/ops/matmul_all_reduce.py"},
	{"matmul_reduce_scatter_kernel", UnknownOp, ReduceScatter, "ROCm/iris iris/ops/matmul_reduce_scatter.py"},
	{"all_gather_matmul_kernel|_tma_persistent_w_progress", AllGather, UnknownOp, "all_gather_matmul of ROCm/iris, meta-pytorch/kraken"},
	{"gemm_reduce_scatter_kernel", UnknownOp, ReduceScatter, "meta-pytorch/kraken kraken/fused/gemm_reduce_scatter_fused.py"},
	{"gemm_one_shot_all_reduce_kernel", UnknownOp, AllReduce, "meta-pytorch/kraken kraken/fused, and Helion's example"},
	{"gemm_allreduce", UnknownOp, AllReduce, "Triton-distributed; flashinfer cute_dsl; sglang srt/layers"},
	{"gemmallreduce|lincombauxallreduce", UnknownOp, AllReduce, "NVIDIA/cutlass CuTeDSL examples; TensorRT-LLM allreduce_gemm"},
	{"persistentasyncinput", AllGather, UnknownOp, "pytorch/pytorch c10d/cuda/cutlass: native async tensor parallelism"},
	{"kittens matmul_reduce_scatter::kernel", UnknownOp, ReduceScatter, "HazyResearch/ThunderKittens kernels/parallel/gemm_rs"},
	{"kittens attn_comm_partial_kernel", SendRecv, UnknownOp, "as above, ring_attn: keys and values of a ring's next rank"},
}

// Fused is what a kernel that computes and communicates at once receives for its compute and sends of its result, by its name, and
// that in words; "" for other kernels, of compute or of communication alone.
func Fused(kernel string) (reads, sends CollectiveOp, says string) {
	name := strings.ToLower(Signature(kernel))
	for _, k := range fusedKernels {
		switch {
		case !containsAll(name, k.words):
			continue
		case k.source == "":
			return UnknownOp, UnknownOp, ""
		case k.reads == k.sends && k.reads != UnknownOp:
			says = k.reads.String() + " before and after"
		case k.reads != UnknownOp:
			says = k.reads.String() + " before"
		case k.sends != UnknownOp:
			says = k.sends.String() + " after"
		default:
			says = "communication"
		}
		return k.reads, k.sends, says
	}
	return UnknownOp, UnknownOp, ""
}
