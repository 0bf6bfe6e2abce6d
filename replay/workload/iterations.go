package workload

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// IterationsOf says which iteration each op belongs to (-1: none), and how many
// there are: the steps that the program marked; or, where one step is a loop of
// one pair repeated and nothing else, its rounds; or, where no step is marked and no
// compute is paired with a collective, the rounds of a sequence of kernels that every rank repeats exactly.
func IterationsOf(w *Workload) (of []int32, n int) {
	of = make([]int32, len(w.Ops))
	switch {
	case len(w.Steps) > 1:
	case Loop(w):
		return roundsOfPairs(w, of)
	case len(w.Steps) == 0:
		if n = repeats(w, of); n > 1 {
			return of, n
		}
	}
	for i := range w.Ops {
		of[i] = w.Ops[i].Step
	}
	return of, len(w.Steps)
}

// roundsOfPairs makes an iteration of each pair and what follows it.
func roundsOfPairs(w *Workload, of []int32) ([]int32, int) {
	for i := range of {
		of[i] = -1
	}
	for round, p := range w.Pairs {
		for k, first := range p.First {
			end := w.Ranks[w.Ops[first].Rank][len(w.Ranks[w.Ops[first].Rank])-1] + 1
			if round+1 < len(w.Pairs) {
				end = w.Pairs[round+1].First[k]
			}
			for id := first; id < end; id++ {
				of[id] = int32(round)
			}
		}
	}
	return of, len(w.Pairs)
}

// Loop reports whether the workload is one pair of kernels and sizes over and
// over, with no other kernel between: rounds of such a loop do not depend on
// each other's results.
func Loop(w *Workload) bool {
	if len(w.Pairs) < 2 {
		return false
	}
	inPair := map[int32]bool{}
	a := &w.Pairs[0]
	for i := range w.Pairs {
		b := &w.Pairs[i]
		if b.Direction != a.Direction || len(b.First) != len(a.First) || b.Collective < 0 || a.Collective < 0 {
			return false
		}
		x, y := &w.Collectives[a.Collective], &w.Collectives[b.Collective]
		if x.Op != y.Op || x.Bytes != y.Bytes || w.Ops[a.First[0]].Name != w.Ops[b.First[0]].Name {
			return false
		}
		for k := range b.First {
			inPair[b.First[k]], inPair[b.Second[k]] = true, true
		}
	}
	return !slices.ContainsFunc(w.Ops, func(op Op) bool { return op.Kind != trace.Copy && !inPair[op.ID] })
}

// repeats cuts a workload into the rounds of a loop and returns their number, 0 or 1 where
// it is none. On every queue of every rank the sequence of kernels and collectives repeats
// exactly; the number of rounds is the greatest common divisor of the repetitions of all
// queues. Copies belong to the round of the kernel before them.
//
//	queue 7   |G H H G H H|   2 repetitions of G H H
//	queue 19  |C D C D C D C D|   4 of C D: two rounds of C D C D
//
// A workload whose compute is paired with collectives is left whole: its repetitions may be
// layers, each of which needs the result of the one before.
func repeats(w *Workload, of []int32) int {
	if len(w.Collectives) < 2 || slices.ContainsFunc(w.Pairs, func(p Pair) bool { return p.Collective >= 0 }) {
		return 0
	}
	type queue struct {
		rank int
		id   int64
	}
	ops := map[queue][]int32{}
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind != trace.Copy {
			q := queue{op.Rank, op.Queue}
			ops[q] = append(ops[q], op.ID)
		}
	}
	rounds := 0
	for _, ids := range ops { // the order does not change a greatest common divisor
		if rounds = machine.GCD(rounds, w.repetitions(ids)); rounds == 1 {
			return 1
		}
	}
	if rounds < 2 || !slices.ContainsFunc(w.Ops, func(op Op) bool { return op.Kind == trace.Compute }) {
		return 0
	}
	for i := range of {
		of[i] = -1
	}
	for _, ids := range ops {
		each := len(ids) / rounds
		for i, id := range ids {
			of[id] = int32(i / each)
		}
	}
	for _, ids := range w.Ranks {
		at := int32(-1)
		for _, id := range ids {
			if of[id] >= 0 {
				at = max(at, of[id])
			} else {
				of[id] = max(0, at)
			}
		}
	}
	return rounds
}

// repetitions is how often the shortest sequence that makes up all ops of a queue comes. It takes the failure function of
// Knuth, Morris and Pratt: border[i] is the length of the longest proper prefix of the first i+1 ops that also ends them.
func (w *Workload) repetitions(ids []int32) int {
	n := len(ids)
	border := make([]int, n)
	for i := 1; i < n; i++ {
		k := border[i-1]
		for k > 0 && !w.Alike(ids[i], ids[k]) {
			k = border[k-1]
		}
		if w.Alike(ids[i], ids[k]) {
			k++
		}
		border[i] = k
	}
	if period := n - border[n-1]; n%period == 0 {
		return n / period
	}
	return 1
}

// Repeated finds the longest stretch of n things that repeats a sequence of one of some lengths at least
// twice, the last time perhaps cut short, and that length: of several stretches the first. alike compares things i and j.
func Repeated(n int, lengths []int, alike func(i, j int) bool) (from, to, period int) {
	for _, p := range lengths {
		for start, i := 0, p; i <= n; i++ {
			if i < n && alike(i, i-p) {
				continue
			}
			if of := i - start; of >= 2*p && of > to-from {
				from, to, period = start, i, p
			}
			start = i - p + 1
		}
	}
	return from, to, period
}

// Alike reports whether two ops are the same kernel, or collectives of the same operation,
// size and group.
func (w *Workload) Alike(a, b int32) bool {
	x, y := &w.Ops[a], &w.Ops[b]
	if (x.Collective < 0) != (y.Collective < 0) {
		return false
	}
	if x.Collective < 0 {
		return x.Name == y.Name && x.Tiling.WGs == y.Tiling.WGs && x.Shape == y.Shape
	}
	c, d := &w.Collectives[x.Collective], &w.Collectives[y.Collective]
	return cmp.Or(cmp.Compare(c.Op, d.Op), cmp.Compare(c.Bytes, d.Bytes), cmp.Compare(c.Group, d.Group)) == 0 && c.Earlier == d.Earlier
}

// Iterations is how many iterations a workload's times are averaged over; 0
// where the trace has none and times are of the whole.
func Iterations(w *Workload) int {
	_, n := IterationsOf(w)
	return n
}

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
// It needs TimeSteps. It reports whether all steps but the first run the same kernels.
func (w *Workload) Classify() (alike bool) {
	phases, kinds := map[Phase][]stepKind{}, w.stepKinds()
	for _, k := range kinds {
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
	return len(kinds) == 1 || len(kinds) == 2 && len(kinds[0].steps) == 1 && kinds[0].steps[0] == 0
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
