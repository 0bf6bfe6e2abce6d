package plan

import (
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// IssueCosts is the host time that a rank spends to issue each of its operations, by
// position in Workload.Ranks: from the issue of the previous one, in the captured order of
// issue, without the time in which the host waited for the device. If a run without
// profiler is predicted, what the profiler adds to every recorded operator and call is
// subtracted (rule H7). It is nil if the trace has no host calls.
func (pl *Planner) IssueCosts(rank int) []trace.Time {
	if rank >= len(pl.Workload.Hosts) || len(pl.Workload.Hosts[rank].Order) == 0 {
		return nil
	}
	h, l := pl.Workload.Hosts[rank], &pl.Machine.Launch
	pace := 1e9 * pl.hostPace(rank)
	op, launch, call := pace*l.ProfiledOp.Or(0), pace*l.ProfiledLaunch.Or(0), pace*l.ProfiledCall.Or(0)
	least := max(0, pace*l.Call.Or(0)-launch)
	costs := make([]trace.Time, len(h.Issues))
	for i, is := range h.Issues {
		costs[i] = is.Work
		if pl.Workload.Unprofiled && is.Work > 0 {
			own := float64(is.Work) - op*float64(is.Operators) - launch*float64(is.Launches) - call*float64(is.Calls)
			costs[i] = min(is.Work, trace.Time(max(own, least)))
		}
	}
	return costs
}

// HostPeriod is the host time that the slowest rank spends to issue one iteration, ns: the
// median of those after the first, so that what the first one loads and allocates does not
// count. It is 0 if the trace has no host calls or fewer than two iterations.
func (pl *Planner) HostPeriod() trace.Time {
	of, n := workload.IterationsOf(pl.Workload)
	if n < 2 {
		return 0
	}
	var slowest trace.Time
	for rank, ids := range pl.Workload.Ranks {
		sums := make([]trace.Time, n)
		for i, cost := range pl.IssueCosts(rank) {
			if k := of[ids[i]]; k >= 0 {
				sums[k] += cost
			}
		}
		later := sums[1:]
		slices.Sort(later)
		slowest = max(slowest, later[(len(later)-1)/2])
	}
	return slowest
}

// issueInOrder writes the host's part of all operations of the rank, in the given order:
// the time to issue each of them, and the captured waits for the device. The operations
// themselves wait for it with WaitIssued. Without host calls in the trace it writes
// nothing.
func (r *Rank) issueInOrder(order []int32) {
	costs := r.Planner.IssueCosts(r.ID)
	if costs == nil {
		return
	}
	w := r.Planner.Workload
	at := make(map[int32]int, len(costs)) // by op: position
	for i, id := range w.Ranks[r.ID] {
		at[id] = i
	}
	r.issued = make(map[int32]int64, len(costs))
	r.latency = w.Hosts[r.ID].Latency
	r.Host.Delay(r.latency, program.LaunchGap, "launch latency") // posts say when an operation can start
	if r.Planner.once {
		r.Host.Delay(r.Planner.firstIssue(r)-r.Planner.firstIssue(r.Planner.ranks...), program.HostIssue, "later than other ranks")
	}
	after := r.syncsAfter()
	for _, id := range order {
		op := &w.Ops[id]
		if op.Issued == trace.Infinity {
			continue
		}
		r.Host.Delay(costs[at[id]], program.HostIssue, op.Name)
		r.issued[id] = r.postIssued()
		for _, s := range after[id] {
			r.waitForEnded(s)
		}
	}
}

// syncsAfter is the rank's waits for the device by the op that was issued before them.
func (r *Rank) syncsAfter() map[int32][]workload.HostSync {
	w := r.Planner.Workload
	h, ids := w.Hosts[r.ID], w.Ranks[r.ID]
	after := map[int32][]workload.HostSync{}
	next := 0
	for _, s := range h.Syncs {
		for next < len(h.Order) && w.Ops[ids[h.Order[next]]].Issued <= s.Start {
			next++
		}
		if next > 0 && next < len(h.Order) {
			id := ids[h.Order[next-1]]
			after[id] = append(after[id], s)
		}
	}
	return after
}

// waitForEnded makes the host wait for the operations that ended during a captured wait,
// the last one of each queue, as far as it has issued them.
func (r *Rank) waitForEnded(s workload.HostSync) {
	w := r.Planner.Workload
	last := map[int64]int32{} // by queue
	var queues []int64
	for _, id := range w.Ranks[r.ID] {
		op := &w.Ops[id]
		if _, issued := r.issued[id]; !issued || op.End <= s.Start || op.End > s.End {
			continue
		}
		before, ok := last[op.Queue]
		if !ok {
			queues = append(queues, op.Queue)
		}
		if !ok || w.Ops[before].End < op.End {
			last[op.Queue] = id
		}
	}
	for _, q := range queues {
		r.Host.Wait(r.Planner.Done[last[q]], 1, w.Ops[last[q]].Name)
	}
}

// WaitIssued makes a stream wait until the host has issued an operation. It returns the captured
// time from which the host no longer holds it; 0 if hosts run ahead (IssueAhead).
func (r *Rank) WaitIssued(s *Stream, op *workload.Op) (from trace.Time) {
	var n int64
	if r.Planner.hostOrder != nil {
		r.beginAhead(s, op)
		n = r.issued[op.ID]
	} else {
		n, from = r.issueAsCaptured(op)
	}
	if n > 0 {
		s.Wait(r.HostIssued, n, "host")
	}
	return from
}

// RunAhead has the hosts issue all operations in the captured order (IssueAhead).
func (pl *Planner) RunAhead() {
	order := make([][]int32, pl.Workload.World)
	for rank := range min(len(order), len(pl.Workload.Hosts)) {
		for _, i := range pl.Workload.Hosts[rank].Order {
			order[rank] = append(order[rank], pl.Workload.Ranks[rank][i])
		}
	}
	pl.IssueAhead(order)
}

// IssueAhead has the hosts issue all operations in the given order, by rank, at the pace of
// IssueCosts, and lets them run ahead of the devices as in a loop of many iterations: the
// devices begin when their host has issued the first iteration. They begin at once if the
// host waits for the device within the iterations, or if it is known to be slower than the
// devices (Scenario.HostBound). With one iteration, the hosts are as far ahead at its start
// as in the capture (rule H8). With a captured graph there is no host.
func (pl *Planner) IssueAhead(order [][]int32) {
	if pl.Graph {
		return
	}
	pl.hostOrder = order
	of, n := workload.IterationsOf(pl.Workload)
	pl.once = n < 2
	if pl.once || pl.Scenario.HostBound || !pl.Workload.Unprofiled {
		return
	}
	for _, r := range pl.ranks {
		if len(r.syncsAfter()) > 0 {
			return
		}
	}
	pl.Ahead = true
	for _, r := range pl.ranks {
		for i, id := range pl.hostOrder[r.ID] {
			if of[id] == 0 {
				r.lead = int64(i + 1)
			}
		}
	}
}

// beginAhead makes a stream that has no command yet and begins with the given operation
// wait for the issue of the first iteration, if the hosts run ahead.
func (r *Rank) beginAhead(s *Stream, op *workload.Op) {
	switch {
	case len(s.Commands) > 0:
	case r.lead > 0:
		s.Wait(r.HostIssued, r.lead, "host")
	case r.Planner.once:
		s.Delay(r.startAhead(op), program.FlagWait, "work before the capture")
	}
}

// startAhead is the captured time from the first issue of any rank to the start of an
// operation that its host had issued early enough and that waited for nothing recorded, ns:
// for work before the capture. It is 0 for other operations.
func (r *Rank) startAhead(op *workload.Op) trace.Time {
	if len(op.After) > 0 || op.Issued == trace.Infinity || op.Start-op.Issued <= r.latency {
		return 0
	}
	return op.Start - r.Planner.firstIssue(r.Planner.ranks...)
}

// firstIssue is the captured time of the first issue of any of some ranks.
func (pl *Planner) firstIssue(ranks ...*Rank) trace.Time {
	w, first := pl.Workload, trace.Infinity
	for _, r := range ranks {
		if order := w.Hosts[r.ID].Order; len(order) > 0 {
			first = min(first, w.Ops[w.Ranks[r.ID][order[0]]].Issued)
		}
	}
	return first
}

// EventGap is the gap before an operation that waits for one on another stream.
func (pl *Planner) EventGap(op *workload.Op) trace.Time { return pl.deviceGap(op, true) }

// deviceGap is the gap before an operation that the host issued early enough, or that a
// captured graph launches. event: it waits for one on another stream.
func (pl *Planner) deviceGap(op *workload.Op, event bool) trace.Time {
	l := &pl.Machine.Launch
	switch {
	case pl.Graph || op.Graph:
		return pl.graphLaunch(op)
	case event:
		return Duration(l.Event.Value)
	}
	return Duration(l.Gap.Value)
}
