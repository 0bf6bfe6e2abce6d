package schedule

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

const (
	copiesAhead  = "ahead"
	copiesBatch  = "batch"
	copiesPinned = "pinned"
)

// copiesParam is how copies from the host are made, which edit.Pinned and edit.Ahead write.
var copiesParam = plan.Param{
	Name: "copies", Default: plan.AsCaptured, Choices: []string{plan.AsCaptured, copiesPinned, copiesAhead, copiesBatch},
	Keep: true, Alone: true, Measured: []string{plan.AsCaptured, copiesPinned, copiesAhead, copiesBatch},
	Doc: "copies from the host's memory; pinned: from pinned memory, without a wait of the host; ahead: on a stream of their own, " +
		"each group during the kernels before those that use it; batch: those with which an iteration begins, during the iteration before",
	Costs: "the host's memory pinned, and a second buffer for what is copied ahead",
}

// withCopies is the workload with its copies from the host as a value of copies has them.
func withCopies(w *workload.Workload, m *machine.Machine, how string) *workload.Workload {
	switch how {
	case copiesAhead:
		return edit.Ahead(edit.Pinned(w, m), false)
	case copiesBatch:
		return edit.Ahead(edit.Pinned(w, m), true)
	case copiesPinned:
		return edit.Pinned(w, m)
	}
	return w
}

// Copied are the settings of copies from the host that change a workload: from pinned memory, and ahead by a batch or by a layer,
// whichever moves more of their bytes.
func Copied(w *workload.Workload, m *machine.Machine) (list []string) {
	pinned := withCopies(w, m, copiesPinned)
	if pinned != w {
		list = append(list, "copies="+copiesPinned)
	}
	how := copiesAhead
	if beginWithCopies(w) {
		how = copiesBatch
	}
	if withCopies(pinned, m, how) != pinned {
		list = append(list, "copies="+how)
	}
	return list
}

// beginWithCopies reports whether copies from the host bring most bytes before their iterations compute.
func beginWithCopies(w *workload.Workload) bool {
	before := int64(0) // less what they bring later
	for _, ids := range w.Ranks {
		computes := make([]bool, len(w.Steps))
		for _, id := range ids {
			op := &w.Ops[id]
			c := w.Run.Copy(w.Run.Spans[op.Span])
			switch {
			case op.Step < 0:
			case op.Kind == trace.Compute:
				computes[op.Step] = true
			case c != nil && c.Dir == trace.HostToDevice && computes[op.Step]:
				before -= c.Bytes
			case c != nil && c.Dir == trace.HostToDevice:
				before += c.Bytes
			}
		}
	}
	return before > 0
}

// planCopies plans a workload whose copies from the host changed: every operation keeps its place there.
func planCopies(pl *plan.Planner, v plan.Values) (why string) {
	w := pl.Workload
	switch how := v["copies"]; {
	case how == copiesPinned && pl.Machine.Engines.Host.Or(0) <= 0:
		return "copies=pinned: " + pl.Machine.Profile + " has no engines.host, the rate of a copy from pinned memory"
	case how == copiesPinned && w.Scale == nil:
		return "copies=pinned: no copy is known to read pageable memory of the host slower than pinned memory"
	case how == copiesPinned:
	case w.Order != nil:
		pl.Memory.Bytes += copiedAhead(w)
	case len(w.Collectives) > 0 && how == copiesAhead:
		return "copies=ahead is for captures without collectives"
	case how == copiesBatch:
		return "copies=batch: not every marked iteration begins with copies from the host that are ready before it"
	default:
		return "no copy from the host runs among kernels on a stream of compute"
	}
	switch v["copies"] {
	case copiesBatch:
		pl.Note("the host has the next batch when an iteration begins, as a loader with workers does")
	case copiesAhead:
		pl.Note("copies from the host bring what it has at any time, as weights; what it makes within the step comes no earlier")
	}
	pl.Pairs = nil
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
