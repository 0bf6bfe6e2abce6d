package trace

import (
	"strings"
	"testing"
)

// The names are of kernels that public captures of serving on MI300X and MI325X have.
const (
	scaled   = "_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_42GridwiseGemmMultiD_ABScale_xdl_cshuffle_v3INS_13tensor_layout4gemm8RowMajorENS3_11ColumnMajorENS_5TupleIJEEES4_DB8_S8_ffS7_tNS_16tensor_operation12element_wise11PassThroughESB_SB_LNS9_6device18GemmSpecializationE7ELi256ELi1ELi128ELi128ELi16ELi128ELi256ELi16ELi16ELi16ELi16ELi1ELi2ENS_8SequenceIJLi16ELi16ELi1EEEEEELb1EEEvv.kd"
	plainCK  = "ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor, (ck::tensor_operation::device::GemmSpecialization)0, 256, 224, 256, 64, 8, 8, 16, 16, 7, 8, ck::Sequence<8, 32, 1> >, true>"
	prefetch = "void ck::kernel_gemm_xdl_cshuffle_v1<ck::GridwiseGemm_k0mk1_k0nk1_mn_xdl_cshuffle_v1<float, 1, 256, 128, 128, 32, 8, 8, 32, 32, 2, 2, ck::Sequence<4, 64, 1> > >(float*)"
	tiled    = "void ck_tile::kentry<1, ck_tile::BatchedGemmKernel<ck_tile::GemmSpatiallyLocalTilePartitioner<ck_tile::TileGemmShape<ck_tile::sequence<256, 128, 64>, ck_tile::sequence<2, 2, 1>, ck_tile::sequence<32, 32, 16>, false, false>, 8, 4> > >"
)

func TestDemangle(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{scaled, "ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemmMultiD_ABScale_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor, "},
		{"_ZN5aiter37dynamic_per_group_scaled_quant_kernelIDF16bDB8_Li32EEEvPT0_PfPKT_PKfiliibPKii", "aiter::dynamic_per_group_scaled_quant_kernel<std::bfloat16_t, _BitInt(8), 32>"},
		{"_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i", "sgl_hip::activation::act_and_mul_kernel<__hip_bfloat16, &(silu<__hip_bfloat16>)>"},
		{"Cijk_Ailk_Bljk_BBS_BH_MT256x128x64", "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64"},
		{"_Z", "_Z"},
		{"_Zwhatever", "_Zwhatever"},
		{"_ZN" + strings.Repeat("1aI", 10000), "_ZN1aI1aI"},
	} {
		if got := Demangle(c.name); !strings.HasPrefix(got, c.want) {
			t.Errorf("%.40s: %.200s, want %s", c.name, got, c.want)
		}
	}
}

func TestTile(t *testing.T) {
	for _, c := range []struct {
		name    string
		m, n, k int
	}{
		{Demangle(scaled), 16, 128, 256},
		{plainCK, 224, 256, 64},
		{prefetch, 128, 128, 32},
		{tiled, 256, 128, 64},
		{strings.ReplaceAll(plainCK, "16, 16, 7, 8", "16, 16, 7, 7"), 0, 0, 0}, // waves do not cover it
		{strings.ReplaceAll(tiled, "256, 128", "0, 128"), 0, 0, 0},
		{strings.ReplaceAll(plainCK, "256, 224", "256, 99999999999999999999"), 0, 0, 0},
		{strings.ReplaceAll(plainCK, "ck", "dk"), 0, 0, 0},
		{"ck::kernel<" + strings.Repeat("0, ", 100) + "0>", 0, 0, 0},
	} {
		m, n, k, ok := Tile(c.name)
		if m != c.m || n != c.n || ok != (c.m > 0) {
			t.Errorf("%.80s: %d×%d×%d, %v; want %d×%d×%d", c.name, m, n, k, ok, c.m, c.n, c.k)
		}
	}
}

func TestShort(t *testing.T) {
	for name, want := range map[string]string{
		"void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::FmhaFwdTilePartitioner<int>, 4> >(int)": "FmhaFwdKernel",
		`"__amd_rocclr_fillBufferAligned.kd"`: "__amd_rocclr_fillBufferAligned.kd",
	} {
		if got := Short(name); got != want {
			t.Errorf("Short(%q) = %q, want %q", name, got, want)
		}
	}
}
