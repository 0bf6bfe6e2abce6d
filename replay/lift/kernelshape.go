package lift

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// shapeOf reads the sizes of a GEMM or an embedding from the operator's
// inputs, and how many GEMMs it is a batch of (rule V2).
func shapeOf(o *trace.Operator) (s workload.Shape, batch int64) {
	a, b, transposed := factors(o.Name)
	first := max(0, a) // the input whose type counts
	batch = 1
	switch {
	case grouped(o):
		s = groupedGEMM(o)
		batch = s.Groups
	case a >= 0 && b < len(o.Dims):
		batch, s.M, s.N, s.K = gemmSizes(o.Dims[a], o.Dims[b], transposed)
		s.Kind, s.M = workload.GEMMKind(batch*s.M, s.N), batch*s.M
		s.Evidence = fmt.Sprintf("%s%v·%v", o.Name, o.Dims[a], o.Dims[b])
		if batch > 1 {
			s.Evidence += fmt.Sprintf(", a batch of %d taken as more rows", batch)
		}
	case o.Name == Convolution:
		s = conv2d(o)
	case o.Name == attentionOperator:
		s = dotProduct(o)
	case strings.Contains(o.Name, "embedding") && strings.Contains(o.Name, "backward"):
		s = embeddingGrad(o)
	case strings.Contains(o.Name, "embedding"):
		s = embedding(o)
	}
	if all, ok := volume([]int64{s.M, s.N, s.K, max(1, s.Groups)}); !ok || all == 0 {
		return workload.Shape{}, 1
	}
	s.DType, s.ElemSize = dtype(o, first)
	return s, batch
}

// grouped reports whether an operator is a grouped GEMM whose groups share out the rows of A:
// A [rows, K], B [groups, K, N], and where each group's rows end.
func grouped(o *trace.Operator) bool {
	return (o.Name == "aten::_grouped_mm" || o.Name == "aten::_scaled_grouped_mm") && len(o.Dims) > 1 && len(o.Dims[0]) == 2 && len(o.Dims[1]) == 3
}

// groupedGEMM reads a grouped GEMM. The trace does not say how many rows each group has: they
// count as equally many (rule G22).
func groupedGEMM(o *trace.Operator) workload.Shape {
	a, b := o.Dims[0], o.Dims[1]
	if a[1] != b[1] {
		return workload.Shape{}
	}
	return workload.Shape{Kind: workload.GEMM, M: a[0], N: b[2], K: a[1], Groups: b[0], Evidence: fmt.Sprintf("%s%v·%v, rows taken as equally many in each group", o.Name, a, b)}
}

// Operators whose kernels are treated as GEMMs, so that tiles of one can wait for tiles of
// another.
const (
	Convolution       = "aten::conv2d"
	attentionOperator = "aten::scaled_dot_product_attention"
)

func gemmLike(operator string) string {
	if operator == Convolution || operator == attentionOperator {
		return operator
	}
	return ""
}

// summation of an input [tokens, experts of a token, columns] over its middle axis is the
// weighted sum of what the experts of a token made.
const summation = "aten::sum"

// inputs is the bytes of an operator's inputs, each read once.
func inputs(o *trace.Operator) (bytes float64) {
	for i := range o.Dims {
		bytes += bytesOf(o, i)
	}
	return bytes
}

// conv2d reads a convolution, input [batch, channels, height, width] and filters [outputs,
// channels, rows, columns], as the GEMM that computes it: an output element sums over
// channels and filter positions. The trace has no stride or padding: one output per input
// position.
func conv2d(o *trace.Operator) workload.Shape {
	if len(o.Dims) < 2 || len(o.Dims[0]) != 4 || len(o.Dims[1]) != 4 || o.Dims[0][1] != o.Dims[1][1] {
		return workload.Shape{}
	}
	in, filter := o.Dims[0], o.Dims[1]
	m, _ := volume([]int64{in[0], in[2], in[3]})
	k, _ := volume(filter[1:])
	return workload.Shape{Kind: workload.GEMM, M: m, N: filter[0], K: k, Evidence: fmt.Sprintf("%s%v·%v, taken as of stride 1", o.Name, in, filter)}
}

