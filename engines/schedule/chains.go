package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
)

// Two micro-batches, or any operations of an iteration that share no data but parameters,
// are chains that may alternate on the compute stream: while one waits for its collective,
// the other computes (two-batch overlap; rule W14).

// interleave has n chains of each iteration alternate. It returns the reason why it
// cannot, or "".
func (s *step) interleave(n int) string {
	if n < 2 {
		return "interleave=1: one chain has none to alternate with"
	}
	asCaptured := !slices.Contains(s.async, false) // all ran alongside compute and keep their places
	chains, captured := s.chains(), s.items[0]
	if len(captured) == 0 {
		return "nothing is known of what runs on the first rank"
	}
	for rank := range s.items {
		var order []*item
		for from := 0; from < len(s.items[rank]); {
			to := from
			for to < len(s.items[rank]) && s.sameStep(rank, int32(from), int32(to)) {
				to++
			}
			part := s.items[rank][from:to]
			groups := chains.of(part, n)
			if len(groups) < n {
				if why := tooFewTokens(s.w, n); why != "" {
					return why
				}
				return fmt.Sprintf("an iteration has %d independent %s, not %d", len(groups), plural(len(groups), "chain", "chains"), n)
			}
			if asCaptured {
				order = append(order, part...)
			} else {
				order = append(order, s.alternate(groups)...)
			}
			from = to
		}
		s.items[rank] = order
	}
	s.number()
	s.holdChains(captured, chains, n)
	return ""
}

// holdChains counts the activations of chains of an iteration that wait for their backward at a time,
// against the captured order (rule W20).
func (s *step) holdChains(captured []*item, chains *chainSet, n int) {
	iteration := captured[0].op.Step
	to := slices.IndexFunc(captured, func(it *item) bool { return it.op.Step != iteration })
	if to < 0 {
		to = len(captured)
	}
	roots := map[int32]int{} // by root of a chain
	for g, items := range chains.of(captured[:to], n) {
		for _, it := range items {
			roots[chains.find(it.op.ID)] = g
		}
	}
	halves, last := make([][2][]int32, n), make([]int32, n) // forward and backward, with their collectives; the last item
	for _, id := range s.order[0] {
		if g, ok := roots[chains.find(id)]; ok && s.w.Ops[id].Step == iteration {
			half := &halves[g][0]
			if s.w.Ops[id].Backward {
				half = &halves[g][1]
			}
			*half = append(*half, id)
			if s.w.Ops[id].Collective < 0 {
				last[g] = id
			}
		}
	}
	largest, all := int64(0), true
	ends := map[int32]pipelineChunk{} // by op: the chunk that it begins, or ends
	for g, h := range halves {
		if len(h[0]) == 0 || len(h[1]) == 0 {
			return
		}
		bytes, known := s.pl.Saved(h[0], h[1])
		largest, all = max(largest, bytes), all && known
		first := slices.IndexFunc(h[0], func(id int32) bool { return s.w.Ops[id].Collective < 0 })
		ends[h[0][max(0, first)]], ends[last[g]] = pipelineChunk{Micro: g}, pipelineChunk{Part: backwardPart, Micro: g}
	}
	held := func(order []*item) int {
		var o microBatchOrder
		for _, it := range order[:to] {
			if c, ok := ends[it.op.ID]; ok {
				o = append(o, c)
			}
		}
		return o.inFlight()
	}
	if more := held(s.items[0]) - held(captured); more != 0 {
		s.pl.Memory.Bytes += int64(more) * largest
		if !all {
			s.pl.Memory.Lack("activations of unknown size")
		}
	}
}

// chainsOf is the number of independent chains with a collective in an iteration, the least of all.
func chainsOf(w *workload.Workload) int {
	if w.Flow == nil {
		return 1
	}
	type key struct {
		rank  int
		step  int32
		chain int32
	}
	chains, found, count := (&step{w: w}).chains(), map[key]bool{}, map[[2]int32]int{}
	for i := range w.Ops {
		op := &w.Ops[i]
		if k := (key{op.Rank, op.Step, chains.find(op.ID)}); op.Collective >= 0 && !found[k] {
			found[k] = true
			count[[2]int32{int32(op.Rank), op.Step}]++
		}
	}
	return slices.Min(slices.AppendSeq([]int{len(w.Ops)}, maps.Values(count)))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// alternate orders the items of chains: each runs until it needs a collective of its own
// that was issued since its turn began, or before.
func (s *step) alternate(groups [][]*item) []*item {
	var order []*item
	for left := true; left; {
		left = false
		for g := range groups {
			if len(groups[g]) == 0 {
				continue
			}
			n := 1
			for n < len(groups[g]) && !s.needsCollective(groups[g][n]) {
				n++
			}
			order = append(order, groups[g][:n]...)
			groups[g] = groups[g][n:]
			left = left || len(groups[g]) > 0
		}
	}
	return order
}

// needsCollective reports whether an item reads what a collective brought.
func (s *step) needsCollective(it *item) bool {
	return slices.ContainsFunc(s.w.Flow[it.op.ID], func(e workload.Edge) bool {
		return reads(e) && s.w.Ops[e.Op].Collective >= 0
	})
}

// A chainSet joins operations that depend on each other within an iteration.
type chainSet struct{ parent []int32 }

func (c *chainSet) find(i int32) int32 {
	for c.parent[i] != i {
		c.parent[i] = c.parent[c.parent[i]]
		i = c.parent[i]
	}
	return i
}

// chains joins the operations of each iteration by the edges between them. That one merely follows
// another on its stream does not make them independent, unless the trace tells what they access.
func (s *step) chains() *chainSet {
	c := &chainSet{parent: make([]int32, len(s.w.Ops))}
	for i := range c.parent {
		c.parent[i] = int32(i)
	}
	for i := range s.w.Flow {
		for _, e := range s.w.Flow[i] {
			if (binding(e) || e.Evidence == workload.Guessed) && s.w.Ops[e.Op].Step == s.w.Ops[i].Step {
				a, b := c.find(e.Op), c.find(int32(i))
				c.parent[max(a, b)] = min(a, b)
			}
		}
	}
	return c
}

// of divides items into n chains: the independent ones in order of their first item, the
// remaining ones with the last. There are fewer if the items have fewer.
func (c *chainSet) of(items []*item, n int) [][]*item {
	group := map[int32]int{}
	var groups [][]*item
	for _, it := range items {
		root := c.find(it.op.ID)
		g, ok := group[root]
		if !ok {
			g = min(len(group), n-1)
			group[root] = g
			if g == len(groups) {
				groups = append(groups, nil)
			}
		}
		groups[g] = append(groups[g], it)
	}
	return groups
}
