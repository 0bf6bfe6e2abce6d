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
	if t.auto {
		k.CommShare = t.queueShare(threshold(intensity(t.pl, op)))
	}
	k.Recipe = func(i int, buf []program.Phase) []program.Phase {
		work := program.Phase{Op: program.Work, Time: shape.Time, Read: read}
		post := program.Phase{Op: program.PostTo, Flag: g.left[me], Count: 1, Mark: "tracked"}
		if i >= g.remote || g.gather {
			work.Write, work.Update = g.bytes(p, i), t.adds(p, g)
		}
		if i >= g.remote {
			stage, block := g.of(i)
			post.Flag = g.counter(me, stage, block)
		}
		if t.bursts && work.Write > 0 {
			burst := program.Phase{Op: program.Work, Write: work.Write, Update: work.Update}
			work.Write, work.Update = 0, false
			work.Time = max(0, work.Time-t.burst(op, shape, burst.Write))
			return append(buf, work, burst, post)
		}
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
	stage, _ := g.of(i)
	from, to := g.stage(stage)
	return float64(p.Coll.Bytes) / float64(len(g.ranks)*(to-from)) * float64(g.splits)
}

// stores is the transfer of tiles to other ranks. A workgroup does not wait for its
// stores: they are in the write queues when it ends, and hold no slot.
func (t *tracker) stores(p *plan.Pair, g *ring, me int) *program.Kernel {
	n := len(g.ranks)
	return &program.Kernel{
		Name: fmt.Sprintf("%s by tracked stores", firstHalf(p.Coll.Op)), Kind: trace.Collective, Free: true, WGs: g.remote,
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None},
		Recipe: func(i int, buf []program.Phase) []program.Phase {
			_, block := g.of(i)
			bytes := g.bytes(p, i)
			next := (me + n - 1) % n
			store := t.pl.StoreTo(g.ranks[next], bytes, machine.ToNext)
			store.Bytes, store.Update = bytes, t.adds(p, g) // what is tracked are whole lines
			return append(buf,
				program.Phase{Op: program.WaitFor, Flag: g.left[me], Count: int64(i + 1)},
				store,
				program.Phase{Op: program.PostTo, Flag: g.counter(next, 1, block), Count: 1})
		},
	}
}

// transfers is the DMA commands queued in advance, each triggered by its counter, and the
// end of the last chunk. It holds no slot.
func (t *tracker) transfers(p *plan.Pair, g *ring, me int) *program.Kernel {
	n := len(g.ranks)
	next := (me + n - 1) % n
	bytes := float64(p.Coll.Bytes) / float64(n*g.blocks)
	rate := t.pl.Machine.Engines.Rate.Or(t.pl.Machine.Fabric.Egress.Value)
	rounds, last := n-2, n-1
	k := &program.Kernel{
		Name: fmt.Sprintf("%s by triggered transfers", firstHalf(p.Coll.Op)), Kind: trace.Collective, Free: true,
		WGs:  (rounds + 1) * g.blocks,
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None},
	}
	k.Recipe = func(wg int, buf []program.Phase) []program.Phase {
		stage, block := 1+wg/g.blocks, wg%g.blocks
		if wg >= rounds*g.blocks {
			stage = last
		}
		buf = append(buf, program.Phase{Op: program.WaitFor, Flag: g.counter(me, stage, block), Count: g.complete(stage, block)})
		if stage == last {
			for hop := 1; hop < last && g.gather; hop++ { // wait for all forwarded shards
				buf = append(buf, program.Phase{Op: program.WaitFor, Flag: g.counter(me, hop, block), Count: g.complete(hop, block)})
			}
			return buf
		}
		if !t.nmc && reduces(p.Coll.Op) { // the other partial result
			buf = append(buf, program.Phase{Op: program.Work, Read: bytes})
		}
		if t.bursts { // at the memory's rate, ahead of the link (rule K11)
			buf = append(buf, program.Phase{Op: program.Work, Read: bytes})
		}
		return append(buf, program.Phase{
			Op: program.Put, Peer: g.ranks[next], Bytes: bytes, Time: plan.Duration(bytes / rate), DMA: true, Held: t.bursts,
			Flag: g.counter(next, stage+1, block), Count: 1, Update: t.adds(p, g),
		})
	}
	return k
}

// firstHalf is the part of an operation that stores and transfers perform.
func firstHalf(op trace.CollectiveOp) trace.CollectiveOp {
	if op == trace.AllReduce {
		return trace.ReduceScatter
	}
	return op
}
