package plan

import (
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// MeasuredKernel is a kernel that lasts the given time and holds no slots. Copies of a rank
// share it: a caller must not change it.
func (pl *Planner) MeasuredKernel(op *workload.Op, took trace.Time) *program.Kernel {
	return pl.shared(op.Span, kernelKey{op.Kernel, took, 0, 0, measured, 0}, func() *program.Kernel {
		k := &program.Kernel{
			Name: op.Name, Kind: trace.Compute, WGs: 1, Free: true, Sharing: program.Sharing{Matrix: op.Shape.Kind == workload.GEMM},
			Each: []program.Phase{{Op: program.Work, Time: took}},
		}
		return pl.shown(k, op)
	})
}

// shown is a kernel with what the trace says of an operation's, which the simulated run shows.
func (pl *Planner) shown(k *program.Kernel, op *workload.Op) *program.Kernel {
	if a := pl.Workload.Run.Kernel(pl.Workload.Run.Spans[op.Span]); a != nil {
		k.Attr, k.Setup = *a, pl.Workload.Run.Setup(a)
	}
	return k
}

// shared is the kernel that a rank and its copies have in common for an operation of that span.
func (pl *Planner) shared(span trace.SpanID, key kernelKey, of func() *program.Kernel) *program.Kernel {
	if pl.Workload.World == pl.Workload.Captured {
		return of()
	}
	known := pl.kernels[span]
	for i := range known {
		if known[i].kernelKey == key {
			return known[i].made
		}
	}
	if pl.kernels == nil {
		pl.kernels = map[trace.SpanID][]sharedKernel{}
	}
	k := of()
	pl.kernels[span] = append(known, sharedKernel{key, k})
	return k
}

// A sharedKernel is one of the kernels of an operation.
type sharedKernel struct {
	kernelKey
	made *program.Kernel
}

// A kernelKey is what the kernel of a compute operation, or of a part of it, depends on.
type kernelKey struct {
	kernel      *workload.Kernel
	took        trace.Time
	read, write float64
	part, of    int // of: 0: the whole
}

const measured = -1 // as the part: MeasuredKernel

func partOf(op *workload.Op, k, n int) kernelKey {
	return kernelKey{op.Kernel, op.DurAlone(), op.Read, op.Write, k, n}
}

// MaxWaves bounds the waves of a plain kernel. A kernel with more is simulated more
// coarsely: the workgroups that are resident on a CU together count as one, and CUs come
// free MaxWaves times while it runs (rule D14).
const MaxWaves = 16

// A Grid is the workgroups of a compute kernel. Alone on the machine the kernel takes its
// measured time (rule G9).
type Grid struct {
	WGs       int        // number launched
	Tiles     int        // 0: a plain grid; else tiles shared by persistent workgroups
	Owned     int        // tiles fixed to a persistent workgroup; -1: all
	Time      trace.Time // ns of one tile, or of one plain workgroup, alone
	Pipe      float64    // share of a CU's pipes that a workgroup uses
	Read      float64    // bytes per tile
	Write     float64
	Footprint program.Footprint

	cluster int // workgroups that start together; 0: no clusters

	rounds int  // of a plain grid: number of waves
	Merged bool // each workgroup stands for several
}

// GridOf derives the workgroups of an operation that lasts dur alone.
func (pl *Planner) GridOf(op *workload.Op, dur trace.Time) Grid { return pl.gridOf(op, dur, false) }

// gridOf is GridOf or, with apart, ApartGrid.
func (pl *Planner) gridOf(op *workload.Op, dur trace.Time, apart bool) Grid {
	t := op.Tiling
	dur = pl.Paced(op, dur)
	g := Grid{Footprint: op.Footprint, Pipe: 1, cluster: pl.Laws().StartsTogether(t.Cluster)}
	cus := int(pl.Machine.GPU.CUs.Value)
	perCU := pl.Laws().Residents(op.Footprint)
	switch {
	case t.Persistent && t.Tiles > t.WGs && t.WGs > 0:
		g.WGs, g.Tiles, g.Owned = t.WGs, t.Tiles, -1
		if t.Dynamic {
			g.Owned = int(pl.Machine.Matmul.Owned.Or(-1)) // rules D12 and G7
		}
		g.Time = dur / trace.Time(machine.CeilDiv(t.Tiles, t.WGs))
	case t.WGs > 0:
		slots := int(pl.Laws().Clustered(g.cluster)) * perCU
		waves := machine.CeilDiv(t.WGs, slots)
		g.WGs, g.rounds = t.WGs, waves
		if waves > MaxWaves && !apart {
			waves = MaxWaves
			g.WGs = waves * cus
			g.Footprint.Threads *= perCU
			g.Footprint.Shared *= perCU
			perCU, g.Merged, g.cluster = 1, true, 0
		}
		g.Time = dur / trace.Time(waves)
		if pl.Laws().FillsSlots(op) {
			g.Tiles, g.Owned, g.Time = MaxWaves*t.WGs, 0, dur/MaxWaves
		}
	default: // the trace has no grid
		g.WGs, g.Time = cus, dur
	}
	// Alone, the workgroups that share a CU together take the measured time.
	together := float64(min(perCU, max(1, machine.CeilDiv(g.WGs, cus))))
	if lone := together == 1 && g.Tiles == 0; lone && !op.Matrix() && op.Shape.Kind != workload.GEMV && op.Shape.Kind != workload.Embedding {
		together = float64(perCU) // a workgroup alone on its CU leaves room in its pipes (rule D11)
	}
	g.Pipe = 1 / together
	if g.Tiles == 0 && g.rounds == 1 && moves(op) {
		g.Pipe = min(g.Pipe, pl.memoryShare(op, g.WGs))
	}
	if op.Shape.Kind == workload.GEMM && together > 1 && !g.Merged {
		// The trace shows no time of a single compiled tile on its CU. It is shorter than that of
		// tiles that share a CU, so CUs with fewer tiles come free earlier, and so does the last
		// wave, of which each CU has its share (rules D5 and G10).
		rounds, lone := pl.Laws().Rounds(op)
		switch lone = max(lone, g.Pipe); {
		case g.rounds == 1 || g.rounds > 1 && (apart || pl.Machine.Matmul.Lone.Known()):
			g.Time, g.Pipe = trace.Time(float64(dur)/rounds), lone
		case apart: // persistent
			g.Time, g.Pipe = trace.Time(float64(g.Time)*g.Pipe/lone), lone
		}
	}
	n := float64(max(g.Tiles, g.WGs))
	if rate := (op.Read + op.Write) / n * float64(g.WGs) / Seconds(max(1, g.Time)); g.Tiles > 0 && rate > pl.Machine.GPU.Memory.Value {
		n = float64(g.WGs * machine.CeilDiv(g.Tiles, g.WGs)) // its first round takes no more from the memory than all of it did
	}
	g.Read, g.Write = op.Read/n, op.Write/n
	return g
}

// clusterOf is the grid's cluster size; 0 if clusters do not divide the grid, or if
// persistent workgroups that share tiles would not all be resident.
func (pl *Planner) clusterOf(g Grid) int {
	whole := g.cluster > 1 && g.WGs%g.cluster == 0
	if !whole || g.Tiles > 0 && g.WGs > int(pl.Laws().Clustered(g.cluster))*pl.Laws().Residents(g.Footprint) {
		return 0
	}
	return g.cluster
}

// Laws are those of the planner's machine.
func (pl *Planner) Laws() *cost.Laws {
	pl.costs.Machine, pl.costs.Workload, pl.costs.Lookups = &pl.Machine, pl.Workload, &pl.Lookups
	return &pl.costs
}

// kernel is a compute operation with its captured workgroups. Copies of a rank share it.
func (pl *Planner) kernel(op *workload.Op) *program.Kernel {
	return pl.shared(op.Span, partOf(op, 0, 0), func() *program.Kernel { return pl.whole(op) })
}

func (pl *Planner) whole(op *workload.Op) *program.Kernel {
	if pl.streams(op) {
		return pl.streaming(op)
	}
	if program.Fits(&pl.Machine, op.Footprint) != nil { // built for another GPU: its workgroups on this one are not known
		return pl.MeasuredKernel(op, pl.Paced(op, op.DurAlone()))
	}
	return pl.AsLaunched(op, pl.coarser(op, pl.GridOf(op, op.DurAlone())))
}

// coarser merges the workgroups of a plain kernel without matrix instructions that are
// resident together on a CU, and as many of its waves as are shorter than finest. They
// start and end together, so the CUs come free when they would (rule D14).
func (pl *Planner) coarser(op *workload.Op, g Grid) Grid {
	perCU, cus := pl.Laws().Residents(op.Footprint), int(pl.Machine.GPU.CUs.Value)
	if g.rounds < 2 || g.Tiles > 0 || op.Matrix() || op.Shape.Kind == workload.Embedding || op.Shape.Kind == workload.GEMV {
		return g
	}
	dur := pl.Paced(op, op.DurAlone())
	waves := min(g.rounds, MaxWaves, max(leastWaves, int(dur/finest)))
	if g.Merged && waves == MaxWaves || perCU == 1 && waves == g.rounds {
		return g
	}
	if !g.Merged {
		g.Footprint.Threads *= perCU
		g.Footprint.Shared *= perCU
	}
	n := float64(g.WGs)
	g.WGs, g.Time, g.Pipe, g.Merged, g.cluster = waves*cus, dur/trace.Time(waves), 1, true, 0
	g.Read, g.Write = g.Read*n/float64(g.WGs), g.Write*n/float64(g.WGs)
	return g
}

// leastWaves is the number of waves below which coarser merges none.
const leastWaves = 4

// AsLaunched is KernelOf for the captured kernel or a part of it: its workgroups start in
// clusters as captured, and channels delay what it reads (rule I10).
func (pl *Planner) AsLaunched(op *workload.Op, g Grid) *program.Kernel {
	k := pl.KernelOf(op, g)
	k.Cluster = pl.clusterOf(g)
	if slowed := pl.delayed(op); g.Tiles == 0 && moves(op) && slowed > 1 {
		k.Channels, k.Each[0].Slowdown = true, slowed
	}
	return k
}

// KernelOf is the kernel of an operation with other workgroups than captured.
func (pl *Planner) KernelOf(op *workload.Op, g Grid) *program.Kernel {
	k := &program.Kernel{
		Name: op.Name, Kind: trace.Compute, Sharing: program.Sharing{Matrix: op.Shape.Kind == workload.GEMM, Pipe: g.Pipe},
		WGs: g.WGs, Tiles: g.Tiles, Owned: g.Owned, Footprint: g.Footprint, Merged: g.Merged,
		Each: []program.Phase{{Op: program.Work, Time: g.Time, Read: g.Read, Write: g.Write}},
	}
	return pl.shown(k, op)
}

// TilesOf is an operation as persistent workgroups over all of its tiles, one per slot, as
// fused kernels are written.
func (pl *Planner) TilesOf(op *workload.Op) Grid {
	g := pl.GridOf(op, op.DurAlone())
	if g.Tiles == 0 {
		g.Tiles = g.WGs
		g.WGs = min(g.WGs, pl.Laws().Slots(g.Footprint))
	}
	g.Owned = -1
	return g
}

// WithPrograms changes the number of persistent workgroups that share the tiles; 0 leaves
// it. With fewer, a compiled GEMM kernel has more cache and power per workgroup, and a
// gather more memory bandwidth, according to the profile (rule U12).
func (pl *Planner) WithPrograms(op *workload.Op, g Grid, programs int) Grid {
	if programs == 0 || programs == g.WGs {
		return g
	}
	laws := pl.Laws() // persistent workgroups are of the build whose results may go to peers, whether they do or not
	factor := laws.TileOn(op, programs, g.WGs, true) / laws.TileOn(op, g.WGs, g.WGs, true)
	g.Time = trace.Time(float64(g.Time)*factor + 0.5)
	g.WGs = programs
	g.Pipe = 1 / float64(laws.Together(g.Footprint, programs))
	return g
}

// WaitKernel is one thread that polls a flag until it reaches a count and thereby delays
// its stream. It holds its slot while it waits. nap is the time between polls, and so its
// maximum delay (rule S13).
func WaitKernel(f program.Flag, count int64, nap trace.Time) program.Command {
	return program.Command{Op: program.Launch, Origin: -1, Name: "wait kernel", Kernel: &program.Kernel{
		Name: "wait kernel", Kind: trace.Compute, WGs: 1, Footprint: program.Footprint{Threads: 1},
		Recipe: func(_ int, buf []program.Phase) []program.Phase {
			buf = append(buf, program.Phase{Op: program.WaitFor, Flag: f, Count: count})
			if nap > 0 {
				buf = append(buf, program.Phase{Op: program.Sleep, Time: nap})
			}
			return buf
		},
	}}
}

// A Cover is the tiles of a GEMM's output.
type Cover struct {
	Rows, Cols int // tiles along M and along N
	Splits     int // workgroups per tile, each with a part of K
}

// CoverOf returns the tiles of an operation; false if they are unknown or do not cover its
// output.
func CoverOf(op *workload.Op) (c Cover, ok bool) {
	s, t := op.Shape, op.Tiling
	if s.Kind != workload.GEMM && s.Kind != workload.GEMV && s.Kind != workload.Elementwise || t.TileM <= 0 || t.TileN <= 0 || t.WGs <= 0 {
		return Cover{}, false
	}
	c = Cover{Rows: machine.CeilDiv(int(s.M), t.TileM), Cols: machine.CeilDiv(int(s.N), t.TileN), Splits: 1}
	if !t.Persistent {
		c.Splits = max(1, t.WGs/c.Tiles())
	}
	return c, t.Persistent && t.Tiles == c.Tiles() || !t.Persistent && t.WGs == c.Tiles()*c.Splits
}

// Tiles is the number of tiles, not counting splits.
func (c Cover) Tiles() int { return c.Rows * c.Cols }

// ApartGrid has one workgroup per tile, or the captured number of persistent ones, none
// merged. The kernel alone takes its measured time.
func (pl *Planner) ApartGrid(op *workload.Op, tiles int) Grid {
	g, n := pl.gridOf(op, op.DurAlone(), true), float64(tiles)
	g.Read, g.Write = op.Read/n, op.Write/n
	// one on a CU in the measurement
	if pl.Laws().Together(op.Footprint, g.WGs) == 1 {
		g.Pipe = max(0.01, pl.Laws().Pipe(op.Shape.Flops()/n, g.Time))
	}
	return g
}
