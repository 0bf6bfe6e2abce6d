package tiles

import (
	"fmt"
	"strconv"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// gemm is the kernel whose stores are tracked. Tiles for other ranks are not written to
// local memory, except before an all-gather.
func (x *trackedSide) gemm() *program.Kernel {
	op := x.Compute
	shape := x.pl.GridOf(op, op.DurAlone())
	read := shape.Read * bypass(x.pl, op)
	k := x.pl.KernelOf(op, shape)
	x.limit(k)
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

// limit sets the share of memory that transfers may take beside the pair's GEMM.
func (x *trackedSide) limit(k *program.Kernel) {
	if x.first && x.queue == "auto" {
		k.CommShare = x.queueShare(x.entries(x.intensity(x.Pair)))
	}
}

// burst is the time in which the tiles of a wave, computed at once, write their output, at
// the memory's rate. The tile's time alone includes it (rule K11).
func (x *trackedSide) burst(shape plan.Grid, bytes float64) trace.Time {
	wave := min(max(shape.Tiles, shape.WGs), x.pl.Laws().Slots(x.Compute.Footprint))
	return plan.Duration(float64(wave) * bytes / x.pl.Machine.GPU.Memory.Value)
}

// adds reports whether memory adds stored values.
func (x *trackedSide) adds() bool { return adds(x.Pair.Coll.Op) || x.splits > 1 }

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
	return x.beside("triggered transfers", last*x.blocks, func(wg int, buf []program.Phase) []program.Phase {
		stage, block := 1+wg/x.blocks, wg%x.blocks
		buf = append(buf, plan.Await(x.counter(x.Me, stage, block), x.complete(stage, block)))
		if stage == last {
			for hop := 1; hop < last && x.gather; hop++ { // wait for all forwarded shards
				buf = append(buf, plan.Await(x.counter(x.Me, hop, block), x.complete(hop, block)))
			}
			return buf
		}
		return x.send(x.next, x.counter(x.next, stage+1, block), x.bursts, buf)
	})
}

// send is the transfer of a block to another rank by a DMA engine, and its count there. A triggered one may read in a burst,
// at the memory's rate and ahead of the link (rule K11).
func (x *trackedSide) send(to int, arrived program.Flag, burst bool, buf []program.Phase) []program.Phase {
	bytes := float64(x.Pair.Coll.Bytes) / float64(x.n*x.blocks)
	if burst {
		buf = append(buf, plan.Compute(0, bytes, 0))
	}
	put := plan.PutTo(x.Ranks[to], bytes, arrived)
	rate := x.pl.Machine.Engines.Rate.Or(x.pl.Machine.Fabric.Egress.Value)
	put.Time, put.DMA, put.Held, put.Update, put.Mark = plan.Duration(bytes/rate), true, burst, x.adds(), ""
	return append(buf, put)
}

// unlimited means no threshold: half of the queue, so that transfers and compute alternate.
const unlimited = 32

// arbiter is the arbitration of memory. With compute first, the threshold is the share
// of the queue that transfers may fill regardless of compute's demand. queue=auto sets it
// at the start of each GEMM; before the first GEMM there is no limit. Without compute
// first, transfers that come in bursts may fill all of the queue (rule K11).
func (t *tracker) arbiter() program.Arbiter {
	switch {
	case t.first:
		return program.Arbiter{Policy: program.ComputeFirst, Share: t.queueShare(t.entries(0))}
	case t.bursts:
		return program.Arbiter{Policy: program.ComputeFirst, Share: 1}
	}
	return program.Arbiter{Policy: program.RoundRobin}
}

// entries is the threshold of transfers beside a GEMM of some intensity.
func (t *tracker) entries(intensity float64) int {
	switch t.queue {
	case "none":
		return unlimited
	case "auto":
		return threshold(intensity)
	}
	n, _ := strconv.Atoi(t.queue) // one of the choices
	return n
}

// queueShare is the share of the queue that a number of entries is.
func (t *tracker) queueShare(entries int) float64 {
	return min(1, float64(entries)/t.pl.Machine.GPU.QueueEntries())
}

// gemmOf is the pair's GEMM on its first rank.
func (t *tracker) gemmOf(p *plan.Pair) *workload.Op {
	if starts(p.Pair) {
		return &t.pl.Workload.Ops[p.Second[0]]
	}
	return &t.pl.Workload.Ops[p.First[0]]
}

// intensity is the share of the memory's rate that a pair's GEMM uses when it runs alone. All
// its stages have the same intensity.
func (t *tracker) intensity(p *plan.Pair) float64 {
	op := t.gemmOf(p)
	if starts(p.Pair) {
		return t.pl.Laws().MemoryLoad(op)
	}
	return intensity(t.pl, op)
}

// intensity is that of a GEMM whose output bypasses the last-level cache.
func intensity(pl *plan.Planner, op *workload.Op) float64 {
	bypassed := *op
	bypassed.Read *= bypass(pl, op)
	return pl.Laws().MemoryLoad(&bypassed)
}

// threshold is one of T3's four thresholds, smaller for GEMMs that use more of the
// memory. The boundaries between them, at quarters, are assumed.
func threshold(intensity float64) int {
	switch {
	case intensity >= 0.75:
		return 5
	case intensity >= 0.5:
		return 10
	case intensity >= 0.25:
		return 30
	}
	return unlimited
}

// bypass is the ratio of a GEMM's memory reads when its output bypasses the last-level
// cache to those when it does not (rule K7).
func bypass(pl *plan.Planner, op *workload.Op) float64 {
	if cached := pl.Laws().GEMMReads(op, false); cached > 0 {
		return pl.Laws().GEMMReads(op, true) / cached
	}
	return 1
}

// note says what arbitration and queue do with each GEMM, and what of it is assumed.
func (t *tracker) note() {
	g := &t.pl.Machine.GPU
	for i := range t.pl.Pairs {
		op := t.gemmOf(&t.pl.Pairs[i])
		if op.Read+op.Write == 0 { // of unknown size
			continue
		}
		share := t.intensity(&t.pl.Pairs[i])
		does := "and waits behind bursts of transfers, which may fill the memory's queue (arbitration=mca limits them)"
		if t.first {
			does = fmt.Sprintf("and transfers take what it leaves, and at most %d of %.0f entries of the memory's queue",
				t.entries(share), g.QueueEntries())
		}
		takes := fmt.Sprintf("%.0f %% of", 100*share)
		if share > 1 {
			takes = "more than"
			does += "; by its size and time: its operands are in a cache, or one of the two is wrong"
		}
		t.pl.Note("%s takes %s the memory's rate, %s", trace.Short(op.Name), takes, does)
	}
	if g.MemoryQueue.Value == 0 || g.Update.Value == 0 {
		t.pl.Note("assumed for %s: a queue of %.0f entries (gpu.memory_queue), additions that take memory %.3g times as long (gpu.update)",
			t.pl.Machine.Profile, g.QueueEntries(), g.UpdateCost())
	}
}
