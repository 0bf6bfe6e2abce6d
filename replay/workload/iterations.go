package workload

import "github.com/overlapse/overlapse/trace"

// IterationsOf says which iteration each op belongs to (-1: none), and how many
// there are: the steps that the program marked, or, where one step is a loop of
// one pair repeated and nothing else, its rounds.
func IterationsOf(w *Workload) (of []int32, n int) {
	of = make([]int32, len(w.Ops))
	if len(w.Steps) > 1 || !loop(w) {
		for i := range w.Ops {
			of[i] = w.Ops[i].Step
		}
		return of, len(w.Steps)
	}
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
func loop(w *Workload) bool {
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

// Iterations is how many iterations a workload's times are averaged over; 0
// where the trace has none and times are of the whole.
func Iterations(w *Workload) int {
	_, n := IterationsOf(w)
	return n
}
