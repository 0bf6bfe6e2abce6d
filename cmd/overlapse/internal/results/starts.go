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
	first := newFirsts(w)
	for _, s := range run.Spans {
		if op := plan.OriginOf(run, s); op >= 0 {
			first.add(op, s.Start)
		}
	}
	return first.last()
}

// MeasuredStart is StartOf the captured run.
func MeasuredStart(w *workload.Workload) trace.Time {
	first := newFirsts(w)
	for i := range w.Ops {
		first.add(w.Ops[i].ID, w.Ops[i].Start)
	}
	return first.last()
}

// firsts is the first start of the first iteration by rank.
type firsts struct {
	workload *workload.Workload
	of       []int32 // by op: its iteration
	starts   []trace.Time
}

func newFirsts(w *workload.Workload) *firsts {
	of, n := workload.IterationsOf(w)
	if n == 0 {
		of = make([]int32, len(w.Ops)) // all in one
	}
	return &firsts{w, of, slices.Repeat([]trace.Time{trace.Infinity}, w.World)}
}

func (f *firsts) add(op int32, start trace.Time) {
	if f.of[op] == 0 {
		at := &f.starts[f.workload.Ops[op].Rank]
		*at = min(*at, start)
	}
}

func (f *firsts) last() trace.Time {
	var last trace.Time
	for _, start := range f.starts {
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
