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
// (rules H1 and H2). What follows writes the host's part with each operation: with the
// profiler, and in a loop of pairs. Otherwise writeHost does.

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
	r.pause(at-r.clock, op.Name)
	r.clock = at
	return r.postIssued(), at
}

// pause writes captured host time, minus the time already used to issue operations that
// were not captured (rule H1).
func (r *Rank) pause(d trace.Time, name string) {
	used := min(d, r.ahead)
	r.ahead -= used
	r.Host.Delay(d-used, program.HostIssue, name)
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

// hostStall is the pause from which the host was busy with the program's own work. If a
// run without profiler is predicted, shorter pauses count as the launch path, which a
// profiler slows several times; the profile's times replace them (rule H6).
const hostStall = trace.Time(1_000_000)

// HostStall is hostStall: no launch takes so long, and no graph shortens it (rule H11).
const HostStall = hostStall

// reach writes the host's time up to the first operation of a pair.
func (r *Rank) reach(op *workload.Op) {
	if op.Issued == trace.Infinity || r.Planner.hostOrder != nil {
		return
	}
	first := r.clock == 0
	for len(r.syncs) > 0 && r.syncs[0].End <= op.Issued {
		r.waitForDevice(r.syncs[0])
		r.syncs = r.syncs[1:]
	}
	if d := op.Issued - r.clock; d > 0 && (first || d > hostStall || !r.Planner.Workload.Unprofiled) {
		r.pause(d, op.Name)
	}
	r.clock = max(r.clock, op.Issued)
}

// passed writes the remaining captured time up to the issue of an operation, after a
// strategy has issued its replacement.
func (r *Rank) passed(op *workload.Op) {
	if op.Issued == trace.Infinity || r.Planner.hostOrder != nil {
		return
	}
	if d := op.Issued - r.clock; d > 0 && !r.Planner.Workload.Unprofiled {
		r.pause(d, op.Name)
	}
	r.clock = max(r.clock, op.Issued)
}

// notBefore delays the issue of an operation of a pair until the program had reached it in
// the capture.
func (r *Rank) notBefore(op *workload.Op) {
	if op.Issued == trace.Infinity || r.Planner.Workload.Unprofiled || r.Planner.hostOrder != nil {
		return
	}
	if d := op.Issued - r.clock - r.ahead; d > 0 {
		r.Host.Delay(d, program.HostIssue, op.Name)
		r.ahead += d
	}
}

// Issue writes the issue of one operation that was not captured. seconds is its cost on
// the profile's host.
func (r *Rank) Issue(seconds float64, name string) int64 {
	d := Duration(seconds * r.HostPace)
	if r.Planner.hostOrder != nil {
		return r.call(r.at, d, name)
	}
	r.Host.Delay(d, program.HostIssue, name)
	if !r.Planner.Workload.Unprofiled {
		r.ahead += d
	}
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
// kernel of a launched graph, is subtracted (rule H7). It is nil if the trace has no host calls.
func (pl *Planner) IssueCosts(rank int) []trace.Time {
	if rank >= len(pl.Workload.Hosts) || len(pl.Workload.Hosts[rank].Order) == 0 {
		return nil
	}
	h, l := pl.Workload.Hosts[rank], &pl.Machine.Launch
	pace := 1e9 * pl.hostPace(rank)
	op, launch, call, node := pace*l.ProfiledOp.Or(0), pace*l.ProfiledLaunch.Or(0), pace*l.ProfiledCall.Or(0), pace*l.ProfiledNode.Or(0)
	least := max(0, pace*l.Call.Or(0)-launch)
	costs, nodes := make([]trace.Time, len(h.Issues)), 0
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
	if pl.Workload.Unprofiled || pl.Graph {
		pl.undisturbed(rank, costs)
	}
	return costs
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
