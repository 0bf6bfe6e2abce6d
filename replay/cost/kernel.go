package cost

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Part is the K-th of Of parts of all rows of the operations that were seen, or of the weights of a matrix-vector product, or
// of the depth of products, which sum over the rows. The zero value is one operation as it was seen.
type Part struct {
	K, Of          int
	Weights, Depth bool
}

// Kernel is how long an operation takes that was seen, or a part of the rows of operations that were seen in equal parts, on
// the machine of the laws.
func (l *Laws) Kernel(seen []*workload.Op, p Part) (e Estimate) {
	here := seen
	if e.By = 1; l.Seen != nil {
		e = *l.kernelHere(seen[0])
		first := e.Op
		here = slices.Repeat([]*workload.Op{&first}, len(seen))
		for i, x := range seen {
			if x != seen[0] {
				here[i] = &l.kernelHere(x).Op
			}
		}
	}
	e.Op = l.part(here, p)
	if was := here[0].DurAlone(); e.Op.Alone != was {
		by := float64(e.Op.Alone) / float64(max(1, was))
		for k := range e.Is {
			e.Is[k] *= by
		}
		e.By *= by
	}
	return e
}

// part is a part of operations as a launch with its own tiles and its own last wave. The parts together have all rows,
// workgroups and bytes; what does not divide goes to the first ones. Every part of a product reads all of the weights (rules
// G12 and G20). Fewer rows take no longer than those that were seen, since the same kernel could compute them. More may take
// less: the library has another kernel for them. Parts of the depth one after another, each of which adds to what is there, are
// the whole: none takes less than its share, and what is deeper takes no more (rule W18).
func (l *Laws) part(seen []*workload.Op, p Part) workload.Op {
	p.Of = max(1, p.Of)
	if op := *seen[min(p.K, len(seen)-1)]; len(seen) == p.Of { // as it was seen
		op.Alone = op.DurAlone()
		return op
	}
	first, op, share, took := seen[0], *seen[0], float64(len(seen))/float64(p.Of), trace.Time(0)
	for _, x := range seen {
		took += x.DurAlone()
	}
	took /= trace.Time(len(seen))
	p.Weights = p.Weights && first.Shape.Kind == workload.GEMV
	op.Alone, op.Kernel = took, l.partKernel(seen, p)
	reads, writes, by := share, share, 0.0
	if read, write := first.Shape.Traffic(); read*write > 0 && first.Shape.Flops() > 0 && !p.Weights {
		r, w := op.Shape.Traffic()
		reads, writes = r/read, w/write
	}
	op.Read, op.Write = op.Read*reads, op.Write*writes
	if !p.Weights {
		by = l.product(first, &op, share)
	}
	if by > 0 {
		op.Alone = max(1, trace.Time(float64(took)*by+0.5))
	} else {
		op.Alone = l.shared(first, &op, share)
	}
	if share <= 1 {
		op.Alone = min(op.Alone, took)
	}
	if whole := trace.Time(float64(took)*share + 0.5); p.Depth && share <= 1 {
		op.Alone = max(op.Alone, whole)
	} else if p.Depth {
		op.Alone = min(op.Alone, whole)
	}
	return op
}

// product is the factor on the time of a product that has share times the rows; 0 for other kernels. A library's
// kernel follows the law of the library: of the captured tile, if it is known, and of the tile that it takes for
// the part. The tiles of a compiled kernel fill the CUs in rounds. Where a side is only guessed (rule V26) the factor
// is the mean over sides a tenth around it, since a law of waves jumps with them. A kernel of unknown size that
// holds weights follows the GEMM of so many rows, as wide as deep, that takes its time.
func (l *Laws) product(seen, asked *workload.Op, share float64) float64 {
	sh := seen.Shape
	gemm := (sh.Kind == workload.GEMM || sh.Kind == workload.GEMV) && min(sh.M, sh.N, sh.K) > 0
	switch {
	case asked.Shape.K != sh.K && (compiled(seen) || sh.Guessed != 0): // every tile has its share
		return share
	case sh.Kind == workload.GEMM && compiled(seen):
		was, _ := l.Rounds(seen)
		is, _ := l.Rounds(asked)
		return is / was
	case gemm && sh.Guessed == 0:
		return l.library(seen, asked)
	case !gemm && (sh.Kind != workload.NoShape || !l.byRows(seen)):
		return 0
	}
	return l.factors.Of(rowsKey{seen.Kernel, l.Workload.BatchOf(seen).Tokens, share}, func() float64 {
		if gemm {
			return l.guessed(sh, share)
		}
		sh.M = max(1, l.Workload.BatchOf(seen).Tokens)
		sh.N = l.Side(seconds(seen.DurAlone()), func(side int64) (m, n, k int64) { return sh.M, side, side })
		sh.K, sh.Guessed = sh.N, 0
		return l.guessed(sh, share)
	})
}

