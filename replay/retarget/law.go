package retarget

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A law is the reason for a factor. sure is false if the trace does not show what limits
// the operation.
type law struct {
	bound string // what limits the operation, or the rest of a kernel's time besides launch and memory
	name  string
	sure  bool
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

var (
	byMatmul    = law{matrixUnits, "rounds of the same tiles", true}
	byLibraries = law{matrixUnits, "matmul law", true}
	byOtherType = law{matrixUnits, "matmul law of 16-bit elements", false}
	byFlops     = law{matrixUnits, "matrix flops", true}
	byUnshown   = law{matrixUnits, "matrix flops, sizes unknown", false}
	byBytes     = law{vectorUnits, "bytes of operands", true}
	byWeights   = law{vectorUnits, "bytes of weights, by the tile's narrow side", true}
	byPasses    = law{vectorUnits, "passes that wait for each other", true}
	byName      = law{vectorUnits, "moves memory by its name, bytes unknown", false}
	byVectors   = law{vectorUnits, "nothing known", false}
	byLinks     = law{theLinks, "link rate", true}
	byLibrary   = law{theLinks, "collective library", true}
	bySize      = law{theLinks, "unchanged: collective of unknown size", false}
	byHost      = law{theHost, "unchanged: copies from and to the host", true}
)

// op is the factor on the duration of a kernel or copy (rule Y1), and what bounds its time.
func (s *scaler) op(w *workload.Workload, op *workload.Op) (by float64, of law, t roofed) {
	took := float64(op.DurAlone()) / 1e9
	if op.Kind == trace.Copy {
		by, of = s.copied(w, op)
		return by, of, t
	}
	if took <= 0 {
		return 1, byBytes, t
	}
	share, ratio := s.shard(op), s.from.GPU.VectorRatio(&s.to.GPU)
	bytes := s.through(op.Read, op.Write)
	op.Read, op.Write = op.Read*share, op.Write*share
	switch {
	case op.Shape.Kind == workload.GEMM && op.Shape.M > 0 && op.Shape.N > 0 && op.Shape.K > 0:
		if !s.sameTile(op) {
			by, of = s.libraries(op)
			return by, of, t
		}
		bytes, ratio, of = s.operands(op), s.rounds(op), byMatmul
	case narrow(op):
		bytes, of = math.Inf(1), byWeights
	case op.Matrix() || op.Tiling.TileM > 0:
		if ratio, of = s.to.GPU.Flops.Value/s.from.GPU.Flops.Value, byFlops; bytes == 0 {
			if bytes = op.Inputs; bytes == 0 {
				of = byUnshown
			}
		}
	case bytes > 0:
		of = byBytes
	case op.Inputs > 0: // a concatenation
		bytes, of = s.through(op.Inputs, op.Inputs), byBytes
	case kernel.OfPasses(op.Name):
		of = byPasses
	case op.Moves:
		half := s.reach(op, took) / 2 // read, and as much written
		bytes, of = s.through(half, half), byName
	default:
		of = byVectors
	}
	t = s.roof(took, bytes, share, ratio)
	if by = t.seconds() / took; !(by > 0) || math.IsInf(by, 0) { // a profile that lacks the rates
		return 1, law{of.bound, of.name + ", unknown", false}, roofed{}
	}
	if share != 1 {
		of.name = "shard of the optimizer: " + of.name
	}
	return by, of, t
}

// sameTile reports whether a GEMM runs on both machines with the same tile: one of both libraries, or compiled.
func (s *scaler) sameTile(op *workload.Op) bool {
	t := op.Tiling
	compiled := t.TileM > 0 && t.TileN > 0 && t.Tiles > 0 && !t.Persistent && !kernel.OfLibrary(op.Name)
	return compiled || hasTile(s.from, op) && hasTile(s.to, op)
}

// rounds is how much faster the matrix units compute a GEMM with the same tile: as many rounds as there are tiles for
// each slot, each as fast as a compute unit's matrix units (rule Y3).
func (s *scaler) rounds(op *workload.Op) float64 {
	ratio, t := s.to.GPU.Flops.Value/s.from.GPU.Flops.Value, op.Tiling
	if t.Tiles <= 0 || s.from.GPU.CUs.Value < 1 || s.to.GPU.CUs.Value < 1 {
		return ratio
	}
	a := int(s.from.GPU.CUs.Value) * max(1, op.Footprint.Residents(&s.from.GPU))
	b := int(s.to.GPU.CUs.Value) * max(1, s.kernel(op).Footprint.Residents(&s.to.GPU))
	return ratio * float64(machine.CeilDiv(t.Tiles, a)*a) / float64(machine.CeilDiv(t.Tiles, b)*b)
}

// through is the bytes that pass the memory while a kernel runs: what it reads and, where all of it fits into the
// last-level cache of both machines, not what it writes, which stays there until something else needs the place.
func (s *scaler) through(read, written float64) float64 {
	if read+written <= min(s.from.GPU.Cache.Value, s.to.GPU.Cache.Value) {
		return read
	}
	return read + written
}

// operands is the bytes of a GEMM's operands, each once.
func (s *scaler) operands(op *workload.Op) float64 {
	sh := op.Shape
	groups := max(1, sh.Groups)
	seconds := float64(groups) * s.from.Moving(machine.CeilDiv(sh.M, groups), sh.N, sh.K)
	return seconds * s.from.GPU.Memory.Value * float64(max(1, sh.ElemSize)) / 2
}

// libraries is the ratio of the law's times of a GEMM on both machines, whose libraries have different tiles or whose
// tile is not known (rule Y3). The tile is that of the capture, if the machine's library has it, else the one that it
// prefers. The tile of a what-if is the one that the library prefers without it. Times that the profiles recorded
// count only if both did.
func (s *scaler) libraries(op *workload.Op) (float64, law) {
	from, to := tilingOn(s.from, op), tilingOn(s.to, op)
	sh := op.Shape
	if s.from.Profile == s.to.Profile && !hasTile(s.from, op) && sh.Groups <= 1 {
		to = s.to.WithSplits(sh.M, sh.N, sh.K, from)
	}
	if from.Measured != to.Measured {
		from = s.from.LawWithTile(sh.M, sh.N, sh.K, from.Rows, from.Columns, from.Splits)
		to = s.to.LawWithTile(sh.M, sh.N, sh.K, to.Rows, to.Columns, to.Splits)
	}
	by := to.Seconds / from.Seconds
	switch {
	case !(by > 0) || math.IsInf(by, 0):
		return 1, law{matrixUnits, byLibraries.name + ", unknown", false}
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

// roofed is the seconds of a kernel on both machines, by what bounds them: its launch, memory, and the rest.
type roofed struct{ was, is [3]float64 }

func (t *roofed) seconds() float64 { return t.is[0] + t.is[1] + t.is[2] }

// roof is the time of a kernel that takes some seconds on the machine of the capture and moves bytes (rule Y4). It has
// three parts: that of an empty kernel; that in which it would move its bytes at the memory's rate; and the rest, which
// is faster by the given ratio. Waiting for memory and the rest overlap in part: together they take the root of the sum
// of their squares. share is the part of its work that is left.
func (s *scaler) roof(took, bytes, share, ratio float64) (t roofed) {
	empty, emptyTo := s.from.Launch.Graph.Value, s.to.Launch.Graph.Value
	if empty <= 0 {
		empty, emptyTo = 0, 0
	}
	if t.was[0] = min(took, empty); t.was[0] > 0 {
		t.is[0] = t.was[0] * emptyTo / empty
	}
	busy := took - t.was[0]
	moving := min(busy, bytes/s.from.GPU.Memory.Value)
	rest := math.Sqrt(busy*busy - moving*moving)
	if busy <= 0 {
		return t
	}
	t.was[1], t.was[2] = moving*moving/busy, rest*rest/busy
	if moving > 0 {
		moving *= s.from.GPU.Memory.Value / s.to.GPU.Memory.Value
	}
	t.is[2] = share * t.was[2] / ratio
	t.is[1] = share*math.Hypot(moving, rest/ratio) - t.is[2]
	return t
}

// reach is the most bytes that a kernel of unknown traffic has moved: those of a streaming kernel with as many
// workgroups.
func (s *scaler) reach(op *workload.Op, took float64) float64 {
	if op.Tiling.WGs <= 0 {
		return math.Inf(1)
	}
	return took * s.from.GPU.StreamAt(op.Tiling.WGs)
}

// copied is the factor of a copy or fill.
func (s *scaler) copied(w *workload.Workload, op *workload.Op) (by float64, of law) {
	a := w.Run.Copy(w.Run.Spans[op.Span])
	switch {
	case a == nil || a.Dir == trace.HostToDevice || a.Dir == trace.DeviceToHost || a.Dir == trace.UnknownDir:
		return 1, byHost
	case a.Dir == trace.PeerToPeer:
		by, of = s.from.Engines.Rate.Value/s.to.Engines.Rate.Value, byLinks
	default:
		took := float64(op.DurAlone()) / 1e9
		t := s.roof(took, s.through(op.Read, op.Write), 1, 1)
		by, of = t.seconds()/took, law{theMemory, byBytes.name, true}
	}
	if !(by > 0) || math.IsInf(by, 0) {
		return 1, byHost
	}
	return by, of
}
