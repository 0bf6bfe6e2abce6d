package validate

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/enginetest"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A loop unrolled from few captured iterations is the loop captured at length.
func TestUnroll(t *testing.T) {
	few, many := plantest.MoeDown, plantest.MoeDown
	few.Steps, many.Steps = 3, 9
	m := plantest.H200(t, few.Ranks)
	w := unroll(few.Build(t), many.Steps)
	if _, n := workload.IterationsOf(w); n != many.Steps {
		t.Fatalf("%d iterations, want %d", n, many.Steps)
	}
	for _, e := range []string{"captured", "bulk", "multistream", "decompose"} {
		got, want := enginetest.Outcome(t, w, m, e, nil), enginetest.Outcome(t, many.Build(t), m, e, nil)
		if got.Time != want.Time {
			t.Errorf("%s: %d ns an iteration, captured at length %d", e, got.Time, want.Time)
		}
	}
	if r := compare.ResidualOf(w, enginetest.Outcome(t, w, m, "captured", nil).Result.Run); r.Ops != len(w.Ops) || r.Worst > 1 {
		t.Errorf("residual %+v of %d ops", r, len(w.Ops))
	}
	same := few.Build(t)
	if unroll(same, 2) != same {
		t.Error("a workload with enough iterations was rebuilt")
	}
}

// TestUnrollFlow: dependencies of data are repeated like those of streams.
func TestUnrollFlow(t *testing.T) {
	few := plantest.MoeDown
	few.Steps = 3
	w := few.Build(t)
	w.Flow = make([][]workload.Edge, len(w.Ops))
	for i := range w.Ops {
		for _, d := range w.Ops[i].After {
			w.Flow[i] = append(w.Flow[i], workload.Edge{Op: d.Op, Kind: workload.ReadAfterWrite})
		}
	}
	w = unroll(w, 6)
	for i := range w.Ops {
		var want []workload.Edge
		for _, d := range w.Ops[i].After {
			want = append(want, workload.Edge{Op: d.Op, Kind: workload.ReadAfterWrite})
		}
		if !slices.Equal(w.Flow[i], want) {
			t.Errorf("op %d: %v, want %v", i, w.Flow[i], want)
		}
	}
}

// Ranks keep the distances of the last captured iteration, whatever their own distances from the one before.
func TestUnrollKeepsRanksTogether(t *testing.T) {
	few := plantest.MoeDown
	few.Steps = 3
	w := few.Build(t)
	of, _ := workload.IterationsOf(w)
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Rank == 1 && of[i] == 2 {
			op.Start, op.End = op.Start+1_000, op.End+1_000
		}
	}
	w = unroll(w, 6)
	of, n := workload.IterationsOf(w)
	starts := [2][]trace.Time{make([]trace.Time, n), make([]trace.Time, n)}
	for rank := range starts {
		for _, id := range slices.Backward(w.Ranks[rank]) {
			starts[rank][of[id]] = w.Ops[id].Start
		}
	}
	for i := 2; i < n; i++ {
		if got, want := starts[1][i]-starts[0][i], starts[1][2]-starts[0][2]; got != want {
			t.Errorf("iteration %d: rank 1 starts %d ns behind rank 0, want %d", i, got, want)
		}
	}
}
