package plan

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// The host is a stream of delays and posts: an operation cannot start before its launch
// has been issued. Operations that were not captured cost the profile's issue times
// (rules H1 and H2). The captured schedule with the profiler is issued at its times (issueAsCaptured), all others at the cost
// of each operation (writeHost).

// issueAsCaptured writes the host's part of an operation. It returns the count of
// HostIssued to wait for; 0 if the trace has no host calls.
func (r *Rank) issueAsCaptured(op *workload.Op) int64 {
	if op.Issued == trace.Infinity || op.Issued > op.Start || r.Planner.Graph {
		return 0
	}
	at := max(op.Issued, r.clock)
	for len(r.syncs) > 0 && r.syncs[0].End <= at {
		r.waitForDevice(r.syncs[0])
		r.syncs = r.syncs[1:]
	}
	r.Host.Delay(at-r.clock, program.HostIssue, op.Name)
	r.clock = at
	return r.postIssued()
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

// profilerAdds is the most that a profiler adds to a program, relative to what the profile of its host says that it adds: ten
// loops together 0.82 to 1.24 times that in five processes (rule H7).
const profilerAdds = 1.24

// recordingShapes is the share of what a profiler with record_shapes adds to an operator that it does not add without: of a
// loop of views, with and without in turn in one process (rule H7).
const recordingShapes = 0.39

// settingKernels is the share of the profiler in the time that setting the kernels of a graph takes under it: of graphs of 1,000 kernels
// 0.56 us each without and 2.11 us with it, of 21 and 40 kernels 0.80 of it, in one process with a profiler behind the times without
// (rule H7).
const settingKernels = 0.73

// fastestHost is the pace of the fastest host known, of the four behind the profile h200: a median launch call of 3.7 us, where
// the profile has 5.35. One host changes its pace within seconds by more than that (rule H7).
const fastestHost = 0.69

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
	if !loop && (w.Unprofiled || pl.Graph) {
		return slices.Clone(pl.undisturbed()[rank])
	}
	costs := make([]trace.Time, len(w.Ranks[rank]))
	if known {
		pl.capturedCosts(rank, costs)
	}
	if loop {
		for i, id := range w.Ranks[rank] {
			if costs[i] < HostStall {
				costs[i] = Duration(pl.launchCost(&w.Ops[id]) * w.HostPace(rank, pl.Machine.Launch.Call.Or(0)))
			}
		}
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
	pace := 1e9 * pl.Workload.HostPace(rank, l.Call.Or(0))
	op, launch, call, node := pace*l.ProfiledOp.Or(0), pace*l.ProfiledLaunch.Or(0), pace*l.ProfiledCall.Or(0), pace*l.ProfiledNode.Or(0)
	if !slices.ContainsFunc(pl.Workload.Run.Operators, func(o trace.Operator) bool { return len(o.Dims) > 0 }) {
		op *= 1 - recordingShapes
	}
	least := max(0, pace*l.Call.Or(0)-launch)
	nodes, adds, faster := 0, 1.0, 1.0
	if pl.Scenario.FastHosts {
		adds, faster = profilerAdds, min(1, fastestHost/pl.Workload.HostPace(rank, l.Call.Or(0)))
	}
	for _, i := range h.Order {
		is := h.Issues[i]
		if costs[i] = is.Work; pl.Workload.Unprofiled && is.Work > 0 {
			added := op*float64(is.Operators) + launch*float64(is.Launches) + call*float64(is.Calls) + node*float64(nodes)
			own := float64(is.Work) - adds*(added+settingKernels*float64(h.Sets[i]))
			if own = max(own, least); own < float64(HostStall) {
				own *= faster
			}
			costs[i], nodes = min(is.Work, trace.Time(own)), 0
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

// undisturbed is, by rank, what the captured issues cost the program itself (rule H7). Of an issue that comes at one
// place of several iterations, the highest cost is lowered to the second highest: what disturbs a host once only adds, and
// what happens again stays. Of two iterations that is the lower one. One or two do not tell what happens again, but ranks that
// issue the same run one program: an issue of so few iterations costs no rank more than the median over the iterations of all
// these ranks, at the pace of its host, unless it is longer by HostStall, as work that one rank has alone is. What waking a
// thread takes scatters, and is kept.
func (pl *Planner) undisturbed() [][]trace.Time {
	if pl.calm != nil {
		return pl.calm
	}
	pl.calm = make([][]trace.Time, len(pl.Workload.Hosts))
	for rank := range pl.calm {
		if pl.calm[rank] = make([]trace.Time, len(pl.Workload.Ranks[rank])); pl.hasCalls(rank) {
			pl.capturedCosts(rank, pl.calm[rank])
		}
	}
	for _, ranks := range pl.twins() {
		most := make([][]trace.Time, len(ranks))
		alike := pl.Scenario.FastHosts
		if len(ranks) > 1 && (alike || slices.ContainsFunc(ranks, rankRounds.few)) {
			most = pl.commonCosts(ranks)
		}
		for i, rounds := range ranks {
			if !alike && !rounds.few() {
				most[i] = nil
			}
			pl.lower(rounds, most[i])
		}
	}
	return pl.calm
}

// rankRounds are iterations of a rank that issue the same: positions in Workload.Ranks, in order of issue.
type rankRounds struct {
	rank   int
	rounds [][]int32
}

// few reports whether there are too few iterations to tell what happens again.
func (r rankRounds) few() bool { return len(r.rounds) <= 2 }

// twins are the ranks whose last iterations issue the same, each with all its iterations that do.
func (pl *Planner) twins() (groups [][]rankRounds) {
	w := pl.Workload
	of, n := pl.iterations()
	if n == 0 {
		return nil
	}
	for rank := range w.Hosts {
		if !pl.hasCalls(rank) {
			continue
		}
		rounds := make([][]int32, n)
		for _, i := range w.Hosts[rank].Order {
			if k := of[w.Ranks[rank][i]]; k >= 0 {
				rounds[k] = append(rounds[k], i)
			}
		}
		alike := func(last []int32, of int) func(round []int32) bool {
			return func(round []int32) bool {
				return slices.EqualFunc(round, last, func(a, b int32) bool {
					return w.Ops[w.Ranks[rank][a]].Name == w.Ops[w.Ranks[of][b]].Name
				})
			}
		}
		last := rounds[n-1]
		g := slices.IndexFunc(groups, func(ranks []rankRounds) bool { return alike(ranks[0].rounds[0], ranks[0].rank)(last) })
		if g < 0 {
			g, groups = len(groups), append(groups, nil)
		}
		same := alike(last, rank)
		groups[g] = append(groups[g], rankRounds{rank, slices.DeleteFunc(rounds, func(round []int32) bool { return !same(round) })})
	}
	return groups
}

// commonCosts is, for each of ranks that issue the same and by place in an iteration, the median of the costs of all at the
// pace of the rank's host, ns: the median over the places of its costs over those of all. With Scenario.FastHosts it is the
// least pace of these ranks.
func (pl *Planner) commonCosts(ranks []rankRounds) [][]trace.Time {
	most := make([][]trace.Time, len(ranks))
	all, pace, ratios := make([]int, len(ranks)), make([]float64, len(ranks)), make([][]float64, len(ranks))
	for i := range ranks {
		all[i], pace[i] = i, 1
	}
	var list []float64
	median := func(place int, of ...int) float64 { // of the known costs of some ranks at their paces
		list = list[:0]
		for _, i := range of {
			for _, round := range ranks[i].rounds {
				if at := round[place]; at != pl.Workload.Hosts[ranks[i].rank].Order[0] { // of the first issue nothing is known
					list = append(list, float64(pl.calm[ranks[i].rank][at])/pace[i])
				}
			}
		}
		return overlap.Median(list)
	}
	places := len(ranks[0].rounds[0])
	for place := range places {
		if common := median(place, all...); common > 0 {
			for i := range ranks {
				ratios[i] = append(ratios[i], median(place, i)/common)
			}
		}
	}
	for i := range ranks {
		if ratio := overlap.Median(ratios[i]); ratio > 0 {
			pace[i] = ratio
		}
	}
	for place := range places {
		common := median(place, all...)
		for i := range ranks {
			at := pace[i]
			if pl.Scenario.FastHosts {
				at = slices.Min(pace)
			}
			most[i] = append(most[i], trace.Time(common*at+0.5))
		}
	}
	return most
}

// lower lowers the costs of a rank's iterations that issue the same: the highest of each place to the second highest, and
// all to the most that ranks have in common, if they have twins.
func (pl *Planner) lower(r rankRounds, most []trace.Time) {
	h, costs := pl.Workload.Hosts[r.rank], pl.calm[r.rank]
	each := make([]*trace.Time, 0, len(r.rounds))
	for place, at := range r.rounds[len(r.rounds)-1] {
		handed := h.Issues[at].Handed
		each = each[:0]
		for _, round := range r.rounds {
			if i := round[place]; i != h.Order[0] {
				each = append(each, &costs[i])
			}
		}
		slices.SortFunc(each, func(a, b *trace.Time) int { return cmp.Compare(*b, *a) })
		if len(each) > 1 && !(handed && r.few()) {
			*each[0] = *each[1]
		}
		if handed || most == nil {
			continue
		}
		for _, c := range each {
			if *c < most[place]+HostStall {
				*c = min(*c, most[place])
			}
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

// period is the host time that a rank spends to issue one iteration as planned (IssueAhead), ns: the median of those after
// the first, so that what the first one loads and allocates does not count; 0 without host calls or with fewer than two iterations.
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
	return overlap.Median(sums[1:])
}
