package cost

import (
	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Part is the k-th of n parts of the rows of an operation that was captured in parts: a launch with its
// own tiles and its own last wave. The parts together have all of its rows, workgroups and bytes; what does
// not divide goes to the first ones. Every part of a product reads all of the weights (rule G20).
func (l *Laws) Part(captured []*workload.Op, k, n int) workload.Op {
	seen, op := captured[0], *captured[0]
	if len(captured) == 1 && n == 1 {
		op.Alone = seen.DurAlone()
		return op
	}
	share := float64(len(captured)) / float64(n)
	var alone trace.Time
	for _, c := range captured {
		alone += c.DurAlone()
	}
	op.Alone = alone / trace.Time(len(captured))
	op.Kernel = l.partKernel(captured, k, n)
	reads, writes := share, share
	if read, write := seen.Shape.Traffic(); read*write > 0 && (seen.Shape.Kind == workload.GEMM || seen.Shape.Kind == workload.GEMV) {
		r, w := op.Shape.Traffic()
		reads, writes = r/read, w/write
	}
	op.Read, op.Write = op.Read*reads, op.Write*writes
	op.Alone = l.kernel(seen, &op, share)
	return op
}

// Slice is the k-th of n parts of the weights of a matrix-vector product, or of the rows of another
// operation.
func (l *Laws) Slice(seen *workload.Op, k, n int) workload.Op {
	if seen.Shape.Kind != workload.GEMV || n == 1 {
		return l.Part([]*workload.Op{seen}, k, n)
	}
	op, sliced := *seen, *seen.Kernel
	long := &sliced.Shape.N
	if sliced.Shape.M > sliced.Shape.N {
		long = &sliced.Shape.M
	}
	*long = Portion(*long, k, n)
	sliced.Tiling.Tiles, sliced.Tiling.WGs = max(1, Portion(sliced.Tiling.Tiles, k, n)), max(1, Portion(sliced.Tiling.WGs, k, n))
	op.Kernel, op.Alone = &sliced, seen.DurAlone()
	op.Read, op.Write = op.Read/float64(n), op.Write/float64(n)
	op.Alone = l.shared(seen, &op, 1/float64(n))
	return op
}

// A partKey is what the kernel of a part depends on: the captured one, of which several are cut
// together, and the step.
type partKey struct {
	kernel         *workload.Kernel
	captured, k, n int
	step           int32
}

func (l *Laws) partKernel(captured []*workload.Op, k, n int) *workload.Kernel {
	key := partKey{captured[0].Kernel, len(captured), k, n, captured[0].Step}
	return l.parts.Of(key, func() *workload.Kernel { return l.partOf(captured, k, n) })
}

// partOf is the kernel of Part. A library takes the tile for the part's sizes, a compiled kernel keeps its own.
func (l *Laws) partOf(captured []*workload.Op, k, n int) *workload.Kernel {
	op, part := captured[0], *captured[0].Kernel
	sh, t := &part.Shape, &part.Tiling
	if sh.M > 0 {
		sh.M = Portion(sh.M*int64(len(captured)), k, n)
	}
	if sh.Kind == workload.GEMM || sh.Kind == workload.GEMV {
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
	case t.WGs > 0 && !l.keepsGrid(op) && (op.Shape.Kind == workload.GEMM || !l.byRows(op)):
		t.WGs = max(1, Portion(t.WGs*len(captured), k, n))
		t.Tiles = max(1, Portion(t.Tiles*len(captured), k, n))
	}
	return &part
}

// rowsOfTiles is the rows of tiles of a product, whose groups have an equal part of its rows each (rule G22).
func rowsOfTiles(s workload.Shape, height int) int64 {
	groups := max(1, s.Groups)
	return groups * machine.CeilDiv(machine.CeilDiv(s.M, groups), int64(height))
}

// Portion is the k-th of n nearly equal integer parts of a whole. The first parts get the
// remainder, one each.
func Portion[T int | int64](whole T, k, n int) T {
	p := whole / T(n)
	if T(k) < whole%T(n) {
		p++
	}
	return p
}
