package compare

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Slowdown is what collectives added to compute kernels beside them, as instances of the same kernels show that ran
// beside nothing in the same capture: a measured time, of no model.
type Slowdown struct {
	Time        trace.Time // of an iteration, mean over captured ranks; of the whole run without iterations
	Kernels     int        // that ran beside collectives, on all captured ranks and in all iterations
	Collectives [trace.Barrier + 1]int
}

// leastInstances is how many instances of a kernel with nothing beside them tell its time alone.
const leastInstances = 3

// SlowdownOf measures it. Kernels of which too few instances ran alone, or whose instances alone are different
// work, add nothing.
func SlowdownOf(w *workload.Workload) (s Slowdown) {
	beside := coRunners(w)
	of, n := workload.IterationsOf(w)
	alone, slowed := map[instanceClass][]trace.Time{}, map[instanceClass][]int32{}
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Kind != trace.Compute || copied(w, op.Rank) || op.Dur() <= 0 || n > 0 && of[i] < 0 {
			continue
		}
		switch class := kernelClass(w, op); {
		case beside.ops[i] == 0:
			alone[class] = append(alone[class], op.Dur())
		case float64(beside.moves[i]) > alikeShare*float64(op.Dur()):
			slowed[class] = append(slowed[class], int32(i))
		}
	}
	met := map[int32]bool{}
	for class, ids := range slowed {
		took := slices.Sorted(slices.Values(alone[class]))
		last := len(took) - 1
		if len(took) < leastInstances || float64(took[last*9/10]) > alikeWork*float64(took[last/10]) {
			continue
		}
		for _, id := range ids {
			s.Time += w.Ops[id].Dur() - took[last/2]
			s.Kernels++
			met[id] = true
		}
	}
	early := map[int32]bool{} // by group: a part of a collective of which the last part is to come
	for i := range w.Collectives {
		c := &w.Collectives[i]
		early[c.Group] = slices.ContainsFunc(beside.with[i], func(c workload.CoRun) bool { return met[c.Op] }) || early[c.Group]
		if early[c.Group] && !c.Part {
			s.Collectives[c.Op]++
		}
		early[c.Group] = early[c.Group] && c.Part
	}
	s.Time /= trace.Time(max(1, n) * max(1, w.Captured))
	return s
}
