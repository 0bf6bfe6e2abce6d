package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// hostBound is the share of waiting from which a verdict starts with it.
const hostBound = 0.1

// waitsForHost reports whether the captured schedule, or a phase of it, waits for hosts for a tenth of its time.
func waitsForHost(w *workload.Workload, captured engines.Outcome) bool {
	if captured.Phase == 0 {
		for _, phase := range captured.Each() {
			if phase > 0 && waitsForHost(w, captured.Of(phase)) {
				return true
			}
		}
	}
	host, unseen, _, _ := waits(w, captured)
	return bound(w, host, unseen)
}

// LaunchBound reports whether devices are idle for a tenth of the time of the captured schedule, or of a phase of it: for hosts,
// or between kernels that these have launched. A graph shortens both.
func LaunchBound(w *workload.Workload, captured engines.Outcome) bool {
	return waitsForHost(w, captured) || slices.ContainsFunc(captured.Each(), func(phase int) bool {
		t := TimesOf(w, captured.Of(phase))
		return float64(t.Idle) > hostBound*float64(t.Total())
	})
}

// bound reports whether devices wait for hosts: for their own, and for ranks that nobody captured where hosts launch the
// collectives that waited for them, as these run the same kernels.
func bound(w *workload.Workload, host, unseen float64) bool {
	var byHost, inGraphs trace.Time
	for i := range w.Collectives {
		if c := &w.Collectives[i]; w.Ops[c.Members[0]].Graph {
			inGraphs += c.Late
		} else {
			byHost += c.Late
		}
	}
	if inGraphs > byHost {
		unseen = 0
	}
	return host+unseen > hostBound
}

// hosts says that a step waits for its host, or for ranks that nobody captured.
func (v *Verdict) hosts(w *workload.Workload, captured engines.Outcome, outcomes []Prediction) {
	host, unseen, paused, longest := waits(w, captured)
	v.HostWait, v.UnseenWait = host, unseen
	v.HostBound = bound(w, v.HostWait, v.UnseenWait)
	others := ""
	if v.UnseenWait >= LeastWaiting {
		others = fmt.Sprintf(" and %.0f %% for ranks that were not captured, probably for their hosts", 100*v.UnseenWait)
	}
	if v.HostBound {
		v.say("host-bound: devices wait %.0f %% of the time for the host to launch kernels%s, which no overlap changes; %s", 100*v.HostWait,
			others, launchedLess(w, outcomes))
	}
	if paused >= LeastWaiting {
		in, shorter := pausesIn(w)
		v.paused = fmt.Sprintf("devices wait %.0f %% of the time in pauses of the host of up to %.1f ms, %s",
			100*paused, float64(longest)/1e6, cmp.Or(in, "as for data"))
		shortens := func(o Prediction) bool { // the host is ahead of devices again
			return o.Why == "" && o.paused < paused/2*float64(captured.Expected)
		}
		switch {
		case slices.ContainsFunc(outcomes, func(o Prediction) bool { return o.likely() && shortens(o) }):
		case slices.ContainsFunc(outcomes, shortens):
			v.paused += ": no schedule and no graph is likely to shorten them"
		default:
			v.paused += ": no schedule and no graph shortens them"
		}
		v.paused += shorter
	}
	if paused >= hostBound || v.HostBound { // else behind what to change
		v.sayPaused()
	}
}

// pausesIn says in which range or operator of the host most of its longest pause passed: the shortest one recorded that has half
// of the pause, and of which the pause is half, but no step; and, behind a semicolon, what of the program shortens it, if that is known.
// Both are "" if there is none, or where the host waited for its device meanwhile.
func pausesIn(w *workload.Workload) (in, shortens string) {
	var pause overlap.Interval
	rank, work := -1, plan.HostStall
	for r, h := range w.Hosts {
		if h == nil || !w.Run.Own(r) {
			continue
		}
		for i := 1; i < len(h.Order); i++ {
			if is := &h.Issues[h.Order[i]]; is.Work > work {
				ids := w.Ranks[r]
				rank, work = r, is.Work
				pause = overlap.Interval{Start: w.Ops[ids[h.Order[i-1]]].Issued, End: w.Ops[ids[h.Order[i]]].Issued}
			}
		}
	}
	if rank < 0 || pause.End-pause.Start > 2*work {
		return "", ""
	}
	half, name, least := (pause.End-pause.Start)/2, "", trace.Infinity
	isStep := map[string]bool{}
	for _, step := range w.Steps {
		isStep[step.Name] = true
	}
	for _, s := range w.Run.Spans {
		in := min(s.End, pause.End) - max(s.Start, pause.Start)
		if s.Kind.OnDevice() || w.Run.RankOf(s) != rank || in < half || s.Dur() > 2*in || s.Dur() >= least {
			continue
		}
		if called := w.Run.Names[s.Name]; !isStep[called] {
			name, least = called, s.Dur()
		}
	}
	switch { // the ranges of torch.utils.data
	case name == "":
		return shared(w.Run, rank, pause, isStep), ""
	case strings.Contains(name, "_SingleProcessDataLoaderIter"):
		shortens = "; a DataLoader with num_workers above 0 loads beside the step"
	case strings.Contains(name, "_MultiProcessingDataLoaderIter"):
		shortens = "; more num_workers of the DataLoader may"
	}
	return "the longest mostly in " + cut(name), shortens
}

