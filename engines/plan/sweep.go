package plan

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// sweepGrain is the minimum number of bytes per workgroup of a memory-bound kernel: 512
// threads of 16 bytes.
const sweepGrain = 8 << 10

// SweepFootprint is the footprint of kernels that only move data.
var SweepFootprint = program.Footprint{Threads: 512, Registers: 32}

// Sweep is a kernel that only reads and writes memory (rule M9).
func (pl *Planner) Sweep(name string, read, write float64) *program.Kernel {
	return pl.SweepOn(name, pl.Sweepers(read, write), read, write, 0)
}

// Sweepers is the number of workgroups of a Sweep.
func (pl *Planner) Sweepers(read, write float64) int {
	slots := min(4, pl.Residents(SweepFootprint)) * int(pl.Machine.GPU.CUs.Value) // all resident, because some wait for others
	return min(slots, max(1, int(max(read, write)/sweepGrain)))
}

// SweepOn is a Sweep with the given number of workgroups and minimum seconds.
func (pl *Planner) SweepOn(name string, wgs int, read, write, least float64) *program.Kernel {
	time := max(pl.Machine.Launch.Graph.Value, least)
	if rate := pl.Machine.GPU.StreamAt(wgs); rate > 0 {
		time = max(time, (read+write)/rate)
	}
	n := float64(wgs)
	return &program.Kernel{
		Name: name, Kind: trace.Compute, WGs: wgs, Footprint: SweepFootprint, Pipe: 1 / float64(max(1, CeilDiv(wgs, int(pl.Machine.GPU.CUs.Value)))),
		Recipe: func(_ int, buf []program.Phase) []program.Phase {
			return append(buf, program.Phase{Op: program.Work, Time: Duration(time), Read: read / n, Write: write / n})
		},
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None, Block: [3]int32{512, 1, 1}},
	}
}
