package verdict

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Explanations
//
// explain.go, limit.go, traffic.go, versus.go and whatif.go explain the time of a strategy: its critical path, its limits, its
// memory traffic by cause, and its sensitivity to parts of the machine.

// An Explanation is the critical path of one iteration, or of a window, from recorded
// causes, and the parts of its time.
type Explanation struct {
	Start trace.Time `json:"start_ns"` // of the iteration or window in the simulated run
	Time  trace.Time `json:"time_ns"`  // its length, the sum of the links; 0 if the run ends before the window
	// number of iterations covered: more than one if they overlap; 1 for the whole run, 0 for another part of it
	Rounds int       `json:"iterations"`
	Path   []Link    `json:"critical_path"`
	Parts  []Part    `json:"parts"` // sum is Time; longest first
	Names  []Part    `json:"names"` // the same by name of kernel and copy
	Versus *versus   `json:"against,omitempty"`
	Limits []limited `json:"limits,omitempty"` // by rank and start, if replay.Options.Limits
	Idle   []IdleSum `json:"idle,omitempty"`   // idle time of streams by cause, longest first
}

// A limited is the limit of a rank in an interval of the iteration.
type limited struct {
	Rank  int        `json:"rank"`
	Start trace.Time `json:"start_ns"`
	End   trace.Time `json:"end_ns"`
	By    string     `json:"by"`
}

// A Link is the contribution of one kernel, copy or stream, or of several in sequence, to
// the critical path.
type Link struct {
	Time     trace.Time `json:"time_ns"`
	Names    []Part     `json:"names"`             // of kernels and copies with their times, longest first
	Ranks    []int      `json:"ranks"`             // ranks of this part of the path, ascending
	Launches int        `json:"launches"`          // of the first name, on the rank with most
	Parts    []Part     `json:"parts"`             // time by cause, longest first
	After    string     `json:"after,omitempty"`   // what it waited for before it began
	Late     trace.Time `json:"late_ns,omitempty"` // delay from the launch until persistent workgroups got a slot

	of []replay.Segment
}

// A Part is the time of one cause or name.
type Part struct {
	What string     `json:"what"`
	Time trace.Time `json:"time_ns"`
}

// maxLinks is the maximum number of lines of a critical path.
const maxLinks = 15

// Explain explains an outcome that was run with replay.Options.Causes, in the window of
// the options or, without one, in the iteration that its time stands for.
func Explain(w *workload.Workload, out engines.Outcome) Explanation {
	is, rounds := plan.StepsOf(w, out.Result.Run).Of(out.Phase).Typical()
	if x := out.Window; x.End > 0 {
		start := min(x.Start, out.Result.Makespan)
		is, rounds = plan.Interval{Start: start, End: min(x.End, out.Result.Makespan)}, 0
		if x.Start == 0 && x.End >= out.Result.Makespan {
			rounds = 1
		}
	}
	path := within(out.Result.Path, is.Start, is.End)
	e := Explanation{Start: is.Start, Time: is.End - is.Start, Rounds: rounds, Parts: partsOf(path)}
	e.Path = linksOf(path, &out.Program.Flags)
	e.Names = total(path, ownerOf)
	for _, l := range out.Result.Limits {
		if start, end := max(l.Start, is.Start), min(l.End, is.End); start < end && l.GPU < w.World {
			e.Limits = append(e.Limits, limited{l.GPU, start, end, l.By})
		}
	}
	e.Idle = idleByCause(idleIn(slices.Values(out.Result.Idle()), is))
	return e
}

// idleIn clips intervals to a window.
func idleIn(idle iter.Seq[replay.Idle], is plan.Interval) iter.Seq[replay.Idle] {
	return func(yield func(replay.Idle) bool) {
		for i := range idle {
			if i.Start, i.End = max(i.Start, is.Start), min(i.End, is.End); i.Start < i.End && !yield(i) {
				return
			}
		}
	}
}

// within clips the path to a window.
func within(path []replay.Segment, from, to trace.Time) []replay.Segment {
	var part []replay.Segment
	for _, g := range path {
		if g.End <= from || g.Start >= to || g.End == g.Start && len(part) == 0 {
			continue
		}
		if cut := max(g.Start, from); cut > g.Start {
			g.Alone = max(0, g.Alone-(cut-g.Start))
			g.Start = cut
		}
		g.End = min(g.End, to)
		g.Alone = min(g.Alone, g.End-g.Start)
		part = append(part, g)
	}
	return part
}

// split divides a segment's time into the time that it takes alone and the time lost to
// contention.
func split(g replay.Segment) (need string, alone trace.Time, loss string) {
	took := g.End - g.Start
	what := "computation"
	if g.Kind == replay.OfCollective || g.Step == replay.Storing && g.Peer != g.Rank {
		what = "communication"
	}
	switch {
	case (g.Step == replay.Working || g.Step == replay.Storing) && g.Bound != replay.Unbound:
		return what, g.Alone, what + " slowed by " + g.Bound.String()
	case g.Step == replay.Working, g.Step == replay.Storing, g.Step == replay.Sleeping && g.Kind == replay.OfCollective:
		return what, took, ""
	case g.Step == replay.Delaying:
		return cmp.Or(needOfDelay[g.Cause], needOf[replay.Launching]), took, ""
	}
	return needOf[g.Step], took, ""
}

