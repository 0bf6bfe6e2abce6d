package lift

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// What kernels read and write is what their operators record, and nothing where these do not.
func TestOperandTraffic(t *testing.T) {
	const (
		multi   = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
		copies  = multi + "TensorListMetadata<2>, at::native::(anonymous namespace)::CopyFunctor<c10::BFloat16, float, 2, 1, 1>, at::native::Copy<c10::BFloat16, float> >(at::native::(anonymous namespace)::TensorListMetadata<2>)"
		adds    = multi + "TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>()"
		zeros   = multi + "TensorListMetadata<1>, at::native::(anonymous namespace)::ZeroFunctor<c10::BFloat16, 1, 1, 0> >()"
		norms   = multi + "TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>, float*>()"
		adam    = multi + "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*>()"
		reduces = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >()"
		gammas  = "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u, 256u, false, false, false>()"
		chunks  = "void at::native::detail::chunk_cat_cuda_kernel<float, c10::BFloat16>(c10::BFloat16**, float*)"
		triton  = "triton_poi_fused_mul_silu_4"
	)
	lists := func(types ...string) []string { return append([]string{"TensorList"}, types...) }
	two := [][]int64{{100, 1000}, {50_000}} // chunks of 65,536 elements: 2 and 1
	for name, c := range map[string]struct {
		kernel      string
		wgs         int
		operator    trace.Operator
		read, write float64
	}{
		"copies":                    {copies, 3, trace.Operator{Dims: make([][]int64, 3), Lists: [][][]int64{two, two}, Types: lists("TensorList", "Scalar")}, 600_000, 300_000},
		"copies, of two launches":   {copies, 2, trace.Operator{Dims: make([][]int64, 3), Lists: [][][]int64{two, two}, Types: lists("TensorList", "Scalar")}, 400_000, 200_000},
		"a list of one":             {copies, 2, trace.Operator{Dims: [][]int64{{100_000}, {100_000}}, Types: lists("TensorList")}, 400_000, 200_000},
		"more chunks than the list": {copies, 4, trace.Operator{Dims: make([][]int64, 2), Lists: [][][]int64{two, two}, Types: lists("TensorList")}, 0, 0},
		"list not recorded":         {adam, 320, trace.Operator{Dims: make([][]int64, 6), Types: lists("TensorList", "TensorList")}, 0, 0},
		"sums":                      {adds, 3, trace.Operator{Dims: make([][]int64, 2), Lists: [][][]int64{two, two}, Types: lists("TensorList")}, 1_200_000, 600_000},
		"fills":                     {zeros, 3, trace.Operator{Dims: make([][]int64, 1), Lists: [][][]int64{two}, Types: lists()}, 0, 300_000},
		"norms":                     {norms, 3, trace.Operator{Dims: make([][]int64, 1), Lists: [][][]int64{two}, Types: lists()}, 600_000, 0},
		"Adam":                      {adam, 3, trace.Operator{Dims: make([][]int64, 4), Lists: [][][]int64{two, two, two, two}, Types: lists("TensorList")}, 2_400_000, 1_800_000},
		"mean":                      {reduces, 256, trace.Operator{Name: "aten::mean", Dims: [][]int64{{2, 1000}, nil}, Types: []string{"float", "ScalarList"}}, 8000, 0},
		"mean of unknown type":      {reduces, 256, trace.Operator{Name: "aten::mean", Dims: [][]int64{{2, 1000}}}, 0, 0},
		"gamma and beta":            {gammas, 32, trace.Operator{Dims: [][]int64{{10, 100}, {10, 100}, nil, {10, 1}}, Types: []string{"float", "float", "ScalarList", "float"}}, 8000, 0},
		"concatenation":             {chunks, 9, trace.Operator{Dims: [][]int64{nil, nil, nil, {2, 75_000}}, Lists: [][][]int64{two}, Types: lists("Scalar", "Scalar", "float")}, 300_000, 600_000},
		"Inductor":                  {triton, 9, trace.Operator{Name: triton, Dims: [][]int64{{10, 100}, {10, 100}, {1, 10, 100}, nil}, Types: []string{"c10::BFloat16", "c10::BFloat16", "float", "Scalar"}}, 4000, 4000},
		"compiled graph":            {triton, 9, trace.Operator{Name: "## Call CompiledFxGraph 0 ##", Dims: [][]int64{{1 << 20}}, Types: []string{"float"}}, 0, 0},
		"another kernel":            {"void cub::DeviceScanKernel<float>()", 9, trace.Operator{Name: "aten::cumsum", Dims: [][]int64{{1 << 20}}, Types: []string{"float"}}, 0, 0},
	} {
		if got := operandTraffic(&c.operator, c.kernel, c.wgs); got != (traffic{c.read, c.write}) {
			t.Errorf("%s: reads %.0f and writes %.0f, want %.0f and %.0f", name, got.read, got.write, c.read, c.write)
		}
	}
}
