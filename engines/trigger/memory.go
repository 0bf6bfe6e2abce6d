package trigger

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
)

// queueEntries is the assumed length of a memory controller's queue in commands. T3 gives
// the thresholds (section 4.5), not the length.
const queueEntries = 64

// unlimited means no threshold: transfers and compute alternate.
const unlimited = queueEntries / 2

// arbiterOf is the arbitration of memory. With compute first, the threshold is the share
// of the queue that transfers may fill regardless of compute's demand. queue=auto sets it
// at the start of each GEMM; before the first GEMM there is no limit.
func arbiterOf(v plan.Values) program.Arbiter {
	if v["arbitration"] == "rr" {
		return program.Arbiter{Policy: program.RoundRobin}
	}
	entries := unlimited
	if v["queue"] != "none" && v["queue"] != "auto" {
		entries = v.Int("queue")
	}
	return program.Arbiter{Policy: program.ComputeFirst, Share: queueShare(entries)}
}

func queueShare(entries int) float64 { return float64(entries) / queueEntries }

// intensity is the share of the memory's rate that a GEMM uses when it runs alone. All
// its stages have the same intensity.
func intensity(pl *plan.Planner, op *workload.Op) float64 {
	if op.DurAlone() <= 0 || pl.Machine.GPU.Memory.Value <= 0 {
		return 0
	}
	return (op.Read*bypass(pl, op) + op.Write) / (float64(op.DurAlone()) / 1e9) / pl.Machine.GPU.Memory.Value
}

// threshold is one of T3's four thresholds, smaller for GEMMs that use more of the
// memory. The boundaries between them, at quarters, are assumed.
func threshold(intensity float64) int {
	switch {
	case intensity >= 0.75:
		return 5
	case intensity >= 0.5:
		return 10
	case intensity >= 0.25:
		return 30
	}
	return unlimited
}

// bypass is the ratio of a GEMM's memory reads when its output bypasses the last-level
// cache to those when it does not. Concurrent tiles share the panels of both inputs.
// Panels read by an earlier wave hit in the cache to the extent that it can hold them.
func bypass(pl *plan.Planner, op *workload.Op) float64 {
	s, t := op.Shape, op.Tiling
	if s.Kind != workload.GEMM || t.TileM <= 0 || t.TileN <= 0 {
		return 1
	}
	rows, cols := plan.CeilDiv(int(s.M), t.TileM), plan.CeilDiv(int(s.N), t.TileN)
	wave := min(rows*cols, int(pl.Machine.GPU.CUs.Value)*pl.Residents(op.Footprint))
	panels := int64(min(rows, plan.CeilDiv(wave, cols))*t.TileM + min(cols, wave)*t.TileN) // of one wave, in rows of K
	e := float64(s.ElemSize)
	inputs, output := float64((s.M+s.N)*s.K)*e, float64(s.M*s.N)*e
	again := max(0, float64(int64(plan.CeilDiv(rows*cols, wave))*panels*s.K)*e-inputs)
	reads := func(through float64) float64 { return inputs + again*(1-pl.Machine.GPU.HitShare(through)) }
	return reads(inputs) / reads(inputs+output)
}
