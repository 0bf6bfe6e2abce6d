package plan

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
)

// chunkOf is the k-th of n parts of a compute operation, cut along its rows: a launch with
// its own tiles and its own last wave. The parts together have all of its rows, tiles and
// workgroups (rule G12). Copies of a rank share it.
func (pl *Planner) chunkOf(op *workload.Op, k, n int) *program.Kernel {
	return pl.shared(op.Span, partOf(op, k, n), func() *program.Kernel { return pl.cut(op, k, n) })
}

func (pl *Planner) cut(op *workload.Op, k, n int) *program.Kernel {
	if pl.streams(op) {
		return pl.streaming(op, k, n)
	}
	g := pl.GridOf(op, op.DurAlone())
	switch {
	case n == 1:
	case op.Shape.Kind == workload.GEMM && op.Tiling.TileM > 0 && op.Tiling.Persistent:
		t := pl.retile(op, k, n)
		g.Tiles, g.Time = t.Tiles, Duration(t.Tile)
		part := op.Shape
		part.M = rowsOf(op, k, n)
		read, write := part.Traffic() // every part reads all of B
		if whole, _ := op.Shape.Traffic(); whole > 0 {
			read *= max(1, op.Read/whole) // and panels again as the whole does
		}
		g.Read, g.Write = read/float64(t.Tiles), write/float64(t.Tiles)
		if !pl.Machine.Dynamic(t) {
			g.Owned = -1
		}
		if g.cluster = pl.Machine.Cluster(t); pl.Machine.GPU.Groups.Known() {
			g.WGs = int(pl.clustered(g.cluster))
		}
		g.WGs = min(g.WGs, g.Tiles)
	case op.Shape.Groups > 1 && op.Tiling.TileM > 0 && op.Tiling.Tiles > 0:
		pl.cutGroups(&g, op, k, n)
	case g.Tiles > 0:
		g.Tiles = max(1, portion(g.Tiles, k, n))
		g.WGs = min(g.WGs, g.Tiles)
	case g.WGs%int(pl.Machine.GPU.CUs.Value) == 0 && g.rounds == 1:
		// A whole number of workgroups per CU, all resident: the kernel launches as many as fit,
		// and each loops over its share.
		g.Time = Share(g.Time, k, n)
		g.Read, g.Write = g.Read/float64(n), g.Write/float64(n)
	default:
		whole := g.WGs
		g.WGs = max(1, portion(g.WGs, k, n))
		if op.Shape.Kind != workload.GEMM && g.rounds == 1 {
			g.Time = trace.Time(float64(g.Time) * pl.fewer(g.WGs, whole))
		}
	}
	return pl.AsLaunched(op, g)
}

// cutGroups makes a grid of compiled tiles that of the k-th of n parts of a grouped GEMM, which
// has a part of the rows of every group: as many more tiles as stick out of their group, and
// the weights of all groups (rule G22).
func (pl *Planner) cutGroups(g *Grid, op *workload.Op, k, n int) {
	sh, h := op.Shape, int64(op.Tiling.TileM)
	rows := func(m int64) int64 { return sh.Groups * machine.CeilDiv(machine.CeilDiv(m, sh.Groups), h) }
	part := sh
	part.M = rowsOf(op, k, n)
	share := float64(rows(part.M)) / float64(rows(sh.M))
	tiles := &g.WGs
	if g.Tiles > 0 {
		tiles = &g.Tiles
	}
	*tiles = max(1, int(float64(*tiles)*share+0.5))
	g.WGs = min(g.WGs, *tiles)
	read, write := part.Traffic()
	if whole, _ := sh.Traffic(); whole > 0 {
		read *= max(1, op.Read/whole) // panels are read again as the whole does
	}
	g.Read, g.Write = read/float64(*tiles), write/float64(*tiles)
}

