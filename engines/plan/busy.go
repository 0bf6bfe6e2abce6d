package plan

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// BusyTime is the least time, ns, for which the devices of a captured iteration after the first compute, copy, or
// move the bytes of collectives: of the rank that does so longest. What waits for captured ranks did to kernels and
// waits for others do not count. A run of the captured schedule without the profiler loses pauses and waits, and
// takes no less than this (rule H10). It is of the iterations of a phase (Steps.Of); of all whose time is a mean, it is the mean
// (Steps.Time): those of several phases differ. It is 0 without two iterations.
func BusyTime(w *workload.Workload, phase int) trace.Time {
	steps := MeasuredSteps(w).Of(phase)
	rounds := steps.rounds()
	if len(rounds) < 2 {
		return 0
	}
	waits := make([][]trace.Time, len(rounds)) // by iteration and row
	for i := range waits {
		waits[i] = make([]trace.Time, w.Captured)
	}
	for id := range w.Ops {
		if op := &w.Ops[id]; steps.of[id] >= 0 && !w.Copies[op.Rank] {
			waits[steps.of[id]][w.Rows[op.Rank]] += op.Dur() - w.Lasts(op)
		}
	}
	w.UnseenWaits(func(op *workload.Op, late trace.Time) {
		if i := steps.of[op.ID]; i >= 0 {
			waits[i][w.Rows[op.Rank]] += late
		}
	})
	work, least, sums := overlap.Collect(w.Run), trace.Infinity, make([]trace.Time, w.Captured)
	for i, round := range rounds {
		var busiest trace.Time
		for row, t := range work.PerIteration(round, 1, trace.Infinity) {
			busy := t.Compute + t.Transfer + t.Copies - waits[i][row]
			busiest, sums[row] = max(busiest, busy), sums[row]+busy
		}
		if steps.Has(i) && (i > 0 || phase > 0) {
			least = min(least, busiest)
		}
	}
	if ran, mean := steps.Ran(); mean && phase == 0 {
		return slices.Max(sums) / trace.Time(len(ran))
	}
	return least
}
