package cost

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Elsewhere is the laws of operations that were seen on one machine and are asked for on another one.
type Elsewhere struct{ From, To *machine.Machine }

// A Reason is why a factor is what it is.
type Reason struct {
	Bound string // what limits the operation, or the rest of a kernel's time besides launch and memory
	Law   string
	Sure  bool // the trace shows what limits the operation
}

// What bounds operations.
const (
	matrixUnits = "matrix units"
	vectorUnits = "latency and vector units"
	theMemory   = "memory"
	theLaunch   = "launch"
	theLinks    = "links"
	theHost     = "copies of the host"
)

// Bounds are what bounds the first parts of a Roofed.
var Bounds = [...]string{theLaunch, theMemory}

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
	byHost      = Reason{theHost, "unchanged: copies from and to the host", true}
)

// Kernel is the factor on the duration of a kernel or copy of which a share is left (rule Y1), and what bounds its
// time. there is its launch on the other machine.
func (e *Elsewhere) Kernel(w *workload.Workload, op *workload.Op, there *workload.Kernel, share float64) (by float64, of Reason, t Roofed) {
	took := float64(op.DurAlone()) / 1e9
	if op.Kind == trace.Copy {
		by, of = e.copied(w, op)
		return by, of, t
	}
	if took <= 0 {
		return 1, byBytes, t
	}
	ratio, bytes := e.From.GPU.VectorRatio(&e.To.GPU), e.through(op.Read, op.Write)
	switch {
	case op.Shape.Kind == workload.GEMM && op.Shape.M > 0 && op.Shape.N > 0 && op.Shape.K > 0:
		if !e.sameTile(op) {
			by, of = e.libraries(op)
			return by, of, t
		}
		bytes, ratio, of = e.operands(op), e.rounds(op, there), byMatmul
	case narrow(op):
		bytes, of = math.Inf(1), byWeights
	case op.Matrix() || op.Tiling.TileM > 0:
		if ratio, of = e.To.GPU.Flops.Value/e.From.GPU.Flops.Value, byFlops; bytes == 0 {
			if bytes = op.Inputs; bytes == 0 {
				of = byUnshown
			}
		}
	case bytes > 0:
		of = byBytes
	case op.Inputs > 0: // a concatenation
		bytes, of = e.through(op.Inputs, op.Inputs), byBytes
	case kernel.OfPasses(op.Name):
		of = byPasses
	case op.Moves:
		half := e.reach(op, took) / 2 // read, and as much written
		bytes, of = e.through(half, half), byName
	default:
		of = byVectors
	}
	t = e.roof(took, bytes, share, ratio)
	if by = t.seconds() / took; !(by > 0) || math.IsInf(by, 0) { // a profile that lacks the rates
		return 1, Reason{of.Bound, of.Law + ", unknown", false}, Roofed{}
	}
	if share != 1 {
		of.Law = "shard of the optimizer: " + of.Law
	}
	return by, of, t
}

// sameTile reports whether a GEMM runs on both machines with the same tile: one of both libraries, or compiled.
func (e *Elsewhere) sameTile(op *workload.Op) bool {
	return compiled(op) || hasTile(e.From, op) && hasTile(e.To, op)
}

// rounds is how much faster the matrix units compute a GEMM with the same tile: as many rounds as there are tiles for
// each slot, each as fast as a compute unit's matrix units (rule Y3).
func (e *Elsewhere) rounds(op *workload.Op, there *workload.Kernel) float64 {
	ratio, t := e.To.GPU.Flops.Value/e.From.GPU.Flops.Value, op.Tiling
	if t.Tiles <= 0 || e.From.GPU.CUs.Value < 1 || e.To.GPU.CUs.Value < 1 {
		return ratio
	}
	a := int(e.From.GPU.CUs.Value) * max(1, op.Footprint.Residents(&e.From.GPU))
	b := int(e.To.GPU.CUs.Value) * max(1, there.Footprint.Residents(&e.To.GPU))
	return ratio * float64(machine.CeilDiv(t.Tiles, a)*a) / float64(machine.CeilDiv(t.Tiles, b)*b)
}

// through is the bytes that pass the memory while a kernel runs: what it reads and, where all of it fits into the
// last-level cache of both machines, not what it writes, which stays there until something else needs the place.
func (e *Elsewhere) through(read, written float64) float64 {
	if read+written <= min(e.From.GPU.Cache.Value, e.To.GPU.Cache.Value) {
		return read
	}
	return read + written
}

// operands is the bytes of a GEMM's operands, each once.
func (e *Elsewhere) operands(op *workload.Op) float64 {
	sh := op.Shape
	groups := max(1, sh.Groups)
	seconds := float64(groups) * e.From.Moving(machine.CeilDiv(sh.M, groups), sh.N, sh.K)
	return seconds * e.From.GPU.Memory.Value * float64(max(1, sh.ElemSize)) / 2
}

// libraries is the ratio of the law's times of a GEMM on both machines, whose libraries have different tiles or whose
// tile is not known (rule Y3). The tile is that of the capture, if the machine's library has it, else the one that it
// prefers. The tile of a what-if is the one that the library prefers without it. Times that the profiles recorded
// count only if both did.
func (e *Elsewhere) libraries(op *workload.Op) (float64, Reason) {
	from, to := tilingOn(e.From, op), tilingOn(e.To, op)
	sh := op.Shape
	if e.From.Profile == e.To.Profile && !hasTile(e.From, op) && sh.Groups <= 1 {
		to = e.To.WithSplits(sh.M, sh.N, sh.K, from)
	}
	if from.Measured != to.Measured {
		from = e.From.LawWithTile(sh.M, sh.N, sh.K, from.Rows, from.Columns, from.Splits)
		to = e.To.LawWithTile(sh.M, sh.N, sh.K, to.Rows, to.Columns, to.Splits)
	}
	by := to.Seconds / from.Seconds
	switch {
	case !(by > 0) || math.IsInf(by, 0):
		return 1, Reason{matrixUnits, byLibraries.Law + ", unknown", false}
	case sh.ElemSize != 2:
		return by, byOtherType
	}
	return by, byLibraries
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
	return op.Shape.Kind != workload.GEMM && t.TileM > 0 && min(t.TileM, t.TileN) <= rows && kernel.OfLibrary(op.Name)
}

