package lift

import "testing"

func TestTensileRegisters(t *testing.T) {
	const args = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_"
	for name, want := range map[string]int{
		args + "MT512x144x32_MI16x16x1_SN_LDSB0_ISA942_MIWT8_9_WS64_WG64_4_1.kd": 512, // 288 accumulators: more than half of all registers
		args + "MT256x256x64_MI16x16x1_SN_ISA950_MIAV0_WS64_WG32_8_1":            488,
		args + "MT128x64x128_MI32x32x1_SN_ISA950_MIAV1_WS64_WG128_2_1":           128,
		args + "MT16x16x64_MI16x16x1_SN_WS64_WG16_4_1":                           48,
		args + "MT256x256x64_MI16x16x1_SN":                                       0, // no workgroup
		"Cijk_SB_GG_PostGSU2_VW2":                                                0,
		"gemm_MT256x256x64_WG16_16_1":                                            0,
		args + "MT256x0x64_WG16_16_1":                                            0,
		args + "MT99999x256x64_WG16_16_1":                                        0,
		args + "MT8x8x64_WG256_4_1":                                              0, // less than one accumulator
	} {
		if got := tensileRegisters(name); got != want {
			t.Errorf("%s: %d registers, want %d", name, got, want)
		}
	}
}
