package workload

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/overlapse/overlapse/trace"
)

// A Class is the role of a kernel, by its name.
type Class uint8

// The classes.
const (
	ClassUnknown Class = iota // a name that tells nothing: a kernel of the program's own
	ClassSweep                // elementwise over its operator's inputs: norms, copies
	ClassLight                // short, and of no simple size: sorts, scans, reductions, bookkeeping
	ClassMatrix               // multiplies matrices
	ClassLookup               // gathers rows of a table
	ClassDense                // multiplies matrices too, but its output is not one GEMM's: attention, convolution
	classOther                // heavy, none of these: kernels that communicate inside too
)

// noLibrary removes names of libraries and words whose parts read as roles: flashinfer::norm is no flash
// attention, fbgemm_gpu::permute no GEMM.
var noLibrary = strings.NewReplacer("flashinfer", "", "fbgemm", "", "deep_gemm", "")

// classes are those of the first mostClasses names that were read: a trace has few, and every schedule asks for them again.
var (
	classes sync.Map
	classed atomic.Int64 // how many
)

// mostClasses is far more than the kernels of any program, and bounds what a server keeps of traces of hostile names.
const mostClasses = 1 << 14

// ClassOf reads a kernel's name.
func ClassOf(kernel string) Class {
	c, ok := classes.Load(kernel)
	if !ok {
		if c = classOf(kernel); classed.Load() < mostClasses {
			classes.Store(kernel, c)
			classed.Add(1)
		}
	}
	return c.(Class)
}

// classOf is ClassOf. Earlier lines win: cublasLt::splitKreduce is
// no GEMM, and flash attention multiplies more than two matrices.
func classOf(kernel string) Class {
	if _, _, fused := trace.Fused(kernel); fused != "" {
		return classOther
	}
	kernel = noLibrary.Replace(strings.ToLower(kernel))
	for _, c := range [...]struct {
		class Class
		words []string
	}{
		{ClassLight, []string{
			"prepare_grouped_gemm", "splitkreduce", "splitk_reduce", "postgsu", "epilogue::impl", "spin_kernel",
			"barrier_kernel", "__amd_rocclr_", "prepare_varlen", "_metadata", "kv_indices", "convert_req", "merge_state", "mergestate",
			"merge_attn_states",
		}},
		{ClassSweep, []string{"and_cache", "kv_buffer", "kvcache_kernel", "appendpaged", "concat_mla", "rotary", "rope_", "_rope", "kn_entry_"}},
		{ClassDense, []string{
			"flash", "fmha", "sdpa", "attention", "attn", "conv", "wgrad", "dgrad", "fprop", "withkvcache",
			"withpagedkvcache", "withraggedkvcache", "kernel_mha", "multihead", "aiter::pa_", "mla_dec", "mla_pfl", "mla_a",
			"_fwd_grouped_kernel_stage", "_fwd_kernel_stage",
		}},
		{ClassSweep, []string{
			"elementwise_kernel", "layer_norm", "layernorm", "rms_norm", "rmsnorm", "softmax", "dropout", "catarray",
			"direct_copy",
		}},
		{classOther, []string{
			"embedding_backward", "embedding_dense_backward", "embedding_codegen_backward", "embedding_codegen_grad",
			"fused_moe_kernel", "fmoe_", "batched_triton_kernel",
		}},
		{ClassLookup, []string{"embedding", "emb_"}},
		{ClassMatrix, []string{
			"gemm", "gemv", "nvjet", "cijk_", "cutlass", "xmma", "matmul", "_mm_", "bmm_", "marlin", "wvsplitk",
			"flatmm", "triton_tem_",
		}},
		{ClassSweep, []string{
			"memcpy", "memset", "copy", "norm", "fill", "transpose", "permute", "triu_tril", "nchwtonhwc",
			"nhwctonchw", "quant", "act_and_mul", "silu_and_mul", "silu_mul", "gelu_and_mul",
		}},
		{ClassLight, []string{
			"reduce_kernel", "reduction", "gammabeta", "arange", "index", "scatter", "gather", "sort", "scan", "cub::",
			"multi_tensor_apply", "triton_poi_", "triton_per_", "triton_red_", "triton__", "topk", "moe_align", "moe_sum", "moe_fused_gate", "sampling",
		}},
		{ClassSweep, []string{"_fusion", "fusion_", "wrapped_"}}, // of XLA, without a library's product or a Triton one
	} {
		if slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(kernel, w) }) {
			return c.class
		}
	}
	return ClassUnknown
}

// Multiplies reports whether a kernel is a GEMM, by its shape or its name.
func Multiplies(op *Op) bool {
	return op.Kind == trace.Compute && (op.Shape.Kind == GEMM || op.Shape.Kind == GEMV || op.Shape.Kind == NoShape && ClassOf(op.Name) == ClassMatrix)
}

// OfLibrary reports whether a kernel's name is of a matrix library: cuBLAS and its
// ancestors, CUTLASS, hipBLASLt and rocBLAS, and that of workload files (gemm_128x256).
func OfLibrary(name string) bool {
	return NameHas(name, "nvjet", "cublas", "cutlass", "xmma", "ampere_", "volta_", "turing_", "cijk_") || ofWorkloadFile.MatchString(name)
}

var ofWorkloadFile = regexp.MustCompile(`^(grouped_|conv_|attention_)?gemm_[0-9]+x[0-9]+$`)

// HoldsWeights reports whether an op multiplies by parameters, by its name: a GEMM, or those of a
// mixture of experts, but not attention.
func HoldsWeights(op *Op) bool {
	if op.Kind != trace.Compute {
		return false
	}
	class := ClassOf(op.Name)
	return class == ClassMatrix || class == classOther && NameHas(op.Name, "fused_moe_kernel", "fmoe_", "batched_triton_kernel")
}

// Copies reports whether an op moves data and computes nothing, by its name.
func Copies(op *Op) bool {
	return op.Kind == trace.Copy || !op.Matrix() && NameHas(op.Name, "copy", "chunk_cat", "concat", "memcpy")
}

// MovesRows reports whether an op only moves rows, by its name: a permutation or a gather of
// rows through an index.
func MovesRows(op *Op) bool {
	return op.Kind == trace.Compute && NameHas(op.Name, "permute", "index", "gather", "scatter", "moe_align", "sort_chunks")
}

// SumsRows reports whether an op adds several rows to one, by its name: the weighted sum over
// the experts of a token.
func SumsRows(op *Op) bool {
	return op.Kind == trace.Compute && NameHas(op.Name, "sum", "reduce", "combine", "index_add", "unpermute")
}

// NameHas reports whether a name has one of the words, in small letters.
func NameHas(name string, words ...string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
}

// FunctionName is the name of a kernel's function, without its arguments, in at most 60 bytes (trace.Short also has its tile).
func FunctionName(name string) string {
	const most = 60
	name = trace.Signature(name)
	if i := strings.IndexAny(name, "(<"); i > 0 {
		name = strings.TrimSpace(name[:i])
	}
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
