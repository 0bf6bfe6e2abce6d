// Package kernel finds the sizes, tiles and memory traffic of kernels and copies, from their
// names, their grids and the framework's operators that launched them. It is the only package
// that reads names of kernels and host calls.
//
//	names.go   what the name of a kernel says; calls.go of a host call, batch.go of a range of a serving engine
//	reader.go  sizes of a kernel, by its operator: shape.go
//	tiling.go  tiles and clusters, by its name and its grid
package kernel

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// All that the lift reads from names of kernels is in this file, of host calls in calls.go, of serving engines' ranges in
// batch.go; ranges of frameworks are in annotate.go of package lift.

// A Class is the role of a kernel, by its name.
type Class uint8

// The classes.
const (
	Unknown Class = iota // a name that tells nothing: a kernel of the program's own
	Sweep                // elementwise over its operator's inputs: norms, copies
	Light                // short, and of no simple size: sorts, scans, reductions, bookkeeping
	Matrix               // multiplies matrices
	Lookup               // gathers rows of a table
	dense                // multiplies matrices too, but its output is not one GEMM's: attention, convolution
	other                // heavy, none of these: kernels that communicate inside too
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
		return other
	}
	kernel = noLibrary.Replace(strings.ToLower(kernel))
	for _, c := range [...]struct {
		class Class
		words []string
	}{
		{Light, []string{"prepare_grouped_gemm", "splitkreduce", "splitk_reduce", "postgsu", "epilogue::impl", "spin_kernel", "barrier_kernel", "__amd_rocclr_", "prepare_varlen", "_metadata", "kv_indices", "convert_req", "merge_state", "mergestate", "merge_attn_states"}},
		{Sweep, []string{"and_cache", "kv_buffer", "kvcache_kernel", "appendpaged", "concat_mla", "rotary", "rope_", "_rope", "kn_entry_"}},
		{dense, []string{"flash", "fmha", "sdpa", "attention", "attn", "conv", "wgrad", "dgrad", "fprop", "withkvcache", "withpagedkvcache", "withraggedkvcache", "kernel_mha", "multihead", "aiter::pa_", "mla_dec", "mla_pfl", "mla_a", "_fwd_grouped_kernel_stage", "_fwd_kernel_stage"}},
		{Sweep, []string{"elementwise_kernel", "layer_norm", "layernorm", "rms_norm", "rmsnorm", "softmax", "dropout", "catarray", "direct_copy"}},
		{other, []string{"embedding_backward", "embedding_dense_backward", "embedding_codegen_backward", "embedding_codegen_grad", "fused_moe_kernel", "fmoe_", "batched_triton_kernel"}},
		{Lookup, []string{"embedding", "emb_"}},
		{Matrix, []string{"gemm", "gemv", "nvjet", "cijk_", "cutlass", "xmma", "matmul", "_mm_", "bmm_", "marlin", "wvsplitk", "flatmm", "triton_tem_"}},
		{Sweep, []string{"memcpy", "memset", "copy", "norm", "fill", "transpose", "permute", "triu_tril", "nchwtonhwc", "nhwctonchw", "quant", "act_and_mul", "silu_and_mul", "silu_mul", "gelu_and_mul"}},
		{Light, []string{
			"reduce_kernel", "reduction", "gammabeta", "arange", "index", "scatter", "gather", "sort", "scan", "cub::",
			"multi_tensor_apply", "triton_poi_", "triton_per_", "triton_red_", "triton__", "topk", "moe_align", "moe_sum", "moe_fused_gate", "sampling",
		}},
		{Sweep, []string{"_fusion", "fusion_", "wrapped_"}}, // of XLA, without a library's product or a Triton one
	} {
		if slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(kernel, w) }) {
			return c.class
		}
	}
	return Unknown
}

// A Part is what of its input an element of a light kernel's output needs.
type Part uint8

// The parts.
const (
	Whole     Part = iota // all of it, or the name does not say
	ofElement             // the element in its place: activations, biases, residuals, a GEMM's own sums of parts along K
	OfRow                 // its row: norms, softmax, quantisation by row
)