// library is the factor on the time of a product of the library that has other rows or another depth: the ratio of the law's
// times, of its own tile and of the tile that the library takes then. Where the tile changes, seen over predicted time counts
// only beyond the law's error: a ratio within it is the error for this tile and says nothing about other tiles (rule G12).
func (l *Laws) library(seen, asked *workload.Op) float64 {
	sh, rows, depth, took := seen.Shape, max(1, asked.Shape.M), max(1, asked.Shape.K), seconds(asked.Alone)
	was, is := l.Tiling(seen), l.Machine.Grouped(sh.Groups, rows, sh.N, depth)
	if sh.Groups <= 1 && seen.Tiling.Persistent {
		l.Lookups.Add(machine.Question{Kind: machine.AboutGEMM, M: rows, N: sh.N, K: depth})
		l.Lookups.Add(machine.Question{Kind: machine.AboutGEMM, M: sh.M, N: sh.N, K: sh.K})
	}
	by, another := is.Seconds/was.Seconds, is.Rows != was.Rows || is.Columns != was.Columns
	if another && math.Abs(took/was.Seconds-1) < l.Machine.Matmul.RunSpread.Value {
		by = is.Seconds / took
	}
	if math.IsNaN(by) || math.IsInf(by, 0) { // a profile that lacks the rates
		return 0
	}
	return by
}

// byRows reports whether a kernel takes time by its rows as a GEMM does: a GEMM, or a kernel of unknown size
// that holds weights, in a step of inference of known tokens, or of decoding, with one row for each request. Those of
// few rows read all of their weights for any number of them (rule V24).
func (l *Laws) byRows(op *workload.Op) bool {
	b, sh := l.Workload.BatchOf(op), op.Shape
	return sh.Kind == workload.GEMM || sh.Kind == workload.GEMV ||
		op.Kind == trace.Compute && sh.Kind == workload.NoShape && (b.Phase == workload.Decode || b.Tokens > 0) && workload.HoldsWeights(op)
}

// A rowsKey is what the factor of a product of guessed sizes depends on.
type rowsKey struct {
	kernel *workload.Kernel
	tokens int64
	share  float64
}

// guessed is the factor of a product of which a side is guessed.
func (l *Laws) guessed(sh workload.Shape, share float64) float64 {
	sum, n := 0.0, 0
	for tenth := -1.0; tenth <= 1; tenth += 0.25 {
		around := func(n int64, guessed bool) int64 {
			if guessed {
				return max(1, sideStep*int64(float64(n)*(1+tenth/10)/sideStep+0.5))
			}
			return n
		}
		columns, depth := around(sh.N, sh.Guessed == 'N'), around(sh.K, sh.Guessed == 'K')
		if from := l.Machine.Preferred(sh.M, columns, depth).Seconds; from > 0 {
			sum += l.Machine.Preferred(max(1, int64(float64(sh.M)*share)), columns, depth).Seconds / from
		}
		if n++; sh.Guessed == 0 {
			break
		}
	}
	return sum / float64(n)
}

// Sides of GEMMs that are found by their time: steps, and the most of them.
const (
	sideStep  = 64
	mostSides = 1024
)

// Side is the inverse of the law of the library's GEMMs: the least side, a multiple of sideStep, with which a GEMM of the sizes
// that of gives takes so many seconds; the largest, if none does.
func (l *Laws) Side(seconds float64, of func(side int64) (m, n, k int64)) int64 {
	return sideStep * int64(1+sort.Search(mostSides, func(i int) bool {
		return l.Machine.Preferred(of(sideStep*int64(i+1))).Seconds >= seconds
	}))
}

// compiled reports whether a GEMM's kernel was built for its tile, as Triton's are: another number of rows
// takes the same tile. A library has kernels of many tiles.
func compiled(op *workload.Op) bool {
	t := op.Tiling
	return t.TileM > 0 && t.TileN > 0 && t.Tiles > 0 && !t.Persistent && !workload.OfLibrary(op.Name)
}

