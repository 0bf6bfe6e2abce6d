package engines

import (
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// measuredKernel lasts the given time and holds nothing.
func (pl *planner) measuredKernel(op *workload.Op, took trace.Time) *replay.Kernel {
	k := &replay.Kernel{
		Name: op.Name, Kind: trace.Compute, WGs: 1, Free: true, Matrix: op.Shape.Kind == workload.GEMM,
		Recipe: func(_ int, buf []replay.Phase) []replay.Phase {
			return append(buf, replay.Phase{Op: replay.Work, Time: took})
		},
	}
	if a := pl.w.Run.Kernel(pl.w.Run.Spans[op.Span]); a != nil {
		k.Attr = *a
	}
	return k
}

// A plain kernel of more than maxWaves rounds of short workgroups is cut more
// coarsely: the workgroups that are resident on a CU together count as one, and
// CUs come free maxWaves times while it runs.
const maxWaves = 16

// A grid is the workgroups of a compute kernel, such that alone on the machine it
// takes its measured time.
type grid struct {
	wgs   int        // launched
	tiles int        // 0: plain; else shared by the workgroups
	owned int        // tiles fixed to a persistent workgroup; -1 all
	time  trace.Time // of one tile, or of one plain workgroup, alone
	pipe  float64    // share of a CU's pipes a workgroup uses
	read  float64    // bytes a tile
	write float64
	foot  replay.Footprint

	cluster int // workgroups that start together; 0: each by itself

	rounds int  // of a plain grid: how often every slot is filled
	merged bool // a workgroup stands for several
}

// gridOf derives the workgroups of an operation lasting dur alone.
func (pl *planner) gridOf(op *workload.Op, dur trace.Time) grid {
	t := op.Tiling
	dur = pl.paced(op, dur)
	g := grid{foot: op.Footprint, pipe: 1, cluster: pl.startsTogether(t.Cluster)}
	cus := int(pl.m.GPU.CUs.Value)
	perCU := pl.residents(op.Footprint)
	switch {
	case t.Persistent && t.Tiles > t.WGs && t.WGs > 0:
		g.wgs, g.tiles, g.owned = t.WGs, t.Tiles, -1
		if t.Dynamic {
			g.owned = int(pl.m.Matmul.Owned.Or(-1)) // MODEL_STUDY R5
		}
		g.time = dur / trace.Time(ceilDiv(t.Tiles, t.WGs))
	case t.WGs > 0:
		slots := int(pl.m.GPU.Clustered(g.cluster)) * perCU
		waves := ceilDiv(t.WGs, slots)
		g.wgs, g.rounds = t.WGs, waves
		if waves > maxWaves {
			waves = maxWaves
			g.wgs = waves * cus
			g.foot.Threads *= perCU
			g.foot.Shared *= perCU
			perCU, g.merged, g.cluster = 1, true, 0
		}
		g.time = dur / trace.Time(waves)
		if op.Shape.Kind == workload.NoShape && waves == 1 && t.WGs%cus == 0 && t.WGs == slots {
			// As many workgroups as fit: they loop over work that the trace does not
			// show, and take the next piece when they are done with one.
			g.tiles, g.owned, g.time = maxWaves*t.WGs, 0, dur/maxWaves
		}
	default: // the trace has no grid
		g.wgs, g.time = cus, dur
	}
	// Alone, the workgroups that share a CU reproduce the measured time together.
	together := float64(min(perCU, max(1, ceilDiv(g.wgs, cus))))
	g.pipe = 1 / together
	if op.Shape.Kind == workload.GEMM && g.rounds == 1 && together > 1 && !g.merged {
		// Of one compiled tile alone on its CU the trace shows no time. It takes less
		// than those that share one, so CUs with fewer tiles come free earlier.
		g.pipe = max(pl.m.LonePipe(), g.pipe)
		g.time = trace.Time(float64(g.time) / (together * g.pipe))
	}
	n := float64(max(g.tiles, g.wgs))
	g.read, g.write = op.Read/n, op.Write/n
	return g
}

// startsTogether is how many workgroups of a kernel that was captured in clusters
// of a size start together on this machine: 0 where none of its groups of CUs
// holds such a cluster. A kernel for that machine is built without.
func (pl *planner) startsTogether(cluster int) int {
	if cluster > 1 && pl.m.GPU.Clustered(cluster) == 0 {
		return 0
	}
	return cluster
}

// clusterOf is the grid's cluster, where the grid is one of whole clusters; what
// shares tiles among its workgroups has been sized to be resident at once.
func (pl *planner) clusterOf(g grid) int {
	whole := g.cluster > 1 && g.wgs%g.cluster == 0
	if !whole || g.tiles > 0 && g.wgs > int(pl.m.GPU.Clustered(g.cluster))*pl.residents(g.foot) {
		return 0
	}
	return g.cluster
}

// residents is how many workgroups of a footprint fit on one CU, at least 1.
func (pl *planner) residents(f replay.Footprint) int { return max(1, f.Residents(&pl.m.GPU)) }

// kernel is a compute operation with the workgroups it had.
func (pl *planner) kernel(op *workload.Op) *replay.Kernel {
	if pl.streams(op) {
		return pl.streaming(op, 0, 1)
	}
	return pl.asLaunched(op, pl.gridOf(op, op.DurAlone()))
}

// asLaunched is kernelOf for a kernel that does what it did when captured, or a
// part of that: its workgroups start in clusters as they did.
func (pl *planner) asLaunched(op *workload.Op, g grid) *replay.Kernel {
	k := pl.kernelOf(op, g)
	k.Cluster = pl.clusterOf(g)
	return k
}

func (pl *planner) kernelOf(op *workload.Op, g grid) *replay.Kernel {
	k := &replay.Kernel{
		Name: op.Name, Kind: trace.Compute, Matrix: op.Shape.Kind == workload.GEMM,
		WGs: g.wgs, Tiles: g.tiles, Owned: g.owned, Footprint: g.foot, Pipe: g.pipe, Merged: g.merged,
		Recipe: func(_ int, buf []replay.Phase) []replay.Phase {
			return append(buf, replay.Phase{Op: replay.Work, Time: g.time, Read: g.read, Write: g.write})
		},
	}
	if a := pl.w.Run.Kernel(pl.w.Run.Spans[op.Span]); a != nil {
		k.Attr = *a
	}
	return k
}

func ceilDiv(a, b int) int {
	if b <= 0 {
		return 0
	}
	return (a + b - 1) / b
}