// cut is a name of at most 80 characters.
func cut(name string) string {
	if r := []rune(name); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return name
}

// leastShare is the share of a pause from which a name is told among others.
const leastShare = 0.1

// shared says which ranges and operators of a rank's host most of a pause passed in, if none alone has half of it, by name: each
// of at least a tenth of the pause, the three longest together at least half. What passed inside of another one, or beside it on
// another thread, counts as that one's. "" if there are none.
func shared(run *trace.Run, rank int, pause overlap.Interval, isStep map[string]bool) string {
	var inside []trace.Span // more of each than outside
	for _, s := range run.Spans {
		in := min(s.End, pause.End) - max(s.Start, pause.Start)
		if !s.Kind.OnDevice() && in > 0 && 2*in >= s.Dur() && run.RankOf(s) == rank && !isStep[run.Names[s.Name]] {
			inside = append(inside, s)
		}
	}
	slices.SortStableFunc(inside, func(a, b trace.Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
	spent, to := map[string]trace.Time{}, pause.Start
	for _, s := range inside {
		if end := min(s.End, pause.End); end > to {
			spent[run.Names[s.Name]] += end - max(s.Start, to)
			to = end
		}
	}
	names := slices.SortedFunc(maps.Keys(spent), func(a, b string) int {
		return cmp.Or(cmp.Compare(spent[b], spent[a]), cmp.Compare(a, b))
	})
	var told []string
	sum, whole := trace.Time(0), pause.End-pause.Start
	for _, name := range names[:min(3, len(names))] {
		if share := float64(spent[name]) / float64(whole); share >= leastShare {
			told, sum = append(told, fmt.Sprintf("%s (%.0f %%)", cut(name), 100*share)), sum+spent[name]
		}
	}
	if 2*sum < whole {
		return ""
	}
	return "the longest in " + list(told)
}

// sayPaused says that devices wait for a host that pauses, once.
func (v *Verdict) sayPaused() {
	if v.paused != "" {
		v.say("%s", v.paused)
		v.paused = ""
	}
}

// launchedLess says what shortens a step that waits for its host, and by how much a graph is predicted to if that is not
// likely enough to be recommended.
func launchedLess(w *workload.Workload, outcomes []Prediction) string {
	or, fewer := ", ", "torch.compile or fewer, larger operators"
	if compiled(w.Run) || isNative(w.Run) && ownKernels(w) {
		or, fewer = " or ", "fewer, larger kernels"
	}
	for _, o := range outcomes {
		graph := o.Strategy.Kind == plan.Exact && o.Values["graph"] == "on"
		if c := o.Confidence; graph && o.Result != nil && o.Change < Faster && !o.likely() {
			why := c.Why
			if DamageOf(w) != "" { // of what kind, a sentence of its own says
				why = "the trace is damaged"
			}
			return fmt.Sprintf("a captured graph is predicted to take %.1f %% less, %s likely: %s; %s help too",
				-100*o.Change, PercentOf(c.Chance.PFaster), why, fewer)
		}
	}
	return "a captured graph (graph=on)" + or + fewer + " do"
}

// hostSpread is how many times longer one host takes to issue than another of the
// same kind: four took 7.9, 12, 21 and 23 us a GEMM (host_issue in samples/measurements
// and behind the profile h200).
const hostSpread = 3

// host: time in which a device waits for its host, which another machine or load
// changes. What the first iteration waited for is a cold start's and left out.
func (v *assessment) host() {
	if v.out.Values["graph"] == "on" {
		if v.w.Unseen() {
			v.addCaveat(poor, "ranks that were not captured come late, which a graph changes only if their hosts are the cause")
		}
		return
	}
	host, unseen, _, _ := waits(v.w, v.out)
	worst, others := host+unseen, ""
	if unseen >= LeastWaiting {
		others = " or for ranks that were not captured"
	}
	l := &v.m.Launch
	alone, issue := 1e9*max(l.Host.Or(0), l.Compiled.Or(0)), v.issue()
	switch whole := float64(v.out.Time); {
	case hostSpread*issue > whole:
		v.addCaveat(poor, "host-bound on a slow host: issuing an iteration takes %.0f to %.0f us, depending on the host",
			issue/1e3, hostSpread*issue/1e3)
	case worst > 0.2:
		why := "host-bound: devices wait %.0f %% of the time for a launch" + others
		if !v.w.Unprofiled && v.w.Run.Estimated == "" {
			why += ", the profiler's part included"
		}
		v.addCaveat(poor, why, 100*worst)
	case worst > 0.05:
		v.addCaveat(poor, "GPUs wait %.0f %% of the time for the host"+others, 100*worst)
	case v.out.Strategy.Inside && hostSpread*alone > whole/5:
		v.addCaveat(poor, "a slow host needs %.0f of %.0f us to launch the one kernel", hostSpread*alone/1e3, whole/1e3)
	}
}

// issue is the nanoseconds that a host takes to enqueue one iteration on one
// rank, at the profile's pace.
func (v *assessment) issue() float64 {
	l := &v.m.Launch
	var each float64
	kernel := l.Host.Or(0)
	if v.out.Strategy.Inside {
		kernel = l.Compiled.Or(kernel)
	}
	run := v.out.Result.Run
	steps, of := plan.StepsOf(v.w, run).Of(v.out.Phase), 0
	for i := range workload.Iterations(v.w) {
		if steps.Has(i) {
			of++
		}
	}
	for _, s := range run.Spans {
		if id := plan.OriginOf(run, s); id >= 0 && (v.w.Ops[id].Graph || !steps.Has(int(v.w.Ops[id].Step))) {
			continue
		}
		switch s.Kind {
		case trace.Collective:
			each += l.HostCollective.Or(0)
		case trace.Compute:
			each += kernel
		}
	}
	own := 0
	for rank := range v.w.World {
		if run.Own(rank) {
			own++
		}
	}
	return each * 1e9 / float64(max(1, own)*max(1, of))
}

// waits are the shares of an outcome's time in which a device is idle because its host has not
// launched the next operation on any stream, because ranks that nobody captured come late, and in pauses of its host: of the
// rank with the largest sum; and the longest pause, ns. A stretch from plan.HostStall on is a pause: no launch takes
// so long. The first of several iterations, and the time before the first operation, are
// excluded: a cold start.
func waits(w *workload.Workload, out engines.Outcome) (host, unseen, paused float64, longest trace.Time) {
	if out.Result == nil {
		return 0, 0, 0, 0
	}
	in := plan.StepsOf(w, out.Result.Run).Of(out.Phase).Steady()
	busy := make([][]overlap.Interval, len(in))
	run := out.Result.Run
	began := make([]bool, len(in))
	for _, s := range run.Spans { // by start
		if r := run.RankOf(s); s.Kind.OnDevice() && r < len(in) && s.End > s.Start {
			if !began[r] {
				began[r], in[r].Start = true, max(in[r].Start, s.Start)
			}
			if x := (overlap.Interval{Start: max(s.Start, in[r].Start), End: min(s.End, in[r].End)}); x.Start < x.End {
				busy[r] = append(busy[r], x)
			}
		}
	}
	for r, steady := range in {
		whole := steady.Length()
		if whole <= 0 || !run.Own(r) {
			continue
		}
		var late, skewed []overlap.Interval
		for i := range out.Result.IdleOf(r) {
			x := overlap.Interval{Start: max(i.Start, steady.Start), End: min(i.End, steady.End)}
			switch {
			case x.End <= x.Start:
			case i.Cause == program.HostIssue:
				late = append(late, x)
			case i.Cause == program.Unseen:
				skewed = append(skewed, x)
			case i.Cause == program.LaunchGap: // what the host has issued is on its way, whatever other streams wait for
				busy[r] = append(busy[r], x)
			}
		}
		worked := overlap.Covered(busy[r])
		skewed = append(skewed, busy[r]...)
		seen := overlap.Covered(skewed)
		all := overlap.Covered(append(late, skewed...))
		pauses, most := stalls(steady.Start, skewed, late)
		x, y, z := float64(all-seen-pauses)/float64(whole), float64(seen-worked)/float64(whole), float64(pauses)/float64(whole)
		if x+y+z > host+unseen+paused {
			host, unseen, paused, longest = x, y, z, most
		}
	}
	return host, unseen, paused, longest
}

// stalls are the stretches of at least plan.HostStall in front of busy times, from a time on, in which streams wait for the
// host: their sum and the longest.
func stalls(from trace.Time, busy, late []overlap.Interval) (sum, longest trace.Time) {
	slices.SortFunc(busy, func(a, b overlap.Interval) int { return cmp.Compare(a.Start, b.Start) })
	for i, end := 0, from; i < len(busy); i++ {
		if busy[i].Start-end >= plan.HostStall {
			var in []overlap.Interval
			for _, x := range late {
				if from, to := max(x.Start, end), min(x.End, busy[i].Start); from < to {
					in = append(in, overlap.Interval{Start: from, End: to})
				}
			}
			if waits := overlap.Covered(in); waits >= plan.HostStall {
				sum, longest = sum+waits, max(longest, waits)
			}
		}
		end = max(end, busy[i].End)
	}
	return sum, longest
}
