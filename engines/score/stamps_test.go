package score

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Sorted times move to their peers in order; stretching moves all in proportion.
func TestMover(t *testing.T) {
	if d := mover([]float64{0, 0, 10, 10}, []float64{0, 4, 10, 12}); d != 1.5 {
		t.Errorf("%v, want (0+4+0+2)/4", d)
	}
	if d := mover([]float64{0, 5, 10}, sorted([]float64{20, 10, 0}, 0.5)); d != 0 {
		t.Errorf("%v, want 0", d)
	}
}

// Of 192 compiled tiles on 132 CUs, 60 CUs have two and 72 have one, which ends
// earlier: lone tiles reach the profile's matmul.lone of its matmul.compiled.
func TestLoneTilesEndEarlier(t *testing.T) {
	m := plantest.H200(t, 1)
	op := workload.Op{End: 144_000, Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM}, Tiling: workload.Tiling{Tiles: 192, WGs: 192}, Footprint: program.Footprint{Threads: 256, Shared: 96 << 10}}}
	pl := &plan.Planner{Machine: m}
	g := pl.GridOf(&op, op.Dur())
	share := m.Matmul.Lone.Value / m.Matmul.Compiled.Value
	if want := 144_000 / (2 * share); math.Abs(float64(g.Time)-want) > 1 || math.Abs(g.Pipe-share) > 1e-9 {
		t.Errorf("a tile takes %d ns alone and %.3f of the pipes, want %.0f and %.3f", g.Time, g.Pipe, want, share)
	}
	op.Tiling.WGs = 264 // two on every CU: none is alone, and none waits
	if g := pl.GridOf(&op, op.Dur()); math.Abs(float64(g.Time)*2*g.Pipe-144_000) > 2 {
		t.Errorf("two together take %.0f ns, want 144000", float64(g.Time)*2*g.Pipe)
	}
}
