package cost

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// What bounds operations.
const (
	matrixUnits = "matrix units"
	vectorUnits = "latency and vector units"
	theMemory   = "memory"
	theLinks    = "links"
)

var (
	byMatmul    = Reason{matrixUnits, "rounds of the same tiles", true}
	byLibraries = Reason{matrixUnits, "matmul law", true}
	byOtherType = Reason{matrixUnits, "matmul law of 16-bit elements", false}
	byFlops     = Reason{matrixUnits, "matrix flops", true}
	byUnshown   = Reason{matrixUnits, "matrix flops, sizes unknown", false}
	byBytes     = Reason{vectorUnits, "bytes of operands", true}
	byWeights   = Reason{vectorUnits, "bytes of weights, by the tile's narrow side", true}
	byPasses    = Reason{vectorUnits, "passes that wait for each other", true}
	byName      = Reason{vectorUnits, "moves memory by its name, bytes unknown", false}
	byVectors   = Reason{vectorUnits, "nothing known", false}
	byLinks     = Reason{theLinks, "link rate", true}
	byLibrary   = Reason{theLinks, "collective library", true}
	bySize      = Reason{theLinks, "unchanged: collective of unknown size", false}
	byCopies    = Reason{theMemory, byBytes.Law, true}
	byHost      = Reason{"copies of the host", "unchanged: copies from and to the host", true}
)

// kernelHere is a kernel or copy on this machine that was seen on another one (rule Y1).
func (l *Laws) kernelHere(op *workload.Op) *Estimate {
	e := Estimate{Op: *op}
	e.Op.Kernel = l.Launched(op)
	e.By, e.Reason, e.roofed = l.factor(op, e.Op.Kernel)
	if !(e.By > 0) || math.IsInf(e.By, 0) { // a profile that lacks the rates
		e.By, e.Reason, e.roofed = 1, Reason{e.Bound, e.Law + ", unknown", false}, roofed{}
	}
	e.Op.Alone = workload.Scaled(op.DurAlone(), e.By)
	return &e
}

// factor is the factor on the duration of a kernel or copy whose launch here is another one, and what bounds its time.
func (l *Laws) factor(op *workload.Op, there *workload.Kernel) (by float64, of Reason, t roofed) {
	from, to, took := l.Seen.Machine, l.Machine, seconds(op.DurAlone())
	ratio, bytes := vectorRatio(&from.GPU, &to.GPU), l.through(op.Read, op.Write)
	sh := op.Shape
	if took <= 0 {
		return 1, byBytes, t
	}
	switch {
	case op.Kind == trace.Copy:
		a := l.Workload.Run.Copy(l.Workload.Run.Spans[op.Span])
		switch {
		case a == nil || a.Dir == trace.HostToDevice || a.Dir == trace.DeviceToHost || a.Dir == trace.UnknownDir:
			return 1, byHost, t
		case a.Dir == trace.PeerToPeer:
			return from.Engines.Rate.Value / to.Engines.Rate.Value, byLinks, t
		}
		t = l.roof(took, bytes, 1)
		return t.seconds() / took, byCopies, roofed{}
	case sh.Kind == workload.GEMM && min(sh.M, sh.N, sh.K) > 0:
		if !compiled(op) && !(hasTile(from, op) && hasTile(to, op)) {
			by, of = l.gemmHere(op)
			return by, of, t
		}
		read, written := sh.Traffic()
		bytes, ratio, of = read+written, l.rounds(op, there), byMatmul
	case narrow(op):
		bytes, of = math.Inf(1), byWeights
	case op.Matrix() || op.Tiling.TileM > 0:
		if ratio, of = to.GPU.Flops.Value/from.GPU.Flops.Value, byFlops; bytes == 0 {
			if bytes = op.Inputs; bytes == 0 {
				of = byUnshown
			}
		}
	case bytes > 0:
		of = byBytes
	case op.Inputs > 0: // a concatenation
		bytes, of = l.through(op.Inputs, op.Inputs), byBytes
	case workload.NameHas(op.Name, "sort", "scan", "topk", "cumsum", "index_add", "indexfunc", "scatter_add"):
		// passes that wait for each other
		of = byPasses
	case op.Moves:
		half := math.Inf(1) // of the bytes that its workgroups can stream, of which half are written
		if op.Tiling.WGs > 0 {
			half = took * from.GPU.StreamAt(op.Tiling.WGs) / 2
		}
		bytes, of = l.through(half, half), byName
	default:
		of = byVectors
	}
	t = l.roof(took, bytes, ratio)
	return t.seconds() / took, of, t
}

