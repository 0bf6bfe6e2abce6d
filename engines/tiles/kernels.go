package tiles

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// gemm is the kernel whose stores are tracked. Tiles for other ranks are not written to
// local memory, except before an all-gather.
func (x *trackedSide) gemm() *program.Kernel {
	op := x.Compute
	shape := x.pl.GridOf(op, op.DurAlone())
	read := shape.Read * bypass(x.pl, op)
	k := x.pl.KernelOf(op, shape)
	if x.first && x.queue == "auto" {
		k.CommShare = x.queueShare(x.entries(intensity(x.pl, op)))
	}
	k.Recipe = func(i int, buf []program.Phase) []program.Phase {
		work, post := plan.Compute(shape.Time, read, 0), plan.Signal(x.left[x.Me], "tracked")
		if i >= x.remote() {
			stage, block := x.of(i)
			post.Flag = x.counter(x.Me, stage, block)
		}
		if i < x.remote() && !x.gather {
			return append(buf, work, post)
		}
		store := plan.Compute(0, 0, x.bytes(i))
		store.Update = x.adds()
		if x.bursts {
			work.Time = max(0, work.Time-x.burst(shape, store.Write))
			return append(buf, work, store, post)
		}
		work.Write, work.Update = store.Write, store.Update
		return append(buf, work, post)
	}
	return k
}

// burst is the time in which the tiles of a wave, computed at once, write their output, at
// the memory's rate. The tile's time alone includes it (rule K11).
func (x *trackedSide) burst(shape plan.Grid, bytes float64) trace.Time {
	wave := min(max(shape.Tiles, shape.WGs), int(x.pl.Machine.GPU.CUs.Value)*x.pl.Laws().Residents(x.Compute.Footprint))
	return plan.Duration(float64(wave) * bytes / x.pl.Machine.GPU.Memory.Value)
}

// adds reports whether memory adds stored values.
func (x *trackedSide) adds() bool {
	return x.nmc && (adds(x.Pair.Coll.Op) || x.splits > 1)
}

// bytes is the output size of the i-th tile.
func (x *trackedSide) bytes(i int) float64 {
	return float64(x.Pair.Coll.Bytes) / float64(x.n*x.in(x.stages.Of(i)).N) * float64(x.splits)
}

// beside is a kernel that holds no slot: stores and transfers by hardware, each a workgroup.
func (x *trackedSide) beside(by string, wgs int, recipe func(i int, buf []program.Phase) []program.Phase) *program.Kernel {
	op := x.Pair.Coll.Op
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
func (x *trackedSide) stores() *program.Kernel {
	pattern := machine.ToNext
	if x.ring.direct {
		pattern = machine.ToAll
	}
	return x.beside("tracked stores", x.remote(), func(i int, buf []program.Phase) []program.Phase {
		_, block := x.of(i)
		bytes := x.bytes(i)
		buf = append(buf, plan.Await(x.left[x.Me], int64(i+1)))
		first, after := x.peers(i)
		for place := first; place < after; place++ {
			peer := (x.Me + place) % x.n
			store := x.pl.StoreTo(x.Ranks[peer], bytes, pattern)
			store.Bytes, store.Update = bytes, x.adds() // what is tracked are whole lines
			buf = append(buf, store, plan.Signal(x.counter(peer, 1, block), ""))
		}
		return buf
	})
}

// transfers is the DMA commands queued in advance, each triggered by its counter, and the
// end of the last chunk. Stored directly, there is nothing to pass on.
func (x *trackedSide) transfers() *program.Kernel {
	last := x.n - 1
	if x.ring.direct {
		last = 1
	}
	bytes := float64(x.Pair.Coll.Bytes) / float64(x.n*x.blocks)
	rate := x.pl.Machine.Engines.Rate.Or(x.pl.Machine.Fabric.Egress.Value)
	return x.beside("triggered transfers", last*x.blocks, func(wg int, buf []program.Phase) []program.Phase {
		stage, block := 1+wg/x.blocks, wg%x.blocks
		buf = append(buf, plan.Await(x.counter(x.Me, stage, block), x.complete(stage, block)))
		if stage == last {
			for hop := 1; hop < last && x.gather; hop++ { // wait for all forwarded shards
				buf = append(buf, plan.Await(x.counter(x.Me, hop, block), x.complete(hop, block)))
			}
			return buf
		}
		if !x.nmc && adds(x.Pair.Coll.Op) { // the other partial result
			buf = append(buf, plan.Compute(0, bytes, 0))
		}
		if x.bursts { // at the memory's rate, ahead of the link (rule K11)
			buf = append(buf, plan.Compute(0, bytes, 0))
		}
		put := plan.PutTo(x.Ranks[x.next], bytes, x.counter(x.next, stage+1, block))
		put.Time, put.DMA, put.Held, put.Update, put.Mark = plan.Duration(bytes/rate), true, x.bursts, x.adds(), ""
		return append(buf, put)
	})
}