// dotProduct reads attention without a batch (queries [tokens, columns], keys and values)
// as a GEMM with as many columns as it sums over.
func dotProduct(o *trace.Operator) workload.Shape {
	if len(o.Dims) < 3 || len(o.Dims[0]) != 2 || len(o.Dims[1]) != 2 || o.Dims[0][1] != o.Dims[1][1] {
		return workload.Shape{}
	}
	q := o.Dims[0]
	return workload.Shape{Kind: workload.GEMM, M: q[0], N: q[1], K: q[1], Evidence: fmt.Sprintf("%s%v", o.Name, o.Dims[:3])}
}

// attentionFlops is the operations of an attention operator: queries [batch, heads, tokens, columns] or, in the
// operators that call a library, [batch, tokens, heads, columns] are multiplied by as many keys and values as there
// are tokens, half of them where it is causal; backward, five products instead of two (FlashAttention-2, section
// 4.1). It is 0 for other operators and for sequences of several lengths.
func attentionFlops(o *trace.Operator) float64 {
	backward := strings.HasSuffix(o.Name, "_backward")
	q, tokens, products := 0, 2, 2.0
	if backward {
		q, products = 1, 5
	}
	if strings.Contains(o.Name, "_flash_attention_") && !strings.Contains(o.Name, "dot_product") || strings.Contains(o.Name, "_efficient_attention_") && !strings.Contains(o.Name, "dot_product") {
		tokens = 1
	}
	if !strings.Contains(o.Name, "attention") || len(o.Dims) < q+2 || len(o.Dims[q]) != 4 || len(o.Dims[q+1]) != 4 {
		return 0
	}
	queries, ok := volume(o.Dims[q])
	if !ok {
		return 0
	}
	flops := 2 * products * float64(queries) * float64(o.Dims[q+1][tokens])
	if o.Causal {
		flops /= 2
	}
	return flops
}

// factors says which inputs of an operator are the A and B of a GEMM, and
// whether B has a row an output column; a is -1 for other operators.
func factors(operator string) (a, b int, transposed bool) {
	switch operator {
	case "aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::_scaled_mm", "aten::_int_mm":
		return 0, 1, false
	case "aten::addmm", "aten::baddbmm", "aten::addmv", "aten::_addmm_activation", "aten::addmm_":
		return 1, 2, false
	case "aten::linear":
		return 0, 1, true
	}
	if strings.HasSuffix(operator, "/dot_general") { // of JAX
		return 0, 1, false
	}
	return -1, -1, false
}

// factorsAmong is the GEMM of an operator of another library: its first input of two axes times the next that fits.
func factorsAmong(o *trace.Operator) (s workload.Shape) {
	a := slices.IndexFunc(o.Dims, func(d []int64) bool { return len(d) == 2 })
	for b := a + 1; a >= 0 && b < len(o.Dims); b++ {
		for _, transposed := range [...]bool{true, false} {
			if _, m, n, k := gemmSizes(o.Dims[a], o.Dims[b], transposed); len(o.Dims[b]) == 2 && m*n*k > 0 {
				s = workload.Shape{Kind: workload.GEMMKind(m, n), M: m, N: n, K: k, Evidence: fmt.Sprintf("%s%v·%v", o.Name, o.Dims[a], o.Dims[b])}
				s.DType, s.ElemSize = dtype(o, a)
				return s
			}
		}
	}
	return s
}

// megaMoE is a kernel for a whole layer of experts, compiled for the most tokens of a rank, the hidden and the intermediate size, the
// experts of all ranks and the experts of a token (DeepGEMM, csrc/jit_kernels/impls/sm100_{fp8_fp4,bf16}_mega_moe.hpp).
var megaMoE = regexp.MustCompile(`_(\w+)_mega_moe_impl<(\d{1,9})u?, (\d{1,9})u?, (\d{1,9})u?, (\d{1,9})u?, (\d{1,4})u?, `)

// expertLayer is the first of the two GEMMs in a kernel for a layer of experts, over so many ranks, for an input of so many tokens and,
// if it is known, of that hidden size: gate and up projection of the rows that a rank gets where the experts share all tokens
// evenly. The second one has the hidden size as columns, and half as much depth as the first has columns.
func expertLayer(kernel string, input []int64, ranks int64) (s workload.Shape) {
	if !strings.Contains(kernel, "_mega_moe_impl<") || len(input) < 2 {
		return s
	}
	found := megaMoE.FindStringSubmatch(kernel)
	if found == nil {
		return s
	}
	var n [5]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(found[2+i], 10, 64) // at most nine digits
	}
	most, hidden, inner, experts, each := n[0], n[1], n[2], n[3], n[4]
	if input[0] <= 0 || input[0] > most || input[1] != 0 && input[1] != hidden || min(hidden, inner, experts, each) == 0 {
		return s
	}
	rows := input[0] * each
	s = workload.Shape{Kind: workload.GEMM, M: rows, N: 2 * inner, K: hidden, ElemSize: 1, DType: "f8"}
	s.Groups = min(rows, max(1, experts/ranks))
	if found[1] == "bf16" {
		s.ElemSize, s.DType = 2, "bf16"
	}
	s.Evidence = "the kernel's name, its tokens, and as many rows for each expert"
	return s
}

