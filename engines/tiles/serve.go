package tiles

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// stageFrom counts a buffer for the largest collective of the pairs from the given one on, except for
// operations that need none.
func stageFrom(pl *plan.Planner, from int, without ...trace.CollectiveOp) {
	for _, p := range pl.Pairs[from:] {
		for _, link := range p.Links() {
			if link.Coll != nil && !slices.Contains(without, link.Coll.Op) {
				pl.Stage(link.Coll)
			}
		}
	}
}

// barrier makes a stream wait until the streams of all n ranks have reached it (rule S12).
func barrier(r *plan.Rank, s *plan.Stream, all program.Flag, n int) {
	s.Post(all, 1)
	s.Wait(all, int64(n), "barrier")
	s.Delay(plan.Duration(r.Planner.Machine.Launch.Barrier.Value), program.PeerSkew, "barrier")
}

// shareOf is the k-th of n parts of a time. The parts add up to it.
func shareOf(t trace.Time, k, n int) trace.Time {
	return t*trace.Time(k+1)/trace.Time(n) - t*trace.Time(k)/trace.Time(n)
}

// noFusedBuild is the reason of a captured kernel that becomes part of another one.
func noFusedBuild(op *workload.Op) string {
	return trace.Short(op.Name) + " as part of another kernel needs a fused build, of which nothing was measured"
}

// noLinks is the reason why nothing can be sent between GPUs of a node; "" if it can.
func noLinks(pl *plan.Planner) string {
	if pl.Machine.Fabric.Egress.Value > 0 {
		return ""
	}
	return "machine " + pl.Machine.Name + " has no links between GPUs"
}

// notByTile is the reason why parts of a pair's data cannot be sent, or used, one by one: sums of
// the rows of a token (sumsExperts), ranks that cut what is summed into other tiles, or an operation
// between the pair's two; "" if they can.
func notByTile(pl *plan.Planner, p *workload.Pair) string {
	if no := cmp.Or(sumsExperts(pl, p), otherTiles(pl, p)); no != "" {
		return no
	}
	return nothingBetween(pl, p, func(*workload.Op) bool { return false })
}

// otherTiles is notByTile of a sum whose parts are not the same on all ranks.
func otherTiles(pl *plan.Planner, p *workload.Pair) string {
	if p.Direction != workload.ComputeThenCollective || p.Collective < 0 {
		return ""
	}
	c, a := &pl.Workload.Collectives[p.Collective], &pl.Workload.Ops[p.First[0]]
	if c.Op != trace.AllReduce && c.Op != trace.ReduceScatter {
		return ""
	}
	for _, id := range p.First[1:] {
		if b := &pl.Workload.Ops[id]; b.Tiling.Tiles != a.Tiling.Tiles || b.Tiling.WGs != a.Tiling.WGs || b.Footprint != a.Footprint {
			return fmt.Sprintf("ranks %d and %d cut %s before the %s into other tiles or workgroups: parts of the sum would not match",
				a.Rank, b.Rank, trace.Short(a.Name), c.Op)
		}
	}
	return ""
}

// nothingBetween is notByTile of operations between a pair's two for which can is false.
func nothingBetween(pl *plan.Planner, p *workload.Pair, can func(*workload.Op) bool) string {
	for k := range p.First {
		if name := opBetween(pl, &pl.Workload.Ops[p.First[k]], &pl.Workload.Ops[p.Second[k]], can); name != "" {
			return trace.Short(name) + " lies between compute and communication, and works on the whole"
		}
	}
	return ""
}

// opBetween is the name of the first kernel or copy, other than a fill and those that may, between two
// operations on the stream of either.
func opBetween(pl *plan.Planner, a, b *workload.Op, but func(*workload.Op) bool) string {
	for id := a.ID + 1; id < b.ID; id++ {
		op := &pl.Workload.Ops[id]
		if (op.Queue == a.Queue || op.Queue == b.Queue) && op.Collective < 0 && !pl.Workload.IsFill(op) && !but(op) {
			return op.Name
		}
	}
	return ""
}

// sumsExperts is the reason why tiles of a pair's GEMM cannot be sent as they are computed: each
// row that is sent is the sum of the rows of a token, which lie in tiles of different experts
// (rule V23); "" if they can.
func sumsExperts(pl *plan.Planner, p *workload.Pair) string {
	if p.Experts <= 1 || p.Direction != workload.ComputeThenCollective {
		return ""
	}
	return fmt.Sprintf("what is sent are sums of %d rows each of %s, which lie in different tiles "+
		"(onesided adds them before a reduce-scatter)", p.Experts, trace.Short(pl.Workload.Ops[p.First[0]].Name))
}
