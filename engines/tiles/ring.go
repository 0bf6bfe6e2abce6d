package tiles

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// ringDecomposition is the ring decomposition of an all-gather and a GEMM, or of a
// GEMM and a reduce-scatter (Wang et al., rule W5). Shards, or
// the partial sums that become them, go from rank to rank by copy engines.
//
//	all-gather, rank 0 of 4     compute |own|3  |2  |1  |
//	                            copies  |0→1|3→1|2→1|
//	reduce-scatter, rank 0      compute |3  |2+ |1+ |own+|
//	                            copies      |3→1|2→1|1→1|
type ringDecomposition struct {
	plan.Side
	*ringState
}

// A ringState is the data that the ranks of one pair share. Flags are by position in the
// ring, then chunk.
type ringState struct {
	bytes          float64 // of a chunk
	arrived, ready [][]program.Flag
}

// ringPasses is the reason why a pair cannot become a ring of pieces, or "".
func ringPasses(pl *plan.Planner, p *workload.Pair) string {
	op, compute := pl.Workload.Collectives[p.Collective].Op, &pl.Workload.Ops[p.First[0]]
	switch {
	case noLinks(pl) != "":
		return noLinks(pl)
	case len(p.First) < 2:
		return "the collectives have one rank"
	case op == trace.AllGather && p.Direction == workload.CollectiveThenCompute:
		compute = &pl.Workload.Ops[p.Second[0]]
	case op == trace.ReduceScatter && p.Direction == workload.ComputeThenCollective:
	default:
		return fmt.Sprintf("variant=ring needs an all-gather before a GEMM or a reduce-scatter behind one, not %s in a pair %s", op,
			p.Direction)
	}
	if compute.Shape.Kind != workload.GEMM {
		return fmt.Sprintf("variant=ring needs a GEMM, and the shape of %s is not known", trace.Short(compute.Name))
	}
	return notByTile(pl, p)
}

func newRing(pl *plan.Planner, p *plan.Pair) *ringState {
	ranks := pl.RanksOf(p.Coll)
	flags := func(name string) [][]program.Flag {
		return pl.FlagsAbout(ranks, len(ranks), 1, 1, func(rank int32, c int) string { return fmt.Sprintf(name, c, rank) })
	}
	return &ringState{float64(p.Coll.Bytes) / float64(len(ranks)), flags("chunk %d on rank %d"), flags("sum of chunk %d of rank %d")}
}

// inRing emits pairs.
func inRing() plan.Emitter {
	states := cost.Memo[int, *ringState]{} // by index of pair
	return func(r *plan.Rank, p *plan.Pair) {
		t := &ringDecomposition{r.SideOf(p), states.Of(p.Index, func() *ringState { return newRing(r.Planner, p) })}
		if p.Direction == workload.CollectiveThenCompute {
			t.gather()
		} else {
			t.reduce()
		}
		t.End(t.On)
	}
}

// gather multiplies with the current shard, the near ranks' first, while copies forward it.
func (t *ringDecomposition) gather() {
	n, l := len(t.Ranks), t.Planner.Machine.Launch
	gap, order, arrived := t.Gap, plan.Around(n, t.Me, -1), t.arrived[t.Me]
	t.On.Post(arrived[t.Me], 1)
	for _, c := range order[:n-1] { // each makes one more hop
		t.pass(c, arrived[c])
	}
	out := t.Compute.Write / float64(n) // its part of the GEMM, put in its place
	for i, c := range order {
		if i > 0 {
			t.On.Wait(arrived[c], 1, "shard")
			t.IssueOne(t.On, l.Host.Value, t.Compute.Name)
			gap = plan.Duration(l.Hop.Value)
		}
		t.WriteChunk(t.Pair, t.On, t.Compute, c, n, gap)
		t.combine("place in the whole", out, out)
	}
}

// reduce computes distant chunks first, adds the partial sum that has arrived, and
// forwards the sum.
func (t *ringDecomposition) reduce() {
	gap, n, l := t.Gap, len(t.Ranks), t.Planner.Machine.Launch
	for i, c := range plan.Around(n, t.Me-1, -1) {
		t.WriteChunk(t.Pair, t.On, t.Compute, c, n, gap)
		if gap = plan.Duration(l.Gap.Value); i > 0 { // what comes in is waited for behind the GEMM
			t.On.Wait(t.arrived[t.Me][c], 1, "partial sums")
			t.combine("add partial sums", 2*t.bytes, t.bytes)
		}
		if c != t.Me {
			t.On.Post(t.ready[t.Me][c], 1)
			t.pass(c, t.ready[t.Me][c])
			t.IssueOne(t.On, l.Host.Value, t.Compute.Name)
		}
	}
}

// combine launches the small kernel behind a piece's GEMM.
func (t *ringDecomposition) combine(name string, read, write float64) {
	l := t.Planner.Machine.Launch
	t.IssueOne(t.On, l.Host.Value, name)
	t.On.Launch(plan.Duration(l.Gap.Value), plan.Standing(t.Compute, t.Planner.Sweep(name, read, write)))
}

// pass copies a chunk to the next rank when it is there.
func (t *ringDecomposition) pass(chunk int, there program.Flag) {
	lane, to := t.CommStream(t.Compute, t.Comm), (t.Me+1)%len(t.Ranks)
	t.IssueOne(lane, t.Planner.Machine.Launch.Host.Value, "copy")
	lane.Wait(there, 1, "chunk")
	t.Copy(lane, "copy", t.Me, to, t.bytes)
	lane.Post(t.arrived[to][chunk], 1)
}
