package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A quarter of a lookup takes more than a quarter of its time, and four quarters together
// take less than four times one: medians of EmbeddingBag over 32768 and 8192 bags of 80
// vectors in samples/measurements/2026-11-22-h200x2-steps, dlrm_d256_b32768. Its grid is
// the same.
func TestShareTime(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	bag := func(rows int64, dur trace.Time) *workload.Op {
		return &workload.Op{End: dur, Kind: trace.Compute, Kernel: &workload.Kernel{
			Name:   "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<c10::BFloat16>",
			Shape:  workload.Shape{Kind: workload.Embedding, M: rows, N: 256, K: 80, ElemSize: 2},
			Tiling: workload.Tiling{WGs: 1024, Tiles: 1024}, Footprint: program.Footprint{Threads: 256, Registers: 40},
		}}
	}
	const whole, quarter = 1_136_700, 289_900
	part := pl.PartOf([]*workload.Op{bag(32768, whole)}, 1, 4)
	if off := math.Abs(float64(part.Alone)/quarter - 1); off > 0.01 || part.Shape.M != 8192 || part.Tiling.WGs != 1024 {
		t.Errorf("a quarter: %d ns for %d bags on %d workgroups, measured %d", part.Alone, part.Shape.M, part.Tiling.WGs, quarter)
	}
	q := bag(8192, quarter)
	merged := pl.PartOf([]*workload.Op{q, q, q, q}, 0, 1)
	if off := math.Abs(float64(merged.Alone)/whole - 1); off > 0.01 || merged.Shape.M != 32768 {
		t.Errorf("four quarters: %d ns for %d bags, measured %d", merged.Alone, merged.Shape.M, whole)
	}
	tiny := &workload.Op{End: 1000, Kind: trace.Compute, Kernel: &workload.Kernel{Name: "fill", Tiling: workload.Tiling{WGs: 512}}}
	if got := pl.PartOf([]*workload.Op{tiny}, 0, 8); got.Alone != 1000 || got.Tiling.WGs != 64 {
		t.Errorf("an eighth of a kernel of 1 us: %d ns on %d workgroups, want 1000 on 64", got.Alone, got.Tiling.WGs)
	}
}

// A GEMM of few rows takes as long with half of them, of many half as long; its halves have the tiles of the library. Workgroups
// that have a compute unit each take as long however few they are, and more take as long until all units have one; of
// kernels that move memory, fewer take their bytes at the rate that they reach.
func TestShareTimeOfSteps(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	gemm := func(rows int64, kind workload.ShapeKind, guessed byte) *workload.Op {
		return &workload.Op{End: 100_000, Kind: trace.Compute, Kernel: &workload.Kernel{
			Name: "nvjet", Shape: workload.Shape{Kind: kind, M: rows, N: 6144, K: 4096, ElemSize: 2, Guessed: guessed}, Tiling: workload.Tiling{TileM: 128, TileN: 96, Tiles: 128, WGs: 128},
		}}
	}
	plain := func(wgs int) *workload.Op {
		return &workload.Op{End: 100_000, Kind: trace.Compute, Kernel: &workload.Kernel{Name: "norm", Tiling: workload.Tiling{WGs: wgs, Tiles: wgs}, Footprint: program.Footprint{Threads: 512}}}
	}
	moves := func(wgs int, name string) *workload.Op {
		op := plain(wgs)
		op.Name, op.Moves, op.Read, op.Write = name, true, 1e8, 1e8
		return op
	}
	for _, c := range []struct {
		name        string
		op          *workload.Op
		of          int // parts
		least, most trace.Time
	}{
		{"few rows", gemm(32, workload.GEMM, 0), 2, 98_000, 100_000},
		{"8 rows", gemm(8, workload.GEMV, 0), 2, 98_000, 100_000},
		{"many rows", gemm(16384, workload.GEMM, 0), 2, 49_000, 53_000},
		{"many rows, guessed columns", gemm(16384, workload.GEMM, 'N'), 2, 49_000, 53_000},
		{"128 workgroups", plain(128), 2, 100_000, 100_000},
		{"all at once", plain(500), 4, 100_000, 100_000},
		{"twice as many as fit", plain(1056), 4, 50_000, 52_000},
		{"five times as many", plain(2640), 2, 50_000, 52_000},
		{"memory, all at once", moves(500, "norm"), 2, 60_000, 67_000},
		{"memory, as many as reach its rate", moves(132, "norm"), 2, 75_000, 100_000},
		{"columns", moves(96, "GammaBetaBackwardCUDAKernelTemplate"), 2, 50_000, 52_000},
	} {
		if got := pl.PartOf([]*workload.Op{c.op}, 0, c.of).Alone; got < c.least || got > c.most {
			t.Errorf("%s: %d ns, want %d to %d", c.name, got, c.least, c.most)
		}
	}
	if half := pl.PartOf([]*workload.Op{gemm(256, workload.GEMM, 0)}, 0, 2); half.Tiling.WGs != 128 || half.Shape.M != 128 {
		t.Errorf("a half of 128 workgroups has %d, its tiles %d×%d", half.Tiling.WGs, half.Tiling.TileM, half.Tiling.TileN)
	}
}

