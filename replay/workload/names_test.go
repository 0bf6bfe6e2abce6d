package workload

import "testing"

func TestClassOf(t *testing.T) {
	for name, want := range map[string]Class{
		"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT":                             ClassMatrix,
		"void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)":                ClassLight,
		"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16":                ClassDense,
		"void at::native::vectorized_elementwise_kernel<8, add>(int)":                ClassSweep,
		"void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel":    ClassLookup,
		"void split_embedding_codegen_forward_unweighted_kernel<fbgemm_gpu::x>(...)": ClassLookup,
		"void split_embedding_backward_codegen_rowwise_kernel(...)":                  classOther,
		"Memcpy DtoD (Device -> Device)":                                             ClassSweep,
		"sync_k":                                                                     ClassUnknown,
	} {
		if got := ClassOf(name); got != want {
			t.Errorf("%s: class %d, want %d", name, got, want)
		}
	}
}
