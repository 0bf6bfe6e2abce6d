package plan

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A hostCall is one issue of a host.
type hostCall struct {
	place int // in the order of issue
	cost  trace.Time
	name  string
}

// call has the host issue something at a place of its order. It returns the index of the call, plus
// 1: streams wait for it until writeHost knows how many issues are before it.
func (r *Rank) call(place int, cost trace.Time, name string) int64 {
	r.calls = append(r.calls, hostCall{place, cost, name})
	r.at, r.from, r.to = place, min(r.from, place), max(r.to, place)
	return int64(len(r.calls))
}

// callOf is the first issue of an operation, at its place and at its captured cost; 0 if the trace
// does not know when its host issued it.
func (r *Rank) callOf(op *workload.Op) int64 {
	pl := r.Planner
	if n := pl.called[op.ID]; n > 0 {
		return int64(n)
	}
	place := int(pl.place[op.ID]) - 1
	if place < 0 {
		return 0
	}
	n := r.call(place, r.replaced(op, r.costs[place]), op.Name)
	pl.called[op.ID] = int32(n)
	return n
}

// replaced is the time to issue what stands for an operation, of which the captured time is known: a
// kernel in place of the library's collective takes less by as much as it does on the profile's host.
func (r *Rank) replaced(op *workload.Op, captured trace.Time) trace.Time {
	if !r.Planner.replaces(op) || op.Graph {
		return captured
	}
	l := &r.Planner.Machine.Launch
	own := Duration(l.Host.Value * r.HostPace)
	return max(min(captured, own), captured+own-Duration(l.HostCollective.Value*r.HostPace))
}

// writeHost writes the host's part of the rank: the issues of all operations in the order of
// IssueAhead, those that a strategy adds behind the one before them, and the captured waits for the
// device. A wait within a pair that a strategy writes is behind it.
func (r *Rank) writeHost() {
	w := r.Planner.Workload
	if r.costs != nil {
		r.Host.Delay(r.latency, program.LaunchGap, "launch latency") // posts say when an operation can start
		if r.Planner.once && r.Planner.hasCalls(r.ID) {              // else nothing says when its host began
			late := r.Planner.firstIssue(r) - r.Planner.firstIssue(r.Planner.ranks...)
			r.Host.Delay(late, program.HostIssue, "later than other ranks")
		}
	}
	for _, id := range r.order {
		if r.Planner.where[id].On == nil { // the schedule leaves it out: it is issued all the same
			r.callOf(&w.Ops[id])
		}
	}
	r.Planner.HostPeriod = max(r.Planner.HostPeriod, r.period())
	calls := make([]int32, len(r.calls)) // by place, then in the order in which they were asked for
	for i := range calls {
		calls[i] = int32(i)
	}
	slices.SortStableFunc(calls, func(a, b int32) int { return r.calls[a].place - r.calls[b].place })
	after := r.syncsAfter()
	var syncs []workload.HostSync
	counts := make([]int64, len(r.calls)+1)
	begin, open := int64(0), 0
	for place := range len(r.order) + 1 {
		for ; len(calls) > 0 && r.calls[calls[0]].place == place; calls = calls[1:] {
			c := &r.calls[calls[0]]
			r.Host.Delay(c.cost, program.HostIssue, c.name)
			counts[calls[0]+1] = r.postIssued()
		}
		if place == r.lead {
			begin = r.count
		}
		if place == len(r.order) {
			break
		}
		open = max(open, r.pairs[place])
		if syncs = append(syncs, after[r.order[place]]...); place >= open {
			for _, s := range syncs {
				if len(calls) > 0 && r.calls[calls[0]].place == place+1 {
					next := &r.calls[calls[0]]
					before := trace.Time(s.Before * float64(next.cost))
					r.Host.Delay(before, program.HostIssue, next.name)
					next.cost -= before
				}
				r.waitForEnded(s, place)
			}
			syncs = nil
		}
	}
	for _, s := range r.Streams {
		for i := range s.Commands {
			switch c := &s.Commands[i]; {
			case c.Op != program.Wait || c.Flag != r.HostIssued:
			case c.Count == firstIteration:
				c.Count = begin
			default:
				c.Count = counts[c.Count]
			}
		}
	}
}

