package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

var hopper = trace.Device{
	Name: "H200", CUs: 132, WaveSize: 32, ThreadsPerCU: 2048, RegistersPerCU: 65536,
	SharedPerCU: 233472, SharedPerWG: 232448, ComputeMajor: 9,
}

func TestNameTile(t *testing.T) {
	for name, want := range map[string]string{
		"nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT":                                                     "320x128 by 1x2 transposed",
		"nvjet_sm100_qqtst_128x256_128x6_2x4_2cta_v_bz_TNT":                                                  "128x256 by 2x4 transposed",
		"sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize192x128x32_stage4_warpsize4x2x1_tensor16x8x16_kernel": "192x128",
		"ampere_fp16_s16816gemm_fp16_64x128_sliced1x2_ldg8_f2f_stages_64x3_nn":                               "64x128",
		"void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x128_32x5_tn_align8>(Params)":  "128x128",
		"cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16_128x256x64_2x1x1_0_tnn_align8_warp":  "128x256 by 2x1",
		"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN":                             "256x192 transposed",
		"void at::native::vectorized_elementwise_kernel<4, at::native::add_128x64_>(int)":                    "",
		"gemm_k":               "",
		"gemm_0x128_":          "",
		"gemm_128x999999999_k": "",
		"gemm_axb_12x_x12":     "",
		"":                     "",
	} {
		got := ""
		if tile, ok := nameTile(name); ok {
			got = fmt.Sprintf("%dx%d", tile.first, tile.second)
			if tile.along1st > 0 {
				got += fmt.Sprintf(" by %dx%d", tile.along1st, tile.along2nd)
			}
			if tile.transposed {
				got += " transposed"
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Tensile's SK0 and GSU1 are names of kernels of which each workgroup computes a tile of its own.
func TestSharesTiles(t *testing.T) {
	for name, want := range map[string]bool{
		"Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT1x4x256_SN_GSUAMB_GLS0_ISA950_SK0_SKFTR0_SKXCCM0_TT1_1": false,
		"Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x16x64_MI16x16x1_GSU0_GSUAMB_SK3_SKFTR0_SKXCCM0_WS64": true,
		"Cijk_Ailk_Bjlk_BBS_BH_MT128x128x64_GSU1_SK0_WS64":                                                      false,
		"Cijk_Ailk_Bjlk_BBS_BH_MT128x128x64_GSU16_SK0_WS64":                                                     true,
		"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_NNT":                                                         true,
		"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT":                                                        false,
	} {
		if got := sharesTiles.MatchString(strings.ToLower(name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestResidents(t *testing.T) {
	kernel := func(threads, regs, shared int32) trace.Setup {
		return trace.Setup{Block: [3]int32{threads, 1, 1}, Registers: regs, Shared: shared}
	}
	mi300 := trace.Device{CUs: 304, WaveSize: 64, ThreadsPerCU: 2048, SharedPerCU: 65536}
	for _, c := range []struct {
		device trace.Device
		k      trace.Setup
		want   int
	}{
		{hopper, kernel(384, 168, 213188), 132}, // shared memory: one a CU
		{hopper, kernel(256, 64, 0), 132 * 4},   // registers
		{hopper, kernel(1024, 0, 0), 132 * 2},   // threads
		{hopper, kernel(32, 16, 0), 132 * 32},   // workgroups
		{hopper, kernel(128, 0, 116224), 132},   // two but for the driver's kilobyte each
		{hopper, kernel(1024, 255, 0), 132},     // at least one: it did run
		{mi300, kernel(256, 0, 32768), 304 * 2}, // AMD reserves none
		{mi300, kernel(65, 0, 0), 304 * 16},     // whole waves
		{trace.Device{}, kernel(256, 32, 0), 0}, // unknown
		{hopper, trace.Setup{}, 0},
	} {
		if got := residents(&c.device, c.k, int(c.k.Registers)); got != c.want {
			t.Errorf("%+v on %s: %d, want %d", c.k, c.device.Name, got, c.want)
		}
	}
}
