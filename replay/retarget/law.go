package retarget

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A law is the reason for a factor. sure is false if the trace does not show what limits
// the operation.
type law struct {
	name string
	sure bool
}

var (
	byMatmul    = law{"matmul law", true}
	byOtherType = law{"matmul law of 16-bit elements", false}
	byFlops     = law{"matrix flops", true}
	byBytes     = law{"bytes of memory", true}
	byWeights   = law{"bytes of weights, by the tile's narrow side", true}
	byName      = law{"memory rate, bytes unknown", false}
	byVectors   = law{"compute units and clock", false}
	byLinks     = law{"link rate", true}
	byLibrary   = law{"collective library", true}
	bySize      = law{"unchanged: collective of unknown size", false}
	byHost      = law{"unchanged: copies from and to the host", true}
)

// op is the factor on the duration of a kernel or copy (rule Y1).
func (s *scaler) op(w *workload.Workload, op *workload.Op) (by float64, of law) {
	took := float64(op.DurAlone()) / 1e9
	switch {
	case op.Kind == trace.Copy:
		return s.copied(w, op)
	case took <= 0:
		return 1, byBytes
	}
	share, vectors := s.shard(op), s.from.GPU.VectorRatio(&s.to.GPU)
	op.Read, op.Write = op.Read*share, op.Write*share
	switch {
	case op.Shape.Kind == workload.GEMM && op.Shape.M > 0 && op.Shape.N > 0 && op.Shape.K > 0:
		of = byMatmul
		if op.Shape.ElemSize != 2 {
			of = byOtherType
		}
		by = s.gemm(op)
	case narrow(op):
		by, of = s.memory(took, math.Inf(1), share, vectors)/took, byWeights
	case op.Matrix() || op.Tiling.TileM > 0:
		flops := s.to.GPU.Flops.Value / s.from.GPU.Flops.Value
		by, of = s.memory(took, (op.Read+op.Write)/share, share, flops)/took, law{byFlops.name, op.Dense}
	case op.Read+op.Write > 0:
		by, of = s.memory(took, (op.Read+op.Write)/share, share, vectors)/took, byBytes
	case op.Moves:
		by, of = s.memory(took, math.Inf(1), share, vectors)/took, byName
	default:
		by, of = s.memory(took, 0, share, vectors)/took, byVectors
	}
	if !(by > 0) || math.IsInf(by, 0) { // a profile that lacks the rates
		return 1, law{of.name + ", unknown", false}
	}
	if share != 1 {
		of = law{"shard of the optimizer: " + of.name, of.sure}
	}
	return by, of
}

// gemm is the ratio of the law's times of a GEMM on both machines (rule Y3). Of the library's
// kernels, and those of unknown tile, it is the matrix library's. The tile is that of the
// capture, if the machine's library has it, else the one that it prefers. The tile of a
// what-if is the one that the library prefers without it. Times that the profiles recorded
// count only if both did. Other kernels have compiled tiles, which do not change.
func (s *scaler) gemm(op *workload.Op) float64 {
	if t := op.Tiling; t.TileM > 0 && t.TileN > 0 && t.Tiles > 0 && !t.Persistent && !kernel.OfLibrary(op.Name) {
		return compiled(s.to, op, s.kernel(op).Footprint) / compiled(s.from, op, op.Footprint)
	}
	from, to := tilingOn(s.from, op), tilingOn(s.to, op)
	sh := op.Shape
	if s.from.Profile == s.to.Profile && !hasTile(s.from, op) && sh.Groups <= 1 {
		to = s.to.WithSplits(sh.M, sh.N, sh.K, from)
	}
	if from.Measured != to.Measured {
		from = s.from.LawWithTile(sh.M, sh.N, sh.K, from.Rows, from.Columns, from.Splits)
		to = s.to.LawWithTile(sh.M, sh.N, sh.K, to.Rows, to.Columns, to.Splits)
	}
	return to.Seconds / from.Seconds
}

// compiled is the seconds of a GEMM of compiled tiles, one workgroup each: whole rounds of the
// slots of all compute units (rule G10), and at least the memory's time for the operands.
func compiled(m *machine.Machine, op *workload.Op, f program.Footprint) float64 {
	t, sh := op.Tiling, op.Shape
	cus, residents := int(m.GPU.CUs.Value), max(1, f.Residents(&m.GPU))
	tile := 2 * float64(t.TileM) * float64(t.TileN) * float64(sh.K) * m.GPU.CUs.Value / m.Matmul.Compiled.Or(m.GPU.Flops.Value)
	round := func(onCU int) float64 { return tile * max(float64(onCU), 1/m.LonePipe(t.Depth)) }
	seconds := float64(t.Tiles/(cus*residents)) * round(residents)
	if left := t.Tiles % (cus * residents); left > 0 {
		seconds += round(machine.CeilDiv(left, cus))
	}
	groups := max(1, sh.Groups)
	return max(seconds, float64(groups)*m.Moving(machine.CeilDiv(sh.M, groups), sh.N, sh.K))
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

// memory is the seconds of a kernel that takes some seconds on the machine of the capture
// and moves bytes (rule Y4). Its time has three parts: that of an empty kernel; that in which
// it moves bytes at machine.Saturates times the rate; and the rest, which is faster by the given
// ratio. share is the part of its work that is left.
func (s *scaler) memory(took, bytes, share, ratio float64) float64 {
	empty, emptyTo := s.from.Launch.Graph.Value, s.to.Launch.Graph.Value
	if empty <= 0 {
		empty, emptyTo = 0, 0
	}
	floor := min(took, empty)
	moving := min(took-floor, bytes/(machine.Saturates*s.from.GPU.Memory.Value))
	rest := took - floor - moving
	scaled := 0.0
	if floor > 0 {
		scaled = floor * emptyTo / empty
	}
	if moving > 0 {
		scaled += share * moving * s.from.GPU.Memory.Value / s.to.GPU.Memory.Value
	}
	return scaled + share*rest/ratio
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
		by, of = s.memory(took, op.Read+op.Write, 1, 1)/took, byBytes
	}
	if !(by > 0) || math.IsInf(by, 0) {
		return 1, byHost
	}
	return by, of
}