// What a step or a delay takes its time for.
var (
	needOf = [replay.Served + 1]string{
		replay.Sleeping: "latencies", replay.Flying: "latencies", replay.Starting: "latencies",
		replay.Sending: "communication", replay.Queueing: "communication", replay.Copying: "copies", replay.Launching: "launch gaps",
	}
	needOfDelay = map[program.Cause]string{
		program.HostIssue: "the host", program.Unseen: "ranks that were not captured", program.PeerSkew: "barriers",
	}
)

// partsOf sums a path's time by cause, longest first.
func partsOf(path []replay.Segment) []Part {
	var sum sums
	for _, g := range path {
		need, alone, loss := split(g)
		sum.add(need, alone)
		sum.add(loss, g.End-g.Start-alone)
	}
	return sum.sorted()
}

// total sums a path's time by the names that of returns, longest first.
func total(path []replay.Segment, of func(replay.Segment) string) []Part {
	var sum sums
	for _, g := range path {
		sum.add(of(g), g.End-g.Start)
	}
	return sum.sorted()
}

// sums are times by name, in order of first appearance.
type sums []Part

func (s *sums) add(what string, t trace.Time) {
	if t == 0 {
		return
	}
	for i := range *s {
		if (*s)[i].What == what {
			(*s)[i].Time += t
			return
		}
	}
	*s = append(*s, Part{what, t})
}

func (s sums) sorted() []Part {
	slices.SortStableFunc(s, func(a, b Part) int { return cmp.Compare(b.Time, a.Time) })
	return s
}

// linksOf joins consecutive segments of one kernel over all ranks. A link shorter than a
// hundredth of the path is merged with the next one.
func linksOf(path []replay.Segment, flags *program.Flags) []Link {
	var total trace.Time
	if len(path) > 0 {
		total = path[len(path)-1].End - path[0].Start
	}
	var links []Link
	small := 0 // first segment of a short stretch that is merged with the next link
	for at := 0; at < len(path); {
		end := at + 1
		for end < len(path) && ownerOf(path[end]) == ownerOf(path[at]) {
			end++
		}
		if pathTime(path[at:end])*100 >= total || end == len(path) {
			links = appendLink(links, path[small:end])
			small = end
		}
		at = end
	}
	for len(links) > maxLinks {
		least := 0
		for i := range links[1:] {
			if pathTime(links[i].of)+pathTime(links[i+1].of) < pathTime(links[least].of)+pathTime(links[least+1].of) {
				least = i
			}
		}
		links[least] = newLink(slices.Concat(links[least].of, links[least+1].of))
		links = slices.Delete(links, least+1, least+2)
	}
	before := replay.Segment{}
	for i := range links {
		links[i].After = startCause(links[i].of, before, flags)
		before = links[i].of[len(links[i].of)-1]
	}
	return links
}

func pathTime(path []replay.Segment) trace.Time { return path[len(path)-1].End - path[0].Start }

// appendLink adds a link or extends the last one if both mostly belong to the same kernel.
func appendLink(links []Link, path []replay.Segment) []Link {
	if pathTime(path) == 0 {
		return links
	}
	l := newLink(path)
	if n := len(links) - 1; n >= 0 && links[n].Names[0].What == l.Names[0].What {
		links[n] = newLink(slices.Concat(links[n].of, path))
		return links
	}
	return append(links, l)
}

func newLink(path []replay.Segment) Link {
	l := Link{Time: pathTime(path), Parts: partsOf(path), of: path}
	l.Names = total(path, ownerOf)
	launches := map[int]map[[2]int]bool{}
	for _, g := range path {
		if !slices.Contains(l.Ranks, g.Rank) {
			l.Ranks = append(l.Ranks, g.Rank)
		}
		if ownerOf(g) != l.Names[0].What {
			continue
		}
		if g.Step == replay.Placed {
			l.Late = max(l.Late, g.Waited)
		}
		if g.End > g.Start {
			if launches[g.Rank] == nil {
				launches[g.Rank] = map[[2]int]bool{}
			}
			launches[g.Rank][[2]int{g.Stream, g.Command}] = true
			l.Launches = max(l.Launches, len(launches[g.Rank]))
		}
	}
	slices.Sort(l.Ranks)
	return l
}

// ownerOf is the name that a segment's time belongs to.
func ownerOf(g replay.Segment) string {
	if g.Step == replay.Delaying && g.Cause == program.HostIssue {
		return "host"
	}
	return g.Name
}

// startCause describes what a link waited for before it began, if another rank or kernel
// caused it.
func startCause(path []replay.Segment, before replay.Segment, flags *program.Flags) string {
	for _, g := range path {
		switch {
		case g.End > g.Start:
			return ""
		case g.Step == replay.Woken && before.Name != "" && before.Rank != g.Rank:
			return fmt.Sprintf("rank %d waited %s for %q, posted by rank %d", g.Rank, trace.Micros(g.Waited),
				flags.Name(g.Flag), before.Rank)
		case g.Step == replay.Placed && before.Name != "" && before.Name != g.Name:
			return fmt.Sprintf("rank %d waited %s for a slot that %s held", g.Rank, trace.Micros(g.Waited),
				workload.FunctionName(before.Name))
		case g.Step == replay.Served && before.Name != "":
			return fmt.Sprintf("rank %d waited %s for the copy engine of %s", g.Rank, trace.Micros(g.Waited),
				workload.FunctionName(before.Name))
		}
		before = g
	}
	return ""
}
