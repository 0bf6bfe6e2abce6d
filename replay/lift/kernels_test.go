package lift

import (
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

// What the user says of a kernel goes before what its name and grid say.
func TestGivenTiling(t *testing.T) {
	tiled := func(name string, tiling workload.Tiling) map[string]workload.Tiling {
		return map[string]workload.Tiling{name: tiling, "emb_k": {Tiles: 7}}
	}
	product := map[string]workload.Shape{"gemm_k": {M: 8192, N: 4096, K: 3584, ElemSize: 2}}
	for _, c := range []struct {
		name string
		k    part
		o    Options
		want string
	}{
		{"a tile", part{name: "gemm_k", grid: 132, block: 256, lds: 147456}, Options{Shapes: product, Tiles: tiled("gemm_k", workload.Tiling{TileM: 128, TileN: 256})}, "132 workgroups, 1024 tiles of 128x256 persistent (given)"},
		{"tiles for one grid", part{name: "emb_k", grid: 1056, block: 64, regs: 38, lds: 1024}, Options{Tiles: tiled("emb_k@1056", workload.Tiling{Tiles: 65536})}, "1056 workgroups, 65536 tiles of 0x0 persistent (given)"},
		{"by the part of the name that people say", part{name: "void at::emb_k<float>(int)", grid: 1056, block: 64}, Options{Tiles: tiled("at::emb_k", workload.Tiling{Tiles: 65536, Dynamic: true})}, "1056 workgroups, 65536 tiles of 0x0 persistent dynamic (given)"},
	} {
		w := lift(t, drawing{text: `0 7 | ABBB |`, device: h200, parts: map[byte]part{'B': c.k}}, c.o)
		if got := asks["tiling"](w); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
		}
	}
}
