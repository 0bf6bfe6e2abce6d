package results

import (
	"io"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/overlap"
)

// The most arrows of a kind and points of a counter in a timeline for Perfetto: 50,000
// arrows are 12 MB, and one of compressed text.
const (
	mostFlows  = 50_000
	mostPoints = 4096
)

// WritePerfetto writes a run with arrows from launches, flags and puts to what waited for
// them, and with counters, of which shares are further ones. of, the operators of a simulated
// run, and reasons, of the idle time of streams, may be nil.
func WritePerfetto(w io.Writer, run *trace.Run, of *chrome.Operators, reasons []overlap.Reason, shares []chrome.Counter) error {
	var flows []chrome.Flow
	for _, e := range overlap.Edges(run, reasons, mostFlows) {
		if e.Kind != overlap.Launched { // the writer has these
			flows = append(flows, chrome.Flow{From: e.From, To: e.To, Left: e.Left, Came: e.Landed, Name: e.Kind.String()})
		}
	}
	var counters []chrome.Counter
	for _, c := range overlap.Counters(run, mostPoints) {
		x := chrome.Counter{Rank: c.Rank, Name: c.Name}
		for _, p := range c.Points {
			x.At, x.Values = append(x.At, p.At), append(x.Values, p.Value)
		}
		counters = append(counters, x)
	}
	return chrome.Write(w, run, of, flows, append(counters, shares...))
}

// shares are what runs side by side, whose times were shifted, use over time, in percent.
func (r *Replayed) shares(runs []*trace.Run, shifts []trace.Time) []chrome.Counter {
	var list []chrome.Counter
	first := 0
	for i, out := range r.written() {
		for _, u := range out.Result.Usage {
			if slices.Max(u.Shares) < leastShare {
				continue
			}
			c := chrome.Counter{Rank: int32(first + u.GPU), Name: u.Of + ", %"}
			for at, share := range u.Shares {
				c.At, c.Values = append(c.At, shifts[i]+trace.Time(at)*u.Width), append(c.Values, math.Round(1000*share)/10)
			}
			c.At, c.Values = append(c.At, shifts[i]+out.Result.Makespan), append(c.Values, 0)
			list = append(list, c)
		}
		first += len(runs[i].Ranks)
	}
	return list
}

// ran are the outcomes of the strategies that apply, in table order.
func (r *Replayed) ran() []engines.Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(out engines.Outcome) bool { return out.Result == nil })
}

// written are the outcomes whose timelines and profiles a folder has: of strategies that nobody named the captured schedule and the
// best other one.
func (r *Replayed) written() []engines.Outcome {
	if !r.unnamed {
		return r.ran()
	}
	best := r.best()
	var list []engines.Outcome
	for i, out := range r.Outcomes {
		if out.Result != nil && r.first(i, best) {
			list = append(list, out)
		}
	}
	return list
}

// first reports whether an outcome is the captured schedule, or the best other one.
func (r *Replayed) first(outcome, best int) bool {
	of := &r.Outcomes[outcome]
	return outcome == best || of.Strategy.Name == r.reference.Strategy.Name && of.Strategy.String(of.Values) == ""
}

// reasons are the idle intervals of runs side by side, whose times were shifted.
func (r *Replayed) reasons(runs []*trace.Run, shifts []trace.Time) []overlap.Reason {
	var list []overlap.Reason
	first := 0
	for i, out := range r.written() {
		list = append(list, ReasonsOf(out.Result, first, shifts[i])...)
		first += len(runs[i].Ranks)
	}
	return list
}

// ReasonsOf are the idle intervals of a run whose ranks begin at a row, shifted.
func ReasonsOf(r *replay.Result, first int, shift trace.Time) []overlap.Reason {
	var list []overlap.Reason
	for _, i := range r.Idle() {
		list = append(list, overlap.Reason{
			Rank: int32(first + i.Rank), Queue: i.Queue, Start: i.Start + shift, End: i.End + shift, Cause: i.Cause.String(), Note: i.Note,
		})
	}
	return list
}
