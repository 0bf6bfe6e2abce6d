package plan

import (
	"math"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A streaming kernel or a lookup with more workgroups than slots takes time by its bytes, not by whole
// waves: workgroups drift apart, and those of a partial last wave share bandwidth with
// fewer. On n of N compute units it takes N/n times as long: 201 µs on 132 units, 208,
// 213, 228 and 235 to 245 µs with 4, 8, 16 and 24 of them held (rows beside_membound;
// rule M10).
//
// Each compute unit's share is cut into pieces, finer towards the end, so that little
// remains at the end for any number of units. Short kernels have fewer, because pieces far
// shorter than the gap between two kernels change nothing but the time that a simulation
// takes:
//
//	|1/8|1/8|...7 times...|1/8|1/64|1/64|...8 times...|   from 64 µs
//	|1/4|1/4|1/4|1/16|1/16|1/16|1/16|                     from 16 µs
//	|1/2|1/4|1/4|                                         below
type pieces struct{ coarse, fine int }

func piecesOf(took trace.Time) pieces {
	switch {
	case took >= 64*finest:
		return pieces{8, 64}
	case took >= 16*finest:
		return pieces{4, 16}
	}
	return pieces{2, 4}
}

// finest is the shortest piece, ns.
const finest = 1000

// n is the number of pieces: the last coarse one is cut finely.
func (p pieces) n() int { return p.coarse - 1 + p.fine/p.coarse }

// upTo is the share of the work in the first n pieces.
func (p pieces) upTo(n int) float64 {
	return float64(min(n, p.coarse-1))/float64(p.coarse) + float64(max(0, n-p.coarse+1))/float64(p.fine)
}

// streams reports whether an operation is a streaming kernel with more workgroups than
// slots.
func (pl *Planner) streams(op *workload.Op) bool {
	slots := int(pl.Machine.GPU.CUs.Value) * pl.Residents(op.Footprint)
	k := op.Shape.Kind
	return (k == workload.Elementwise || k == workload.Embedding || k == workload.EmbeddingGrad) && !op.Tiling.Persistent && op.Tiling.WGs > slots
}

// streaming is the k-th of n parts of a streaming operation (rule M11).
func (pl *Planner) streaming(op *workload.Op, k, n int) *program.Kernel {
	cus, per := int(pl.Machine.GPU.CUs.Value), pl.Residents(op.Footprint)
	slots, wgs := cus*per, portion(op.Tiling.WGs, k, n)
	if wgs <= slots {
		round := float64(op.DurAlone()) * float64(slots) / float64(op.Tiling.WGs)
		each := float64(op.Tiling.WGs)
		return pl.KernelOf(op, Grid{
			WGs: wgs, Time: trace.Time(round*pl.fewer(wgs, slots) + 0.5), Pipe: 1 / float64(min(per, CeilDiv(wgs, cus))),
			Footprint: op.Footprint, Read: op.Read / each, Write: op.Write / each,
		})
	}
	time := float64(op.DurAlone()) / float64(n)
	cut := piecesOf(trace.Time(time))
	g := Grid{WGs: cut.n() * cus, Pipe: 1, Footprint: op.Footprint, Merged: true}
	g.Footprint.Threads *= per
	g.Footprint.Shared *= per
	kernel := pl.KernelOf(op, g)
	slowed := 0.0
	if op.Read > 0 { // writes wait for nobody
		slowed = machine.MemoryDelay(pl.memoryLoad(op))
		kernel.Channels = slowed > 1
	}
	read, write := op.Read/float64(n*cus), op.Write/float64(n*cus)
	kernel.Recipe = func(i int, buf []program.Phase) []program.Phase {
		from, to := cut.upTo(i/cus), cut.upTo(i/cus+1)
		return append(buf, program.Phase{
			Op: program.Work, Time: trace.Time(math.Round(time*to) - math.Round(time*from)),
			Read: read * (to - from), Write: write * (to - from), Slowdown: slowed,
		})
	}
	return kernel
}
