package workload

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
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

// loop reports whether the workload is one pair of kernels and sizes over and
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
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind != trace.Copy && !inPair[op.ID] {
			return false
		}
	}
	return true
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

// repetitions is how often the shortest sequence that makes up all ops of a queue comes.
func (w *Workload) repetitions(ids []int32) int {
	n := len(ids)
	if period := Period(n, func(i, j int) bool { return w.Alike(ids[i], ids[j]) }); n%period == 0 {
		return n / period
	}
	return 1
}

// Period is the length of the shortest sequence of which n > 0 things are repetitions, the last
// perhaps cut short; alike compares things i and j. It is 0 for nothing.
func Period(n int, alike func(i, j int) bool) int {
	// The failure function of Knuth, Morris and Pratt: border[i] is the length of the longest
	// proper prefix of the first i+1 things that also ends them.
	border := make([]int, n+1)
	for i := 1; i < n; i++ {
		k := border[i-1]
		for k > 0 && !alike(i, k) {
			k = border[k-1]
		}
		if alike(i, k) {
			k++
		}
		border[i] = k
	}
	return n - border[max(0, n-1)]
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
	return cmp.Or(cmp.Compare(c.Op, d.Op), cmp.Compare(c.Bytes, d.Bytes), cmp.Compare(c.Group, d.Group)) == 0 && c.Part == d.Part
}

// Iterations is how many iterations a workload's times are averaged over; 0
// where the trace has none and times are of the whole.
func Iterations(w *Workload) int {
	_, n := IterationsOf(w)
	return n
}
