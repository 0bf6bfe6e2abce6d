package plan

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The host is a stream of delays and posts: an operation cannot start before its launch
// has been issued. Operations that were not captured cost the profile's issue times
// (rules H1 and H2). The captured schedule with the profiler is issued at its times (issueAsCaptured), all others at the cost
// of each operation (writeHost).

// hostPace is the issue time of a rank's host relative to the profile's host: the ratio of
// the driver's launch calls, with the same profiler. 1 if the trace or the profile has
// none (rule H3).
func (pl *Planner) hostPace(rank int) float64 {
	call := pl.Machine.Launch.Call.Or(0)
	if call <= 0 || rank >= len(pl.Workload.Calls) || pl.Workload.Calls[rank] == 0 {
		return 1
	}
	return float64(pl.Workload.Calls[rank]) / 1e9 / call
}

// issueAsCaptured writes the host's part of an operation. It returns the count of
// HostIssued to wait for and the captured time of the issue; 0 if the trace has no host
// calls.
func (r *Rank) issueAsCaptured(op *workload.Op) (int64, trace.Time) {
	if op.Issued == trace.Infinity || op.Issued > op.Start || r.Planner.Graph {
		return 0, 0
	}
	at := max(op.Issued, r.clock)
	for len(r.syncs) > 0 && r.syncs[0].End <= at {
		r.waitForDevice(r.syncs[0])
		r.syncs = r.syncs[1:]
	}
	r.Host.Delay(at-r.clock, program.HostIssue, op.Name)
	r.clock = at
	return r.postIssued(), at
}

// waitForDevice writes a host wait for all operations that had ended when the call
// returned (rule H1).
func (r *Rank) waitForDevice(s workload.HostSync) {
	latest := r.clock
	for _, st := range r.Streams {
		if last := r.lastEnded(st, s.End); last != nil && last.End > s.Start {
			r.Host.Wait(r.Planner.Done[last.ID], 1, last.Name)
			latest = max(latest, last.End)
		}
	}
	r.Host.Delay(s.End-latest, program.HostIssue, "synchronize")
	r.clock = max(r.clock, s.End)
}

// lastEnded is the last operation of a stream that had ended by the given time.
func (r *Rank) lastEnded(st *Stream, by trace.Time) *workload.Op {
	for i := len(st.Commands) - 1; i >= 0; i-- {
		if id := st.Commands[i].Origin; id >= 0 && r.Planner.Workload.Ops[id].End <= by {
			return &r.Planner.Workload.Ops[id]
		}
	}
	return nil
}

// HostStall is the pause from which the host was busy with the program's own work: no launch takes so long, and no graph
// shortens it (rules H6 and H11).
const HostStall = trace.Time(1_000_000)

// issue writes the issue of one operation that was not captured. seconds is its cost on
// the profile's host.
func (r *Rank) issue(seconds float64, name string) int64 {
	d := Duration(seconds * r.HostPace)
	if r.Planner.hostOrder != nil {
		return r.call(r.at, d, name)
	}
	r.Host.Delay(d, program.HostIssue, name)
	return r.postIssued()
}

func (r *Rank) postIssued() int64 {
	r.count++
	r.Host.Post(r.HostIssued, 1)
	return r.count
}

// Duration converts seconds to nanoseconds, rounded to nearest.
func Duration(seconds float64) trace.Time { return trace.Time(seconds*1e9 + 0.5) }

// IssueCosts is the host time that a rank spends to issue each of its operations, by
// position in Workload.Ranks: from the issue of the previous one, in the captured order of
// issue, without the time in which the host waited for the device. If a run without
// profiler is predicted, what the profiler adds to every recorded operator and call, and to every
// kernel of a launched graph, is subtracted (rule H7). Without host calls it is what the profile says of a loop of pairs (rule
// H6), else nil.
func (pl *Planner) IssueCosts(rank int) []trace.Time {
	w := pl.Workload
	known := pl.hasCalls(rank)
	loop := (w.Unprofiled || !known) && pl.OnlyPairs()
	if !known && !loop {
		return nil
	}
	costs := make([]trace.Time, len(w.Ranks[rank]))
	if known {
		pl.capturedCosts(rank, costs)
	}
	switch {
	case loop:
		for i, id := range w.Ranks[rank] {
			if costs[i] < HostStall {
				costs[i] = Duration(pl.launchCost(&w.Ops[id]) * pl.hostPace(rank))
			}
		}
	case w.Unprofiled || pl.Graph:
		pl.undisturbed(rank, costs)
	}
	return costs
}