// Tiling is the law's tiling of a product as it was captured: of the tile and the parts along K of its
// kernel, or those that the library would take.
func (l *Laws) Tiling(op *workload.Op) machine.Tiling {
	sh, t := op.Shape, op.Tiling
	rows, columns := t.TileN, t.TileM // the library sees the transpose
	switch {
	case rows <= 0 || columns <= 0:
		return l.Machine.Grouped(sh.Groups, sh.M, sh.N, sh.K)
	case sh.Groups > 1 || t.Persistent || t.WGs == 0:
		return l.Machine.GroupedWithTile(sh.Groups, sh.M, sh.N, sh.K, rows, columns)
	}
	tiles := machine.CeilDiv(sh.N, int64(rows)) * machine.CeilDiv(sh.M, int64(columns))
	return l.Machine.WithSplits(sh.M, sh.N, sh.K, machine.Tiling{Rows: rows, Columns: columns, Splits: max(1, int(int64(t.WGs)/tiles))})
}

// Rounds is the time of a compiled GEMM in times of one tile alone on its CU: tiles that share a CU take
// longer than one by their shares of its pipes, and of the last round each CU has its part (rules D5 and G10). pipe is the
// share of one alone.
func (l *Laws) Rounds(op *workload.Op) (rounds, pipe float64) {
	pipe = l.Machine.LonePipe(op.Tiling.TileM, op.Tiling.TileN, op.Tiling.Depth)
	full, last, _ := l.Waves(max(1, op.Tiling.WGs), l.Residents(op.Footprint), pipe)
	return full + last, pipe
}

// Waves is how long equal workgroups take, n of which may share a CU, in times of one alone, which uses a share of its CU's
// pipes: in the full waves, and in the last, in which a CU has up to so many.
func (l *Laws) Waves(wgs, n int, pipe float64) (full, last float64, on int) {
	cus := int(l.Machine.GPU.CUs.Value)
	before := (wgs - 1) / (n * cus)
	on = machine.CeilDiv(wgs-before*n*cus, cus)
	return float64(before) * max(1, float64(n)*pipe), max(1, float64(on)*pipe), on
}

// Pipe is machine.Machine.Pipe of a tile that takes so long alone on its CU.
func (l *Laws) Pipe(flops float64, alone trace.Time) float64 {
	return l.Machine.Pipe(flops, seconds(max(1, alone)))
}

// shared is the time alone of a share of a kernel that is no product. It has three parts (rule G20): what every
// launch costs, which is the time of a kernel that does nothing and, for lookups, the time in which only the last
// vectors are read; the time of its bytes at the rate that so many workgroups reach, which is shorter for fewer; and
// the rest, in rounds of resident workgroups, however few they are. Of a copy, all that is not its bytes is of the
// launch. Workgroups of a fixed number have a share each. A light kernel of decoding whose grid the trace does not
// show has a workgroup for each row.
func (l *Laws) shared(seen, asked *workload.Op, share float64) trace.Time {
	took, bytes := seconds(asked.Alone), seen.Read+seen.Write
	gpu, wgs := &l.Machine.GPU, float64(seen.Tiling.WGs)
	switch {
	case seen.Kind == trace.Copy && seen.Read*seen.Write > 0: // within the memory
		moving := min(took, bytes/gpu.Memory.Value)
		return nanoseconds(took - moving + moving*share)
	case seen.Kind == trace.Copy:
		once := min(took, l.Machine.Engines.Queued.Or(0))
		return nanoseconds(once + (took-once)*share)
	}
	if b := l.Workload.BatchOf(seen); wgs == 0 && !seen.Matrix() && b.Phase == workload.Decode {
		wgs = float64(max(1, b.Tokens))
	}
	once := min(took, l.Machine.Launch.Graph.Or(0)+l.lastVectors(seen, took))
	busy := took - once
	if wgs == 0 || l.keepsGrid(seen) {
		return nanoseconds(once + busy*share)
	}
	slots := float64(l.Slots(seen.Footprint))
	rounds := func(wgs float64) float64 { return max(1, wgs/slots) }
	moving, moves := 0.0, 0.0 // seconds of the bytes: of the whole, of the share
	if rate := l.rate(seen, min(wgs, slots)); bytes > 0 && rate > 0 {
		moving = min(busy, bytes/rate)
		moves = moving * share * rate / l.rate(seen, min(wgs*share, slots))
	}
	return nanoseconds(once + moves + (busy-moving)*rounds(wgs*share)/rounds(wgs))
}

// rate is the bytes a second that workgroups of a memory-bound kernel reach together.
func (l *Laws) rate(op *workload.Op, wgs float64) float64 {
	n := math.Ceil(wgs)
	return l.Rate(op, int(n), false) * wgs / n
}

