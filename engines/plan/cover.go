package plan

import (
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Cover is the tiles of a GEMM's output and their order.
type Cover struct {
	Rows, Cols int     // tiles along M and along N
	Splits     int     // workgroups per tile, each with a part of K
	byColumn   bool    // tiles are ordered by column
	Stride     int     // distance of columns computed one after another; 0 or 1: adjacent
	Order      []int32 // numbers of the tiles, row by row, in the order in which they run; nil: as above
}

// CoverOf returns the tiles of an operation; false if they are unknown or do not cover its
// output.
func CoverOf(op *workload.Op, byColumn bool) (c Cover, ok bool) {
	s, t := op.Shape, op.Tiling
	if s.Kind != workload.GEMM && s.Kind != workload.GEMV && s.Kind != workload.Elementwise || t.TileM <= 0 || t.TileN <= 0 || t.WGs <= 0 {
		return Cover{}, false
	}
	c = Cover{Rows: CeilDiv(int(s.M), t.TileM), Cols: CeilDiv(int(s.N), t.TileN), Splits: 1, byColumn: byColumn}
	if !t.Persistent {
		c.Splits = max(1, t.WGs/c.Tiles())
	}
	return c, t.Persistent && t.Tiles == c.Tiles() || !t.Persistent && t.WGs == c.Tiles()*c.Splits
}

// Tiles is the number of tiles, not counting splits.
func (c Cover) Tiles() int { return c.Rows * c.Cols }

// At is the row and column of the i-th tile in order. Split parts of a tile are a whole
// grid apart, as in the third dimension of a grid.
func (c Cover) At(i int) (row, col int) {
	i %= c.Tiles()
	if c.Order != nil {
		i = int(c.Order[i])
		return i / c.Cols, i % c.Cols
	}
	if c.byColumn {
		row, col = i%c.Rows, i/c.Rows
	} else {
		row, col = i/c.Cols, i%c.Cols
	}
	if c.Stride > 1 {
		n := c.Cols / c.Stride // columns of one kind
		col = col%c.Stride*n + col/c.Stride
	}
	return row, col
}

// ApartGrid has one workgroup per tile, or the captured number of persistent ones, none
// merged. The kernel alone takes its measured time.
func (pl *Planner) ApartGrid(op *workload.Op, tiles int) Grid {
	cus, perCU := int(pl.Machine.GPU.CUs.Value), pl.Residents(op.Footprint)
	g := pl.GridOf(op, op.DurAlone())
	merged := g.Merged
	if merged { // GridOf merges short workgroups
		g.WGs, g.Footprint, g.Merged = op.Tiling.WGs, op.Footprint, false
		g.Time = g.Time * MaxWaves / trace.Time(CeilDiv(g.WGs, cus*perCU))
	}
	n := float64(tiles)
	g.Read, g.Write = op.Read/n, op.Write/n
	together := min(perCU, CeilDiv(g.WGs, cus)) // resident workgroups per CU in the measurement
	if merged {
		g.Pipe = 1 / float64(max(1, together))
	}
	if together == 1 {
		g.Pipe = max(0.01, pl.Machine.Pipe(op.Shape.Flops()/n, float64(max(1, g.Time))/1e9))
		return g
	}
	alone := 1 / float64(together)
	if op.Shape.Kind == workload.GEMM { // the trace shows no tile alone
		alone = max(alone, pl.Machine.LonePipe(op.Tiling.Depth))
	}
	g.Time, g.Pipe = trace.Time(float64(g.Time)*g.Pipe/alone), alone
	return g
}
