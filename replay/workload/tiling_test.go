package workload

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

var h200 = trace.Device{
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

func TestClassOf(t *testing.T) {
	for name, want := range map[string]class{
		"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT":                             matrix,
		"void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)":                light,
		"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16":                dense,
		"void at::native::vectorized_elementwise_kernel<8, add>(int)":                sweep,
		"void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel":    lookup,
		"void split_embedding_codegen_forward_unweighted_kernel<fbgemm_gpu::x>(...)": lookup,
		"void split_embedding_backward_codegen_rowwise_kernel(...)":                  other,
		"Memcpy DtoD (Device -> Device)":                                             sweep,
		"sync_k":                                                                     unknown,
	} {
		if got := classOf(name); got != want {
			t.Errorf("%s: class %d, want %d", name, got, want)
		}
	}
}

func TestResidents(t *testing.T) {
	kernel := func(threads, regs, shared int32) *trace.Kernel {
		return &trace.Kernel{Block: [3]int32{threads, 1, 1}, Registers: regs, Shared: shared}
	}
	mi300 := trace.Device{CUs: 304, WaveSize: 64, ThreadsPerCU: 2048, SharedPerCU: 65536}
	for _, c := range []struct {
		device trace.Device
		k      *trace.Kernel
		want   int
	}{
		{h200, kernel(384, 168, 213188), 132},   // shared memory: one a CU
		{h200, kernel(256, 64, 0), 132 * 4},     // registers
		{h200, kernel(1024, 0, 0), 132 * 2},     // threads
		{h200, kernel(32, 16, 0), 132 * 32},     // workgroups
		{h200, kernel(128, 0, 116224), 132},     // two but for the driver's kilobyte each
		{h200, kernel(1024, 255, 0), 132},       // at least one: it did run
		{mi300, kernel(256, 0, 32768), 304 * 2}, // AMD reserves none
		{mi300, kernel(65, 0, 0), 304 * 16},     // whole waves
		{trace.Device{}, kernel(256, 32, 0), 0}, // unknown
		{h200, &trace.Kernel{}, 0}, {h200, nil, 0},
	} {
		if got := residents(&c.device, c.k, registersOf(c.k)); got != c.want {
			t.Errorf("%+v on %s: %d, want %d", c.k, c.device.Name, got, c.want)
		}
	}
}

func TestTiling(t *testing.T) {
	gemmOf := func(m, n, k int64) *trace.Operator {
		return &trace.Operator{Name: "aten::mm", Dims: [][]int64{{m, k}, {k, n}}, Types: []string{"c10::BFloat16", "c10::BFloat16"}}
	}
	nvjet := func(name string, op *trace.Operator, wgs int32) part {
		return part{name: name, op: op, grid: wgs, block: 384, regs: 168, lds: 213188}
	}
	for _, c := range []struct {
		name  string
		k     part
		reset bool // a fill of the same operator before it
		o     Options
		want  string
	}{
		{
			// 16 columns of 256 by 64 rows of 128: the library sees the transpose (rule G8).
			"persistent, a counter reset before it", nvjet("nvjet_sm90_tst_256x128_64x4_h", gemmOf(8192, 4096, 3584), 132), true,
			Options{},
			"132 workgroups, 1024 tiles of 128x256 persistent dynamic",
		},
		{
			"persistent, static", nvjet("nvjet_sm90_tst_256x128_64x4_h", gemmOf(8192, 4096, 3584), 132), false,
			Options{},
			"132 workgroups, 1024 tiles of 128x256 persistent",
		},
		{
			"two waves are always static (rule G7)", nvjet("nvjet_sm90_tst_256x128_64x4_h", gemmOf(2048, 4096, 3584), 132), true,
			Options{},
			"132 workgroups, 256 tiles of 128x256 persistent",
		},
		{
			"the transpose counts: 27 by 32, not 52 by 17", nvjet("nvjet_sm90_tst_160x256_64x3_v", gemmOf(8192, 4256, 4256), 132), true,
			Options{},
			"132 workgroups, 864 tiles of 256x160 persistent dynamic",
		},
		{
			"a matrix times a vector is not transposed: the grid tells", nvjet("nvjet_sm90_tst_64x8_64x16_v", gemmOf(8192, 1, 2048), 128), false,
			Options{},
			"128 workgroups, 128 tiles of 64x8",
		},
		{
			// 11 by 22.2 tiles of 192, 23 in clusters of two are 24 (rule G6), as seen one by one on an H200.
			"clusters at the edge are whole", nvjet("nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NNN", gemmOf(2048, 4256, 4256), 132), false,
			Options{},
			"132 workgroups in clusters of 2, 264 tiles of 192x192 persistent",
		},
		{
			"no cluster where the grid is none of whole ones", nvjet("nvjet_sm90_tst_256x128_64x4_1x2_h", gemmOf(8192, 4096, 3584), 131), false,
			Options{},
			"131 workgroups, 1024 tiles of 128x256 persistent",
		},
		{
			// 2 by 24 tiles of two parts; turned, 96 whole tiles would fit as well.
			"a workload file states which way a tile lies",
			part{name: "gemm_tile_64x256", op: gemmOf(128, 6144, 12288), grid: 96, block: 256, lds: 40960},
			false,
			Options{},
			"96 workgroups, 96 tiles of 64x256",
		},
		{
			"plain, padded",
			part{name: "sm80_xmma_gemm_tilesize192x128x32_s", op: gemmOf(8192, 1536, 4096), grid: 516, block: 256, lds: 81920},
			false,
			Options{},
			"516 workgroups, 516 tiles of 192x128",
		},
		{
			"more tiles than the grid, which does not fit at once: the name means something else",
			part{name: "sgemm_32x32_x", op: gemmOf(8192, 8192, 64), grid: 8192, block: 256},
			false,
			Options{},
			"8192 workgroups, 8192 tiles of 0x0",
		},
		{
			"no operator: the grid",
			part{name: "nvjet_sm90_tst_256x128_64x4_h", grid: 132, block: 384},
			false,
			Options{},
			"132 workgroups, 132 tiles of 128x256",
		},
		{
			"no grid",
			part{name: "Cijk_MT256x128x64_SN", op: gemmOf(8192, 4096, 3584)},
			false,
			Options{},
			"0 workgroups, 1024 tiles of 128x256",
		},
		{
			"a tile that the user gives",
			part{name: "gemm_k", grid: 132, block: 256, lds: 147456},
			false,
			Options{Shapes: map[string]Shape{"gemm_k": {M: 8192, N: 4096, K: 3584, ElemSize: 2}}, Tiles: map[string]Tiling{"gemm_k": {TileM: 128, TileN: 256}}},
			"132 workgroups, 1024 tiles of 128x256 persistent",
		},
		{
			"tiles that the user gives for one grid",
			part{name: "emb_k", grid: 1056, block: 64, regs: 38, lds: 1024},
			false,
			Options{Tiles: map[string]Tiling{"emb_k": {Tiles: 7}, "emb_k@1056": {Tiles: 65536}}},
			"1056 workgroups, 65536 tiles of 0x0 persistent",
		},
		{
			"by the part of the name that people say",
			part{name: "void at::emb_k<float>(int)", grid: 1056, block: 64},
			false,
			Options{Tiles: map[string]Tiling{"at::emb_k": {Tiles: 65536, Dynamic: true}}},
			"1056 workgroups, 65536 tiles of 0x0 persistent dynamic",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := drawing{text: `0 7 | ABBB |`, device: h200, parts: map[byte]part{'B': c.k, 'A': {name: "other"}}}
			if c.reset {
				d.parts['A'] = part{kind: trace.Copy, copy: trace.Fill, bytes: 4, op: c.k.op}
			}
			run := d.run(t)
			if c.reset { // one row, as readers give equal operators
				run.Kernels[0].Op = run.Copies[0].Op
			}
			w, err := Lift(run, c.o)
			if err != nil {
				t.Fatal(err)
			}
			checkInvariants(t, w)
			tl := w.Ops[1].Tiling
			got := fmt.Sprintf("%d workgroups", tl.WGs)
			if tl.Cluster > 0 {
				got += fmt.Sprintf(" in clusters of %d", tl.Cluster)
			}
			got += fmt.Sprintf(", %d tiles of %dx%d", tl.Tiles, tl.TileM, tl.TileN)
			if tl.Persistent {
				got += " persistent"
			}
			if tl.Dynamic {
				got += " dynamic"
			}
			if got != c.want || tl.Evidence == "" {
				t.Errorf("got %s (%s)\nwant %s", got, tl.Evidence, c.want)
			}
		})
	}
}

func registersOf(k *trace.Kernel) int {
	if k == nil {
		return 0
	}
	return int(k.Registers)
}
