package plan

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
)

// GEMMReads is the bytes that a GEMM reads from memory: its inputs, and for each wave of tiles
// again the panels of both that the wave shares, unless the last-level cache still has them.
// The cache holds what passes through it: the inputs and, unless that bypasses it, the output
// (rule M12). 0 if the operation is no GEMM of known tiles.
func (pl *Planner) GEMMReads(op *workload.Op, bypass bool) float64 {
	s, t := op.Shape, op.Tiling
	if s.Kind != workload.GEMM || t.TileM <= 0 || t.TileN <= 0 {
		return 0
	}
	rows, cols := CeilDiv(int(s.M), t.TileM), CeilDiv(int(s.N), t.TileN)
	wave := min(rows*cols, int(pl.Machine.GPU.CUs.Value)*pl.Residents(op.Footprint))
	panels := int64(min(rows, CeilDiv(wave, cols))*t.TileM + min(cols, wave)*t.TileN) // of one wave, in rows of K
	e := float64(s.ElemSize)
	inputs := float64((s.M+s.N)*s.K) * e
	again := max(0, float64(int64(CeilDiv(rows*cols, wave))*panels*s.K)*e-inputs)
	through := inputs
	if !bypass {
		through += float64(s.M*s.N) * e
	}
	return inputs + again*(1-pl.Machine.GPU.HitShare(through))
}

// countRereads adds to what GEMMs read from memory what they read again, on machines whose
// profile has the memory's queue. On others inputs count once (rule M1).
func (pl *Planner) countRereads() {
	if pl.Machine.GPU.MemoryQueue.Value == 0 || !pl.Machine.GPU.Cache.Known() {
		return
	}
	w := *pl.Workload
	w.Ops = slices.Clone(w.Ops)
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Read > 0 {
			op.Read = max(op.Read, pl.GEMMReads(op, false))
		}
	}
	pl.Workload = &w
}
