package plan

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Before is the last operation of the rank that had ended when an operation started in the capture
// (-1: none), and whether another one was running then.
func (pl *Planner) Before(op *workload.Op) (ended int32, busy bool) {
	if pl.endedBefore == nil {
		pl.endedBefore, pl.busy = timeOrder(pl.Workload)
	}
	return pl.endedBefore[op.ID], pl.busy[op.ID]
}

// timeOrder finds, by op, the last operation of its rank that had ended when it started
// (-1: none), and whether another one was running then.
func timeOrder(w *workload.Workload) (endedBefore []int32, busy []bool) {
	endedBefore, busy = slices.Repeat([]int32{-1}, len(w.Ops)), make([]bool, len(w.Ops))
	for _, ids := range w.Ranks {
		byEnd := slices.Clone(ids)
		slices.SortStableFunc(byEnd, func(a, b int32) int { return cmp.Compare(w.Ops[a].End, w.Ops[b].End) })
		last, next, latest := int32(-1), 0, trace.Time(0)
		for _, id := range ids {
			op := &w.Ops[id]
			for next < len(byEnd) && w.Ops[byEnd[next]].End <= op.Start {
				last = byEnd[next]
				next++
			}
			if last != id {
				endedBefore[id] = last
			}
			busy[id] = latest > op.Start
			latest = max(latest, op.End)
		}
	}
	return endedBefore, busy
}

// GapOf is the pause before an operation that has no other cause than its launch: from the
// latest of its issue, the end of the operation before it on its stream and the ends of its
// dependencies, to its start. It is at most the time of an event (rule S2), except for pauses
// of the rank that the trace does not explain (rule S14), where captured times are replayed, and where an operation
// keeps its place whose launch the trace does not show; the device's
// where the captured host was late. event: it waits for one on another stream.
func (pl *Planner) GapOf(op, before *workload.Op, event, keeps bool) trace.Time {
	if pl.Graph || pl.hostOrder != nil && pl.HostWasLate(op, before) {
		return pl.deviceGap(op, event)
	}
	from := trace.Time(0)
	if before != nil {
		from = before.End
	}
	if op.Issued != trace.Infinity && op.Issued <= op.Start {
		from = max(from, op.Issued)
	}
	for _, d := range op.After {
		if end := pl.Workload.Ops[d.Op].End; end <= op.Start {
			from = max(from, end)
		}
	}
	gap := pl.withoutRecords(op, before, max(0, op.Start-from))
	if pl.Measured {
		return gap
	}
	if idle := pl.HostIdle(op); idle > 0 {
		return min(idle, gap)
	}
	if gap = pl.gapHere(gap); !keeps || op.Graph || op.Issued != trace.Infinity {
		gap = min(gap, Duration(pl.Machine.Launch.Event.Value))
	}
	replaced := func(d workload.Dep) bool { return pl.replaces(&pl.Workload.Ops[d.Op]) }
	if op.Graph && (pl.replaces(op) || slices.ContainsFunc(op.After, replaced)) {
		gap = min(gap, pl.graphGap())
	}
	return gap
}

// What CUPTI adds before a kernel of a captured graph that it records, and before the first one of a graph behind another graph: of
// graphs of 21, 40 and 1,000 kernels of 1.2 us on one H200, queued, with and without a profiler in turn, 0.13 to 0.14 us a kernel, and
// 3.8 to 4.8 us a graph.
const (
	recordedKernel = trace.Time(130)
	recordedGraph  = trace.Time(4100)
)

// withoutRecords is the captured gap before an operation, behind the one before it on its stream and what it depends on, as it is where
// no profiler records the kernels of graphs (rule S2): in a graph less by recordedKernel; behind another graph by recordedGraph, but not
// below launch.gap.
func (pl *Planner) withoutRecords(op, before *workload.Op, gap trace.Time) trace.Time {
	w := pl.Workload
	if !w.Unprofiled || !op.Graph || VendorOf(pl.Machine.GPU.Name) != NVIDIA {
		return gap
	}
	switch before = pl.lastOf(op, before); {
	case before == nil || !before.Graph:
		return gap
	case op.Issued == before.Issued:
		return max(0, gap-recordedKernel)
	case op.Issued <= before.End:
		return max(min(gap, Duration(pl.Machine.Launch.Gap.Value)), gap-recordedGraph)
	}
	return gap
}

// lastOf is the last to have ended when an operation started, of the one before it on its stream and what it depends on; nil: none.
func (pl *Planner) lastOf(op, before *workload.Op) *workload.Op {
	for _, d := range op.After {
		if on := &pl.Workload.Ops[d.Op]; before == nil || on.End > before.End && on.End <= op.Start {
			before = on
		}
	}
	return before
}

// HostIdle is how long nothing ran on the rank before an operation, for no cause that the
// trace shows: the host had issued it in time, and its dependencies had ended. The host is
// the likely cause where the trace has no call; no schedule removes the pause (rule S14).
// Pauses of up to the time of an event are launches.
func (pl *Planner) HostIdle(op *workload.Op) trace.Time {
	before, busy := pl.Before(op)
	if before < 0 || busy {
		return 0
	}
	from := pl.Workload.Ops[before].End
	if launched, known := pl.launched(op); known && launched > from {
		return 0
	}
	if idle := op.Start - from; idle > Duration(pl.Machine.Launch.Event.Value) {
		return idle
	}
	return 0
}

// Regrouped is one rank's kernel of a collective at a place of its own, captured or with the
// bytes of several captured ones. channels is the number of its channels (0: as captured),
// runners what computes alongside it.
func (pl *Planner) Regrouped(op *workload.Op, c *workload.Collective, channels int, runners []workload.CoRun) *program.Kernel {
	if pl.CollectiveKernel != nil {
		if k := pl.CollectiveKernel(op); k != nil {
			return k
		}
	}
	p := pl.Chunks(c, 1, channels, nil)
	if len(runners) > 0 {
		p = pl.meanCoRun(p, runners)
	}
	return pl.carried(op, p)
}
