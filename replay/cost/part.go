package cost

import (
	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// A partKey is what the kernel of a part depends on: the captured one, of which several are cut
// together, and the step.
type partKey struct {
	kernel   *workload.Kernel
	captured int
	part     Part
	step     int32
}

func (l *Laws) partKernel(captured []*workload.Op, p Part) *workload.Kernel {
	key := partKey{captured[0].Kernel, len(captured), p, captured[0].Step}
	return l.parts.Of(key, func() *workload.Kernel { return l.partOf(captured, p) })
}

// partOf is the launch of a part: the parts together have all rows and workgroups of the whole. A library takes the tile for
// the part's sizes, a compiled kernel keeps its own.
func (l *Laws) partOf(captured []*workload.Op, p Part) *workload.Kernel {
	op, part, k, n, by := captured[0], *captured[0].Kernel, p.K, p.Of, len(captured)
	sh, t := &part.Shape, &part.Tiling
	if p.Weights && sh.N >= sh.M {
		sh.N = portion(sh.N, k, n)
	} else {
		sh.M = portion(sh.M*int64(by), k, n)
	}
	if !p.Weights && (sh.Kind == workload.GEMM || sh.Kind == workload.GEMV) {
		sh.Kind = kernel.GEMMKind(sh.M, sh.N)
	}
	switch {
	case sh.Kind == workload.GEMM && t.TileM > 0 && compiled(op):
		was, is := rowsOfTiles(op.Shape, t.TileM), rowsOfTiles(*sh, t.TileM)
		t.Tiles, t.WGs = int(int64(t.Tiles)*is/was), int(int64(t.WGs)*is/was)
	case sh.Kind == workload.GEMM && t.TileM > 0:
		is := l.Machine.Grouped(sh.Groups, sh.M, sh.N, sh.K)
		t.TileM, t.TileN, t.Tiles, t.Cluster = is.Columns, is.Rows, is.Tiles, l.Machine.Cluster(is) // the library sees the transpose
		t.Dynamic = l.Machine.Dynamic(is)
		if t.WGs = is.Tiles; t.Persistent {
			t.WGs = min(is.Tiles, op.Tiling.WGs)
			if l.Machine.GPU.Groups.Known() {
				t.WGs = min(is.Tiles, int(l.Clustered(t.Cluster)))
			}
		}
	case t.WGs > 0 && !l.keepsGrid(op) && (p.Weights || op.Shape.Kind == workload.GEMM || !l.byRows(op)):
		t.WGs = max(1, portion(t.WGs*by, k, n))
		t.Tiles = max(1, portion(t.Tiles*by, k, n))
	}
	return &part
}

// rowsOfTiles is the rows of tiles of a product, whose groups have an equal part of its rows each (rule G22).
func rowsOfTiles(s workload.Shape, height int) int64 {
	groups := max(1, s.Groups)
	return groups * machine.CeilDiv(machine.CeilDiv(s.M, groups), int64(height))
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