// firstIteration stands for the issue of the first iteration until writeHost knows how many it is.
const firstIteration = -1

// notOneGraph notes what keeps an iteration from being one captured graph: nothing that repeats, or a host that waits for its device in it.
func (pl *Planner) notOneGraph() {
	if _, n := pl.iterations(); n == 0 && WasMeasured(pl.Workload) {
		pl.NeverRun("a captured graph pays where it is launched again, and nothing in the trace marks what repeats")
	}
	most := 0
	for _, r := range pl.ranks {
		most = max(most, r.syncsInside())
	}
	if most > 0 {
		pl.NeverRun(fmt.Sprintf("a captured graph ends where the host waits for the device: %d an iteration", most))
	}
}

// syncsInside is how often the rank's host waits for its device between two launches of one
// iteration, on average over iterations.
func (r *Rank) syncsInside() int {
	w, n := r.Planner.Workload, 0
	of, rounds := r.Planner.iterations()
	for id, syncs := range r.syncsAfter() {
		if next := int(id) + 1; next < len(w.Ops) && w.Ops[next].Rank == r.ID && of[next] == of[id] {
			n += len(syncs)
		}
	}
	return machine.CeilDiv(n, max(1, rounds))
}

// syncsAfter is the rank's waits for the device by the op that was issued before them.
func (r *Rank) syncsAfter() map[int32][]workload.HostSync {
	w := r.Planner.Workload
	if r.ID >= len(w.Hosts) {
		return nil
	}
	h, after := w.Hosts[r.ID], map[int32][]workload.HostSync{}
	for i, n := range w.IssuedBefore(r.ID) {
		if n > 0 && n < len(h.Order) {
			id := w.Ranks[r.ID][h.Order[n-1]]
			after[id] = append(after[id], h.Syncs[i])
		}
	}
	return after
}

// waitForEnded makes the host wait for the operations that ended during a captured wait,
// the last one of each queue, as far as it has issued them and all that is in front of them on their
// queue: up to a place of its order.
func (r *Rank) waitForEnded(s workload.HostSync, place int) {
	w := r.Planner.Workload
	last, later := map[int64]int32{}, map[int64]bool{} // by queue; one holds what is issued later
	var queues []int64
	for _, id := range w.Ranks[r.ID] {
		op := &w.Ops[id]
		start, end := capturedTimes(w, op)
		if start > s.End {
			continue
		}
		at := int(r.Planner.place[id])
		if later[op.Queue] = later[op.Queue] || at > place+1; at == 0 || later[op.Queue] || end <= s.Start || end > s.End {
			continue
		}
		before, ok := last[op.Queue]
		if !ok {
			queues = append(queues, op.Queue)
			last[op.Queue] = id
		} else if _, ended := capturedTimes(w, &w.Ops[before]); ended < end {
			last[op.Queue] = id
		}
	}
	for _, q := range queues {
		r.Host.Wait(r.Planner.Done[last[q]], 1, w.Ops[last[q]].Name)
	}
}

// capturedTimes are the captured start and end of what an operation stands for; an edit may have moved the operation itself.
func capturedTimes(w *workload.Workload, op *workload.Op) (start, end trace.Time) {
	if w.Origins == nil {
		return op.Start, op.End
	}
	s := w.Run.Spans[op.Span]
	return s.Start, s.End
}

// WaitIssued makes a stream wait until the host has issued an operation, if no captured graph of its pair launches it.
func (r *Rank) WaitIssued(s *Stream, op *workload.Op) {
	if r.Planner.Graph && !r.Planner.oneGraph {
		return
	}
	issue := r.issueAsCaptured
	if r.Planner.hostOrder != nil {
		r.beginAhead(s, op)
		issue = r.callOf
	}
	if n := issue(op); n > 0 {
		s.Wait(r.HostIssued, n, "host")
	}
}

