package lift

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestOperatorByNesting(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{})
	host := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
	mm := b.AddOperator(trace.Operator{Name: "aten::mm", Dims: [][]int64{{64, 32}, {32, 16}}, Types: []string{"float", "float"}})
	outer := b.Add(trace.Span{Start: 0, End: 90, Name: b.Intern("aten::mm"), Lane: host, Parent: trace.None, Kind: trace.HostCall, Attr: b.AddCall(trace.Call{Op: mm})})
	inner := b.Add(trace.Span{Start: 1, End: 80, Name: b.Intern("mark"), Lane: host, Parent: outer, Attr: trace.None})
	b.Add(trace.Span{Start: 2, End: 3, Name: b.Intern("launch"), Lane: host, Parent: inner, Kind: trace.Launch, Attr: b.AddCall(trace.Call{Correlation: 9, Op: trace.None})})
	b.Add(trace.Span{
		Start: 10, End: 20, Name: b.Intern("sgemm"), Parent: trace.None, Kind: trace.Compute,
		Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None}),
		Attr: b.AddKernel(trace.Kernel{Correlation: 9, Op: trace.None, Comm: trace.None}),
	})
	w := must.Have(Workload(b.Finish(trace.Options{}), Options{}))(t)
	if got := w.Ops[0].Shape.String(); got != "gemm 64x16x32 f32" {
		t.Errorf("got %q", got)
	}
	if w.Ops[0].Issued != 2 {
		t.Errorf("issued at %d, want 2", w.Ops[0].Issued)
	}
}

func TestTilesWithoutSizes(t *testing.T) {
	const name = "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT512x144x32_MI16x16x1_SN"
	w := lift(t, drawing{text: `0 7 | GG |`, parts: map[byte]part{'G': {name: name, grid: 912}}}, Options{})
	g := w.Ops[0].Tiling
	if g.TileM != 144 || g.TileN != 512 || g.Tiles != 912 || g.WGs != 912 || w.Ops[0].Shape.Kind != workload.NoShape {
		t.Errorf("%+v", g)
	}
	if want := "grid; the name's 144×512, one a workgroup, makes an output of 67.2 million elements"; g.Evidence != want {
		t.Errorf("%s", g.Evidence)
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
			"an output that no memory holds", nvjet("nvjet_sm90_tst_256x128_64x4_h", gemmOf(1<<40, 1<<12, 16), 132), false,
			Options{},
			"132 workgroups, 132 tiles of 0x0",
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
			Options{Shapes: map[string]workload.Shape{"gemm_k": {M: 8192, N: 4096, K: 3584, ElemSize: 2}}, Tiles: map[string]workload.Tiling{"gemm_k": {TileM: 128, TileN: 256}}},
			"132 workgroups, 1024 tiles of 128x256 persistent",
		},
		{
			"tiles that the user gives for one grid",
			part{name: "emb_k", grid: 1056, block: 64, regs: 38, lds: 1024},
			false,
			Options{Tiles: map[string]workload.Tiling{"emb_k": {Tiles: 7}, "emb_k@1056": {Tiles: 65536}}},
			"1056 workgroups, 65536 tiles of 0x0 persistent",
		},
		{
			"by the part of the name that people say",
			part{name: "void at::emb_k<float>(int)", grid: 1056, block: 64},
			false,
			Options{Tiles: map[string]workload.Tiling{"at::emb_k": {Tiles: 65536, Dynamic: true}}},
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
			w := must.Have(Workload(run, c.o))(t)
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
