package pprof

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// kernelOf returns the kernel that a workgroup or phase belongs to, or None.
func kernelOf(run *trace.Run, s trace.Span) trace.SpanID {
	for p := s.Parent; p != trace.None; p = run.Spans[p].Parent {
		if run.Spans[p].Kind.OnDevice() {
			return p
		}
	}
	return trace.None
}

// slotTime sums what the time of each kernel's workgroups went to.
func slotTime(run *trace.Run) map[trace.SpanID]*partTimes {
	sums := map[trace.SpanID]*partTimes{}
	for _, s := range run.Spans {
		if !s.Kind.InKernel() {
			continue
		}
		k := kernelOf(run, s)
		if k == trace.None {
			continue
		}
		if sums[k] == nil {
			sums[k] = new(partTimes)
		}
		sums[k][s.Kind] += s.Dur()
		if s.Kind != trace.Workgroup && run.Spans[s.Parent].Kind == trace.Workgroup {
			sums[k][trace.Workgroup] -= s.Dur()
		}
	}
	for k, sum := range sums {
		if total(sum) == 0 {
			delete(sums, k)
		}
	}
	return sums
}

func total(weights *partTimes) (sum trace.Time) {
	for _, w := range weights {
		sum += max(w, 0)
	}
	return sum
}

// apportion divides whole in proportion to the weights. The parts are rounded
// down and what is left goes to the last of them that has any weight, so that
// they add up to whole.
func apportion(whole trace.Time, weights *partTimes) (shares partTimes) {
	sum := uint64(total(weights))
	left := whole
	last := trace.Workgroup
	for _, i := range parts {
		w := weights[i]
		if w <= 0 {
			continue
		}
		hi, lo := bits.Mul64(uint64(whole), uint64(w))
		part, _ := bits.Div64(hi, lo, sum) // fits: w ≤ sum
		shares[i] = trace.Time(part)
		left -= shares[i]
		last = i
	}
	shares[last] += left
	return shares
}

// A wall is each instant of each rank, given to what ran then.
type wall struct {
	busy []trace.Time // by span; of device work only
	idle []trace.Time // by rank
}

// wallTime divides every instant of a rank among the kernels and copies that run on it.
func wallTime(run *trace.Run) wall {
	w := wall{busy: make([]trace.Time, len(run.Spans)), idle: make([]trace.Time, len(run.Ranks))}
	byRank := make([][]trace.SpanID, len(run.Ranks))
	for i, s := range run.Spans {
		if s.Kind.OnDevice() && s.Dur() > 0 {
			r := run.RankOf(s)
			byRank[r] = append(byRank[r], trace.SpanID(i))
		}
	}
	for rank, ids := range byRank {
		w.idle[rank] = w.sweep(run, ids)
	}
	return w
}

// sweep goes through a rank's device work, which is sorted by start, and returns how long
// there was none. It keeps what a span that runs all the time would have been given: a
// span's time is the difference between its end and its start. Nanoseconds that do not
// divide stay for the next interval, and in the end for the span that ends last.
func (w *wall) sweep(run *trace.Run, ids []trace.SpanID) (idle trace.Time) {
	ends := slices.Clone(ids)
	slices.SortStableFunc(ends, func(a, b trace.SpanID) int { return cmp.Compare(run.Spans[a].End, run.Spans[b].End) })
	var now, given, left trace.Time
	running := trace.Time(0)
	advance := func(to trace.Time) {
		if running == 0 {
			idle += to - now
		} else {
			left += to - now
			given, left = given+left/running, left%running
		}
		now = to
	}
	finish := func(until trace.Time) {
		for ; len(ends) > 0 && run.Spans[ends[0]].End <= until; ends = ends[1:] {
			advance(run.Spans[ends[0]].End)
			w.busy[ends[0]] += given
			if running--; running == 0 {
				w.busy[ends[0]], left = w.busy[ends[0]]+left, 0
			}
		}
	}
	for _, id := range ids {
		finish(run.Spans[id].Start)
		advance(run.Spans[id].Start)
		w.busy[id] = -given
		running++
	}
	finish(run.End)
	advance(run.End)
	return idle
}
