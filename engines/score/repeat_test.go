package score

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A loop repeated from few captured iterations is the loop captured at length.
func TestRepeat(t *testing.T) {
	few, many := plantest.MoeDown, plantest.MoeDown
	few.Steps, many.Steps = 3, 9
	m := plantest.H200(t, few.Ranks)
	w := repeat(few.Build(t), many.Steps)
	if _, n := workload.IterationsOf(w); n != many.Steps {
		t.Fatalf("%d iterations, want %d", n, many.Steps)
	}
	for _, e := range []string{"captured", "bulk", "multistream", "decompose"} {
		got, want := enginetest.Outcome(t, w, m, e, nil), enginetest.Outcome(t, many.Build(t), m, e, nil)
		if got.Time != want.Time {
			t.Errorf("%s: %d ns an iteration, captured at length %d", e, got.Time, want.Time)
		}
	}
	if r := enginetest.ResidualOf(w, enginetest.Outcome(t, w, m, "captured", nil).Result.Run); r.Ops != len(w.Ops) || r.Worst > 1 {
		t.Errorf("residual %+v of %d ops", r, len(w.Ops))
	}
	same := few.Build(t)
	if repeat(same, 2) != same {
		t.Error("a workload with enough iterations was rebuilt")
	}
}

// TestRepeatFlow: dependencies of data are repeated like those of streams.
func TestRepeatFlow(t *testing.T) {
	few := plantest.MoeDown
	few.Steps = 3
	w := few.Build(t)
	w.Flow = make([][]workload.Edge, len(w.Ops))
	for i := range w.Ops {
		for _, d := range w.Ops[i].After {
			w.Flow[i] = append(w.Flow[i], workload.Edge{Op: d.Op, Kind: workload.ReadAfterWrite})
		}
	}
	w = repeat(w, 6)
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

// repeatedAfter is a loop of three captured iterations, repeated to six after each op of the last captured one was changed.
func repeatedAfter(t *testing.T, change func(op *workload.Op)) *workload.Workload {
	t.Helper()
	few := plantest.MoeDown
	few.Steps = 3
	w := few.Build(t)
	of, _ := workload.IterationsOf(w)
	for i := range w.Ops {
		if of[i] == 2 {
			change(&w.Ops[i])
		}
	}
	return repeat(w, 6)
}

// Ranks keep the distances of the last captured iteration, whatever their own distances from the one before.
func TestRepeatKeepsRanksTogether(t *testing.T) {
	w := repeatedAfter(t, func(op *workload.Op) {
		if op.Rank == 1 {
			op.Start, op.End = op.Start+1_000, op.End+1_000
		}
	})
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

// Where the last captured iteration waits longer for a collective than the one before, repetitions wait as long, and the streams
// begin as long behind it.
func TestRepeatKeepsGapsOfStreams(t *testing.T) {
	w := repeatedAfter(t, func(op *workload.Op) {
		if op.Collective >= 0 {
			op.End += 70_000
		}
	})
	of, _ := workload.IterationsOf(w)
	for _, ids := range w.Ranks {
		var gaps []trace.Time // between iterations
		for i, id := range ids[1:] {
			if before := ids[i]; of[id] > of[before] {
				gaps = append(gaps, w.Ops[id].Start-w.Ops[before].End)
			}
		}
		if len(gaps) != 5 || slices.Max(gaps) != slices.Min(gaps) {
			t.Errorf("gaps of %d ns", gaps)
		}
	}
}
