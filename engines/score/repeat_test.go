package score

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
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
	w := edit.Repeat(few.Build(t), many.Steps)
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
	if edit.Repeat(same, 2) != same {
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
	w = edit.Repeat(w, 6)
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
	return edit.Repeat(w, 6)
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

// Iterations that are equal are simulated until they repeat, with the times of all of them; iterations of other times are all
// simulated (rule Z8).
func TestEqualIterationsRepeat(t *testing.T) {
	m := plantest.H200(t, 2)
	few := plantest.LiftSample(t, "ddp-step")
	few.Unprofiled = true
	equal, err := compare.Isolate(edit.Repeat(few, 5), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := edit.Repeat(few, 4)
	of, _ := workload.IterationsOf(other)
	for i := range other.Ops {
		if op := &other.Ops[i]; of[i] == 3 && op.Collective < 0 {
			op.End--
			break
		}
	}
	for _, e := range []string{"bulk", "multistream"} {
		sel := enginetest.MustParse(t, e)[0]
		run := func(w *workload.Workload, like bool) compare.Outcome {
			out, err := compare.Run(w, m, sel, plan.Scenario{}, replay.Options{Like: like})
			if err != nil || out.Result == nil {
				t.Fatal(e, err, out.Why)
			}
			return out
		}
		all, short := run(equal, false), run(equal, true)
		if all.Result.Run.Repeats != nil || short.Result.Run.Repeats == nil {
			t.Errorf("%s: all iterations were simulated, or those that were recorded were not", e)
			continue
		}
		near := cmpopts.EquateApprox(0.001, 0.0001*float64(all.Time)) // a part of the time by the time
		as := func(t trace.Time) float64 { return float64(t) }
		for _, x := range []struct{ short, all any }{
			{short.Time, all.Time},
			{short.Simulated, all.Simulated},
			{verdict.TimesOf(equal, short), verdict.TimesOf(equal, all)},
			{verdict.MemoryByCause(equal, short), verdict.MemoryByCause(equal, all)},
		} {
			if d := cmp.Diff(x.all, x.short, near, cmp.Transformer("ns", as)); d != "" {
				t.Errorf("%s: simulated until iterations repeat: %s", e, d)
			}
		}
	}
	if out, err := compare.Run(other, m, enginetest.MustParse(t, "bulk")[0], plan.Scenario{}, replay.Options{Like: true}); err != nil || out.Result.Run.Repeats != nil {
		t.Errorf("iterations of other times were not simulated: %v", err)
	}
}
