package lift

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A list of tensors that is concatenated is read and written once: with the size of another tensor's elements, else
// with that of the kernel's name, else its traffic is unknown.
func TestConcatenated(t *testing.T) {
	list := [][][]int64{{{4, 2048, 5504}, {4, 2048, 5504}}}
	for _, c := range []struct {
		op     trace.Operator
		kernel string
		want   float64
	}{
		{trace.Operator{Name: "aten::cat", Lists: list, Dims: [][]int64{nil, nil}, Types: []string{"TensorList", "Scalar"}}, "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3, 64, 64>", 4 * 2048 * 5504 * 2 * 2},
		{trace.Operator{Name: "aten::cat", Lists: list, Dims: [][]int64{nil, nil}, Types: []string{"TensorList", "Scalar"}}, "CatArray", 0},
		{trace.Operator{Name: "aten::_chunk_cat", Lists: [][][]int64{{{100}, {3, 4}}}, Dims: [][]int64{nil, nil, nil, {2, 56}}, Types: []string{"TensorList", "Scalar", "Scalar", "float"}}, "chunk_cat_cuda_kernel<char, char>", 112 * 4},
	} {
		if got := concatenated(&c.op, c.kernel); got != c.want || !concatenates(&c.op) {
			t.Errorf("%s by %s: %.0f bytes, want %.0f", c.op.Name, c.kernel, got, c.want)
		}
	}
	if concatenates(&trace.Operator{Name: "aten::split_with_sizes_copy", Lists: list}) {
		t.Error("its list is the output")
	}
}

func TestCopyTraffic(t *testing.T) {
	for dir, want := range map[trace.CopyDir]string{
		trace.HostToDevice: "0 8", trace.DeviceToHost: "8 0", trace.DeviceToDevice: "8 8",
		trace.PeerToPeer: "8 0", trace.Fill: "0 8", trace.UnknownDir: "0 0",
	} {
		r, w := copyTraffic(&trace.CopyAttr{Bytes: 8, Dir: dir})
		if got := fmt.Sprint(r, w); got != want {
			t.Errorf("%s: got %s, want %s", dir, got, want)
		}
	}
}

// Older traces number operators and launches apart; then only nesting joins them.

// FlashInfer's norms show the rows and columns that they read by their grids.
func TestNormElements(t *testing.T) {
	for _, c := range []struct {
		name         string
		wgs, threads int
		want         int64
	}{
		{"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", 1021, 896, 1021 * 7168},
		{"void flashinfer::norm::RMSNormKernel<4u, float>(float*)", 2, 128, 2 * 512},
		{"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", 4, 1024, 0}, // threads take turns
		{"void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)", 4, 512, 0},
	} {
		op := workload.Op{Kernel: &workload.Kernel{Name: c.name}}
		op.Tiling.WGs, op.Footprint.Threads = c.wgs, c.threads
		if got := normElements(&op); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if elementSize("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(x)") != 2 || elementSize("void vllm::cross_device_reduce_2stage<float, 4>(x)") != 4 || elementSize("void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, 2>(c10::BFloat16**)") != 2 || elementSize("void reduce<float, c10::BFloat16, 4>(x)") != 4 {
		t.Error("sizes of elements")
	}
}
