package decompose

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
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
	pl     *plan.Planner
	states cost.Memo[int, *ringState] // by index of pair
}

// A ringState is the data that the ranks of one pair share. Flags are by position in the
// ring, then chunk.
type ringState struct {
	ranks          []int32
	arrived, ready [][]program.Flag
}

// ringPasses is the reason why a pair cannot become a ring of pieces, or "".
func ringPasses(pl *plan.Planner, p *workload.Pair) string {
	op, compute := pl.Workload.Collectives[p.Collective].Op, &pl.Workload.Ops[p.First[0]]
	switch {
	case pl.NoLinks() != "":
		return pl.NoLinks()
	case len(p.First) < 2:
		return "the collectives have one rank"
	case op == trace.AllGather && p.Direction == workload.CollectiveThenCompute:
		compute = &pl.Workload.Ops[p.Second[0]]
	case op == trace.ReduceScatter && p.Direction == workload.ComputeThenCollective:
	default:
		return fmt.Sprintf("variant=ring needs an all-gather before a GEMM or a reduce-scatter behind one, not %s in a pair %s", op, p.Direction)
	}
	if compute.Shape.Kind != workload.GEMM {
		return fmt.Sprintf("variant=ring needs a GEMM, and the shape of %s is not known", names.Short(compute.Name))
	}
	return pl.NotByTile(p)
}

func (t *ringDecomposition) newState(p *plan.Pair) *ringState {
	ranks := t.pl.RanksOf(p.Coll)
	return &ringState{
		ranks:   ranks,
		arrived: t.pl.FlagsAbout(ranks, len(ranks), 1, 1, func(rank int32, c int) string { return fmt.Sprintf("chunk %d on rank %d", c, rank) }),
		ready:   t.pl.FlagsAbout(ranks, len(ranks), 1, 1, func(rank int32, c int) string { return fmt.Sprintf("rank %d's sum of chunk %d", rank, c) }),
	}
}

// at is the position the given number of steps from another.
func (b *ringState) at(me, steps int) int {
	n := len(b.ranks)
	return ((me+steps)%n + n) % n
}

func (t *ringDecomposition) emit(r *plan.Rank, p *plan.Pair) {
	compute, comm := r.Split(p)
	b := t.states.Of(p.Index, func() *ringState { return t.newState(p) })
	me := plan.Place(b.ranks, r.ID)
	s, lane := r.Stream(compute.Queue), r.CommStream(compute, comm)
	gap := r.Start(p, s)
	if p.Direction == workload.CollectiveThenCompute {
		t.gather(r, p, b, me, s, lane, gap)
	} else {
		t.reduce(r, p, b, me, s, lane, gap)
	}
	r.EndReplaced(p, s, s)
}

// gather multiplies with the current shard while copies forward it.
func (t *ringDecomposition) gather(r *plan.Rank, p *plan.Pair, b *ringState, me int, s, lane *plan.Stream, gap trace.Time) {
	compute, comm := r.Split(p)
	shard := float64(p.Coll.Bytes) / float64(len(b.ranks))
	s.Post(b.arrived[me][me], 1)
	for d := range len(b.ranks) - 1 { // the shard that has made d hops makes one more
		c := b.at(me, -d)
		t.pass(r, lane, comm, b, me, b.at(me, 1), c, shard, b.arrived[me][c])
	}
	out := compute.Write / float64(len(b.ranks)) // its part of the GEMM, put in its place
	writeGEMM := func(c int, gap trace.Time) {
		r.WriteChunk(p, s, compute, c, len(p.First), gap)
		t.combine(r, compute, s, "place in the whole", out, out)
	}
	writeGEMM(me, gap)
	for d := 1; d < len(b.ranks); d++ { // near ranks first
		c := b.at(me, -d)
		s.Wait(b.arrived[me][c], 1, "shard")
		r.IssueOne(s, t.pl.Machine.Launch.Host.Value, compute.Name)
		writeGEMM(c, plan.Duration(t.pl.Machine.Launch.Hop.Value))
	}
}

// reduce computes distant chunks first, adds the partial sum that has arrived, and
// forwards the sum.
func (t *ringDecomposition) reduce(r *plan.Rank, p *plan.Pair, b *ringState, me int, s, lane *plan.Stream, gap trace.Time) {
	compute, comm := r.Split(p)
	chunk := float64(p.Coll.Bytes) / float64(len(b.ranks))
	l := t.pl.Machine.Launch
	writeGEMM := func(c int, sums bool) { // waits for incoming sums behind the GEMM
		r.WriteChunk(p, s, compute, c, len(p.First), gap)
		if sums {
			s.Wait(b.arrived[me][c], 1, "partial sums")
			t.combine(r, compute, s, "add partial sums", 2*chunk, chunk)
		}
		gap = plan.Duration(l.Gap.Value)
	}
	far := len(b.ranks) - 1
	for d := far; d > 0; d-- {
		c := b.at(me, d)
		writeGEMM(c, d < far)
		s.Post(b.ready[me][c], 1)
		t.pass(r, lane, comm, b, me, b.at(me, 1), c, chunk, b.ready[me][c])
		r.IssueOne(s, l.Host.Value, compute.Name)
	}
	writeGEMM(me, true)
}

// combine launches the small kernel behind a piece's GEMM.
func (t *ringDecomposition) combine(r *plan.Rank, compute *workload.Op, s *plan.Stream, name string, read, write float64) {
	l := t.pl.Machine.Launch
	r.IssueOne(s, l.Host.Value, name)
	s.Launch(plan.Duration(l.Gap.Value), plan.Standing(compute, t.pl.Sweep(name, read, write)))
}

// pass copies a chunk to a neighbour when it is there.
func (t *ringDecomposition) pass(r *plan.Rank, lane *plan.Stream, comm *workload.Op, b *ringState, me, to, chunk int, bytes float64, there program.Flag) {
	r.IssueOne(lane, t.pl.Machine.Launch.Host.Value, "copy")
	lane.Wait(there, 1, "chunk")
	lane.Launch(0, plan.CopyTo(comm, "copy", b.ranks[me], b.ranks[to], bytes))
	lane.Post(b.arrived[to][chunk], 1)
}
