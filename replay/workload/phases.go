package workload

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Serves reports whether the steps are those of a serving engine.
func (w *Workload) Serves() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Batch.Phase != NoPhase })
}

// apart is how many times longer steps of one kind take than those of another, and their kernels run, if each has a time of
// its own (rule V34). Steps that do the same vary by less (rule V32).
const apart = 1.5

// A stepKind is steps that run the same kernels in the same sizes, in any order.
type stepKind struct {
	steps []int
	time  trace.Time // median, from the end of the step before to its end
	work  trace.Time // median, in which kernels ran that do not communicate
}

// Classify sets the class of each step: of the steps of one phase, or of none, those whose times and work differ by more
// than apart are of several classes, by time. Steps of the same kernels are of one class whatever they take: something
// disturbed one of them. The first step alone is no class where no phase is stated, since a program starts with it.
// It needs TimeSteps.
func (w *Workload) Classify() {
	phases := map[Phase][]stepKind{}
	for _, k := range w.stepKinds() {
		p := w.Steps[k.steps[0]].Batch.Phase
		phases[p] = append(phases[p], k)
	}
	for phase, kinds := range phases {
		slices.SortStableFunc(kinds, func(a, b stepKind) int {
			return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.steps[0], b.steps[0]))
		})
		var classes [][]int
		var longest, most trace.Time
		for _, k := range kinds {
			if classes == nil || float64(k.time) > apart*float64(longest) && float64(k.work) > apart*float64(most) {
				classes, most = append(classes, nil), 0
			}
			last := &classes[len(classes)-1]
			*last, longest, most = append(*last, k.steps...), k.time, max(most, k.work)
		}
		if phase == NoPhase {
			classes = slices.DeleteFunc(classes, func(steps []int) bool { return len(steps) == 1 && steps[0] == 0 })
		}
		for i, steps := range classes {
			for _, step := range steps {
				if w.Steps[step].Class = i + 1; len(classes) == 1 {
					w.Steps[step].Class = 0
				}
			}
		}
	}
	if n := len(w.Steps); n > 1 && w.Steps[0].Batch.Phase == NoPhase && w.Steps[0].Class == 0 && w.Steps[1].Batch.Phase == NoPhase {
		w.Steps[0].Class = w.Steps[1].Class // the program's start
	}
}

// stepKinds are the kinds of steps, in the order of their first steps.
func (w *Workload) stepKinds() (kinds []stepKind) {
	type kindKey struct {
		Phase Phase
		runs  uint64
	}
	runs, work := w.contents()
	at := map[kindKey]int{}
	times, works := [][]trace.Time{}, [][]trace.Time{}
	before := trace.Infinity
	for i := range w.Steps {
		start, end := trace.Infinity, trace.Time(0)
		for rank, from := range w.Steps[i].Start {
			if from != trace.Infinity {
				start, end = min(start, from), max(end, w.Steps[i].End[rank])
			}
		}
		if start == trace.Infinity {
			continue
		}
		key := kindKey{w.Steps[i].Batch.Phase, runs[i]}
		k, ok := at[key]
		if !ok {
			k = len(kinds)
			at[key] = k
			kinds, times, works = append(kinds, stepKind{}), append(times, nil), append(works, nil)
		}
		if before == trace.Infinity {
			before = start
		}
		kinds[k].steps, times[k], works[k] = append(kinds[k].steps, i), append(times[k], end-before), append(works[k], work[i])
		before = end
	}
	for k := range kinds {
		kinds[k].time, kinds[k].work = overlap.Median(times[k]), overlap.Median(works[k])
	}
	return kinds
}

// contents are by step a hash of the kernels and collectives that captured ranks ran, with their sizes and in any order, and
// for how long kernels ran that do not communicate.
func (w *Workload) contents() (runs []uint64, work []trace.Time) {
	runs, work = make([]uint64, len(w.Steps)), make([]trace.Time, len(w.Steps))
	seed, known := maphash.MakeSeed(), map[*Kernel]uint64{}
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Step < 0 || w.Copies[op.Rank] || op.Kind == trace.Copy {
			continue
		}
		hash, ok := known[op.Kernel]
		switch {
		case op.Collective >= 0:
			c := &w.Collectives[op.Collective]
			hash = maphash.Comparable(seed, [2]int64{int64(c.Op), c.Bytes})
		case !ok:
			hash = maphash.Comparable(seed, struct {
				name string
				wgs  int
			}{op.Name, op.Tiling.WGs})
			known[op.Kernel] = hash
		}
		if op.Kind == trace.Compute {
			work[op.Step] += op.Dur()
		}
		runs[op.Step] += hash // in any order
	}
	return runs, work
}