// Every part of a GEMM reads all of its weights, and one with more rows than a GEMV has is no GEMV. Kernels of a decoding
// step without a grid have a workgroup a row; copies within the memory take longer by their bytes, and the rest once.
func TestPartsOfDecoding(t *testing.T) {
	w := &workload.Workload{Steps: []workload.Step{{Batch: workload.Batch{Phase: workload.Decode, Tokens: 4}}}}
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: w}
	shape := workload.Shape{Kind: workload.GEMV, M: 4, N: 6144, K: 4096, ElemSize: 2}
	times := func(op *workload.Op, n int) workload.Op { return pl.PartOf(slices.Repeat([]*workload.Op{op}, n), 0, 1) }
	gemv := &workload.Op{End: 20_000, Kind: trace.Compute, Kernel: &workload.Kernel{Name: "nvjet", Shape: shape}}
	gemv.Read, gemv.Write = shape.Traffic()
	more := times(gemv, 16)
	if more.Shape.Kind != workload.GEMM || more.Shape.M != 64 || more.Read > 1.02*gemv.Read || more.Write != 16*gemv.Write || more.Alone > 22_000 {
		t.Errorf("16 times the rows: %s, %.1f MB instead of %.1f, %.1f written instead of %.1f, %d ns", more.Shape, more.Read/1e6, gemv.Read/1e6, more.Write/1e6, gemv.Write/1e6, more.Alone)
	}
	sum := &workload.Op{End: 20_000, Kind: trace.Compute, Read: 2e6, Write: 1e6, Kernel: &workload.Kernel{Name: "add", Shape: workload.Shape{Kind: workload.Elementwise, M: 1, N: 1 << 20, ElemSize: 2}}}
	if half := pl.PartOf([]*workload.Op{sum}, 0, 2); half.Read != 1e6 || half.Write != 5e5 {
		t.Errorf("half of a sum reads %.1f MB and writes %.1f", half.Read/1e6, half.Write/1e6)
	}
	norm := &workload.Op{End: 4_000, Kind: trace.Compute, Kernel: &workload.Kernel{Name: "norm"}}
	if more := times(norm, 16); more.Alone != 4_000 {
		t.Errorf("a norm of 64 rows takes %d ns, of 4 rows 4000", more.Alone)
	}
	copied := &workload.Op{End: 1_500, Kind: trace.Copy, Read: 8, Write: 8, Kernel: &workload.Kernel{Name: "Memcpy DtoD"}}
	if more := times(copied, 64); more.Alone > 1_510 {
		t.Errorf("512 bytes take %d ns, 8 bytes 1500", more.Alone)
	}
}

// With 16 times the bytes a collective has as many channels as the library takes then, unless it was limited.
func TestChannelsOfMore(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	pl.Workload.Ops = make([]workload.Op, 2)
	for _, c := range []struct {
		bytes          int64
		channels, want int
	}{{40 << 10, 2, 24}, {40 << 10, 5, 24}, {64 << 20, 4, 4}, {64 << 20, 24, 24}} {
		captured := &workload.Collective{Op: trace.AllReduce, Bytes: c.bytes, Channels: c.channels, Depart: 50_000, Members: []int32{0, 1}}
		if got := pl.partOfCollective(slices.Repeat([]*workload.Collective{captured}, 16), 1, 0); got.Channels != c.want {
			t.Errorf("16 × %d bytes, captured with %d channels: %d, want %d", c.bytes, c.channels, got.Channels, c.want)
		}
	}
}

