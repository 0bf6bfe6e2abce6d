package trace

import (
	"slices"
	"strings"
)

// A communicationKernel recognises the communication kernels of one library by their names.
type communicationKernel struct {
	words  string       // lower case, all found in the name up to its arguments, in this order
	op     CollectiveOp // UnknownOp: as the name says, see CollectiveOpIn
	source string       // where the library defines the kernels
}

// communicationKernels are the known communication kernels. Earlier rows win.
//
// A dispatch sends tokens to the ranks of their experts and a combine sends the results
// back: both are an all-to-all of uneven parts. A kernel that only exchanges counts or
// flags is a barrier. A kernel that fuses an all-reduce with a norm is an all-reduce.
var communicationKernels = [...]communicationKernel{
	{"deep_ep notify", Barrier, "deepseek-ai/DeepEP csrc/kernels/{intranode,internode}.cu"},
	{"deep_ep barrier", Barrier, "deepseek-ai/DeepEP csrc/kernels/runtime.cu"},
	{"deep_ep clean_low_latency_buffer", Barrier, "deepseek-ai/DeepEP csrc/kernels/internode_ll.cu"},
	{"deep_ep dispatch", AllToAll, "deepseek-ai/DeepEP csrc/kernels/{intranode,internode,internode_ll}.cu; primus_turbo::deep_ep of AMD's Primus-Turbo"},
	{"deep_ep combine", AllToAll, "deepseek-ai/DeepEP csrc/kernels/{intranode,internode,internode_ll}.cu"},
	{"dpsk::ep notify", Barrier, "deepseek-ai/profile-data, a version before the public one"},
	{"dpsk::ep dispatch", AllToAll, "deepseek-ai/profile-data, a version before the public one"},
	{"dpsk::ep combine", AllToAll, "deepseek-ai/profile-data, a version before the public one"},
	{"epdispatch barrier", Barrier, "ROCm/mori src/ops/dispatch_combine"},
	{"epcombinesync", Barrier, "ROCm/mori src/ops/dispatch_combine"},
	{"epdispatch", AllToAll, "ROCm/mori src/ops/dispatch_combine/{intranode,internode}.hpp"},
	{"epcombine", AllToAll, "ROCm/mori src/ops/dispatch_combine/{intranode,internode}.hpp"},
	{"moea2adispatch", AllToAll, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.cu"},
	{"moea2acombine", AllToAll, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.cu"},
	{"a2a_dispatch_", AllToAll, "perplexityai/pplx-garden p2p-all-to-all/a2a-kernels/src/a2a"},
	{"a2a_combine_", AllToAll, "perplexityai/pplx-garden p2p-all-to-all/a2a-kernels/src/a2a"},
	{"intranode_alltoall_kernel", AllToAll, "DeepLink-org/DLSlime csrc/ops/intra_ll/all_to_all"},
	{"cross_device_reduce", AllReduce, "vllm-project/vllm csrc/custom_all_reduce.cuh; ROCm/aiter csrc/include/custom_all_reduce.cuh"},
	{"reduce_scatter_cross_device_store", ReduceScatter, "ROCm/aiter csrc/include/custom_all_reduce.cuh"},
	{"aiter allreduce_fusion_kernel", AllReduce, "ROCm/aiter csrc/include/custom_all_reduce.cuh"},
	{"aiter allgather_", AllGather, "ROCm/aiter csrc/include/custom_all_reduce.cuh: allgather_naive, _vec, _lastdim"},
	{"quickreduce allreduce_prototype", AllReduce, "vllm-project/vllm csrc/quickreduce/quick_reduce.h"},
	{"allreduce_fusion_kernel", AllReduce, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels/allReduceFusionKernels.cu; flashinfer comm/trtllm_allreduce_fusion.cuh"},
	{"oneshotallreduce", AllReduce, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/customAllReduceKernels.cu, mnnvlAllreduceKernels.cu"},
	{"twoshotallreduce", AllReduce, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/customAllReduceKernels.cu, mnnvlAllreduceKernels.cu"},
	{"twoshot_allreduce_kernel", AllReduce, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels/mnnvlTwoShotAllreduceKernels.cu"},
	{"userbuffers_fp16_sum_inplace_gpu _ag", AllGather, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"userbuffers res_allgather", AllGather, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/userbuffers/userbuffers.cu"},
	{"userbuffers_fp16_sum_inplace_gpu _rs", ReduceScatter, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"userbuffers_fp16_sum", AllReduce, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"kuserbuffers_push", SendRecv, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"exchangesplitandoffset", Barrier, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cu"},
	{"alltoallv", AllToAll, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cu; microsoft/mscclpp src/ext/collectives"},
	{"symmetric_memory barrier_kernel", Barrier, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu"},
	{"symmetric_memory signal_kernel", Barrier, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu"},
	{"symmetric_memory::", UnknownOp, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu"},
	{"multimem_ all_gather", AllGather, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu"},
	{"multimem_ reduce_scatter", ReduceScatter, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu"},
	{"multimem_ all_reduce", AllReduce, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu"},
	{"_shot_all_reduce", AllReduce, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu"},
	{"all_reduce_ _shot", AllReduce, "sgl-project/sglang python/sglang/jit_kernel: all_reduce_one_shot_push_kernel and its like"},
	{"_all_reduce_kernel", AllReduce, "meta-pytorch/kraken"},
	{"mscclpp", UnknownOp, "microsoft/mscclpp src/ext/collectives, src/core/executor"},
	{"rocshmem barrier", Barrier, "ROCm/rocSHMEM src/rocshmem_gpu.cpp"},
	{"rocshmem quiet", Barrier, "ROCm/rocSHMEM src/rocshmem_gpu.cpp"},
	{"rocshmem", UnknownOp, "ROCm/rocSHMEM src/rocshmem_gpu.cpp, src/host"},
	{"barrier _on_stream_kernel", Barrier, "NVIDIA/nvshmem src/device/launch"},
	{"rdxn _on_stream_kernel", AllReduce, "NVIDIA/nvshmem src/device/launch"},
	{"fcollect _on_stream_kernel", AllGather, "NVIDIA/nvshmem src/device/launch"},
	{"_on_stream_kernel", UnknownOp, "NVIDIA/nvshmem src/device/launch"},
	{"nvshmem", UnknownOp, "NVIDIA/nvshmem src/device"},
	{"mscclkernel", UnknownOp, "ROCm/rccl src/device/msccl_kernel_impl.h"},
	{"nccl", UnknownOp, "NVIDIA/nccl src/device; RCCL uses the same names"},
	{"rccl", UnknownOp, "ROCm/rccl src/device"},
}

// computeDespiteName are words of compute kernels whose names also hold words of
// communication kernels: Inductor names a fused kernel after the operators whose outputs it
// reads, DeepEP counts tokens by rank before it sends them, and buffers are cleared.
var computeDespiteName = [...]string{
	"triton_poi_", "triton_per_", "triton_red_", "triton_for_", "triton_tem_", "triton_fused_", "triton__",
	"get_dispatch_layout", "lamport_initialize", "__amd_rocclr_",
}

// communicationOf returns the row that matches a kernel's name, or nil.
func communicationOf(kernel string) *communicationKernel {
	name := kernelWord(kernel)
	if isCompute(name) {
		return nil
	}
	for i := range communicationKernels {
		if containsAll(name, communicationKernels[i].words) {
			return &communicationKernels[i]
		}
	}
	return nil
}

// kernelWord is a kernel's name without its template arguments and parameters, in lower
// case.
func kernelWord(kernel string) string {
	kernel = strings.ReplaceAll(kernel, "(anonymous namespace)::", "")
	if i := strings.IndexAny(kernel, "(<"); i > 0 {
		kernel = kernel[:i]
	}
	return strings.ToLower(kernel)
}

func isCompute(name string) bool {
	return slices.ContainsFunc(computeDespiteName[:], func(word string) bool { return strings.Contains(name, word) })
}

// containsAll reports whether a name contains words, which are separated by spaces, one
// behind the other.
func containsAll(name, words string) bool {
	for word := range strings.SplitSeq(words, " ") {
		i := strings.Index(name, word)
		if i < 0 {
			return false
		}
		name = name[i+len(word):]
	}
	return true
}

// Communicates reports whether a kernel is a communication kernel, by its name.
func Communicates(kernel string) bool { return communicationOf(kernel) != nil }

// KernelOp returns the operation of a communication kernel, by its name.
func KernelOp(kernel string) CollectiveOp {
	c := communicationOf(kernel)
	if c != nil && c.op != UnknownOp {
		return c.op
	}
	return CollectiveOpIn(kernelWord(kernel))
}

// LooksLikeCommunication reports whether a kernel that Communicates does not know has a
// name as communication kernels have.
func LooksLikeCommunication(kernel string) bool {
	name := kernelWord(kernel)
	if isCompute(name) || Communicates(kernel) {
		return false
	}
	for _, words := range [...]string{
		"allreduce", "all_reduce", "allgather", "all_gather", "reducescatter", "reduce_scatter",
		"alltoall", "all_to_all", "all2all", "a2a", "sendrecv", "send_recv", "p2p", "rdma",
		"cross_device", "cross_rank", "multimem", "symm_mem", "lamport", "ibgda",
		"moe dispatch", "moe combine", "expert dispatch", "expert combine", "ep_dispatch", "ep_combine", "ep_scatter_send",
	} {
		if containsAll(name, words) {
			return true
		}
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return slices.Contains(parts, "comm") || slices.Contains(parts, "peer")
}
