package engines

import (
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A captured product keeps its clusters where its grid is one that they fill and
// the machine's groups hold at once; its chunks have those of their own tile.
func TestClustersOfProducts(t *testing.T) {
	plan := func(m machine.Machine) *planner {
		var b trace.Builder
		b.Add(trace.Span{End: 1, Kind: trace.Compute, Parent: trace.None, Attr: trace.None, Lane: b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{})})})
		return &planner{m: m, w: &workload.Workload{Run: b.Finish(trace.Options{})}}
	}
	product := func(m, n, k int64, t workload.Tiling) *workload.Op {
		return &workload.Op{
			End: 300_000,
			Kernel: &workload.Kernel{
				Shape: workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k, ElemSize: 2}, Tiling: t,
				Footprint: replay.Footprint{Threads: 384, Registers: 168, Shared: 213188},
			},
		}
	}
	persistent := func(tiles, wgs, cluster int) workload.Tiling {
		return workload.Tiling{TileM: 128, TileN: 256, Tiles: tiles, WGs: wgs, Cluster: cluster, Persistent: true}
	}
	known, unknown := h200(t, 1), profile(t, "h100")
	for _, c := range []struct {
		name         string
		m            machine.Machine
		op           *workload.Op
		chunks       int
		cluster, wgs int
	}{
		{"as captured", known, product(8192, 4096, 3584, persistent(1024, 132, 2)), 1, 2, 132},
		{"a chunk of two waves, 256x128", known, product(8192, 4096, 3584, persistent(1024, 132, 2)), 4, 2, 132},
		// 160x128 in clusters of 2 by 4: 28 by 4 tiles (MODEL_STUDY, trace gemm_chunks: grid 8x14).
		{"a chunk of another tile", known, product(8192, 4256, 4256, persistent(960, 132, 2)), 16, 8, 112},
		// 288x128 in clusters of 4: 30 of them, all that the groups hold.
		{"a chunk of large clusters", known, product(8192, 4256, 4256, persistent(960, 132, 2)), 8, 4, 120},
		{"more than groups hold at once", known, product(8192, 4096, 3584, persistent(1024, 132, 4)), 1, 0, 132},
		{"no whole clusters", known, product(8192, 4096, 3584, persistent(1024, 132, 8)), 1, 0, 132},
		{"groups are not known: as many as were captured", unknown, product(8192, 4096, 3584, persistent(1024, 132, 2)), 4, 2, 132},
	} {
		k := plan(c.m).chunkOf(c.op, 0, c.chunks)
		if k.Cluster != c.cluster || k.WGs != c.wgs {
			t.Errorf("%s: %d workgroups in clusters of %d, want %d of %d", c.name, k.WGs, k.Cluster, c.wgs, c.cluster)
		}
		if k.Cluster > 1 && k.WGs%k.Cluster != 0 {
			t.Errorf("%s: no whole clusters", c.name)
		}
	}
}

// The library starts its channels in fours where four divides them.
func TestClustersOfChannels(t *testing.T) {
	m := h200(t, 4)
	for channels, want := range map[int]int{1: 0, 2: 0, 4: 4, 6: 0, 8: 4, 24: 4, 32: 4} {
		if got := m.Library.Clusters(channels); got != want {
			t.Errorf("%d channels: clusters of %d, want %d", channels, got, want)
		}
	}
	if v100 := profile(t, "v100"); v100.Library.Clusters(8) != 0 {
		t.Error("no clusters before compute capability 9.0")
	}
}

// On a machine none of whose groups holds a cluster, kernels that were captured
// in clusters start workgroup by workgroup.
func TestNoGroupHoldsACluster(t *testing.T) {
	m := h200(t, 4)
	m.GPU.Groups.Rows = [][]float64{{1, 132}}
	if n := m.Cluster(m.Tiling(8192, 4096, 3584)); n != 1 {
		t.Errorf("the library's product starts in clusters of %d", n)
	}
	w := moeDown.build(t)
	for i := range w.Ops {
		if w.Ops[i].Shape.M > 0 {
			w.Ops[i].Tiling.Cluster = 2
		}
	}
	plain := moeDown.build(t)
	for i := range plain.Ops {
		if plain.Ops[i].Shape.M > 0 {
			plain.Ops[i].Tiling = workload.Tiling{TileM: 256, TileN: 128, Tiles: 1024, WGs: 1024, Cluster: 4}
		}
	}
	for name, w := range map[string]*workload.Workload{"persistent": w, "plain": plain} {
		for _, engine := range []string{"bulk", "decompose", "multistream", "fused"} {
			if out := outcome(t, w, m, engine, nil); out.Result == nil {
				t.Errorf("%s kernels, %s: %s", name, engine, out.Why)
			}
		}
	}
}
