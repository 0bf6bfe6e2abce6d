package lift

import (
	"fmt"
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

func TestShapeOf(t *testing.T) {
	bf16 := []string{"c10::BFloat16", "c10::BFloat16", "c10::BFloat16"}
	for _, c := range []struct {
		op    string
		dims  [][]int64
		types []string
		want  string
		batch int64
	}{
		{"aten::mm", [][]int64{{8192, 3584}, {3584, 4096}, {8192, 4096}}, bf16, "gemm 8192x4096x3584 bf16", 1},
		{"aten::addmm", [][]int64{{512}, {1024, 256}, {256, 512}}, []string{"float", "float", "float"}, "gemm 1024x512x256 f32", 1},
		{"aten::linear", [][]int64{{1, 8192, 512}, {6144, 512}, nil}, bf16, "gemm 8192x6144x512 bf16", 1},
		{"jit(step)/jvp(GPT)/layer0/attn/dot_general", [][]int64{{2, 64, 32}, {2, 32, 128}}, []string{"bfloat16", "bfloat16"}, "gemm 128x128x32 bf16", 2},
		{"aten::matmul", [][]int64{{4, 64, 32}, {32, 16}}, bf16, "gemm 256x16x32 bf16", 1},
		{"aten::bmm", [][]int64{{32, 2048, 64}, {32, 64, 2048}}, []string{"c10::Half", "c10::Half"}, "gemm 65536x2048x64 f16", 32},
		{"aten::baddbmm", [][]int64{{1}, {4, 16, 8}, {4, 8, 32}}, bf16, "gemm 64x32x8 bf16", 4},
		{"aten::matmul", [][]int64{{16, 8}, {4, 8, 32}}, bf16, "gemm 64x32x8 bf16", 4}, // a batch on one side
		{"aten::mm", [][]int64{{8192, 2048}, {2048, 1}}, bf16, "gemv 8192x1x2048 bf16", 1},
		{"aten::mm", [][]int64{{8, 2048}, {2048, 4096}}, bf16, "gemv 8x4096x2048 bf16", 1},
		{"aten::mm", [][]int64{{9, 2048}, {2048, 4096}}, bf16, "gemm 9x4096x2048 bf16", 1},
		{"aten::mv", [][]int64{{512, 256}, {256}}, bf16, "gemv 512x1x256 bf16", 1},
		{"aten::_scaled_mm", [][]int64{{64, 32}, {32, 16}}, []string{"c10::Float8_e4m3fn", "c10::Float8_e4m3fn"}, "gemm 64x16x32 f8", 1},
		{"aten::_embedding_bag", [][]int64{{100000, 256}, {286720}, {4096}}, []string{"float", "long int", "long int"}, "embedding 4096x256x70 f32", 1},
		{"aten::embedding", [][]int64{{50000, 64}, {2, 128}}, []string{"c10::Half", "long int"}, "embedding 256x64x1 f16", 1},
		// What cannot be a GEMM is none.
		{"aten::mm", [][]int64{{8, 4}, {5, 8}}, bf16, "", 1},
		{"aten::mm", [][]int64{{8, 4}}, bf16, "", 1},
		{"aten::mm", [][]int64{nil, {4, 8}}, bf16, "", 1},
		{"aten::mm", [][]int64{{0, 4}, {4, 8}}, bf16, "", 1},
		{"aten::mm", [][]int64{{-8, 4}, {4, 8}}, bf16, "", 1},
		{"aten::mm", [][]int64{{math.MaxInt64, 4}, {4, 8}}, bf16, "", 1},
		{"aten::_embedding_bag", [][]int64{{100, 4}, {}, {3}}, nil, "", 1},
		{"aten::embedding_dense_backward", [][]int64{{100, 4}, {7}}, nil, "", 1},
		{"aten::add", [][]int64{{8, 4}, {8, 4}}, bf16, "", 1},
	} {
		s, batch := shapeOf(&trace.Operator{Name: c.op, Dims: c.dims, Types: c.types})
		if s.String() != c.want || batch != c.batch {
			t.Errorf("%s%v: got %q, batch %d, want %q, %d", c.op, c.dims, s, batch, c.want, c.batch)
		}
	}
}

func TestElementwise(t *testing.T) {
	f32, bf16 := "float", "c10::BFloat16"
	for _, c := range []struct {
		op          string
		dims        [][]int64
		types       []string
		want        string
		read, write float64
	}{
		{"aten::add", [][]int64{{2, 8}, {2, 8}, nil}, []string{bf16, bf16, "Scalar"}, "elementwise 2x8 bf16", 64, 32},
		{"aten::mul", [][]int64{{4, 2, 8}, {8}}, []string{f32, f32}, "elementwise 8x8 f32", 4 * 72, 4 * 64},
		{"aten::copy_", [][]int64{{4, 8}, {4, 8}}, []string{f32, bf16}, "elementwise 4x8 f32", 2 * 32, 4 * 32},
		{"aten::fill_", [][]int64{{4, 8}}, []string{f32}, "elementwise 4x8 f32", 0, 128},
		{"aten::arange", [][]int64{nil, {0}}, []string{"Scalar", f32}, "", 0, 0},
	} {
		s, r, w := elementwise(&trace.Operator{Name: c.op, Dims: c.dims, Types: c.types})
		if s.String() != c.want || r != c.read || w != c.write {
			t.Errorf("%s%v: got %q, reads %g, writes %g, want %q, %g, %g", c.op, c.dims, s, r, w, c.want, c.read, c.write)
		}
	}
}

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