// PartOf reads a kernel's name. Copies may transpose, and sums over rows or batches read columns.
func PartOf(op *workload.Op) Part {
	if op.Kind != trace.Compute || op.Dense || op.Shape.Kind != workload.NoShape && op.Shape.Kind != workload.Elementwise {
		return Whole
	}
	for _, p := range [...]struct {
		part  Part
		words []string
	}{
		{ofElement, []string{"splitkreduce", "splitk_reduce", "postgsu", "epilogue::impl"}},
		{Whole, []string{"batch_norm", "batchnorm", "bn_", "group_norm", "groupnorm", "gammabeta", "copy", "transpose", "permute", "cat", "clone", "embedding", "index", "scatter", "gather"}},
		{OfRow, []string{"layer_norm", "layernorm", "rms_norm", "rmsnorm", "softmax", "quant"}},
		{ofElement, []string{"elementwise_kernel", "triton_poi_", "gelu", "silu", "relu", "swiglu", "act_and_mul", "activation", "bias", "residual", "dropout"}},
	} {
		if NameHas(op.Name, p.words...) {
			return p.part
		}
	}
	return Whole
}

// Multiplies reports whether a kernel is a GEMM, by its shape or its name.
func Multiplies(op *workload.Op) bool {
	return op.Kind == trace.Compute && (op.Shape.Kind == workload.GEMM || op.Shape.Kind == workload.GEMV || op.Shape.Kind == workload.NoShape && ClassOf(op.Name) == Matrix)
}

// OfLibrary reports whether a kernel's name is of a matrix library: cuBLAS and its
// ancestors, CUTLASS, hipBLASLt and rocBLAS, and that of workload files (gemm_128x256).
func OfLibrary(name string) bool {
	return NameHas(name, "nvjet", "cublas", "cutlass", "xmma", "ampere_", "volta_", "turing_", "cijk_") || ofWorkloadFile.MatchString(name)
}

var ofWorkloadFile = regexp.MustCompile(`^(grouped_|conv_|attention_)?gemm_[0-9]+x[0-9]+$`)

// HoldsWeights reports whether an op multiplies by parameters, by its name: a GEMM, or those of a
// mixture of experts, but not attention.
func HoldsWeights(op *workload.Op) bool {
	if op.Kind != trace.Compute {
		return false
	}
	class := ClassOf(op.Name)
	return class == Matrix || class == other && NameHas(op.Name, "fused_moe_kernel", "fmoe_", "batched_triton_kernel")
}

// Copies reports whether an op moves data and computes nothing, by its name.
func Copies(op *workload.Op) bool {
	return op.Kind == trace.Copy || !op.Matrix() && NameHas(op.Name, "copy", "chunk_cat", "concat", "memcpy")
}

// MovesRows reports whether an op only moves rows, by its name: a permutation or a gather of
// rows through an index.
func MovesRows(op *workload.Op) bool {
	return op.Kind == trace.Compute && NameHas(op.Name, "permute", "index", "gather", "scatter", "moe_align", "sort_chunks")
}

// SumsRows reports whether an op adds several rows to one, by its name: the weighted sum over
// the experts of a token.
func SumsRows(op *workload.Op) bool {
	return op.Kind == trace.Compute && NameHas(op.Name, "sum", "reduce", "combine", "index_add", "unpermute")
}

// NameHas reports whether a name has one of the words, in small letters.
func NameHas(name string, words ...string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
}

