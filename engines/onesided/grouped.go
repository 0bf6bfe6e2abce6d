package onesided

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Several products of one collective, as the experts of a mixture have: launched
// one behind another, and what they read, or write, is together what the
// collective brought, or sends. The lift pairs single products; these are found
// here, and computed as one grouped kernel whose tiles go by shard and not by expert.

// takeGroups hands to the strategy the groups that ok accepts. Groups have no
// number: where the user has chosen pairs by theirs, they stay as captured.
func takeGroups(pl *plan.Planner, ok func(*workload.Pair) bool) {
	for i := range pl.Workload.Collectives {
		c := &pl.Workload.Collectives[i]
		if pl.Only != nil || c.Bytes == 0 || len(c.Members) < 2 {
			continue
		}
		for _, d := range []workload.Direction{workload.ComputeThenCollective, workload.CollectiveThenCompute} {
			pr, found := groupAt(pl, int32(i), c, d)
			if !found || !ok(pr.Pair.Pair) {
				continue
			}
			for _, id := range pr.members {
				pl.Replaced[id] = true
			}
			for _, id := range pr.First {
				pl.First[id] = pr.Index
			}
			pl.Pairs = append(pl.Pairs, pr.Pair)
		}
	}
}

type group struct {
	plan.Pair
	members []int32
}

// groupAt finds the products of a collective on all its ranks, alike in number.
func groupAt(pl *plan.Planner, row int32, c *workload.Collective, d workload.Direction) (group, bool) {
	g := group{Pair: pl.NewPair(&workload.Pair{Direction: d, Collective: row, Step: pl.Workload.Ops[c.Members[0]].Step})}
	g.Grouped = true
	many := 0
	for _, m := range c.Members {
		between, products := productsOf(pl, m, c, d)
		if len(products) < 2 || len(g.First) > 0 && len(products) != many {
			return g, false
		}
		many = len(products)
		rank := pl.Workload.Ops[m].Rank
		first, second := products[0], m
		if d == workload.CollectiveThenCompute {
			first, second = m, products[0]
			g.Dropped[rank] = append(between, products[1:]...)
		} else {
			g.Between[rank] = append(between, products[1:]...)
		}
		g.First, g.Second = append(g.First, first), append(g.Second, second)
		g.members = append(append(append(g.members, m), between...), products...)
	}
	for _, id := range g.members {
		if pl.Replaced[id] {
			return g, false
		}
	}
	return g, true
}

// productsOf are the products next to a collective on the queue of the nearest,
// in order, and the fills between them. None where what they read, or write, is
// not what the collective moves.
func productsOf(pl *plan.Planner, comm int32, c *workload.Collective, d workload.Direction) (fills, products []int32) {
	step, want := int32(1), c.Bytes
	if d == workload.ComputeThenCollective {
		step = -1
	}
	if c.Op != trace.AllToAll && (c.Op == trace.AllGather) != (step > 0) {
		return nil, nil
	}
	rank := pl.Workload.Ops[comm].Rank
	for id := comm + step; id >= 0 && int(id) < len(pl.Workload.Ops) && want > 0; id += step {
		op := &pl.Workload.Ops[id]
		switch s := op.Shape; {
		case op.Rank != rank || op.Collective >= 0:
			return nil, nil
		case pl.IsFill(op):
			fills = append(fills, id)
			continue
		case s.Kind != workload.GEMM || len(products) > 0 && op.Queue != pl.Workload.Ops[products[0]].Queue:
			return nil, nil
		case step > 0:
			want -= s.M * s.K * int64(s.ElemSize)
		default:
			want -= s.M * s.N * int64(s.ElemSize)
		}
		if step > 0 {
			products = append(products, id)
		} else {
			products = append([]int32{id}, products...)
		}
	}
	if want != 0 {
		return nil, nil
	}
	return fills, products
}

// products are a pair's on one rank, in order.
func (t *operator) products(r *plan.Rank, p *plan.Pair) []*workload.Op {
	compute, _ := r.Split(p)
	ops := []*workload.Op{compute}
	if !p.Grouped {
		return ops
	}
	further := p.Between[r.ID]
	if p.Direction == workload.CollectiveThenCompute {
		further = p.Dropped[r.ID]
	}
	for _, id := range further {
		if op := &t.pl.Workload.Ops[id]; !t.pl.IsFill(op) {
			ops = append(ops, op)
		}
	}
	return ops
}
