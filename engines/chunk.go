package engines

import (
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// chunkOf is one of n equal parts of a compute operation, cut along its rows:
// its own launch, its own tiles, its own last wave (MECHANISM D3).
func (pl *planner) chunkOf(op *workload.Op, n int) *replay.Kernel {
	if pl.streams(op) {
		return pl.streaming(op, n)
	}
	g := pl.gridOf(op, op.DurAlone())
	switch {
	case n == 1:
	case op.Shape.Kind == workload.GEMM && op.Tiling.TileM > 0 && op.Tiling.Persistent:
		t := pl.retile(op, n)
		g.tiles, g.time = t.Tiles, duration(t.Tile)
		part := op.Shape
		part.M = rowsOf(op, n)
		read, write := part.Traffic() // every part reads all of B
		g.read, g.write = read/float64(t.Tiles), write/float64(t.Tiles)
		if !pl.m.Dynamic(t) {
			g.owned = -1
		}
		if g.cluster = pl.m.Cluster(t); pl.m.GPU.Groups.Known() {
			g.wgs = int(pl.m.GPU.Clustered(g.cluster))
		}
		g.wgs = min(g.wgs, g.tiles)
	case g.tiles > 0:
		g.tiles = ceilDiv(g.tiles, n)
		g.wgs = min(g.wgs, g.tiles)
	case g.wgs%int(pl.m.GPU.CUs.Value) == 0 && g.rounds == 1:
		// A grid of a whole number of workgroups a CU, all resident at once: as
		// many were launched as fit, and each loops over its share.
		g.time /= trace.Time(n)
	default:
		whole := g.wgs
		g.wgs = ceilDiv(g.wgs, n)
		if op.Shape.Kind != workload.GEMM && g.rounds == 1 {
			g.time = trace.Time(float64(g.time) * pl.fewer(g.wgs, whole))
		}
	}
	return pl.besideOthers(op, g)
}

// fewer is the factor on the time of a workgroup that streams memory when so many
// of them run instead of the whole grid: each gets more of the memory, as the
// profile's curve of streaming kernels has it.
func (pl *planner) fewer(wgs, whole int) float64 {
	each := func(n int) float64 { return pl.m.GPU.StreamAt(n) / float64(max(1, n)) }
	if each(wgs) <= 0 || each(whole) <= 0 {
		return 1
	}
	return min(1, each(whole)/each(wgs))
}

// rowsOf is how many rows one of n parts of a GEMM has.
func rowsOf(op *workload.Op, n int) int64 { return max(1, op.Shape.M/int64(n)) }

// retile predicts how the library tiles one of n parts of a GEMM's rows, and how
// long a tile takes: what the machine's profile says of the part, scaled by how
// the captured whole compares with what it says of that in the tiles of its name.
func (pl *planner) retile(op *workload.Op, n int) machine.Tiling {
	sh := op.Shape
	rows := rowsOf(op, n)
	pl.m.Asked.Add(machine.Question{Kind: machine.AboutProduct, M: rows, N: sh.N, K: sh.K, DType: sh.DType})
	pl.m.Asked.Add(machine.Question{Kind: machine.AboutProduct, M: sh.M, N: sh.N, K: sh.K, DType: sh.DType})
	part := pl.m.Tiling(rows, sh.N, sh.K)
	full := pl.m.WithTile(sh.M, sh.N, sh.K, op.Tiling.TileN, op.Tiling.TileM) // the library sees the transpose
	if full.Seconds > 0 {
		slower := float64(op.DurAlone()) / 1e9 / full.Seconds
		if part.Rows != full.Rows || part.Columns != full.Columns {
			// Up to what laws of tiles err by it shows how that errs on this tile, and nothing
			// of others: those of chunks run between other kernels as they do alone, 2 %
			// faster to 2 % slower (samples/measurements/2026-11-22-h200x2-kernels).
			if slower < 1+processesDiffer {
				slower = 1
			}
		}
		part.Tile *= slower
		if pl.m.Pace > 0 {
			part.Tile *= pl.m.Pace
		}
	}
	return part
}

// midPart is the k-th of n parts of an operation between a pair's two.
func (pl *planner) midPart(op *workload.Op, k, n int) replay.Command {
	if op.Kind == trace.Copy {
		c := pl.copyOf(op)
		c.Copy.Time = share(op.DurAlone(), k, n)
		return c
	}
	return launchOf(op, pl.chunkOf(op, n))
}
