package schedule

import (
	"maps"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// overlapped are the operations of which every collective ran alongside compute when captured.
func (s *step) overlapped() (all []trace.CollectiveOp) {
	serial := map[trace.CollectiveOp]bool{}
	for row, async := range s.async {
		serial[s.w.Collectives[row].Op] = serial[s.w.Collectives[row].Op] || !async
	}
	for op, is := range serial {
		if !is {
			all = append(all, op)
		}
	}
	return all
}

// findAsync finds the collectives that ran alongside compute when captured: all of a stream
// of which one did.
func (s *step) findAsync() {
	async := map[queueOf]bool{}
	for row := range s.w.Collectives {
		c := &s.w.Collectives[row]
		if s.ranAlongside(c) {
			for _, id := range c.Members {
				async[queueOf{s.w.Ops[id].Rank, s.w.Ops[id].Queue}] = true
			}
		}
	}
	for row := range s.w.Collectives {
		c := &s.w.Collectives[row]
		s.async[row] = !s.knowsData(c) || slices.ContainsFunc(c.Members, func(id int32) bool {
			return async[queueOf{s.w.Ops[id].Rank, s.w.Ops[id].Queue}]
		})
	}
}

// knowsData reports whether the dataflow shows on every rank who reads a collective's result and, unless it
// gathers, what makes its input: an all-gather of parameters reads what no operation of the capture wrote.
// Otherwise nothing says how far it may move, and it keeps its place.
func (s *step) knowsData(c *workload.Collective) bool {
	return !slices.ContainsFunc(c.Members, func(id int32) bool {
		return len(s.readers[id]) == 0 || c.Op != trace.AllGather && !s.madeInside(id)
	})
}

// madeInside reports whether an operation of the capture other than a copy wrote what a collective reads,
// directly or through copies.
func (s *step) madeInside(id int32) bool {
	seen := []int32{id}
	for at := 0; at < len(seen); at++ {
		for _, e := range s.w.Flow[seen[at]] {
			switch op := &s.w.Ops[e.Op]; {
			case !reads(e) || slices.Contains(seen, e.Op):
			case op.Collective < 0 && workload.Copies(op):
				seen = append(seen, e.Op)
			default:
				return true
			}
		}
	}
	return false
}

// ranAlongside reports whether a collective has a stream of its own and, on any rank, either
// the host issued compute behind it that did not wait for it, or compute ran during a tenth
// of its time. Another batch of the iteration ran nowhere: a strategy split it off.
func (s *step) ranAlongside(c *workload.Collective) bool {
	for _, id := range c.Members {
		op := &s.w.Ops[id]
		items := s.items[op.Rank]
		next, waits := int(s.issued[id]), false
		for ; next < len(items) && !waits; next++ {
			waits = slices.ContainsFunc(items[next].op.After, func(d workload.Dep) bool { return d.Op == id })
			if items[next].op.Kind == trace.Compute && items[next].op.Batch == op.Batch {
				break
			}
		}
		if next == len(items) || s.computesOn(op) {
			continue
		}
		if !waits || s.computedDuring(op) > op.Dur()/10 {
			return true
		}
	}
	return false
}

// computesOn reports whether an operation's stream is one of compute: matrices are multiplied on it, or no other
// stream of the rank has more kernels. Frameworks cast, divide and copy what collectives carry on streams of these.
func (s *step) computesOn(op *workload.Op) bool {
	return s.computes.Of(queueOf{op.Rank, op.Queue}, func() bool {
		count, multiplies := map[int64]int{}, false
		for _, it := range s.items[op.Rank] {
			if it.op.Kind == trace.Compute {
				count[it.op.Queue]++
				multiplies = multiplies || it.op.Queue == op.Queue && workload.Multiplies(it.op)
			}
		}
		return multiplies || count[op.Queue] > 0 && count[op.Queue] == slices.Max(slices.Collect(maps.Values(count)))
	})
}

// computedDuring is the time of a collective's kernel during which its rank computed.
func (s *step) computedDuring(c *workload.Op) (sum trace.Time) {
	for _, it := range s.items[c.Rank] {
		if it.op.Kind == trace.Compute && it.op.Batch == c.Batch {
			sum += max(0, min(it.op.End, c.End)-max(it.op.Start, c.Start))
		}
	}
	return sum
}
