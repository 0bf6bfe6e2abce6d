package overlap

import (
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// Times is what the time of a rank consisted of, ns. Time in which several things ran at
// once counts once: for the first of compute, transfer, waiting and copies.
type Times struct {
	Compute  trace.Time `json:"compute_ns"`  // |U(compute)|
	Transfer trace.Time `json:"transfer_ns"` // |U(transfer) \ U(compute)|
	Waiting  trace.Time `json:"waiting_ns"`  // |U(communication) \ U(compute) \ U(transfer)|: for ranks that arrive later
	Copies   trace.Time `json:"copies_ns"`   // |U(copies) \ U(compute) \ U(communication)|
	Idle     trace.Time `json:"idle_ns"`     // the rest
	Hidden   trace.Time `json:"hidden_ns"`   // |U(transfer) ∩ U(compute)|, which Compute includes
}

// Total is the sum of the times that do not overlap.
func (t Times) Total() trace.Time { return t.Compute + t.Exposed() + t.Copies + t.Idle }

// Exposed is communication without compute.
func (t Times) Exposed() trace.Time { return t.Transfer + t.Waiting }

// byState are the times by state.
func (t Times) byState() [Idle + 1]trace.Time {
	return [...]trace.Time{
		Computing: t.Compute - t.Hidden, Overlapping: t.Hidden, Transferring: t.Transfer, Waiting: t.Waiting,
		Copying: t.Copies, Idle: t.Idle,
	}
}

// count adds time in a state.
func (t *Times) count(is Is, d trace.Time) {
	if is == Overlapping {
		t.Hidden += d
	}
	*[...]*trace.Time{&t.Compute, &t.Compute, &t.Transfer, &t.Waiting, &t.Copies, &t.Idle}[is] += d
}

func (t Times) plus(u Times) Times {
	return Times{
		t.Compute + u.Compute, t.Transfer + u.Transfer, t.Waiting + u.Waiting, t.Copies + u.Copies,
		t.Idle + u.Idle, t.Hidden + u.Hidden,
	}
}

// MeanOf is the mean of several times.
func MeanOf(all []Times) Times {
	var sum Times
	for _, t := range all {
		sum = sum.plus(t)
	}
	return sum.over(trace.Time(max(1, len(all))))
}

func (t Times) over(n trace.Time) Times {
	return Times{t.Compute / n, t.Transfer / n, t.Waiting / n, t.Copies / n, t.Idle / n, t.Hidden / n}
}

// PerIteration returns, by rank row, what one of n iterations of a given time consists of:
// n iterations ran in the rank's interval. An interval that is shorter than n times that
// time is idle for the rest. One that is longer includes a wait for the start of another
// rank, which is no part of an iteration: it has less idle time and waiting and, where that
// is not enough because compute ran ahead during the wait, less exposed transfer. What
// remains is the difference between a mean and a median iteration.
func (w Work) PerIteration(in []Interval, n int, time trace.Time) []Times {
	all := make([]Times, len(in))
	for row, x := range in {
		t := breakDown(w.ranks[row].parts().within(x), x.Length(), nil).over(trace.Time(max(1, n)))
		t.Idle = time - t.Compute - t.Exposed() - t.Copies
		hidden := t.Transfer
		for _, part := range []*trace.Time{&t.Waiting, &t.Transfer, &t.Copies, &t.Compute} {
			less := min(max(0, -t.Idle), *part)
			t.Idle, *part = t.Idle+less, *part-less
		}
		t.Hidden += hidden - t.Transfer
		all[row] = t
	}
	return all
}

// arrival is when a kernel or copy that communicates stops waiting for other ranks: when
// the last captured member of its collective arrives. A rank whose clock could not be
// aligned says nothing about others.
func arrival(run *trace.Run, s trace.Span) trace.Time {
	c := run.Collective(s)
	if c == nil || !aligned(run, c) {
		return s.Start
	}
	return min(max(s.Start, c.Arrive), s.End)
}

func aligned(run *trace.Run, c *trace.MatchedCollective) bool {
	return !slices.ContainsFunc(c.Members, func(m trace.Member) bool { return run.Ranks[m.Row].Uncertainty == trace.None })
}