// widest is the extents of that input with two axes of an operator whose rows are longest; nil: none has two axes.
func widest(o *trace.Operator) (dims []int64) {
	for _, d := range o.Dims {
		if len(d) == 2 && (dims == nil || d[1] > dims[1]) {
			dims = d
		}
	}
	return dims
}

// gemmSizes multiplies shapes as matmul does: rows before the last two axes are a batch if
// both sides have them, else more rows of A. Sizes are 0 if the two do not fit.
func gemmSizes(a, b []int64, transposed bool) (batch, m, n, k int64) {
	if len(a) == 0 || len(b) == 0 {
		return 0, 0, 0, 0
	}
	if len(a) == 1 {
		a = []int64{1, a[0]}
	}
	if len(b) == 1 {
		b = []int64{b[0], 1}
	}
	k, n = b[len(b)-2], b[len(b)-1]
	if transposed {
		k, n = n, k
	}
	batch = 1
	var ok bool
	if len(b) > 2 {
		batch, ok = volume(b[:len(b)-2])
		if each, okA := volume(a[:len(a)-2]); okA {
			batch = max(batch, each)
		}
		m = a[len(a)-2]
	} else {
		m, ok = volume(a[:len(a)-1])
	}
	if _, fits := volume([]int64{batch, m, n, k}); !ok || !fits || a[len(a)-1] != k {
		return 0, 0, 0, 0
	}
	return batch, m, n, k
}

// volume is the product of extents; ok is false if one is negative or the result is
// implausibly large.
func volume(dims []int64) (v int64, ok bool) {
	v = 1
	for _, d := range dims {
		if d < 0 || d > 0 && v > math.MaxInt64/d {
			return 0, false
		}
		v *= d
	}
	return v, true
}

// embedding reads a lookup: a table, the indices, and for a bag the offsets at which each sum begins.
func embedding(o *trace.Operator) workload.Shape {
	if len(o.Dims) < 2 || len(o.Dims[0]) != 2 {
		return workload.Shape{}
	}
	indices, ok := volume(o.Dims[1])
	s := workload.Shape{Kind: workload.Embedding, M: indices, N: o.Dims[0][1], K: 1}
	if strings.Contains(o.Name, "bag") && len(o.Dims) > 2 {
		if bags, _ := volume(o.Dims[2]); len(o.Dims[2]) == 1 && bags > 0 {
			s.M, s.K = bags, indices/bags
		}
	}
	if !ok || len(o.Dims[1]) == 0 {
		return workload.Shape{}
	}
	s.Evidence = fmt.Sprintf("%s%v", o.Name, o.Dims[:min(3, len(o.Dims))])
	return s
}

// embeddingGrad reads the backward of a lookup: the gradients, a vector for each index or, for a
// bag, for each sum, and the indices.
func embeddingGrad(o *trace.Operator) workload.Shape {
	if len(o.Dims) < 2 || len(o.Dims[0]) < 2 {
		return workload.Shape{}
	}
	grad := o.Dims[0]
	sums, ok := volume(grad[:len(grad)-1])
	indices, okI := volume(o.Dims[1])
	if !ok || !okI || sums <= 0 || indices < sums {
		return workload.Shape{}
	}
	return workload.Shape{Kind: workload.EmbeddingGrad, M: sums, N: grad[len(grad)-1], K: indices / sums, Evidence: fmt.Sprintf("%s%v", o.Name, o.Dims[:2])}
}

