package lift

import (
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A traffic is the bytes that a kernel reads and writes; zero where the trace does not record its operands.
type traffic struct{ read, write float64 }

// operandTraffic is the traffic of kernels that go once over operands that their operator records, though these are not
// the matrices or tensors of one shape that other readers take (rule M13): lists of tensors, what a reduction adds up,
// arguments of a kernel that Inductor generated.
func operandTraffic(o *trace.Operator, kernel string, wgs int) traffic {
	switch {
	case strings.Contains(kernel, "multi_tensor_apply_kernel<"):
		return overLists(o, kernel, wgs)
	case strings.Contains(kernel, "chunk_cat_cuda_kernel"):
		return chunkCat(o, kernel)
	case strings.Contains(kernel, "at::native::reduce_kernel<") && len(o.Dims) > 0: // ATen's reductions have what they reduce first
		return traffic{read: bytesOf(o, 0)}
	case strings.Contains(kernel, "GammaBetaBackward") && len(o.Dims) > 1: // gradients and inputs of the norm, added up over rows
		return traffic{read: bytesOf(o, 0) + bytesOf(o, 1)}
	case generated(o, kernel):
		return ofArguments(o)
	}
	return traffic{}
}

// bytesOf is the bytes of an operator's input; 0 if its shape or its type is not recorded.
func bytesOf(o *trace.Operator, input int) float64 {
	d := o.Dims[input]
	v, ok := volume(d)
	if !ok || len(d) == 0 {
		return 0
	}
	_, size := dtype(o, input)
	return float64(v) * float64(size)
}

// generated reports whether an operator is the launch of a kernel by Inductor, which records the kernel's own arguments; that
// of a compiled graph has all tensors of the graph.
func generated(o *trace.Operator, kernel string) bool {
	return o.Name == kernel && slices.ContainsFunc([]string{"triton_poi_", "triton_red_", "triton_per_"}, func(prefix string) bool {
		return strings.HasPrefix(kernel, prefix)
	})
}

// ofArguments is the traffic of a kernel that touches each of its tensors once. Inductor lists what is written last.
func ofArguments(o *trace.Operator) (t traffic) {
	last := 0.0
	for i := range o.Dims {
		if b := bytesOf(o, i); b > 0 {
			t.read, last = t.read+last, b
		}
	}
	t.write = last
	return t
}

// chunkElements is the elements of a chunk, of which each workgroup of PyTorch's multi_tensor_apply has one (kChunkSize in
// aten/src/ATen/native/cuda/MultiTensorApply.cuh).
const chunkElements = 65536

// overLists is the traffic of a launch over lists of tensors. An operator launches as often as its chunks need.
func overLists(o *trace.Operator, kernel string, wgs int) (t traffic) {
	list := firstList(o)
	elements, chunks := 0.0, 0.0
	for _, d := range list {
		n, ok := volume(d)
		if !ok || len(d) == 0 {
			return traffic{}
		}
		elements += float64(n)
		chunks += float64((n + chunkElements - 1) / chunkElements)
	}
	if chunks == 0 || float64(wgs) > chunks {
		return traffic{} // other chunks than these
	}
	each := functorTraffic(kernel)
	elements *= float64(wgs) / chunks
	return traffic{each.read * elements, each.write * elements}
}

// firstList is the shapes of the first input, if that is a list of tensors; a list of one has that tensor's shape.
func firstList(o *trace.Operator) [][]int64 {
	switch {
	case len(o.Types) == 0 || o.Types[0] != "TensorList" || len(o.Dims) == 0:
		return nil
	case o.Dims[0] != nil:
		return o.Dims[:1]
	case len(o.Lists) > 0:
		return o.Lists[0]
	}
	return nil
}

// functorTraffic is what one of ATen's functors for multi_tensor_apply reads and writes for each element of a list, in bytes:
//
//	BinaryOpScalarFunctor<float, 1, 1, 0>            the type; lists, lists that are read, list that is written
//	CopyFunctor<c10::BFloat16, float, 2, 1, 1>       to the first type from the second
//	LpNormFunctor<float, (NormType)1, float, 1, 1, 0>  writes a number for each chunk
//	FusedAdamMathFunctor<float, 4, (ADAM_MODE)1, false>  writes all lists but gradients
//
// (ForeachFunctors.cuh, ForeachReduceOp.cu, fused_adam_utils.cuh). It is zero for others.
func functorTraffic(kernel string) traffic {
	at := strings.Index(kernel, "Functor<")
	if at < 0 {
		return traffic{}
	}
	name := kernel[strings.LastIndexAny(kernel[:at], " :,<")+1 : at]
	inside, _, _ := strings.Cut(kernel[at+len("Functor<"):], ">")
	args := strings.Split(inside, ", ")
	size := float64(sizeOfType(args[0]))
	if name == "FusedAdamMath" {
		lists := number(args, 1)
		return traffic{size * lists, size * (lists - 1)}
	}
	if len(args) < 4 {
		return traffic{}
	}
	t := traffic{size * number(args, len(args)-2), size}
	switch name {
	case "Copy":
		t.read = float64(sizeOfType(args[1]))
	case "Zero":
		t.read = 0
	case "LpNorm":
		t.write = 0
	}
	return t
}

// number is an argument of a template; 0 if it is none.
func number(args []string, at int) float64 {
	if at >= len(args) {
		return 0
	}
	n, err := strconv.Atoi(args[at])
	if err != nil || n < 0 || n > 16 {
		return 0
	}
	return float64(n)
}

// sizeOfType is the bytes of a C++ type of PyTorch's kernels; 0: unknown.
func sizeOfType(name string) int {
	_, size := dtype(&trace.Operator{Types: []string{name}}, 0)
	return size
}

// chunkCat is the traffic of FSDP2's concatenation of the chunks of gradients: it reads the list and writes its output, in
// the types that the kernel's name gives: chunk_cat_cuda_kernel<float, c10::BFloat16> writes the first.
func chunkCat(o *trace.Operator, kernel string) traffic {
	_, rest, _ := strings.Cut(kernel, "chunk_cat_cuda_kernel<")
	inside, _, _ := strings.Cut(rest, ">")
	args := strings.Split(inside, ", ")
	list := firstList(o)
	if len(args) != 2 || list == nil {
		return traffic{}
	}
	var elements float64
	for _, d := range list {
		n, ok := volume(d)
		if !ok || len(d) == 0 {
			return traffic{}
		}
		elements += float64(n)
	}
	return traffic{elements * float64(sizeOfType(args[1])), elements * float64(sizeOfType(args[0]))}
}
