package trace

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What names say
//
// communication.go, demangle.go, fused.go, names.go and naming.go read what names of kernels, calls and files say: communication
// kernels of all libraries and their operations, and ranks.

// A communicationKernel recognises the communication kernels of one library by their names.
type communicationKernel struct {
	words  string       // lower case, all found in the name up to its arguments, in this order; a|b: one of two
	op     CollectiveOp // UnknownOp: as the name says, see CollectiveOpIn
	source string       // where the library defines the kernels
}

// communicationKernels are the known communication kernels. Earlier rows win.
//
// A dispatch sends tokens to the ranks of their experts and a combine sends the results
// back: both are an all-to-all of uneven parts. A kernel that only exchanges counts or
// flags is a barrier. A kernel that fuses an all-reduce with a norm is an all-reduce.
var communicationKernels = [...]communicationKernel{
	{"deep_ep|nixl_ep|dpsk|uccl notify|barrier|clean_low_latency_buffer", Barrier, "deepseek-ai/DeepEP csrc/kernels and, before it was public, deepseek-ai/profile-data; ai-dynamo/nixl examples/device/ep; uccl-project/uccl ep/src"},
	{"hybrid_ep sync", Barrier, "deepseek-ai/DeepEP csrc/hybrid_ep/backend/hybrid_ep_backend.cuh"},
	{
		"deep_ep|nixl_ep|dpsk|uccl|hybrid_ep|nccl_ep|mooncake_ep dispatch|combine", AllToAll,
		"as above; primus_turbo::deep_ep of AMD's Primus-Turbo; NVIDIA/nccl contrib/nccl_ep/device; kvcache-ai/Mooncake mooncake-ep",
	},
	{"deep_ep pp_send|pp_recv", SendRecv, "deepseek-ai/DeepEP deep_ep/include/deep_ep/impls/pp"},
	{"deep_ep::bucket", UnknownOp, "deepseek-ai/DeepEP deep_ep/include/deep_ep/impls/bucket"},
	{"epdispatch barrier", Barrier, "ROCm/mori src/ops/dispatch_combine"},
	{"epcombinesync", Barrier, "ROCm/mori src/ops/dispatch_combine"},
	{"epdispatch|epcombine", AllToAll, "ROCm/mori src/ops/dispatch_combine/{intranode,internode}.hpp"},
	{"all2all sdma", AllToAll, "ROCm/mori include/mori/collective/all2all"},
	{"allgather|allreduce sdma", UnknownOp, "ROCm/mori include/mori/collective"},
	{"moealltoallkernel|moea2adispatch|moea2acombine|helixalltoallkernel", AllToAll, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels: fusedMoeCommKernels.cu, communicationKernels/moeAlltoAllKernels.cu, helixAllToAll.cu; flashinfer comm"},
	{"kernel_dispatch_token|kernel_combine_token", AllToAll, "ByteDance-Seed/Triton-distributed python/triton_dist/kernels/nvidia"},
	{"a2a_dispatch_|a2a_combine_", AllToAll, "perplexityai/pplx-garden p2p-all-to-all/a2a-kernels/src/a2a"},
	{"intranode_alltoall_kernel", AllToAll, "DeepLink-org/DLSlime csrc/ops/intra_ll/all_to_all"},
	{"cross_device_reduce|reduce_scatter_cross_device_store", AllReduce, "vllm-project/vllm csrc/custom_all_reduce.cuh; ROCm/aiter csrc/include/custom_all_reduce.cuh: the latter sums its part and stores it to every peer, local_device_load_rmsnorm reads the whole"},
	{"reduce_scatter_split_", ReduceScatter, "ROCm/aiter csrc/include/custom_all_reduce.cuh: _first_dim, _lastdim, _middim"},
	{"allreducequantfp8|fused_allreduce_rmsnorm", AllReduce, "ROCm/aiter csrc/include/custom_all_reduce.cuh"},
	{"aiter allgather_", AllGather, "ROCm/aiter csrc/include/custom_all_reduce.cuh: allgather_naive, _vec, _lastdim"},
	{"allreduce_prototype", AllReduce, "vllm-project/vllm csrc/quickreduce/quick_reduce.h; ROCm/aiter csrc/include/quick_all_reduce.cuh"},
	{"minimax_reduce_rms_kernel", AllReduce, "vllm-project/vllm csrc/minimax_reduce_rms_kernel.cu"},
	{"allreduce_ll_", AllReduce, "sgl-project/sglang sgl-kernel/csrc/allreduce/mscclpp_allreduce.cuh: 1node, 2node"},
	{
		"allreduce_fusion_kernel|oneshotallreduce|twoshotallreduce|twoshot_allreduce_kernel", AllReduce,
		"NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels: communicationKernels, customAllReduceKernels.cu; flashinfer comm; aiter's 1stage",
	},
	{"userbuffers_fp16_sum_inplace_gpu _ag", AllGather, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"userbuffers res_allgather", AllGather, "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/userbuffers/userbuffers.cu"},
	{"userbuffers_fp16_sum_inplace_gpu _rs", ReduceScatter, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"userbuffers_fp16_sum", AllReduce, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"kuserbuffers_push", SendRecv, "NVIDIA/TransformerEngine transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu"},
	{"exchangesplitandoffset", Barrier, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cu"},
	{"alltoallv", AllToAll, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cu; microsoft/mscclpp src/ext/collectives"},
	{
		"symmetric_memory barrier_kernel|signal_kernel", Barrier,
		"pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu",
	},
	{"symmetric_memory::", UnknownOp, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu"},
	{
		"multimem_ all_gather|reduce_scatter|all_reduce", UnknownOp,
		"pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu",
	},
	{"_shot_all_reduce", AllReduce, "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu"},
	{"all_reduce_ _shot", AllReduce, "sgl-project/sglang python/sglang/jit_kernel: all_reduce_one_shot_push_kernel and its like"},
	{"_all_reduce_kernel", AllReduce, "meta-pytorch/kraken"},
	{"persistent_all_", UnknownOp, "ROCm/iris iris/ccl"},
	{"persistent_reduce_scatter", ReduceScatter, "ROCm/iris iris/ccl"},
	{"mscclpp", UnknownOp, "microsoft/mscclpp src/ext/collectives, src/core/executor"},
	{"rocshmem_reduce_on_stream_kernel", AllReduce, "ROCm/rocSHMEM src/host"},
	{"rocshmem barrier|quiet", Barrier, "ROCm/rocSHMEM src/rocshmem_gpu.cpp"},
	{"rocshmem", UnknownOp, "ROCm/rocSHMEM src/rocshmem_gpu.cpp, src/host"},
	{"barrier|sync|wait _on_stream_kernel", Barrier, "NVIDIA/nvshmem src/device/launch"},
	{"rdxn _on_stream_kernel", AllReduce, "NVIDIA/nvshmem src/device/launch"},
	{"fcollect _on_stream_kernel", AllGather, "NVIDIA/nvshmem src/device/launch"},
	{"_on_stream_kernel", UnknownOp, "NVIDIA/nvshmem src/device/launch"},
	{"nvshmemi_proxy_rma", SendRecv, "NVIDIA/nvshmem src/device/launch: puts and gets that the host enqueues"},
	{"nvshmem", UnknownOp, "NVIDIA/nvshmem src/device"},
	{"mscclkernel", UnknownOp, "ROCm/rccl src/device/msccl_kernel_impl.h"},
	{"nccl", UnknownOp, "NVIDIA/nccl src/device; RCCL uses the same names"},
	{"rccl", UnknownOp, "ROCm/rccl src/device"},
}

// computeDespiteName are words of compute kernels whose names also hold words of
// communication kernels: Inductor names a fused kernel after the operators whose outputs it
// reads; DeepEP, MORI and TensorRT-LLM count and order tokens by rank before they send them, and copy
// them into and out of their buffers; buffers are cleared; a norm takes the sums of an all-reduce.
var computeDespiteName = [...]string{
	"triton_poi_", "triton_per_", "triton_red_", "triton_for_", "triton_tem_", "triton_fused_", "triton__",
	"triton_mm_", "triton_unk_", "get_dispatch_layout", "lamport_initialize", "__amd_rocclr_",
	"dispatch_deterministic_prologue", "dispatch_copy_epilogue", "combine_reduce_epilogue", "moealltoallmemset",
	"moea2aprepare", "moea2asanitize", "copytostaging", "asyncsendcopy", "asyncrecvcopy", "epcombineall",
	"lamport_prefill", "rmsnormlamport", "local_device_load_rmsnorm",
}

// communicationOf returns the row that matches the name of a kernel that does nothing else, or nil.
func communicationOf(kernel string) *communicationKernel {
	name := kernelWord(kernel)
	if isCompute(name) {
		return nil
	}
	for i := range communicationKernels {
		if containsAll(name, communicationKernels[i].words) {
			if _, _, fused := Fused(kernel); fused != "" {
				return nil
			}
			return &communicationKernels[i]
		}
	}
	return nil
}

// kernelWord is a kernel's name without its template arguments and parameters, in lower
// case.
func kernelWord(kernel string) string {
	kernel = Signature(kernel)
	if i := strings.IndexAny(kernel, "(<"); i > 0 {
		kernel = kernel[:i]
	}
	return strings.ToLower(kernel)
}

func isCompute(name string) bool {
	return slices.ContainsFunc(computeDespiteName[:], func(word string) bool { return strings.Contains(name, word) })
}

// containsAll reports whether a name contains words, which are separated by spaces, one
// behind the other: of alternatives the first in the name.
func containsAll(name, words string) bool {
	for word := range strings.SplitSeq(words, " ") {
		first, end := len(name), -1
		for alternative := range strings.SplitSeq(word, "|") {
			if i := strings.Index(name, alternative); i >= 0 && i < first {
				first, end = i, i+len(alternative)
			}
		}
		if end < 0 {
			return false
		}
		name = name[end:]
	}
	return true
}

// Communicates reports whether a kernel is a communication kernel, by its name.
func Communicates(kernel string) bool { return communicationOf(kernel) != nil }

// OfAnotherLibrary reports whether a communication kernel is of another library than NCCL and RCCL, by its name: settings
// of these, as the number of channels, do not reach it.
func OfAnotherLibrary(kernel string) bool {
	c := communicationOf(kernel)
	return c != nil && c.words != "nccl" && c.words != "rccl" && c.words != "mscclkernel"
}

// KernelOp returns the operation of a communication kernel, by its name.
func KernelOp(kernel string) CollectiveOp {
	c := communicationOf(kernel)
	if c != nil && c.op != UnknownOp {
		return c.op
	}
	return CollectiveOpIn(kernelWord(kernel))
}

// writtenFor finds the number of ranks among the template arguments of kernels that are compiled for it.
var writtenFor = regexp.MustCompile(`\b(?:` +
	`(?:cross_device_reduce_\w+|reduce_scatter_(?:cross|split)_\w+|aiter::allgather_\w+|fused_allreduce_rmsnorm_\w+|minimax_reduce_rms_kernel\w*|(?:one|two)ShotAllReduceKernel|all_reduce_\w+_kernel|AllReduceTwoshot<\w+, quickreduce::Codec\w+)<[\w:]+, ` +
	`|\w*allreduce_fusion_kernel_(?:one|two)shot\w*<(?:\([\w:]+\)\d+, )?[\w:]+, ` +
	`|deep_ep::intranode::(?:dispatch|cached_notify_\w+|notify_dispatch|barrier)<|deep_ep::intranode::combine<\w+, ` +
	`)(?:\((?:unsigned )?int\))?(\d{1,2})u?\b`)

// RanksInKernel is the number of ranks that a communication kernel is compiled for, by its name with
// its template arguments; 0: the name does not say. Sources: the rows of communicationKernels.
func RanksInKernel(kernel string) int {
	m := writtenFor.FindStringSubmatch(kernel)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// Shots are how an all-reduce kernel works that is no ring or tree of the library.
type Shots string

// The shots. A one-shot kernel reads the whole vector of every peer; in a two-shot kernel every rank
// adds a share that the others take; a multimem kernel lets the switch add and replicate.
const (
	OneShot  Shots = "oneshot"
	TwoShot  Shots = "twoshot"
	Multimem Shots = "multimem"
)

// ShotsOf is how an all-reduce kernel works, by its name with its template arguments; "": the name
// does not say. Sources: the rows of communicationKernels.
func ShotsOf(kernel string) Shots {
	name := strings.ReplaceAll(strings.ToLower(kernel), "_", "")
	for _, k := range [...]struct {
		word string
		is   Shots
	}{
		{"multimem", Multimem},
		{"oneshot", OneShot},
		{"1stage", OneShot},
		{"twoshot", TwoShot},
		{"2stage", TwoShot},
		{"crossdevicestore", TwoShot},
		{"rmsnormlamport", TwoShot},
	} {
		if strings.Contains(name, k.word) {
			return k.is
		}
	}
	return ""
}

// noNorm is the pattern of FlashInfer's and TensorRT-LLM's kernels that only reduces.
var noNorm = regexp.MustCompile(`AllReduceFusionPattern\)0\b`)

// WithNorm reports whether an all-reduce kernel adds the residual and computes the norm behind it too, by its name.
func WithNorm(kernel string) bool {
	name := kernelWord(kernel)
	return slices.ContainsFunc([]string{"allreduce_fusion_kernel", "allreducefusionkernel", "allreduce_rmsnorm", "reduce_rms_kernel"},
		func(w string) bool { return strings.Contains(name, w) }) && !noNorm.MatchString(kernel)
}

// LooksLikeCommunication reports whether a kernel that Communicates does not know has a
// name as communication kernels have.
func LooksLikeCommunication(kernel string) bool {
	name := kernelWord(kernel)
	if _, _, fused := Fused(kernel); isCompute(name) || fused != "" || Communicates(kernel) {
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
