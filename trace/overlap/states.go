package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A State is what a rank did in an interval.
type State struct {
	Rank       int32 // row of Run.Ranks
	Start, End trace.Time
	Is         Is
	Cause      string // of Idle
}

// Is is one of the states that a rank is in between its first and its last device work.
type Is uint8

// The states. Their sums over a rank are its Times: Computing is Compute less Hidden.
const (
	Computing    Is = iota
	Overlapping     // computation and transfer at once
	Transferring    // transfer without computation
	Waiting         // communication that waits for other ranks, without the above
	Copying         // copies without the above
	Idle
)

func (s Is) String() string {
	return [...]string{"compute alone", "overlapped", "transfer", "waiting", "copies", "idle"}[s]
}

// A Reason is why a queue ran nothing in an interval, where a simulation recorded it.
type Reason struct {
	Rank       int32 // row of Run.Ranks
	Queue      int64 // Lane.ID
	Start, End trace.Time
	Cause      string
	Note       string // who posted the flag, which kernel held the slots; may be ""
}

// States divides the time of every rank among the states, by rank and start, without
// gaps, and calls emit for each. The cause of idle time is that of the queue that ends it;
// without reasons it is the one of Causes.
func States(run *trace.Run, reasons []Reason, emit func(State)) {
	work := collect(run)
	queues := byQueue(reasons, len(run.Ranks))
	var sets [trace.NumClasses]set
	for rank := range work {
		w := &work[rank]
		if len(w.ops) == 0 {
			continue
		}
		w.sets = sets
		w.divide(run)
		sets = w.sets
		s := states{rank: int32(rank), emit: emit}
		w.parts().each(func(x Interval, c cover) {
			switch is := c.state(); {
			case is != Idle:
				s.add(is, x.Start, x.End, "")
			case reasons != nil:
				s.because(queues[rank], x)
			default:
				s.issued(run, w, x)
			}
		})
		s.flush()
		*w = rankWork{} // frees it
	}
}

// states are those of a rank, of which the last may be extended.
type states struct {
	rank int32
	emit func(State)
	last State // not emitted yet, if it has a length
	next int   // of ops: the first that starts at the end of the last gap, or later
}

// add appends a state. Adjacent intervals of compute or communication are merged into one
// state: a copy that starts or ends within them does not split it.
func (s *states) add(is Is, start, end trace.Time, cause string) {
	switch {
	case start >= end:
	case s.last.Start < s.last.End && s.last.Is == is && s.last.End == start && s.last.Cause == cause && is != Idle:
		s.last.End = end
	default:
		s.flush()
		s.last = State{s.rank, start, end, is, cause}
	}
}

func (s *states) flush() {
	if s.last.Start < s.last.End {
		s.emit(s.last)
	}
}

// parts are the sets of a rank's work, and cover says which of them have an interval.
type (
	parts [4]set
	cover [4]bool
)

// The places of sets in parts.
const (
	partCompute = iota
	partTransfers
	partCommunication // transfers and waiting
	partCopies
)

func (w *rankWork) parts() parts {
	return parts{w.sets[trace.ClassCompute], w.transfers, w.sets[trace.ClassCommunication], w.sets[trace.ClassCopy]}
}

// within is what lies in an interval.
func (p parts) within(x Interval) parts {
	for k := range p {
		p[k] = p[k].within(x.Start, x.End)
	}
	return p
}

func (c cover) state() Is {
	switch {
	case c[partCompute] && c[partTransfers]:
		return Overlapping
	case c[partCompute]:
		return Computing
	case c[partTransfers]:
		return Transferring
	case c[partCommunication]:
		return Waiting
	case c[partCopies]:
		return Copying
	}
	return Idle
}

// each calls f for each interval between two boundaries of the sets, from the first to the last.
func (p parts) each(f func(x Interval, c cover)) {
	at := -trace.Infinity
	for {
		next, covered := trace.Infinity, cover{}
		for k := range p {
			x := &p[k]
			for len(*x) > 0 && (*x)[0].End <= at {
				*x = (*x)[1:]
			}
			if len(*x) == 0 {
				continue
			}
			if (*x)[0].Start <= at {
				covered[k], next = true, min(next, (*x)[0].End)
			} else {
				next = min(next, (*x)[0].Start)
			}
		}
		if next == trace.Infinity {
			return
		}
		if at != -trace.Infinity {
			f(Interval{at, next}, covered)
		}
		at = next
	}
}

// issued finds the causes of a gap from the calls of the host.
func (s *states) issued(run *trace.Run, w *rankWork, gap Interval) {
	var c Causes
	c.add(w, gap, w.issued(run, gap, &s.next))
	at := gap.Start
	for _, x := range c.list() {
		s.add(Idle, at, at+x.Time, x.Name)
		at += x.Time
	}
}

// because finds the causes of a gap from the queue that ends it.
func (s *states) because(queues [][]Reason, gap Interval) {
	for _, q := range queues {
		last, _ := slices.BinarySearchFunc(q, gap.End, func(r Reason, t trace.Time) int { return cmp.Compare(r.End, t) })
		if last == len(q) || q[last].End != gap.End {
			continue
		}
		first, _ := slices.BinarySearchFunc(q, gap.Start+1, func(r Reason, t trace.Time) int { return cmp.Compare(r.End, t) })
		at := gap.Start
		for _, r := range q[first : last+1] {
			s.add(Idle, at, max(at, r.Start), "unknown")
			s.add(Idle, max(at, r.Start), r.End, r.Cause)
			at = r.End
		}
		return
	}
	s.add(Idle, gap.Start, gap.End, "unknown")
}

// byQueue lists reasons by rank, queue and end.
func byQueue(reasons []Reason, ranks int) [][][]Reason {
	sorted := slices.Clone(reasons)
	slices.SortStableFunc(sorted, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.End, b.End))
	})
	queues := make([][][]Reason, ranks)
	for _, q := range trace.Alike(sorted, func(a, b Reason) bool { return a.Rank == b.Rank && a.Queue == b.Queue }) {
		if r := q[0].Rank; r >= 0 && int(r) < ranks {
			queues[r] = append(queues[r], q)
		}
	}
	return queues
}
