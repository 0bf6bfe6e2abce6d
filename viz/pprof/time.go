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

// sweep goes through a rank's device work, which is sorted by start, and returns
// how long there was none. It keeps what anything that runs all the time would
// have been given: a span's time is the difference between its end and start.
func (w *wall) sweep(run *trace.Run, ids []trace.SpanID) (idle trace.Time) {
	n := len(ids)
	var ends []int // rows of ids by end, of those that last
	for row, id := range ids {
		if run.Spans[id].Dur() > 0 {
			ends = append(ends, row)
		}
	}
	slices.SortStableFunc(ends, func(a, b int) int { return cmp.Compare(run.Spans[ids[a]].End, run.Spans[ids[b]].End) })
	running := make(counts, n+1) // 1 for each row that runs
	odd := make(counts, n+1)     // by row: nanoseconds of which that row and those before it were given one each
	odds, now, share := 0, trace.Time(0), trace.Time(0)
	count := 0
	given := func(row int) trace.Time { return share + trace.Time(odds-odd.before(row)) }
	advance := func(to trace.Time) {
		if count == 0 {
			idle += to - now
		} else {
			share += (to - now) / trace.Time(count)
			if left := int((to - now) % trace.Time(count)); left > 0 {
				odd.add(running.find(left), 1)
				odds++
			}
		}
		now = to
	}
	finish := func(until trace.Time) {
		for ; len(ends) > 0 && run.Spans[ids[ends[0]]].End <= until; ends = ends[1:] {
			row := ends[0]
			advance(run.Spans[ids[row]].End)
			w.busy[ids[row]] += given(row)
			running.add(row, -1)
			count--
		}
	}
	for row, id := range ids {
		start := run.Spans[id].Start
		finish(start)
		advance(start)
		if run.Spans[id].Dur() <= 0 {
			continue
		}
		w.busy[id] = -given(row)
		running.add(row, 1)
		count++
	}
	finish(run.End)
	advance(run.End)
	return idle
}

// counts are numbers by row, of which sums are found fast (a Fenwick tree).
type counts []int

func (c counts) add(row, n int) {
	for i := row + 1; i < len(c); i += i & -i {
		c[i] += n
	}
}

// before is the sum of all rows before one.
func (c counts) before(row int) (sum int) {
	for i := row; i > 0; i -= i & -i {
		sum += c[i]
	}
	return sum
}

// find is the first row with which the sum reaches n.
func (c counts) find(n int) int {
	at := 0
	for step := 1 << (bits.Len(uint(len(c))) - 1); step > 0; step >>= 1 {
		if next := at + step; next < len(c) && c[next] < n {
			at, n = next, n-c[next]
		}
	}
	return at
}