// hasCalls reports whether the trace has host calls of a rank.
func (pl *Planner) hasCalls(rank int) bool {
	return rank < len(pl.Workload.Hosts) && len(pl.Workload.Hosts[rank].Order) > 0
}

// capturedCosts sets IssueCosts as they were captured.
func (pl *Planner) capturedCosts(rank int, costs []trace.Time) {
	h, l := pl.Workload.Hosts[rank], &pl.Machine.Launch
	pace := 1e9 * pl.hostPace(rank)
	op, launch, call, node := pace*l.ProfiledOp.Or(0), pace*l.ProfiledLaunch.Or(0), pace*l.ProfiledCall.Or(0), pace*l.ProfiledNode.Or(0)
	least := max(0, pace*l.Call.Or(0)-launch)
	nodes := 0
	for _, i := range h.Order {
		is := h.Issues[i]
		if costs[i] = is.Work; pl.Workload.Unprofiled && is.Work > 0 {
			own := float64(is.Work) - op*float64(is.Operators) - launch*float64(is.Launches) - call*float64(is.Calls) - node*float64(nodes)
			costs[i], nodes = min(is.Work, trace.Time(max(own, least))), 0
		}
		if pl.Workload.Ops[pl.Workload.Ranks[rank][i]].Graph {
			nodes++
		}
	}
}

// OnlyPairs reports whether all operations of iterations are those of pairs: a benchmark's loop, in which the program's own work
// is the launches, so that the profile knows what they cost (rule H6).
func (pl *Planner) OnlyPairs() bool {
	if pl.onlyPairs == nil {
		of, n := pl.iterations()
		paired := map[int32]bool{}
		for i := range pl.Workload.Pairs {
			p := pl.newPair(&pl.Workload.Pairs[i])
			for _, id := range pl.members(&p) {
				paired[id] = true
			}
		}
		only := len(paired) > 0 && !slices.ContainsFunc(pl.Workload.Ops, func(op workload.Op) bool {
			return !paired[op.ID] && (n == 0 || of[op.ID] >= 0)
		})
		pl.onlyPairs = &only
	}
	return *pl.onlyPairs
}

// undisturbed lowers the highest cost of each issue, over all iterations that issue the same as the
// last one, to the second highest: what disturbs a host once only adds, and what happens again
// stays (rule H7). Of two iterations that is the lower time. What waking a thread takes scatters, and is kept.
func (pl *Planner) undisturbed(rank int, costs []trace.Time) {
	w, ids := pl.Workload, pl.Workload.Ranks[rank]
	of, n := pl.iterations()
	if n < 2 {
		return
	}
	rounds := make([][]int32, n)
	for _, i := range w.Hosts[rank].Order {
		if k := of[ids[i]]; k >= 0 {
			rounds[k] = append(rounds[k], i)
		}
	}
	last := rounds[n-1]
	rounds = slices.DeleteFunc(rounds, func(round []int32) bool {
		return !slices.EqualFunc(round, last, func(a, b int32) bool { return w.Ops[ids[a]].Name == w.Ops[ids[b]].Name })
	})
	for place := range last {
		if len(rounds) == 2 && w.Hosts[rank].Issues[last[place]].Handed {
			continue
		}
		each := make([]*trace.Time, 0, n)
		for _, round := range rounds {
			if i := round[place]; i != w.Hosts[rank].Order[0] { // of the first issue nothing is known
				each = append(each, &costs[i])
			}
		}
		slices.SortFunc(each, func(a, b *trace.Time) int { return cmp.Compare(*b, *a) })
		if len(each) > 1 {
			*each[0] = *each[1]
		}
	}
}

// iterations is workload.IterationsOf.
func (pl *Planner) iterations() (of []int32, n int) {
	if pl.iterationOf == nil {
		pl.iterationOf, pl.rounds = workload.IterationsOf(pl.Workload)
	}
	return pl.iterationOf, pl.rounds
}

// HostPeriod is the host time that the slowest rank spends to issue one iteration as planned
// (IssueAhead), ns: the median of those after the first, so that what the first one loads and allocates
// does not count. It is 0 if the trace has no host calls or fewer than two iterations.
func (pl *Planner) HostPeriod() trace.Time { return pl.hostPeriod }

// period is HostPeriod of a rank.
func (r *Rank) period() trace.Time {
	of, n := r.Planner.iterations()
	if n < 2 || len(r.order) == 0 {
		return 0
	}
	sums := make([]trace.Time, n)
	for _, c := range r.calls {
		if k := of[r.order[min(c.place, len(r.order)-1)]]; k >= 0 {
			sums[k] += c.cost
		}
	}
	later := sums[1:]
	slices.Sort(later)
	return later[(len(later)-1)/2]
}
