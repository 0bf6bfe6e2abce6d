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
func slotTime(run *trace.Run) map[trace.SpanID]*[numLeaves]trace.Time {
	sums := map[trace.SpanID]*[numLeaves]trace.Time{}
	for _, s := range run.Spans {
		if !s.Kind.InKernel() {
			continue
		}
		k := kernelOf(run, s)
		if k == trace.None {
			continue
		}
		if sums[k] == nil {
			sums[k] = new([numLeaves]trace.Time)
		}
		sums[k][leafOf(s.Kind)] += s.Dur()
		if s.Kind != trace.Workgroup && run.Spans[s.Parent].Kind == trace.Workgroup {
			sums[k][leafOther] -= s.Dur()
		}
	}
	for k, sum := range sums {
		if total(sum) == 0 {
			delete(sums, k)
		}
	}
	return sums
}

func total(weights *[numLeaves]trace.Time) (sum trace.Time) {
	for _, w := range weights {
		sum += max(w, 0)
	}
	return sum
}

// apportion divides whole in proportion to the weights. The parts are rounded
// down and what is left goes to the last of them that has any weight, so that
// they add up to whole.
func apportion(whole trace.Time, weights *[numLeaves]trace.Time) (parts [numLeaves]trace.Time) {
	sum := uint64(total(weights))
	left := whole
	last := noLeaf
	for i, w := range weights {
		if w <= 0 {
			continue
		}
		hi, lo := bits.Mul64(uint64(whole), uint64(w))
		part, _ := bits.Div64(hi, lo, sum) // fits: w ≤ sum
		parts[i] = trace.Time(part)
		left -= parts[i]
		last = leaf(i)
	}
	parts[last] += left
	return parts
}

// A wall is each instant of each rank, given to what ran then.
type wall struct {
	busy []trace.Time // by span; of device work only
	idle []trace.Time // by rank
}

// wallTime divides every instant of a rank among the kernels and copies that
// run on it. A nanosecond that does not divide goes to those that began first.
func wallTime(run *trace.Run) wall {
	w := wall{busy: make([]trace.Time, len(run.Spans)), idle: make([]trace.Time, len(run.Ranks))}
	byRank := make([][]trace.SpanID, len(run.Ranks))
	for i, s := range run.Spans {
		if s.Kind.OnDevice() {
			r := run.RankOf(s)
			byRank[r] = append(byRank[r], trace.SpanID(i))
		}
	}
	for rank, ids := range byRank {
		w.idle[rank] = w.sweep(run, ids)
	}
	return w
}

// sweep goes through a rank's device work in time and returns how long there was none.
func (w *wall) sweep(run *trace.Run, ids []trace.SpanID) (idle trace.Time) {
	var running []trace.SpanID // in order of their start
	var now trace.Time
	advance := func(to trace.Time) {
		n := trace.Time(len(running))
		if n == 0 {
			idle += to - now
		}
		for i, id := range running {
			w.busy[id] += (to - now) / n
			if trace.Time(i) < (to-now)%n {
				w.busy[id]++
			}
		}
		now = to
	}
	finish := func(until trace.Time) {
		for len(running) > 0 {
			first := slices.MinFunc(running, func(a, b trace.SpanID) int {
				return cmp.Compare(run.Spans[a].End, run.Spans[b].End)
			})
			end := run.Spans[first].End
			if end > until {
				return
			}
			advance(end)
			running = slices.DeleteFunc(running, func(id trace.SpanID) bool { return run.Spans[id].End == end })
		}
	}
	for _, id := range ids {
		start := run.Spans[id].Start
		finish(start)
		advance(start)
		running = append(running, id)
	}
	finish(run.End)
	advance(run.End)
	return idle
}
