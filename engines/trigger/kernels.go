package trigger

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// gemm is the kernel whose stores are tracked. Tiles for other ranks are not written to
// local memory, except before an all-gather.
func (t *tracker) gemm(op *workload.Op, p *plan.Pair, g *ring, me int) *program.Kernel {
	shape := t.pl.GridOf(op, op.DurAlone())
	read := shape.Read * bypass(t.pl, op)
	k := t.pl.KernelOf(op, shape)
	if t.first && t.queue == "auto" {
		k.CommShare = t.queueShare(t.entries(intensity(t.pl, op)))
	}
	k.Recipe = func(i int, buf []program.Phase) []program.Phase {
		work, post := plan.Compute(shape.Time, read, 0), plan.Signal(g.left[me], "tracked")
		if i >= g.remote() {
			stage, block := g.of(i)
			post.Flag = g.counter(me, stage, block)
		}
		if i < g.remote() && !g.gather {
			return append(buf, work, post)
		}
		store := plan.Compute(0, 0, g.bytes(p, i))
		store.Update = t.adds(p, g)
		if t.bursts {
			work.Time = max(0, work.Time-t.burst(op, shape, store.Write))
			return append(buf, work, store, post)
		}
		work.Write, work.Update = store.Write, store.Update
		return append(buf, work, post)
	}
	return k
}

// burst is the time in which the tiles of a wave, computed at once, write their output, at
// the memory's rate. The tile's time alone includes it (rule K11).
func (t *tracker) burst(op *workload.Op, shape plan.Grid, bytes float64) trace.Time {
	wave := min(max(shape.Tiles, shape.WGs), int(t.pl.Machine.GPU.CUs.Value)*t.pl.Residents(op.Footprint))
	return plan.Duration(float64(wave) * bytes / t.pl.Machine.GPU.Memory.Value)
}

// adds reports whether memory adds stored values.
func (t *tracker) adds(p *plan.Pair, g *ring) bool {
	return t.nmc && (reduces(p.Coll.Op) || g.splits > 1)
}

// bytes is the output size of the i-th tile.
func (g *ring) bytes(p *plan.Pair, i int) float64 {
	return float64(p.Coll.Bytes) / float64(len(g.ranks)*g.stages.Size(g.stages.Of(i))) * float64(g.splits)
}

// beside is a kernel that holds no slot: stores and transfers by hardware, each a workgroup.
func beside(p *plan.Pair, by string, wgs int, recipe func(i int, buf []program.Phase) []program.Phase) *program.Kernel {
	op := p.Coll.Op
	if op == trace.AllReduce { // its first half
		op = trace.ReduceScatter
	}
	return &program.Kernel{
		Name: fmt.Sprintf("%s by %s", op, by), Kind: trace.Collective, Free: true, WGs: wgs, Recipe: recipe,
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None},
	}
}

// stores is the transfer of tiles to other ranks. A workgroup does not wait for its
// stores: they are in the write queues when it ends, and hold no slot.
func (t *tracker) stores(p *plan.Pair, g *ring, me int) *program.Kernel {
	n := len(g.ranks)
	next := (me + n - 1) % n
	return beside(p, "tracked stores", g.remote(), func(i int, buf []program.Phase) []program.Phase {
		_, block := g.of(i)
		bytes := g.bytes(p, i)
		store := t.pl.StoreTo(g.ranks[next], bytes, machine.ToNext)
		store.Bytes, store.Update = bytes, t.adds(p, g) // what is tracked are whole lines
		return append(buf, plan.Await(g.left[me], int64(i+1)), store, plan.Signal(g.counter(next, 1, block), ""))
	})
}

// transfers is the DMA commands queued in advance, each triggered by its counter, and the
// end of the last chunk.
func (t *tracker) transfers(p *plan.Pair, g *ring, me int) *program.Kernel {
	n := len(g.ranks)
	next, last := (me+n-1)%n, n-1
	bytes := float64(p.Coll.Bytes) / float64(n*g.blocks)
	rate := t.pl.Machine.Engines.Rate.Or(t.pl.Machine.Fabric.Egress.Value)
	return beside(p, "triggered transfers", last*g.blocks, func(wg int, buf []program.Phase) []program.Phase {
		stage, block := 1+wg/g.blocks, wg%g.blocks
		buf = append(buf, plan.Await(g.counter(me, stage, block), g.complete(stage, block)))
		if stage == last {
			for hop := 1; hop < last && g.gather; hop++ { // wait for all forwarded shards
				buf = append(buf, plan.Await(g.counter(me, hop, block), g.complete(hop, block)))
			}
			return buf
		}
		if !t.nmc && reduces(p.Coll.Op) { // the other partial result
			buf = append(buf, plan.Compute(0, bytes, 0))
		}
		if t.bursts { // at the memory's rate, ahead of the link (rule K11)
			buf = append(buf, plan.Compute(0, bytes, 0))
		}
		put := plan.PutTo(g.ranks[next], bytes, g.counter(next, stage+1, block))
		put.Time, put.DMA, put.Held, put.Update, put.Mark = plan.Duration(bytes/rate), true, t.bursts, t.adds(p, g), ""
		return append(buf, put)
	})
}
