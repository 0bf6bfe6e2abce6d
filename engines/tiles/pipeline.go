package tiles

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// pipeline writes a pair as copies, or a communication kernel, beside one GEMM.
func (t *operator) pipeline(r *plan.Rank, p *plan.Pair) {
	x := t.side(r, p)
	if x.gathers() {
		x.gather()
	} else {
		x.scatter()
	}
	x.End(x.On)
}

// gather writes an all-gather, or an all-to-all, and the GEMM behind it: one kernel whose tiles wait for the shards that
// their rows touch (rules O1 and O4).
func (x *side) gather() {
	mine := x.pl.Program.NewFlag(fmt.Sprintf("rank %d's shard may move", x.ID))
	staged := x.shard
	if x.impl == "pull" && x.Pair.Coll.Op == trace.AllToAll {
		staged *= float64(x.n) // peers read their parts here
	}
	x.On.Post(x.free[x.Me], 1)
	if x.impl == "pull" { // peers read from a buffer that must hold the shard first (rule O1)
		x.stage(x.Gap, staged)
		x.barrier(x.On)
		x.On.Post(mine, 1)
	} else {
		x.On.Post(mine, 1)
		x.stage(x.Gap, staged)
	}
	x.Gap = plan.Duration(x.pl.Machine.Launch.Gap.Value)
	seq := x.sequence()
	compute := func() {
		x.Write(seq.kernel(x.pl, func(buf []program.Phase, p panel, work program.Phase) []program.Phase {
			for u := p.first; u <= p.last; u++ {
				if shard := u / x.cuts; shard != x.Me {
					buf = append(buf, plan.Await(x.arrived[x.Me][shard], int64((u%x.cuts+1)*x.posts)))
				}
			}
			return append(buf, work)
		}))
	}
	switch {
	case x.across:
		x.beside(mine, x.gatherNodes, compute)
	default:
		for range x.cuts {
			for i := 1; i < x.n; i++ {
				lane := x.lane(i)
				lane.Wait(mine, 1, "shard")
				from, to := x.ends(lane, i, 1)
				x.move(lane, from, to, x.shard/float64(x.cuts), x.arrived[to][from])
			}
		}
		compute()
	}
}

// stage copies a rank's data to where peers can read them.
func (x *side) stage(gap trace.Time, bytes float64) {
	x.On.Launch(gap, plan.Standing(x.Comm, x.pl.Sweep("copy to symmetric memory", bytes, bytes)))
}

// scatter writes a GEMM and the reduce-scatter, or the all-to-all, behind it: one kernel whose tiles count towards the
// shards that they complete, or store themselves to their owners (rule O5).
func (x *side) scatter() {
	x.On.Post(x.free[x.Me], 1)
	seq := x.sequence()
	compute := func() {
		if x.impl == "store" {
			x.Write(x.storing(seq))
			return
		}
		x.Write(seq.kernel(x.pl, func(buf []program.Phase, p panel, work program.Phase) []program.Phase {
			buf = append(buf, work)
			for u := p.first; u <= p.last; u++ {
				buf = append(buf, plan.Signal(x.done[x.Me][u], "signal"))
			}
			return buf
		}))
	}
	if addsRows(x.Pair.Pair) {
		inputs := x.pl.Program.NewFlag(fmt.Sprintf("inputs of rank %d ready", x.ID))
		x.On.Post(inputs, 1)
		x.On.Wait(x.beside(inputs, func(placed program.Flag) *program.Kernel { return x.commKernel(seq, placed) },
			compute), 1, "communication kernel")
	} else {
		compute()
	}
	switch {
	case x.across:
		x.scatterNodes(seq)
		return
	case x.impl == "store":
		away := int64(0) // tiles of the shards of other ranks, each counted for every unit that it touches
		for u, n := range seq.counts {
			if u/x.cuts != x.Me {
				away += n
			}
		}
		x.On.Wait(x.sent[x.Me], away, "stores")
	case !addsRows(x.Pair.Pair):
		x.copyOut(seq)
	}
	x.barrier(x.On)
	x.add()
}

// add writes the sum of what all ranks have brought to a reduce-scatter; that of PyTorch's pipelines
// is PyTorch's.
func (x *side) add() {
	if x.Pair.Coll.Op != trace.ReduceScatter {
		return
	}
	name := fmt.Sprintf("sum of %d partial results", x.n)
	read, write, least := float64(x.Pair.Coll.Bytes), x.shard, 0.0
	if x.inChunks(x.Pair) {
		least = x.pl.Laws().Sum(write, x.n)
	}
	x.launch(x.On, x.pl.SweepOn(name, 0, read, write, least))
}

// copyOut writes the copies of a scattered GEMM, each behind the signal of the
// tiles that it moves. Those of the next rank go first and the own shard last:
// nothing is left to hide it but it does not cross a link (rule O5).
func (x *side) copyOut(seq *sequence) {
	piece := float64(x.Pair.Coll.Bytes) / float64(x.n*x.cuts)
	for c := range x.cuts {
		for i := 1; i < x.n; i++ {
			lane := x.lane(i)
			from, to := x.ends(lane, i, -1)
			x.waitComputed(lane, from, to*x.cuts+c, seq)
			x.move(lane, from, to, piece, x.arrived[to][from], x.sent[x.Me])
		}
	}
	lane := x.lane(x.n)
	for c := range x.cuts {
		x.waitComputed(lane, x.Me, x.Me*x.cuts+c, seq)
		x.move(lane, x.Me, x.Me, piece, x.sent[x.Me])
	}
	x.On.Wait(x.sent[x.Me], int64(x.n*x.cuts), "copies")
}

// storing is a GEMM whose tiles store themselves into their owners' buffers: no signals, a barrier
// follows the kernel. Stores are posted: a workgroup goes on while they wait for the link, and the
// kernel's end waits for all of them (rule O5).
func (x *side) storing(seq *sequence) *program.Kernel {
	payload := float64(x.Pair.Coll.Bytes) / float64(seq.tiles)
	k := seq.kernel(x.pl, func(buf []program.Phase, p panel, work program.Phase) []program.Phase {
		work.Write = 0
		buf = append(buf, work)
		for u := p.first; u <= p.last; u++ {
			to, bytes := u/x.cuts, payload/float64(p.last-p.first+1)
			store := plan.StoreAt(x.Ranks[to], bytes)
			if to != x.Me {
				store = x.pl.StoreTo(x.Ranks[to], bytes, x.pattern())
				store.Op, store.Held, store.Flag, store.Count = program.Put, true, x.sent[x.Me], 1
			}
			buf = append(buf, store)
		}
		return buf
	})
	k.Name = fmt.Sprintf("%s + %s", k.Name, x.Pair.Coll.Op)
	return k
}

// pattern is which peers the stores of all GPUs go to at one time.
func (t *operator) pattern() machine.Pattern {
	if t.swizzle == "mesh" {
		return machine.ToAll
	}
	return machine.ToNext
}
