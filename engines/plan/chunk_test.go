package plan

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// A kernel of one round that streams memory, cut in four: a quarter of its 1056
// workgroups, each of which gets more of the memory, 3388/264 instead of
// 4124/1056 GB/s (gpu.stream of h200), after a launch of 1.226 us. Tiles of a compiled GEMM do not get faster.
func TestChunkOfStreamingKernel(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 1)}
	op := workload.Op{End: 100_000, Read: 4124e5, Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.GEMV}, Tiling: workload.Tiling{Tiles: 1055, WGs: 1055}, Footprint: program.Footprint{Threads: 128}}}
	var b trace.Builder
	b.Add(trace.Span{End: 100_000, Kind: trace.Compute, Parent: trace.None, Attr: trace.None, Lane: b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{})})})
	pl.Workload = &workload.Workload{Run: b.Finish(trace.Options{})}
	whole, part := pl.kernel(&op), pl.chunkOf(&op, 0, 4)
	time := func(k *program.Kernel) float64 { return float64(k.Phases(0, nil)[0].Time) }
	if want := 0.01226 + 0.98774*(4124.0/1056)/(3388.0/264); part.WGs != 264 || math.Abs(time(part)/time(whole)-want) > 0.01 {
		t.Errorf("%d workgroups, %.3f of the time; want 264 and %.3f", part.WGs, time(part)/time(whole), want)
	}
	op.Shape, op.Tiling.TileM, op.Tiling.TileN = workload.Shape{Kind: workload.GEMM, M: 64 * 1055, N: 64, K: 4096, ElemSize: 2}, 64, 64
	if whole, part := pl.kernel(&op), pl.chunkOf(&op, 0, 4); time(part) != time(whole) {
		t.Errorf("a tile takes %v ns in a chunk and %v in the whole", time(part), time(whole))
	}
}

// The parts of a GEMM have all of its rows and each reads all of its weights; those of other kernels have all
// workgroups, tiles and bytes, whatever does not divide.
func TestChunksAreTheWhole(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 1)}
	var b trace.Builder
	b.Add(trace.Span{End: 100_000, Kind: trace.Compute, Parent: trace.None, Attr: trace.None, Lane: b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{})})})
	pl.Workload = &workload.Workload{Run: b.Finish(trace.Options{})}
	rapidtest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 64).Draw(t, "chunks")
		op := workload.Op{
			End: 100_000, Read: 4e6, Write: 1e6,
			Kernel: &workload.Kernel{
				Shape:     workload.Shape{Kind: workload.GEMM, M: rapid.Int64Range(int64(n), 10_000).Draw(t, "M"), N: 512, K: 512, ElemSize: 2},
				Tiling:    workload.Tiling{WGs: rapid.IntRange(n, 5000).Draw(t, "workgroups")},
				Footprint: program.Footprint{Threads: 128},
			},
		}
		var rows int64
		for k := range n {
			rows += pl.Laws().Kernel([]*workload.Op{&op}, cost.Part{K: k, Of: n}).Op.Shape.M
		}
		if rows != op.Shape.M {
			t.Errorf("%d chunks of %d rows have %d", n, op.Shape.M, rows)
		}
		another := *op.Kernel
		op.Kernel = &another
		op.Shape.Kind = rapid.SampledFrom([]workload.ShapeKind{workload.GEMM, workload.GEMV, workload.Elementwise}).Draw(t, "kind")
		if rapid.Bool().Draw(t, "persistent") {
			op.Tiling.Tiles, op.Tiling.Persistent = op.Tiling.WGs+rapid.IntRange(1, 5000).Draw(t, "more tiles"), true
		}
		read, tiles := 0.0, 0
		for k := range n {
			part := pl.chunkOf(&op, k, n)
			count := max(part.Tiles, part.WGs)
			tiles += count
			for i := range count {
				read += part.Phases(i, nil)[0].Read
			}
		}
		want := op.Read
		if sh := op.Shape; sh.Kind == workload.GEMM {
			want *= float64(sh.M*sh.K+int64(n)*sh.K*sh.N) / float64(sh.M*sh.K+sh.K*sh.N)
		}
		if math.Abs(read/want-1) > 1e-9 {
			t.Errorf("%d chunks read %.0f of %.0f bytes", n, read, want)
		}
		if op.Tiling.Persistent && tiles != op.Tiling.Tiles {
			t.Errorf("%d chunks have %d of %d tiles", n, tiles, op.Tiling.Tiles)
		}
	})
}

// A chunk of tokens has a part of the rows of every group: eight groups of 1100 rows are nine tiles
// of 128 rows each, and 275 rows are three. It reads the weights of all groups (rule G22).
func TestChunksOfGroups(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 1)}
	var b trace.Builder
	b.Add(trace.Span{End: 100_000, Kind: trace.Compute, Parent: trace.None, Attr: trace.None, Lane: b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{})})})
	pl.Workload = &workload.Workload{Run: b.Finish(trace.Options{})}
	const m, n, k, groups, columns = 8 * 1100, 512, 1024, 8, 2
	shape := workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k, Groups: groups, ElemSize: 2}
	for _, persistent := range []bool{false, true} {
		op := workload.Op{End: 100_000, Kernel: &workload.Kernel{Shape: shape, Footprint: program.Footprint{Threads: 256, Registers: 128}}}
		op.Read, op.Write = shape.Traffic()
		op.Tiling = workload.Tiling{TileM: 128, TileN: 256, Tiles: groups * 9 * columns, WGs: groups * 9 * columns}
		if persistent {
			op.Tiling.WGs, op.Tiling.Persistent = 132, true
		}
		tiles, read, write := 0, 0.0, 0.0
		for i := range 4 {
			part := pl.chunkOf(&op, i, 4)
			count := max(part.Tiles, part.WGs)
			tiles += count
			for j := range count {
				p := part.Phases(j, nil)[0]
				read, write = read+p.Read, write+p.Write
			}
		}
		if want := 4 * groups * 3 * columns; !persistent && tiles != want {
			t.Errorf("%d tiles, want %d", tiles, want)
		}
		if want := 2.0 * (m*k + 4*groups*k*n); math.Abs(read/want-1) > 1e-9 || math.Abs(write/(2*m*n)-1) > 1e-9 {
			t.Errorf("persistent %v: reads %g and writes %g bytes, want %g and %d", persistent, read, write, want, 2*m*n)
		}
	}
}
