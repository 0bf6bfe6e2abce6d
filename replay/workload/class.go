package workload

import "strings"

// A kernelName is the information derived from a kernel's name.
type kernelName struct {
	class class
	tile  namedTile
	tiled bool // the name gives a tile
	read  bool // the name has been read

	registers int // of a thread; 0: not known from the name
}

// kernelName reads the name of an op; each name of a run is read once.
func (l *lifter) kernelName(op *Op) *kernelName {
	if l.names == nil {
		l.names = make([]kernelName, len(l.Run.Names))
	}
	i := l.Run.Spans[op.Span].Name
	n := &l.names[i]
	if !n.read {
		n.read = true
		n.class = classOf(l.Run.Names[i])
		n.tile, n.tiled = nameTile(l.Run.Names[i])
		n.registers = tensileRegisters(l.Run.Names[i])
	}
	return n
}

// A class is the role of a kernel, by its name.
type class uint8

const (
	unknown class = iota // a name that tells nothing: a kernel of the program's own
	sweep                // elementwise over its operator's inputs: norms, copies
	light                // short, and of no simple size: sorts, scans, reductions, bookkeeping
	matrix               // multiplies matrices
	lookup               // gathers rows of a table
	dense                // multiplies matrices too, but its output is not one GEMM's: attention, convolution
	other                // heavy, none of these
)

// classOf reads a kernel's name. Earlier lines win: cublasLt::splitKreduce is
// no GEMM, and flash attention multiplies more than two matrices.
func classOf(kernel string) class {
	name := strings.ToLower(kernel)
	for _, c := range [...]struct {
		class class
		words []string
	}{
		{light, []string{"prepare_grouped_gemm", "splitkreduce", "splitk_reduce", "postgsu", "spin_kernel", "barrier_kernel", "__amd_rocclr_"}},
		{dense, []string{"flash", "fmha", "sdpa", "attention", "attn", "conv", "wgrad", "dgrad", "fprop"}},
		{sweep, []string{"elementwise_kernel", "layer_norm", "layernorm", "rms_norm", "rmsnorm", "softmax", "dropout", "catarray", "direct_copy"}},
		{other, []string{"embedding_backward", "embedding_dense_backward", "embedding_codegen_backward", "embedding_codegen_grad"}},
		{lookup, []string{"embedding", "emb_"}},
		{matrix, []string{"gemm", "gemv", "nvjet", "cijk_", "cutlass", "xmma", "matmul", "_mm_"}},
		{sweep, []string{"memcpy", "memset", "copy", "norm", "fill", "transpose", "permute", "triu_tril", "nchwtonhwc", "nhwctonchw"}},
		{light, []string{
			"reduce_kernel", "reduction", "gammabeta", "arange", "index", "scatter", "gather", "sort", "scan", "cub::",
			"multi_tensor_apply", "triton_poi_", "triton_per_", "triton_red_", "triton__",
		}},
	} {
		for _, w := range c.words {
			if strings.Contains(name, w) {
				return c.class
			}
		}
	}
	return unknown
}

// OfLibrary reports whether a kernel's name is of a matrix library: cuBLAS and its
// ancestors, CUTLASS, hipBLASLt and rocBLAS.
func OfLibrary(name string) bool {
	for _, part := range [...]string{"nvjet", "cublas", "cutlass", "xmma", "ampere_", "volta_", "turing_", "Cijk_"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