// Short is the short form of a kernel's name.
func Short(name string) string {
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

// Elements is the number of elements that one of PyTorch's elementwise kernels covers, to a workgroup: a vector a thread, or
// as many elements a thread as its template says (aten/src/ATen/native/cuda/CUDALoops.cuh).
func Elements(op *workload.Op) int64 {
	if _, each, ok := strings.Cut(op.Name, "::elementwise_kernel<128, "); ok {
		return vectorElements(op, op.Name[:len(op.Name)-len(each)])
	}
	return vectorElements(op, "vectorized_elementwise_kernel<")
}

// NormElements is the rows times columns of one of FlashInfer's norms, which has a workgroup a row and
// as many threads as the row has vectors, in whole warps and at most 1024, where they take turns
// (flashinfer, include/flashinfer/norm.cuh); 0 for another kernel.
func NormElements(op *workload.Op) int64 {
	const most = 1024
	if !strings.Contains(op.Name, "flashinfer::norm::") || op.Footprint.Threads >= most {
		return 0
	}
	return vectorElements(op, "RMSNormKernel<")
}

// rowwise finds the norms that have a workgroup a row, or a number of rows that their template states: in
// PyTorch, vLLM and FlashInfer (aten/src/ATen/native/cuda/layer_norm_kernel.cu; csrc/layernorm_kernels.cu and
// csrc/quantization/fused_kernels; include/flashinfer/norm.cuh), in aiter (csrc/kernels/rmsnorm_quant_kernels.cu) and
// CK Tile (include/ck_tile/ops/{rmsnorm2d,layernorm2d,add_rmsnorm2d_rdquant}: the first side of the block's shape).
var rowwise = regexp.MustCompile(`vectorized_layer_norm_kernel|rms_norm_\w*kernel<|flashinfer::norm::|add_rmsnorm_quant_kernel<(?:.*, (\d{1,2})>)?|(?:norm2dFwd|Rmsnorm2dRdquantFwd)<.*?BlockShape<ck_tile::sequence<(\d{1,2}), `)

// NormRows is the rows of a norm that has a workgroup for each or for a stated number; 0 for another kernel.
func NormRows(op *workload.Op) int64 {
	if !strings.Contains(op.Name, "norm") { // millions of kernels have names without it
		return 0
	}
	m := rowwise.FindStringSubmatch(op.Name)
	if m == nil {
		return 0
	}
	each, err := strconv.Atoi(m[1] + m[2])
	if err != nil {
		each = 1
	}
	return int64(op.Tiling.WGs * each)
}

// vectorElements is the elements of a kernel whose first template argument is the length of a vector.
func vectorElements(op *workload.Op, name string) int64 {
	_, rest, ok := strings.Cut(op.Name, name)
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	vector, err := strconv.Atoi(strings.TrimSuffix(digits, "u"))
	if err != nil || vector <= 0 || vector > 16 {
		return 0
	}
	return int64(op.Tiling.WGs) * int64(op.Footprint.Threads) * int64(vector)
}

// ElementSize is the bytes of an element of the first type in a kernel's name: Sum_bf16, <__nv_bfloat16, 8>, or PyTorch's <c10::BFloat16, 16> and
// CUDAFunctor_add<c10::BFloat16>.
func ElementSize(kernel string) (size int64) {
	first := len(kernel)
	for name, n := range map[string]int64{"bfloat16,": 2, "::BFloat16,": 2, "_add<c10::BFloat16>": 2, "__half,": 2, "<c10::Half,": 2, "_add<c10::Half>": 2, "<float,": 4, "_add<float>": 4, "_bf16": 2, "_f16": 2, "_f32": 4, "_f64": 8, "_i8": 1, "_u8": 1, "_i32": 4, "_u32": 4, "_i64": 8, "_u64": 8} {
		if at := strings.Index(kernel, name); at >= 0 && at < first {
			first, size = at, n
		}
	}
	return size
}

// A namedTile is the tile that a kernel's name gives, first and second side, and
// how many such tiles a cluster of workgroups computes along each; 0 where the
// name does not say.
type namedTile struct {
	first, second      int
	along1st, along2nd int
	transposed         bool // the first side lies along N: BLAS, which counts by columns, sees the transpose
	stated             bool // the first side lies along M for certain
	depth              int  // elements along K of a step, where stated; 0: unknown
}

// nameTile reads the tile off a kernel's name, in the forms that libraries write:
//
//	nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT     cuBLAS, compute capability 9.0 on
//	ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn     cuBLAS, and CUTLASS in it
//	sm80_xmma_gemm_f16f16_..._tilesize192x128x32_...   cuBLAS
//	Cijk_Ailk_Bljk_BBS_BH_..._MT256x128x64_...         Tensile: rocBLAS, hipBLASLt
//	ck::kernel_gemm_xdl_cshuffle_v3<...>               Composable Kernel: see trace.Tile
//	deep_gemm::sm90_fp8_gemm_1d2d_impl<...>            DeepGEMM: see trace.DeepGEMM
//	gemm_tile_64x256x32                                workload files, rows first, and the depth of a step
//
// A cluster stands behind cuBLAS's depth and stages (64x4_1x2: one by two), and
// right behind CUTLASS 3's tile (128x256x64_2x1x1).
func nameTile(kernel string) (t namedTile, ok bool) {
	if m, n, k, ok := trace.Tile(kernel); ok {
		return namedTile{first: m, second: n, depth: k}, true
	}
	if _, _, t, ok := trace.DeepGEMM(kernel); ok {
		return namedTile{first: t[0], second: t[1], depth: t[2], stated: true}, true
	}
	if i := strings.IndexByte(kernel, '('); i > 0 {
		kernel = kernel[:i]
	}
	nvjet := strings.HasPrefix(kernel, "nvjet")
	gemm := nvjet
	words := strings.Split(kernel, "_")
	for i, word := range words {
		sides := word
		switch {
		case strings.HasPrefix(word, "tilesize"):
			sides = word[len("tilesize"):]
		case strings.HasPrefix(word, "MT"):
			sides = word[len("MT"):]
		case strings.Contains(word, "gemm"):
			gemm = true
			continue
		case !gemm:
			continue
		}
		if t.first, t.second, ok = twoSides(sides); ok {
			t.transposed = nvjet || strings.HasPrefix(word, "MT")
			if t.stated = words[max(0, i-1)] == "tile"; t.stated && strings.Count(sides, "x") == 2 {
				t.depth, _ = strconv.Atoi(sides[strings.LastIndexByte(sides, 'x')+1:]) // a number, as twoSides read it
			}
			behind := i + 1
			if nvjet {
				behind++
			}
			if nvjet || strings.HasPrefix(kernel, "cutlass3x") {
				t.along1st, t.along2nd = nameCluster(words, behind)
			}
			return t, true
		}
	}
	return namedTile{}, false
}

// nameCluster reads the cluster that one of the words gives, no larger than any GPU has.
func nameCluster(words []string, at int) (along1st, along2nd int) {
	const most = 16
	if at < len(words) {
		if a, b, ok := twoSides(words[at]); ok && a*b <= most {
			return a, b
		}
	}
	return 0, 0
}

// twoSides reads 256x128, or 256x128x64.
func twoSides(s string) (first, second int, ok bool) {
	a, rest, ok := strings.Cut(s, "x")
	if !ok {
		return 0, 0, false
	}
	b, c, three := strings.Cut(rest, "x")
	first, errA := strconv.Atoi(a)
	second, errB := strconv.Atoi(b)
	if three {
		if _, err := strconv.Atoi(c); err != nil {
			return 0, 0, false
		}
	}
	ok = errA == nil && errB == nil && first > 0 && second > 0 && first <= maxSide && second <= maxSide
	return first, second, ok
}

// sharesTiles finds names of GEMMs of which several workgroups compute one tile, each a part of K. Tensile writes the number of
// parts as GSU, and the kind of stream-K as SK, where 0 is none (Tensile/SolutionStructs: GlobalSplitU, StreamK).
var sharesTiles = regexp.MustCompile(`splitk|streamk|_gsu([2-9]|\d\d)|_sk[1-9]`)

// maxSide is more than any tile's side; beyond it, a name means something else.
const maxSide = 4096

// tensileRegisters is the number of 32-bit vector registers of a thread of a Tensile kernel
// (rocBLAS, hipBLASLt), from its name; 0 for other kernels. Traces seldom have it, and it
// decides how many workgroups fit on a compute unit, and whether a channel of a collective
// fits next to one. It follows from the accumulators of a thread, which are the macro tile
// over the workgroup's threads (rule D1):
//
//	Cijk_Ailk_Bljk_BBS_BH_..._MT512x144x32_MI16x16x1_..._WG64_4_1   288 accumulators, 512 registers
func tensileRegisters(kernel string) int {
	if !strings.HasPrefix(kernel, "Cijk_") {
		return 0
	}
	tile := strings.Split(fieldsOf(kernel, "_MT", 1), "x")
	threads := product(strings.SplitN(fieldsOf(kernel, "_WG", 3), "_", 3))
	if len(tile) != 3 || threads == 0 {
		return 0
	}
	accumulators := float64(product(tile[:2])) / float64(threads)
	if accumulators < 1 {
		return 0
	}
	const granule, most = 8, 512 // of a wave
	for i, row := range tensileTable[1:] {
		if before := tensileTable[i]; accumulators <= row.accumulators || i == len(tensileTable)-2 {
			slope := (row.registers - before.registers) / (row.accumulators - before.accumulators)
			registers := before.registers + slope*(accumulators-before.accumulators)
			return min(most, machine.CeilDiv(max(1, int(registers)), granule)*granule)
		}
	}
	return 0
}

// tensileTable is the median registers of 4,051 Tensile kernels of the code objects that a
// rocprofv3 capture on MI350X lists (AMD-AGI/TraceLens, tests/rocprof/908_results.json:
// arch_vgpr_count, and the accumulators of kernels that keep them in accumulation
// registers), by accumulators.
var tensileTable = [...]struct{ accumulators, registers float64 }{
	{0, 40}, {8, 56}, {16, 84}, {32, 128}, {64, 192}, {96, 248}, {128, 320}, {192, 416}, {256, 488},
}

// fieldsOf is n parts of a name behind a key, joined by underscores: 64_4_1 behind _WG.
func fieldsOf(kernel, key string, n int) string {
	_, rest, ok := strings.Cut(kernel, key)
	words := strings.Split(strings.TrimSuffix(rest, ".kd"), "_")
	if !ok || len(words) < n {
		return ""
	}
	return strings.Join(words[:n], "_")
}

// product is the product of numbers; 0 if one is none, or implausibly large.
func product(words []string) int {
	p := 1
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n <= 0 || n > maxSide {
			return 0
		}
		p *= n
	}
	return p
}