// fewer is the factor on the time of a workgroup that streams memory if wgs of them run
// instead of the whole grid: each gets more bandwidth, by the profile's curve of streaming
// kernels.
func (pl *Planner) fewer(wgs, whole int) float64 {
	each := func(n int) float64 { return pl.Machine.GPU.StreamAt(n) / float64(max(1, n)) }
	if each(wgs) <= 0 || each(whole) <= 0 {
		return 1
	}
	return min(1, each(whole)/each(wgs))
}

// portion is the k-th of n nearly equal integer parts of a whole. The first parts get the
// remainder, one each.
func portion[T int | int64](whole T, k, n int) T {
	p := whole / T(n)
	if T(k) < whole%T(n) {
		p++
	}
	return p
}

// rowsOf is the number of rows in the k-th of n parts of a GEMM.
func rowsOf(op *workload.Op, k, n int) int64 { return portion(op.Shape.M, k, n) }

// sumsExperts is the reason why tiles of a pair's GEMM cannot be sent as they are computed: each
// row that is sent is the sum of the rows of a token, which lie in tiles of different experts
// (rule V23); "" if they can.
func (pl *Planner) sumsExperts(p *workload.Pair) string {
	if p.Experts <= 1 || p.Direction != workload.ComputeThenCollective {
		return ""
	}
	return fmt.Sprintf("what is sent are sums of %d rows each of %s, which lie in different tiles", p.Experts, names.Short(pl.Workload.Ops[p.First[0]].Name))
}

// TooFewRows is the reason why a pair cannot be cut into n parts; "" if it can. Every part
// needs at least one row.
func (pl *Planner) TooFewRows(p *workload.Pair, n int) string {
	for _, id := range append(p.First[:1:1], p.Second[:1]...) {
		if op := &pl.Workload.Ops[id]; op.Shape.Kind == workload.GEMM && op.Shape.M > 0 && op.Shape.M < int64(n) {
			return fmt.Sprintf("chunks=%d: %s has %d rows", n, names.Short(op.Name), op.Shape.M)
		} else if k := int64(max(1, p.Experts)); k > 1 && op.Shape.Kind == workload.GEMM && op.Shape.M/k < int64(n) {
			return fmt.Sprintf("chunks=%d: %s has rows of %d tokens", n, names.Short(op.Name), op.Shape.M/k)
		}
	}
	return ""
}

// retile predicts the library's tiling of the k-th of n parts of a GEMM's rows and the
// time of a tile: the profile's prediction for the part, scaled by captured over predicted
// time of the whole in its captured tile (rule G12).
func (pl *Planner) retile(op *workload.Op, k, n int) machine.Tiling {
	sh := op.Shape
	rows := rowsOf(op, k, n)
	if sh.Groups <= 1 {
		pl.Lookups.Add(machine.Question{Kind: machine.AboutGEMM, M: rows, N: sh.N, K: sh.K})
		pl.Lookups.Add(machine.Question{Kind: machine.AboutGEMM, M: sh.M, N: sh.N, K: sh.K})
	}
	part := pl.Machine.Grouped(sh.Groups, rows, sh.N, sh.K)
	full := pl.Machine.GroupedWithTile(sh.Groups, sh.M, sh.N, sh.K, op.Tiling.TileN, op.Tiling.TileM) // the library sees the transpose
	if full.Seconds > 0 {
		slower := float64(op.DurAlone()) / 1e9 / full.Seconds
		if part.Rows != full.Rows || part.Columns != full.Columns {
			// A ratio within the law's error is the error for this tile and says nothing about other
			// tiles. Chunks between other kernels run within 2 % of their time alone
			// (samples/measurements/2026-11-22-h200-products).
			if slower < 1+pl.Machine.Matmul.RunSpread.Value {
				slower = 1
			}
		}
		part.Tile *= slower
		if pl.Scenario.Pace > 0 {
			part.Tile *= pl.Scenario.Pace
		}
	}
	return part
}

// MidPart is the k-th of n parts of an operation between the two of a pair.
func (pl *Planner) MidPart(op *workload.Op, k, n int) program.Command {
	if op.Kind == trace.Copy {
		c := pl.CopyOf(op)
		c.Copy.Time = Share(op.DurAlone(), k, n)
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