// rounds is how much faster the matrix units compute a GEMM with the same tile: as many rounds as there are tiles for
// each slot, each as fast as a compute unit's matrix units (rule Y3).
func (l *Laws) rounds(op *workload.Op, there *workload.Kernel) float64 {
	ratio, t := l.Machine.GPU.Flops.Value/l.Seen.Machine.GPU.Flops.Value, op.Tiling
	if t.Tiles <= 0 || l.Seen.Machine.GPU.CUs.Value < 1 || l.Machine.GPU.CUs.Value < 1 {
		return ratio
	}
	a, b := l.Seen.Slots(op.Footprint), l.Slots(there.Footprint)
	return ratio * float64(machine.CeilDiv(t.Tiles, a)*a) / float64(machine.CeilDiv(t.Tiles, b)*b)
}

// through is the bytes that pass the memory while a kernel runs: what it reads and, where all of it fits into the
// last-level cache of both machines, not what it writes, which stays there until something else needs the place.
func (l *Laws) through(read, written float64) float64 {
	if read+written <= min(l.Seen.Machine.GPU.Cache.Value, l.Machine.GPU.Cache.Value) {
		return read
	}
	return read + written
}

// gemmHere is the ratio of the law's times of a GEMM on both machines, whose libraries have different tiles or whose
// tile is not known (rule Y3). The tile is that of the capture, if the machine's library has it, else the one that it
// prefers. The tile of a what-if is the one that the library prefers without it. Times that the profiles recorded
// count only if both did.
func (l *Laws) gemmHere(op *workload.Op) (float64, Reason) {
	from, to := tilingOn(l.Seen.Machine, op), tilingOn(l.Machine, op)
	sh := op.Shape
	if l.Seen.Machine.Profile == l.Machine.Profile && !hasTile(l.Seen.Machine, op) && sh.Groups <= 1 {
		to = l.Machine.WithSplits(sh.M, sh.N, sh.K, from)
	}
	if from.Measured != to.Measured {
		from = l.Seen.Machine.LawWithTile(sh.M, sh.N, sh.K, from.Rows, from.Columns, from.Splits)
		to = l.Machine.LawWithTile(sh.M, sh.N, sh.K, to.Rows, to.Columns, to.Splits)
	}
	if sh.ElemSize != 2 {
		return to.Seconds / from.Seconds, byOtherType
	}
	return to.Seconds / from.Seconds, byLibraries
}

func tilingOn(m *machine.Machine, op *workload.Op) machine.Tiling {
	sh := op.Shape
	if hasTile(m, op) {
		return m.GroupedWithTile(sh.Groups, sh.M, sh.N, sh.K, op.Tiling.TileN, op.Tiling.TileM) // the library sees the transpose
	}
	return m.Grouped(sh.Groups, sh.M, sh.N, sh.K)
}

// hasTile reports whether a machine's library has the captured tile.
func hasTile(m *machine.Machine, op *workload.Op) bool {
	a, b := float64(op.Tiling.TileN), float64(op.Tiling.TileM)
	return a > 0 && b > 0 && slices.ContainsFunc(m.Matmul.Tiles.Rows, func(r []float64) bool {
		return r[0] == a && r[1] == b || r[0] == b && r[1] == a
	})
}

// narrow reports whether a GEMM of unknown sizes has so few rows that reading its weights bounds
// it: matrix libraries take a tile with a side of at most 64 only for that few rows, and each byte of
// weights is then used for at most 64 operations, a quarter of what GPUs can do in its time.
func narrow(op *workload.Op) bool {
	const rows = 64
	t := op.Tiling
	return op.Shape.Kind != workload.GEMM && t.TileM > 0 && min(t.TileM, t.TileN) <= rows && workload.OfLibrary(op.Name)
}

// roof is the time of a kernel that takes some seconds on the machine of the capture and moves bytes (rule Y4). It has
// three parts: that of an empty kernel; that in which it would move its bytes at the memory's rate; and the rest, which
// is faster by the given ratio. Waiting for memory and the rest overlap in part: together they take the root of the sum
// of their squares.
func (l *Laws) roof(took, bytes, ratio float64) (t roofed) {
	empty, emptyTo := l.Seen.Machine.Launch.Graph.Value, l.Machine.Launch.Graph.Value
	if empty <= 0 {
		empty, emptyTo = 0, 0
	}
	if t.Was[0] = min(took, empty); t.Was[0] > 0 {
		t.Is[0] = t.Was[0] * emptyTo / empty
	}
	busy := took - t.Was[0]
	moving := min(busy, bytes/l.Seen.Machine.GPU.Memory.Value)
	rest := math.Sqrt(busy*busy - moving*moving)
	if busy <= 0 {
		return t
	}
	t.Was[1], t.Was[2] = moving*moving/busy, rest*rest/busy
	if moving > 0 {
		moving *= l.Seen.Machine.GPU.Memory.Value / l.Machine.GPU.Memory.Value
	}
	t.Is[2] = t.Was[2] / ratio
	t.Is[1] = math.Hypot(moving, rest/ratio) - t.Is[2]
	return t
}