// elementwise reads the sizes of an operator that goes once over its inputs, and its memory traffic.
func elementwise(o *trace.Operator) (s workload.Shape, read, write float64) {
	var most int64
	for i, d := range o.Dims {
		v, ok := volume(d)
		if !ok || len(d) == 0 {
			continue
		}
		_, size := dtype(o, i)
		read += float64(v) * float64(size)
		if v > most {
			most = v
			n := d[len(d)-1]
			s = workload.Shape{Kind: workload.Elementwise, M: v / n, N: n}
			s.DType, s.ElemSize = dtype(o, i)
		}
	}
	if most == 0 {
		return workload.Shape{}, 0, 0
	}
	s.Evidence = o.Name
	write = float64(most) * float64(s.ElemSize)
	if o.Name == summation && len(o.Dims[0]) == 3 { // over the middle axis
		s.M, s.N = o.Dims[0][0], o.Dims[0][2]
		write /= float64(o.Dims[0][1])
	}
	switch {
	case strings.Contains(o.Name, "copy_"): // its first input is its output
		read -= write
	case strings.Contains(o.Name, "fill_"), strings.Contains(o.Name, "zero_"):
		read = 0
	}
	return s, max(0, read), write
}

// concatenates reports whether an operator copies a list of tensors one behind another; FSDP's does for each shard.
func concatenates(o *trace.Operator) bool {
	return len(o.Lists) > 0 && (o.Name == "aten::cat" || o.Name == "aten::_chunk_cat")
}

// concatenated is the bytes of the list. Elements are as large as those of another tensor of the operator or, since
// profiles have no types of lists, as PyTorch's kernel says (OpaqueType<2u>); 0 if neither does.
func concatenated(o *trace.Operator, kernel string) (bytes float64) {
	size := 0
	for i := range o.Dims {
		_, own := dtype(o, i)
		size = max(size, own)
	}
	if _, of, ok := strings.Cut(kernel, "OpaqueType<"); ok && size == 0 {
		size, _ = strconv.Atoi(of[:max(0, strings.IndexByte(of, 'u'))])
	}
	for _, d := range o.Lists[0] {
		if v, ok := volume(d); ok && len(d) > 0 {
			bytes += float64(v) * float64(size)
		}
	}
	return bytes
}

// copyTraffic is a copy's traffic in the memory of its device.
func copyTraffic(c *trace.CopyAttr) (read, write float64) {
	if c == nil {
		return 0, 0
	}
	b := float64(max(0, c.Bytes))
	switch c.Dir {
	case trace.HostToDevice, trace.Fill:
		return 0, b
	case trace.DeviceToHost, trace.PeerToPeer:
		return b, 0
	case trace.DeviceToDevice:
		return b, b
	}
	return 0, 0
}

// dtype is the type of an operator's input and its size in bytes.
func dtype(o *trace.Operator, input int) (name string, size int) {
	if input >= len(o.Types) {
		return "", 0
	}
	switch t := o.Types[input]; t {
	case "c10::BFloat16", "bfloat16":
		return "bf16", 2
	case "c10::Half", "float16":
		return "f16", 2
	case "float", "float32":
		return "f32", 4
	case "double", "float64":
		return "f64", 8
	case "long int", "long", "int64", "uint64":
		return "i64", 8
	case "int", "int32", "uint32":
		return "i32", 4
	case "short int", "short", "int16", "uint16":
		return "i16", 2
	case "signed char", "unsigned char", "bool", "char", "int8", "uint8":
		return "i8", 1
	default:
		if strings.HasPrefix(t, "c10::Float8") || strings.HasPrefix(t, "float8") {
			return "f8", 1
		}
		return "", 0
	}
}

var deepGEMMName = regexp.MustCompile(`^(?:void )?deep_gemm::sm90_fp8_gemm_1d[12]d_impl<\d{1,9}u, (\d{1,9})u, (\d{1,9})u, 1u, (\d{1,4})u, (\d{1,4})u, (\d{1,4})u, .*\(deep_gemm::GemmType\)0`)

// deepGEMM reads what one of DeepGEMM's kernels is compiled for: columns and depth of the product, 0 where it is for any, and the
// tile's rows, columns and depth of a step. Grouped products are left out.
//
//	void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 2112u, 7168u, 1u, 64u, 16u, 128u, ... (deep_gemm::GemmType)0, ...
//	                                     M   N      K   groups  tile M N    K
//
// Source: DeepGEMM, deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh.
func deepGEMM(name string) (n, k int64, tile [3]int, ok bool) {
	found := deepGEMMName.FindStringSubmatch(name)
	if found == nil {
		return 0, 0, tile, false
	}
	var s [5]int
	for i := range s {
		s[i], _ = strconv.Atoi(found[1+i]) // at most nine digits
	}
	return int64(s[0]), int64(s[1]), [3]int(s[2:]), min(s[2], s[3], s[4]) > 0
}
