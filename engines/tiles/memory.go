package tiles

import (
	"fmt"
	"strconv"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// unlimited means no threshold: half of the queue, so that transfers and compute alternate.
const unlimited = 32

// arbiter is the arbitration of memory. With compute first, the threshold is the share
// of the queue that transfers may fill regardless of compute's demand. queue=auto sets it
// at the start of each GEMM; before the first GEMM there is no limit. Without compute
// first, transfers that come in bursts may fill all of the queue (rule K11).
func (t *tracker) arbiter() program.Arbiter {
	switch {
	case t.first:
		return program.Arbiter{Policy: program.ComputeFirst, Share: t.queueShare(t.entries(0))}
	case t.bursts:
		return program.Arbiter{Policy: program.ComputeFirst, Share: 1}
	}
	return program.Arbiter{Policy: program.RoundRobin}
}

// entries is the threshold of transfers beside a GEMM of some intensity.
func (t *tracker) entries(intensity float64) int {
	switch t.queue {
	case "none":
		return unlimited
	case "auto":
		return threshold(intensity)
	}
	n, _ := strconv.Atoi(t.queue) // one of the choices
	return n
}

// queueShare is the share of the queue that a number of entries is.
func (t *tracker) queueShare(entries int) float64 {
	return min(1, float64(entries)/t.pl.Machine.GPU.QueueEntries())
}

// intensity is the share of the memory's rate that a GEMM uses when it runs alone. All
// its stages have the same intensity.
func intensity(pl *plan.Planner, op *workload.Op) float64 {
	bypassed := *op
	bypassed.Read *= bypass(pl, op)
	return pl.Laws().MemoryLoad(&bypassed)
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
// cache to those when it does not (rule K7).
func bypass(pl *plan.Planner, op *workload.Op) float64 {
	if cached := pl.Laws().GEMMReads(op, false); cached > 0 {
		return pl.Laws().GEMMReads(op, true) / cached
	}
	return 1
}

// note says what arbitration and queue do with each GEMM, and what of it is assumed.
func (t *tracker) note() {
	g := &t.pl.Machine.GPU
	for i := range t.pl.Pairs {
		op := &t.pl.Workload.Ops[t.pl.Pairs[i].First[0]]
		if op.Read+op.Write == 0 { // of unknown size
			continue
		}
		share := intensity(t.pl, op)
		does := "and waits behind bursts of transfers, which may fill the memory's queue (arbitration=mca limits them)"
		if t.first {
			does = fmt.Sprintf("and transfers take what it leaves, and at most %d of %.0f entries of the memory's queue", t.entries(share), g.QueueEntries())
		}
		takes := fmt.Sprintf("%.0f %% of", 100*share)
		if share > 1 {
			takes = "more than"
			does += "; by its size and time: its operands are in a cache, or one of the two is wrong"
		}
		t.pl.Note("%s takes %s the memory's rate, %s", trace.Short(op.Name), takes, does)
	}
	if g.MemoryQueue.Value == 0 || g.Update.Value == 0 {
		t.pl.Note("assumed for %s: a queue of %.0f entries (gpu.memory_queue), additions that take memory %.3g times as long (gpu.update)", t.pl.Machine.Profile, g.QueueEntries(), g.UpdateCost())
	}
}
