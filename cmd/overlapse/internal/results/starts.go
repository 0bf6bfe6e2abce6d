package results

import (
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// StartOf is when the last rank of a simulated run starts its first iteration, or its
// first operation: before that, the others wait for it.
func StartOf(w *workload.Workload, run *trace.Run) trace.Time {
	return lastStart(w, func(started func(op int32, at trace.Time)) {
		for _, s := range run.Spans {
			if op := plan.OriginOf(run, s); op >= 0 {
				started(op, s.Start)
			}
		}
	})
}

// MeasuredStart is StartOf the captured run.
func MeasuredStart(w *workload.Workload) trace.Time {
	return lastStart(w, func(started func(op int32, at trace.Time)) {
		for i := range w.Ops {
			started(w.Ops[i].ID, w.Ops[i].Start)
		}
	})
}

// lastStart is the last of the first starts of the ranks, of operations of the first iteration.
func lastStart(w *workload.Workload, each func(started func(op int32, at trace.Time))) (last trace.Time) {
	of, n := workload.IterationsOf(w)
	starts := slices.Repeat([]trace.Time{trace.Infinity}, w.World)
	each(func(op int32, at trace.Time) {
		if first := &starts[w.Ops[op].Rank]; n == 0 || of[op] == 0 {
			*first = min(*first, at)
		}
	})
	for _, start := range starts {
		if start != trace.Infinity {
			last = max(last, start)
		}
	}
	return last
}

// aligned are the runs with their first iterations at the same time, and what their times
// were shifted by.
func aligned(w *workload.Workload, runs []*trace.Run) (shifted []*trace.Run, shifts []trace.Time) {
	views, starts := make([]layout.View, len(runs)), make([]trace.Time, len(runs))
	for i, run := range runs {
		views[i], starts[i] = layout.View{Run: run}, StartOf(w, run)
	}
	layout.Align(views, starts)
	for _, v := range views {
		run := *v.Run
		run.Spans, run.End = slices.Clone(run.Spans), run.End+v.Offset
		for k := range run.Spans {
			run.Spans[k].Start += v.Offset
			run.Spans[k].End += v.Offset
		}
		shifted, shifts = append(shifted, &run), append(shifts, v.Offset)
	}
	return shifted, shifts
}
