package tiles

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
)

// An all-gather whose blocks start the workgroups of the GEMM behind it (T3 section 7.2, rule K13). Transfers are queued
// beforehand and need no compute unit. A tile waits for the blocks that its rows touch.
//
//	                 ring                           direct
//	DMA of rank 0   |own → 3|1's → 3|2's → 3|      |1st block → 3, 2, 1|2nd block → 3, 2, 1| ...
//	GEMM of rank 0  |own|   |1's    |2's    |3's|  |own|               |1st of 1, 2, 3     | ...

// panelsOf is the number of rows of tiles in a rank's part of what a GEMM reads, at least 1; with tiles of unknown height,
// the number of tiles. Smaller blocks would start no workgroup earlier.
func panelsOf(op *workload.Op, ranks int) int {
	if h := op.Tiling.TileM; h > 0 && op.Shape.M > 0 {
		return max(1, machine.CeilDiv(int(op.Shape.M), h)/ranks)
	}
	return max(1, op.Tiling.Tiles/ranks)
}

// consume writes an all-gather and the GEMM that reads it. Transfers to a rank wait until its buffer is free.
func (x *trackedSide) consume(c *plan.Stream) {
	x.On.Post(x.left[x.Me], 1)
	x.Write(x.started())
	x.IssueOne(c, x.pl.Machine.Launch.Host.Value, "transfers")
	c.Wait(x.left[x.Me], 1, x.Compute.Name)
	c.Launch(0, plan.LaunchOf(x.Comm, x.queued()))
}

// started is the GEMM whose workgroups blocks start: in the order in which they arrive, the own ones first.
func (x *trackedSide) started() *program.Kernel {
	q := &sequence{op: x.Compute, g: x.pl.GridOf(x.Compute, x.Compute.DurAlone())}
	q.tiles = max(q.g.Tiles, q.g.WGs)
	var units []int
	of := func(stage, block int) { units = append(units, (x.Me+stage)%x.n*x.blocks+block) }
	for block := range x.blocks {
		of(0, block)
	}
	for i := range (x.n - 1) * x.blocks {
		stage, block := x.turn(i)
		of(1+stage, block)
	}
	q.inOrder(units, true)
	k := q.kernel(x.pl, func(buf []program.Phase, p panel, work program.Phase) []program.Phase {
		for u := p.first; u <= p.last; u++ {
			if stage := (u/x.blocks - x.Me + x.n) % x.n; stage > 0 {
				buf = append(buf, plan.Await(x.counter(x.Me, stage, u%x.blocks), 1))
			}
		}
		return append(buf, work)
	})
	x.limit(k)
	return k
}

// turn is the stage, less one, and the block that arrive i-th. Sent directly, the first blocks of all ranks arrive before
// the second ones.
func (g *ring) turn(i int) (stage, block int) {
	if g.direct {
		return i % (g.n - 1), i / (g.n - 1)
	}
	return i / g.blocks, i % g.blocks
}

// queued is the transfers of the gather, and its end when all blocks have arrived. A block goes from each rank to the one
// before it around the ring, or directly to all.
func (x *trackedSide) queued() *program.Kernel {
	sent := (x.n - 1) * x.blocks
	return x.beside("triggered transfers", sent+1, func(i int, buf []program.Phase) []program.Phase {
		if i == sent {
			for n := range sent {
				buf = append(buf, plan.Await(x.counter(x.Me, 1+n/x.blocks, n%x.blocks), 1))
			}
			return buf
		}
		stage, block := x.turn(i)
		to := x.next
		switch {
		case x.ring.direct:
			to = (x.Me - 1 - stage + x.n) % x.n
		case stage > 0:
			buf = append(buf, plan.Await(x.counter(x.Me, stage, block), 1))
		}
		buf = append(buf, plan.Await(x.left[to], 1))
		return x.send(to, x.counter(to, stage+1, block), x.bursts && stage > 0 && !x.ring.direct, buf)
	})
}