// A collective of the captured size takes its captured time, though the library would take fewer channels.
func TestPartOfOne(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	pl.Workload.Ops = make([]workload.Op, 2)
	c := workload.Collective{Op: trace.AllReduce, Bytes: 64 << 10, Channels: 32, Depart: 50_000, Members: []int32{0, 1}}
	if got := pl.partOfCollective([]*workload.Collective{&c}, 1, 0); got.Alone != 50_000 {
		t.Errorf("%d ns on %d channels", got.Alone, got.Channels)
	}
}

// Persistent workgroups of which few have another tile take no more memory bandwidth in the first round than the kernel had.
func TestRoundsOfMemory(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	s := workload.Shape{Kind: workload.GEMV, M: 1, N: 28672, K: 8192, ElemSize: 2}
	op := &workload.Op{End: 113_000, Kind: trace.Compute, Kernel: &workload.Kernel{Shape: s, Tiling: workload.Tiling{TileM: 8, TileN: 128, Tiles: 224, WGs: 132, Persistent: true}, Footprint: program.Footprint{Threads: 384, Shared: 225_652}}}
	op.Read, op.Write = s.Traffic()
	g := pl.GridOf(op, op.Dur())
	if rate := g.Read * float64(g.WGs) / Seconds(g.Time); rate > pl.Machine.GPU.Memory.Value {
		t.Errorf("the first round reads %.2f TB/s", rate/1e12)
	}
}

// A lookup that waits for single reads leaves a collective alone; one that saturates the
// memory, and copies, do not.
func TestDisturbs(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	for _, c := range []struct {
		kind  workload.ShapeKind
		bytes float64 // in a millisecond, of 4.1 GB
		want  bool
	}{{workload.Embedding, 1.2e9, false}, {workload.Embedding, 3.5e9, true}, {workload.Elementwise, 1.2e9, true}, {workload.GEMM, 0.1e9, true}} {
		op := &workload.Op{End: 1_000_000, Read: c.bytes, Kernel: &workload.Kernel{Shape: workload.Shape{Kind: c.kind}}}
		if got := pl.disturbs(op); got != c.want {
			t.Errorf("%s of %.1f GB: %v", c.kind, c.bytes/1e9, got)
		}
	}
}

// More channels than the captured ones change nothing where the bytes allow no more.
func TestMoreChannels(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 4), Workload: &workload.Workload{}}
	pl.Workload.Ops = make([]workload.Op, 4)
	for _, c := range []struct {
		bytes                    int64
		captured, given, becomes int
	}{{40 << 10, 2, 16, 2}, {64 << 20, 4, 16, 16}, {64 << 20, 24, 8, 8}} {
		coll := &workload.Collective{Op: trace.AllReduce, Bytes: c.bytes, Channels: c.captured, Depart: 50_000, Members: []int32{0, 1, 2, 3}}
		p := pl.Chunks(coll, 1, c.given, nil)
		if p.Channels != c.becomes || (p.DurAlone == 50_000) != (c.becomes == c.captured) {
			t.Errorf("%d bytes on %d channels, given %d: %d, %d ns", c.bytes, c.captured, c.given, p.Channels, p.DurAlone)
		}
		if bound := pl.boundByBytes(coll); bound != (c.bytes < 1<<20) {
			t.Errorf("%d bytes on %d channels are bound by their bytes: %v", c.bytes, c.captured, bound)
		}
	}
}

// The host's time for an iteration is that of all it issues as planned, operations that were not captured too.
func TestHostPeriod(t *testing.T) {
	pl := &Planner{Workload: &workload.Workload{}, iterationOf: []int32{0, 1, 1}, rounds: 2}
	r := &Rank{Planner: pl, order: []int32{0, 1, 2}, calls: []hostCall{{place: 0, cost: 50}, {place: 1, cost: 7}, {place: 1, cost: 20}, {place: 2, cost: 8}, {place: 3, cost: 1}}}
	if got := r.period(); got != 36 {
		t.Errorf("%d ns an iteration, not 36", got)
	}
}