// collectiveHere is the factor on a collective's transfer on this machine that was seen on another one or on other ranks:
// the ratio of the library's times (rule Y5). If the ranks are on several nodes on one side, or only one library's times are
// recorded, both are those of the tuner's model, whose errors then cancel.
func (l *Laws) collectiveHere(c *workload.Collective, channels int) (by float64, of Reason) {
	ranks := ranksOf(l.Workload, c)
	was := ranks
	if l.RanksSeen != nil {
		was = l.RanksSeen(c, ranks)
	}
	switch {
	case c.Earlier || len(ranks) < 2 || len(was) < 2:
		return 1, byLibrary
	case c.Bytes <= 0 && c.Op != trace.Barrier:
		return 1, bySize
	}
	a, b := l.Seen.libraryAmong(c, was), l.libraryAmong(c, ranks)
	alike := (a.Nodes > 1) == (b.Nodes > 1) && a.Of(c.Op).Times.Known() == b.Of(c.Op).Times.Known()
	took := func(m *machine.Machine, lib *machine.Library, n, channels int) float64 {
		if alike {
			return timeOf(m, lib, c.Op, c.Bytes, n, channels)
		}
		channels = cmp.Or(channels, lib.ChannelsFor(c.Op, c.Bytes))
		return max(lib.Expected(c.Op, n, float64(lib.Runs(c.Op, channels)), float64(max(0, c.Bytes))),
			onLinks(m, c.Op, c.Bytes, n))
	}
	by = took(l.Machine, b, len(ranks), channels) / took(l.Seen.Machine, a, len(was), c.Channels)
	if !(by > 0) || math.IsInf(by, 0) {
		return 1, bySize
	}
	return by, byLibrary
}

// channelsHere is the number of channels on this machine of a collective that was seen on another one: as many as its library
// uses by itself, if the capture's did so too, else at most the captured number.
func (l *Laws) channelsHere(c *workload.Collective) int {
	was, is := &l.Seen.Machine.Library, &l.Machine.Library
	if c.Channels == 0 || l.Seen.Machine.Profile == l.Machine.Profile || was.Name == is.Name {
		return c.Channels
	}
	own := max(1, is.ChannelsFor(c.Op, c.Bytes))
	if c.Channels == was.ChannelsFor(c.Op, c.Bytes) {
		return own
	}
	return min(c.Channels, own)
}

// Launched is the launch of an operation on this machine that was seen on another one. Persistent workgroups grow with the
// compute units. A workgroup that fits on no compute unit here takes a whole one: the kernel is another build. Channels of
// another library have its footprint.
func (l *Laws) Launched(op *workload.Op) *workload.Kernel {
	return l.launched.Of(launchKey{op.Kernel, op.Kind}, func() *workload.Kernel {
		k, from, to := *op.Kernel, l.Seen.Machine, l.Machine
		cus, now := from.GPU.CUs.Value, to.GPU.CUs.Value
		if t := &k.Tiling; op.Kind == trace.Compute && t.Persistent && cus != now && cus > 0 {
			t.WGs = max(1, int(float64(t.WGs)*now/cus+0.5))
			if t.Tiles > 0 {
				t.WGs = min(t.WGs, t.Tiles)
			}
		}
		switch another := from.Profile != to.Profile; {
		case another && op.Kind == trace.Collective:
			k.Footprint = program.Footprint{}
		case another && op.Kind == trace.Compute && program.Fits(to, k.Footprint) != nil:
			f, has := &k.Footprint, to.GPU.CUResources()
			f.Threads = min(f.Threads, int(has.Threads))
			f.Registers = min(f.Registers, int(has.Registers)/max(1, f.Threads))
			f.Shared = min(f.Shared, int(has.Shared)-int(to.GPU.SharedSpare.Value))
		}
		if k == *op.Kernel {
			return op.Kernel
		}
		return &k
	})
}

type launchKey struct {
	kernel *workload.Kernel
	kind   trace.Kind
}
