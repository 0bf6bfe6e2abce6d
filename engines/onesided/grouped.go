package onesided

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/lift/pairs"
	"github.com/overlapse/overlapse/replay/workload"
)

// Several GEMMs of one collective, as of the experts of a mixture (GroupedGEMMs),
// are computed as one grouped kernel (rule O16) whose tiles are ordered by shard and not by
// expert.

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

// groupAt finds the GEMMs of a collective on all its ranks, alike in number.
func groupAt(pl *plan.Planner, row int32, c *workload.Collective, d workload.Direction) (group, bool) {
	g := group{Pair: pl.NewPair(&workload.Pair{Direction: d, Collective: row, Step: pl.Workload.Ops[c.Members[0]].Step})}
	g.Grouped = true
	many := 0
	for _, m := range c.Members {
		between, gemms := pairs.GroupedGEMMs(pl.Workload, m, c, d)
		if len(gemms) < 2 || len(g.First) > 0 && len(gemms) != many {
			return g, false
		}
		many = len(gemms)
		rank := pl.Workload.Ops[m].Rank
		first, second := gemms[0], m
		if d == workload.CollectiveThenCompute {
			first, second = m, gemms[0]
			g.Dropped[rank] = append(between, gemms[1:]...)
		} else {
			g.Between[rank] = append(between, gemms[1:]...)
		}
		g.First, g.Second = append(g.First, first), append(g.Second, second)
		g.members = append(append(append(g.members, m), between...), gemms...)
	}
	for _, id := range g.members {
		if pl.Replaced[id] {
			return g, false
		}
	}
	return g, true
}

// gemms are a pair's GEMMs on one rank, in order.
func (t *operator) gemms(r *plan.Rank, p *plan.Pair) []*workload.Op {
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
		if op := &t.pl.Workload.Ops[id]; !t.pl.Workload.IsFill(op) {
			ops = append(ops, op)
		}
	}
	return ops
}