// lastVectors is the time at the end of a lookup in which workgroups run out of vectors,
// in seconds: as long as the times of one vector differ. A thread reads one column, so
// the threads of all workgroups together read that many columns at a time.
func (l *Laws) lastVectors(op *workload.Op, seconds float64) float64 {
	sh := op.Shape
	if sh.Kind != workload.Embedding || op.Tiling.WGs == 0 || op.Footprint.Threads == 0 {
		return 0
	}
	slots := min(op.Tiling.WGs, l.Slots(op.Footprint))
	rounds := float64(sh.M) * float64(sh.N) / (float64(slots) * float64(op.Footprint.Threads))
	return 2 * l.Machine.GPU.GatherSpread.Or(0) * seconds / max(1, rounds)
}

func seconds(t trace.Time) float64 { return float64(t) / 1e9 }

func nanoseconds(seconds float64) trace.Time { return max(1, trace.Time(seconds*1e9+0.5)) }

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
	switch {
	case p.Depth:
		sh.K = portion(sh.K*int64(by), k, n)
	case p.Weights && sh.N >= sh.M:
		sh.N = portion(sh.N, k, n)
	default:
		sh.M = portion(sh.M*int64(by), k, n)
	}
	if !p.Weights && (sh.Kind == workload.GEMM || sh.Kind == workload.GEMV) {
		sh.Kind = workload.GEMMKind(sh.M, sh.N)
	}
	switch {
	case p.Depth && (compiled(op) || t.TileM <= 0):
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

// Unseen is the law's time of a kernel by its sizes, workgroups and bytes. A product takes its tiles, as the library or
// a compiled kernel computes them (rules G1, D11 and G10), and a lookup its waves, of which the last may not reach the
// rate of a full one. Every weight of a matrix-vector product is read once: where the profile has no memory rate by number
// of workgroups, those of its last wave get no more than those of a full one (rule G14). Memory bounds all of them.
// burst is the part of its seconds in which its waves write their output, behind their products (rule K11).
func (l *Laws) Unseen(op *workload.Op) (seconds, burst float64, byMemory bool) {
	gpu, sh, wgs := &l.Machine.GPU, op.Shape, op.Tiling.WGs
	bytes, slots := op.Read+op.Write, l.Slots(op.Footprint)
	rate := min(gpu.Memory.Value, gpu.StreamAt(wgs))
	switch sh.Kind {
	case workload.GEMM:
		if compiled(op) {
			rounds, pipe := l.Rounds(op)
			t, rate := op.Tiling, l.Machine.Matmul.Compiled.Or(gpu.Flops.Value)
			// with a CU's pipes to itself
			tile := 2 * float64(t.TileM*t.TileN) * float64(sh.K) / float64(t.WGs/t.Tiles) * gpu.CUs.Value / rate
			seconds = tile / pipe * rounds
		} else {
			seconds = l.Tiling(op).Seconds
		}
		if gpu.MemoryQueue.Known() {
			burst = float64(sh.M*sh.N*int64(sh.ElemSize)) / gpu.Memory.Value
			seconds += burst
		}
	case workload.GEMV:
		rate = gpu.Read.Value * min(1, gpu.StreamAt(wgs)/gpu.Memory.Value)
		if wgs > slots && !gpu.Stream.Known() {
			rate *= float64(wgs) / float64(machine.CeilDiv(wgs, slots)*slots)
		}
	case workload.Embedding:
		wave := func(n int) float64 { return float64(n) * bytes / float64(wgs) / l.Rate(op, n, false) }
		seconds = float64(wgs/slots) * wave(slots)
		if left := wgs % slots; left > 0 {
			seconds += wave(left)
		}
		return seconds, 0, false
	}
	if moving := bytes / rate; moving > seconds {
		return moving, 0, true
	}
	return seconds, burst, false
}

// vectorRatio is the rate of vector work on another GPU relative to this one: compute units
// times clock. Where the clock of one is unknown only the compute units count.
func vectorRatio(g *machine.GPU, to *machine.GPU) float64 {
	from, clock := cmp.Or(g.Clock.Value, 1), cmp.Or(to.Clock.Value, 1)
	if (from >= slowestClock) != (clock >= slowestClock) {
		from, clock = 1, 1
	}
	return to.CUs.Value / g.CUs.Value * clock / from
}

// slowestClock, in Hz, is between relative clocks and those of GPUs.
const slowestClock = 1e6
