package schedule

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

const copiesAhead = "ahead"

// copiesParam moves copies from the host, which edit.Ahead does.
var copiesParam = plan.Param{
	Name: "copies", Default: plan.AsCaptured, Choices: []string{plan.AsCaptured, copiesAhead}, Keep: true, Alone: true,
	Doc:   "ahead: copies from the host's memory on a stream of their own, each group of them during the kernels before those that use it",
	Costs: "a second buffer for what is copied, and the host's memory pinned", Measured: []string{plan.AsCaptured, copiesAhead},
}

// planCopies plans a workload whose copies from the host have a stream of their own: every operation keeps its place there.
func planCopies(pl *plan.Planner, v plan.Values) (why string) {
	w := pl.Workload
	if w.Order == nil {
		if len(w.Collectives) > 0 {
			return "copies=ahead is for captures without collectives"
		}
		return "no copy from the host runs among kernels on a stream of compute"
	}
	pl.Pairs = nil
	pl.Memory.Bytes += copiedAhead(w)
	pl.Note("copies from the host bring what it has at any time, as weights; what it makes within the step comes no earlier")
	return planStep(pl, stepOptions{values: v, keep: true})
}

// copiedAhead is the most bytes that copies brought between kernels of the capture, on any rank: a buffer of as many more.
func copiedAhead(w *workload.Workload) (most int64) {
	for _, ids := range w.Ranks {
		captured := slices.SortedFunc(slices.Values(ids), func(a, b int32) int { return cmp.Compare(w.Origin(a), w.Origin(b)) })
		var group int64
		for _, id := range captured {
			if c := w.Run.Copy(w.Run.Spans[w.Ops[id].Span]); c != nil && c.Dir == trace.HostToDevice {
				group += c.Bytes
				most = max(most, group)
			} else if w.Ops[id].Kind == trace.Compute {
				group = 0
			}
		}
	}
	return most
}