// IssueAhead has the hosts issue all operations in the given order, by rank, at the pace of
// IssueCosts, and lets them run ahead of the devices as in a loop of many iterations: the
// devices begin when their host has issued the first iteration. They begin at once if the
// host waits for the device within the iterations, or if it is known to be slower than the
// devices (Scenario.HostBound). With one iteration, the hosts are as far ahead at its start
// as in the capture (rule H8). With a captured graph the host takes no time but its pauses, such as
// for data between iterations (rule H11); without pauses there is no host.
func (pl *Planner) IssueAhead(order [][]int32) {
	if pl.Graph && !pl.pauses() {
		return
	}
	pl.hostOrder, pl.place, pl.called = order, make([]int32, len(pl.Workload.Ops)), make([]int32, len(pl.Workload.Ops))
	own := make([]trace.Time, len(pl.place))
	for _, r := range pl.ranks {
		r.takeOrder(order[r.ID], own)
	}
	of, n := pl.iterations()
	pl.once, pl.oneGraph = n < 2, pl.Graph
	if pl.once || pl.Graph || pl.Scenario.HostBound || !pl.Workload.Unprofiled {
		return
	}
	for _, r := range pl.ranks {
		if len(r.syncsAfter()) > 0 {
			return
		}
	}
	pl.Ahead = true
	for _, r := range pl.ranks {
		for i, id := range r.order {
			if of[id] == 0 {
				r.lead = i
			}
		}
	}
}

// pauses reports whether a host pauses.
func (pl *Planner) pauses() bool {
	return slices.ContainsFunc(pl.ranks, func(r *Rank) bool {
		return slices.ContainsFunc(pl.IssueCosts(r.ID), func(cost trace.Time) bool { return cost >= HostStall })
	})
}

// takeOrder has the host issue operations in the given order, those that the trace has calls of. own
// is for the costs by op.
func (r *Rank) takeOrder(order []int32, own []trace.Time) {
	w := r.Planner.Workload
	r.order, r.pairs, r.lead = nil, map[int]int{}, -1
	costs := r.Planner.IssueCosts(r.ID)
	if costs == nil {
		return
	}
	for i, id := range w.Ranks[r.ID] {
		if own[id] = costs[i]; r.Planner.IssueShares != nil {
			own[id] = trace.Time(r.Planner.IssueShares[id] * float64(costs[i]))
		}
	}
	known := r.Planner.hasCalls(r.ID)
	if r.costs = []trace.Time{}; known {
		r.latency = w.Hosts[r.ID].Latency
	}
	for _, id := range order {
		if w.Ops[id].Issued != trace.Infinity || !known {
			cost := own[id]
			if r.Planner.Graph && cost < HostStall {
				cost = 0
			}
			r.order, r.costs = append(r.order, id), append(r.costs, cost)
			r.Planner.place[id] = int32(len(r.order))
		}
	}
}

// launchCost is what it costs the profile's host to issue an operation, seconds (rule H2); 0 of one that a captured graph launches.
func (pl *Planner) launchCost(op *workload.Op) float64 {
	if op.Graph { // it stays in its graph (rule S2)
		return 0
	}
	return pl.Laws().Launch(op, pl.CollectiveKernel == nil)
}

// beginAhead makes a stream that has no command yet and begins with the given operation
// wait for the issue of the first iteration, if the hosts run ahead.
func (r *Rank) beginAhead(s *Stream, op *workload.Op) {
	switch {
	case len(s.Commands) > 0:
	case r.lead >= 0:
		s.Wait(r.HostIssued, firstIteration, "host")
	case r.Planner.once:
		s.held = r.startAhead(op)
	}
}

// startAhead is the captured time, ns, by which an operation started later than its issue and what it reads allow: it waited
// for work before the capture. It is 0 of one that started within the latency of a launch.
func (r *Rank) startAhead(op *workload.Op) trace.Time {
	ready := op.Issued
	for _, d := range op.After {
		ready = max(ready, r.Planner.Workload.Ops[d.Op].End)
	}
	if op.Issued == trace.Infinity || op.Start-ready <= r.latency {
		return 0
	}
	return op.Start - ready
}

// firstIssue is the captured time of the first issue of any of some ranks.
func (pl *Planner) firstIssue(ranks ...*Rank) trace.Time {
	w, first := pl.Workload, trace.Infinity
	for _, r := range ranks {
		if pl.hasCalls(r.ID) {
			first = min(first, w.Ops[w.Ranks[r.ID][w.Hosts[r.ID].Order[0]]].Issued)
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
