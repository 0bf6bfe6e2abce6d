package plan

import (
	"math"

	"github.com/overlapse/overlapse/replay/cost"
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

// streams reports whether an operation is a streaming kernel with more workgroups than slots on the compute units that
// collectives leave.
func (pl *Planner) streams(op *workload.Op) bool {
	slots := (int(pl.Machine.GPU.CUs.Value) - pl.mostHeld()) * pl.Laws().Residents(op.Footprint)
	k := op.Shape.Kind
	streams := k == workload.Elementwise || k == workload.Embedding || k == workload.EmbeddingGrad || moves(op)
	return streams && !op.Tiling.Persistent && op.Tiling.WGs > slots
}

// mostHeld is the compute units that the channels of a captured collective hold, at most.
func (pl *Planner) mostHeld() int {
	if pl.held == nil {
		most := 0
		for i := range pl.Workload.Collectives {
			most = max(most, pl.Workload.Collectives[i].Channels)
		}
		pl.held = new(min(most, int(pl.Machine.GPU.CUs.Value)/2))
	}
	return *pl.held
}

// moves reports whether a kernel goes once over memory, and its bytes are known.
func moves(op *workload.Op) bool {
	return op.Read+op.Write > 0 && (op.Shape.Kind == workload.Elementwise || op.Shape.Kind == workload.NoShape && op.Moves)
}

// streaming is the kernel of a streaming operation (rule M10).
func (pl *Planner) streaming(op *workload.Op) *program.Kernel {
	cus, per := int(pl.Machine.GPU.CUs.Value), pl.Laws().Residents(op.Footprint)
	time := float64(op.DurAlone())
	cut := piecesOf(trace.Time(time))
	g := Grid{WGs: cut.n() * cus, Pipe: 1, Footprint: op.Footprint, Merged: true}
	g.Footprint.Threads *= per
	g.Footprint.Shared *= per
	kernel := pl.KernelOf(op, g)
	slowed := pl.delayed(op)
	kernel.Fed = pl.fed(op)
	kernel.Channels = slowed > 1 || kernel.Fed > 0
	read, write := op.Read/float64(cus), op.Write/float64(cus)
	kernel.Alike, kernel.Each = cus, make([]program.Phase, cut.n())
	for i := range kernel.Each {
		from, to := cut.upTo(i), cut.upTo(i+1)
		kernel.Each[i] = program.Phase{
			Op: program.Work, Time: trace.Time(math.Round(time*to) - math.Round(time*from)),
			Read: read * (to - from), Write: write * (to - from), Slowdown: slowed,
		}
	}
	return kernel
}

// fed is how much of what the compute units of collectives that wait would have moved the memory moves for the others
// (rule M10): nothing while the units bound the kernel, all where the memory does, or where nothing waits for it.
func (pl *Planner) fed(op *workload.Op) float64 {
	switch load := pl.Laws().MemoryLoad(op); {
	case load == 0:
		return 0
	case op.Read == 0:
		return 1
	default:
		return 1 - machine.Exposed(load)
	}
}

// memoryShare is the share of a compute unit that one of n workgroups takes which move an operation's bytes at once: a unit
// moves at least its part of the memory's rate. It is 1 where that rate or the bytes are not known.
func (pl *Planner) memoryShare(op *workload.Op, n int) float64 {
	load := pl.Laws().MemoryLoad(op)
	if load == 0 || n <= 0 {
		return 1
	}
	return min(1, load*pl.Machine.GPU.CUs.Value/float64(n))
}

// delayed is the co-run slowdown of a kernel that moves memory alongside channels on all compute units (rule I10); 0: none.
// Writes wait for nobody.
func (pl *Planner) delayed(op *workload.Op) float64 {
	if op.Read == 0 {
		return 0
	}
	return machine.MemoryDelay(pl.Laws().MemoryLoad(op))
}

// sweepGrain is the minimum number of bytes per workgroup of a memory-bound kernel: 512
// threads of 16 bytes.
const sweepGrain = 8 << 10

// SweepFootprint is the footprint of kernels that only move data.
var SweepFootprint = program.Footprint{Threads: 512, Registers: 32}

// Sweep is a kernel that only reads and writes memory (rule M4).
func (pl *Planner) Sweep(name string, read, write float64) *program.Kernel {
	return pl.SweepOn(name, 0, read, write, 0)
}

// SweepOn is a Sweep with the given number of workgroups, 0: as many as are resident at most, because some wait for others,
// and minimum seconds.
func (pl *Planner) SweepOn(name string, wgs int, read, write, least float64) *program.Kernel {
	if wgs == 0 {
		slots := min(4, pl.Laws().Residents(SweepFootprint)) * int(pl.Machine.GPU.CUs.Value)
		wgs = min(slots, max(1, int(max(read, write)/sweepGrain)))
	}
	n := float64(wgs)
	time := max(Duration(max(pl.Machine.Launch.Graph.Value, least)), pl.Laws().Stream((read+write)/n, wgs))
	return &program.Kernel{
		Name: name, Kind: trace.Compute, WGs: wgs, Footprint: SweepFootprint,
		Sharing: program.Sharing{Pipe: 1 / float64(max(1, machine.CeilDiv(wgs, int(pl.Machine.GPU.CUs.Value))))},
		Each:    []program.Phase{{Op: program.Work, Time: time, Read: read / n, Write: write / n}},
		Attr:    trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None},
		Setup:   trace.Setup{Block: [3]int32{512, 1, 1}},
	}
}

// countRereads adds to what GEMMs read from memory what they read again, on machines whose
// profile has the memory's queue. On others inputs count once (rule M1).
func (pl *Planner) countRereads() {
	if pl.Machine.GPU.MemoryQueue.Value == 0 || !pl.Machine.GPU.Cache.Known() {
		return
	}
	w := pl.Workload.Copy()
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Read > 0 {
			op.Read = max(op.Read, pl.Laws().GEMMReads(op, false))
		}
	}
	pl.Workload = w
}

// chunkOf is the k-th of n parts of a compute operation, cut along its rows (rule G12). Copies of a rank
// share it.
func (pl *Planner) chunkOf(op *workload.Op, k, n int) *program.Kernel {
	return pl.shared(op.Span, partOf(op, k, n), func() *program.Kernel {
		e := pl.Laws().Kernel([]*workload.Op{op}, cost.Part{K: k, Of: n, Weights: true})
		return pl.whole(&e.Op)
	})
}

// MidPart is the k-th of n parts of an operation between the two of a pair.
func (pl *Planner) MidPart(op *workload.Op, k, n int) program.Command {
	if op.Kind == trace.Copy {
		c := pl.CopyOf(op)
		c.Copy.Time = pl.Laws().Kernel([]*workload.Op{op}, cost.Part{K: k, Of: n}).Op.Alone
		return c
	}
	return LaunchOf(op, pl.chunkOf(op, k, n))
}

// WriteChunk launches the k-th of n parts of a GEMM after gap ns.
func (r *Rank) WriteChunk(p *Pair, s *Stream, op *workload.Op, k, n int, gap trace.Time) {
	kernel := r.Planner.chunkOf(op, k, n)
	if kernel.Owned > 0 {
		gap = r.WriteFills(s, p.FillsBefore[r.ID], gap)
	}
	s.Launch(gap, LaunchOf(op, kernel))
}
