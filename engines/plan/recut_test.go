package plan

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A quarter of a lookup takes more than a quarter of its time, and four quarters together
// take less than four times one: medians of EmbeddingBag over 32768 and 8192 bags of 80
// vectors in samples/measurements/2026-11-22-h200x2-steps, dlrm_d256_b32768. Its grid is
// the same.
func TestShareTime(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	bag := func(rows int64, dur trace.Time) *workload.Op {
		return &workload.Op{End: dur, Kind: trace.Compute, Kernel: &workload.Kernel{
			Name:   "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<c10::BFloat16>",
			Shape:  workload.Shape{Kind: workload.Embedding, M: rows, N: 256, K: 80, ElemSize: 2},
			Tiling: workload.Tiling{WGs: 1024, Tiles: 1024}, Footprint: program.Footprint{Threads: 256, Registers: 40},
		}}
	}
	const whole, quarter = 1_136_700, 289_900
	part := pl.partOf([]*workload.Op{bag(32768, whole)}, 1, 4)
	if off := math.Abs(float64(part.Alone)/quarter - 1); off > 0.01 || part.Shape.M != 8192 || part.Tiling.WGs != 1024 {
		t.Errorf("a quarter: %d ns for %d bags on %d workgroups, measured %d", part.Alone, part.Shape.M, part.Tiling.WGs, quarter)
	}
	q := bag(8192, quarter)
	merged := pl.partOf([]*workload.Op{q, q, q, q}, 0, 1)
	if off := math.Abs(float64(merged.Alone)/whole - 1); off > 0.01 || merged.Shape.M != 32768 {
		t.Errorf("four quarters: %d ns for %d bags, measured %d", merged.Alone, merged.Shape.M, whole)
	}
	tiny := &workload.Op{End: 1000, Kind: trace.Compute, Kernel: &workload.Kernel{Name: "fill", Tiling: workload.Tiling{WGs: 512}}}
	if got := pl.partOf([]*workload.Op{tiny}, 0, 8); got.Alone != 1000 || got.Tiling.WGs != 64 {
		t.Errorf("an eighth of a kernel of 1 us: %d ns on %d workgroups, want 1000 on 64", got.Alone, got.Tiling.WGs)
	}
}

// A lookup that waits for single reads leaves a collective alone; one that saturates the
// memory, and copies, do not.
func TestDisturbs(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	for _, c := range []struct {
		kind  workload.ShapeKind
		bytes float64 // in a millisecond, of 4.1 GB
		want  bool
	}{{workload.Embedding, 1.2e9, false}, {workload.Embedding, 3.5e9, true}, {workload.Elementwise, 1.2e9, true}, {workload.GEMM, 0.1e9, true}} {
		op := &workload.Op{End: 1_000_000, Read: c.bytes, Kernel: &workload.Kernel{Shape: workload.Shape{Kind: c.kind}}}
		if got := pl.disturbs(op); got != c.want {
			t.Errorf("%s of %.1f GB: %v", c.kind, c.bytes/1e9, got)
		}
	}
}
