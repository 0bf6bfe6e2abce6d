package plan_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The library starts its channels in fours where four divides them.
func TestClustersOfChannels(t *testing.T) {
	m := plantest.H200(t, 4)
	for channels, want := range map[int]int{1: 0, 2: 0, 4: 4, 6: 0, 8: 4, 24: 4, 32: 4} {
		if got := m.Library.Clusters(channels); got != want {
			t.Errorf("%d channels: clusters of %d, want %d", channels, got, want)
		}
	}
	if v100 := machinetest.Load(t, "v100"); v100.Library.Clusters(8) != 0 {
		t.Error("no clusters before compute capability 9.0")
	}
}

// On a machine none of whose groups holds a cluster, kernels that were captured
// in clusters start workgroup by workgroup.
func TestNoGroupHoldsACluster(t *testing.T) {
	m := plantest.H200(t, 4)
	m.GPU.Groups.Rows = [][]float64{{1, 132}}
	if n := m.Cluster(m.Tiling(8192, 4096, 3584)); n != 1 {
		t.Errorf("the library's GEMM starts in clusters of %d", n)
	}
	w := plantest.MoeDown.Build(t)
	for i := range w.Ops {
		if w.Ops[i].Shape.M > 0 {
			w.Ops[i].Tiling.Cluster = 2
		}
	}
	plain := plantest.MoeDown.Build(t)
	for i := range plain.Ops {
		if plain.Ops[i].Shape.M > 0 {
			plain.Ops[i].Tiling = workload.Tiling{TileM: 256, TileN: 128, Tiles: 1024, WGs: 1024, Cluster: 4}
		}
	}
	for name, w := range map[string]*workload.Workload{"persistent": w, "plain": plain} {
		for _, engine := range []string{"bulk", "decompose", "multistream", "fused"} {
			if out := enginetest.Outcome(t, w, m, engine, nil); out.Result == nil {
				t.Errorf("%s kernels, %s: %s", name, engine, out.Why)
			}
		}
	}
}

// A kernel of another library than NCCL takes all CUs at once: it does not start in NCCL's clusters, which groups
// of CUs leave some CUs out of.
func TestOwnKernelFillsTheDevice(t *testing.T) {
	m := plantest.H200(t, 2)
	times := map[bool]trace.Time{}
	for _, own := range []bool{false, true} {
		w := plantest.Step(t, 2, "7 A 100\n7 A2A0 100 A")
		for i := range w.Collectives {
			w.Collectives[i].Channels, w.Collectives[i].Own = 132, own
		}
		for _, span := range enginetest.Outcome(t, w, m, "bulk", nil).Result.Run.Spans {
			times[own] = max(times[own], span.End)
		}
	}
	if times[true] > 200_100 || times[false] < times[true]+10_000 {
		t.Errorf("a step whose all-to-all has 132 workgroups takes %d ns, and %d in clusters; want a second wave there", times[true], times[false])
	}
}

// An all-reduce of an engine's own in its captured schedule takes the captured time, with as many bytes as links carry in it.
func TestOwnAllReduceTakesItsTime(t *testing.T) {
	m := plantest.H200(t, 4)
	w := plantest.Step(t, 4, "7 A 100\n7 AR0 9 A\n7 B 100 AR0")
	for i := range w.Collectives {
		c := &w.Collectives[i]
		c.Op, c.Channels, c.Own = trace.AllReduce, 36, true
		c.Bytes = int64((9e-6 - m.Launch.Barrier.Value - 2*m.Fabric.Latency.Value) * m.LinkRate(4) / 3)
	}
	captured, bulk := enginetest.Outcome(t, w, m, "captured", nil), enginetest.Outcome(t, w, m, "bulk", nil)
	if bulk.Time > captured.Time+100 {
		t.Errorf("bulk takes %d ns, captured %d", bulk.Time, captured.Time)
	}
}
