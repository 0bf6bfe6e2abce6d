package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// servesGradient reports whether a pair is an all-to-all of gradients and the backward of an
// embedding that adds them to its tables.
func servesGradient(pl *plan.Planner, p *workload.Pair) bool {
	op := &pl.Workload.Ops[p.Second[0]]
	return p.Direction == workload.CollectiveThenCompute && op.Shape.Kind == workload.EmbeddingGrad &&
		pl.Workload.Collectives[p.Collective].Op == trace.AllToAll && op.Tiling.Tiles >= len(p.First)
}

// gradientKernel sends gradients, and adds those that arrive to the tables of the rank (SC'24
// section IV-D, rule U16). The gradients are there when it starts: each persistent workgroup
// first sends its share of the slices, then adds vectors, those of the own rank first and of
// each other rank in the order in which it sends. Before a vector it waits for the flag of
// its slice.
//
//	workgroup 0 |●●|own 0|own 2|wait|from next, 0|...    ●  put of a slice, then of its flag
//	workgroup 1 |●●|own 1|own 3|wait|from next, 1|...
func gradientKernel(pl *plan.Planner, op *workload.Op, p *plan.Pair, d *slicing) *program.Kernel {
	me, n := slices.Index(d.ranks, int32(op.Rank)), len(d.ranks)
	order := func(i int) (from, slice int) { return d.arriving(me, i) }
	k := d.kernel(pl, op, fmt.Sprintf("%s + %s", p.Coll.Op, op.Name), order, func(x pooled, work program.Phase, buf []program.Phase) []program.Phase {
		if x.peer != me {
			buf = append(buf, plan.Await(d.ready[me][x.peer*d.slices+x.slice], 1))
		}
		work.Write = op.Write / float64(op.Tiling.Tiles)
		return append(buf, work)
	})
	k.Prologue = func(wg int, buf []program.Phase) []program.Phase {
		for i := wg; i < n*d.slices; i += d.wgs {
			peer, slice := d.destination(me, i/d.slices), i%d.slices
			if peer == me {
				continue
			}
			to, bytes, ready := d.ranks[peer], float64(d.sizeOf(slice))*d.bytes, d.ready[peer][me*d.slices+slice]
			if pl.Machine.Node(int(to)) != pl.Machine.Node(op.Rank) {
				buf = putSlice(pl, buf, to, bytes, ready)
				continue
			}
			buf = append(buf, pl.StoreTo(to, bytes, machine.ToAll), pl.Fence(), plan.Signal(ready, "flag"))
		}
		return buf
	}
	return k
}

// arriving is the i-th slice that a rank adds: in aware order its own, then the first of every
// other rank, then the second of every other, as all of them send at a time; else by rank.
func (d *slicing) arriving(me, i int) (from, slice int) {
	n := len(d.ranks)
	switch {
	case !d.aware:
		return i / d.slices, i % d.slices
	case i < d.slices:
		return me, i
	}
	i -= d.slices
	return (me + n - d.joined.Distance(i%(n-1), n)) % n, i / (n - 1)
}