// Roofed is the seconds of a kernel on both machines, by what bounds them: its launch, memory, and the rest.
type Roofed struct{ Was, Is [3]float64 }

func (t *Roofed) seconds() float64 { return t.Is[0] + t.Is[1] + t.Is[2] }

// roof is the time of a kernel that takes some seconds on the machine of the capture and moves bytes (rule Y4). It has
// three parts: that of an empty kernel; that in which it would move its bytes at the memory's rate; and the rest, which
// is faster by the given ratio. Waiting for memory and the rest overlap in part: together they take the root of the sum
// of their squares. share is the part of its work that is left.
func (e *Elsewhere) roof(took, bytes, share, ratio float64) (t Roofed) {
	empty, emptyTo := e.From.Launch.Graph.Value, e.To.Launch.Graph.Value
	if empty <= 0 {
		empty, emptyTo = 0, 0
	}
	if t.Was[0] = min(took, empty); t.Was[0] > 0 {
		t.Is[0] = t.Was[0] * emptyTo / empty
	}
	busy := took - t.Was[0]
	moving := min(busy, bytes/e.From.GPU.Memory.Value)
	rest := math.Sqrt(busy*busy - moving*moving)
	if busy <= 0 {
		return t
	}
	t.Was[1], t.Was[2] = moving*moving/busy, rest*rest/busy
	if moving > 0 {
		moving *= e.From.GPU.Memory.Value / e.To.GPU.Memory.Value
	}
	t.Is[2] = share * t.Was[2] / ratio
	t.Is[1] = share*math.Hypot(moving, rest/ratio) - t.Is[2]
	return t
}

// reach is the most bytes that a kernel of unknown traffic has moved: those of a streaming kernel with as many
// workgroups.
func (e *Elsewhere) reach(op *workload.Op, took float64) float64 {
	if op.Tiling.WGs <= 0 {
		return math.Inf(1)
	}
	return took * e.From.GPU.StreamAt(op.Tiling.WGs)
}

// copied is the factor of a copy or fill.
func (e *Elsewhere) copied(w *workload.Workload, op *workload.Op) (by float64, of Reason) {
	a := w.Run.Copy(w.Run.Spans[op.Span])
	switch {
	case a == nil || a.Dir == trace.HostToDevice || a.Dir == trace.DeviceToHost || a.Dir == trace.UnknownDir:
		return 1, byHost
	case a.Dir == trace.PeerToPeer:
		by, of = e.From.Engines.Rate.Value/e.To.Engines.Rate.Value, byLinks
	default:
		took := float64(op.DurAlone()) / 1e9
		t := e.roof(took, e.through(op.Read, op.Write), 1, 1)
		by, of = t.seconds()/took, Reason{theMemory, byBytes.Law, true}
	}
	if !(by > 0) || math.IsInf(by, 0) {
		return 1, byHost
	}
	return by, of
}

// Collective is the factor on a collective's transfer, whose members were so many ranks: the ratio of the library's
// times (rule Y5). If the ranks are on several nodes on one side, or only one library's times are
// recorded, both are those of the tuner's model, whose errors then cancel.
func (e *Elsewhere) Collective(c *workload.Collective, was, ranks []int) (by float64, of Reason) {
	switch {
	case c.Part || len(ranks) < 2 || len(was) < 2:
		return 1, byLibrary
	case c.Bytes <= 0 && c.Op != trace.Barrier:
		return 1, bySize
	}
	a, b := e.From.LibraryFor(was), e.To.LibraryFor(ranks)
	alike := (a.Nodes > 1) == (b.Nodes > 1) && a.Of(c.Op).Times.Known() == b.Of(c.Op).Times.Known()
	timeOf := func(m *machine.Machine, l *machine.Library, n, channels int) float64 {
		if alike {
			return max(l.Time(c.Op, c.Bytes, n, channels), onLinks(m, c.Op, c.Bytes, n))
		}
		if channels == 0 {
			channels = l.ChannelsFor(c.Op, c.Bytes)
		}
		return max(l.Expected(c.Op, l.Spread(n), float64(l.Runs(c.Op, channels)), float64(max(0, c.Bytes))), onLinks(m, c.Op, c.Bytes, n))
	}
	by = timeOf(e.To, b, len(ranks), e.Channels(c)) / timeOf(e.From, a, len(was), c.Channels)
	if !(by > 0) || math.IsInf(by, 0) {
		return 1, bySize
	}
	return by, byLibrary
}

// Channels is the number of channels of a captured collective on the other machine: as
// many as its library uses by itself, if the capture's did so too, else at most the captured
// number.
func (e *Elsewhere) Channels(c *workload.Collective) int {
	if c.Channels == 0 || e.From.Profile == e.To.Profile || e.From.Library.Name == e.To.Library.Name {
		return c.Channels
	}
	own := max(1, e.To.Library.ChannelsFor(c.Op, c.Bytes))
	if c.Channels == e.From.Library.ChannelsFor(c.Op, c.Bytes) {
		return own
	}
	return min(c.Channels, own)
}
