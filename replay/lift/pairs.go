package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Pairs
//
// The last stage finds computation and communication that depend on each other, so that strategies
// may overlap them: pairs of two operations, and chains of several.

// Confidence of evidence. A pair's confidence is that of its best evidence times a factor
// for each weakness.
const (
	sizesAgree   = 0.95 // the output of one has the size of the other's input
	gemmByName   = 0.60 // adjacent, a GEMM by its name, sizes unknown
	adjacentOnly = 0.45 // adjacent, a kernel of the program's own, sizes unknown

	throughSame  = 0.80 // a light kernel between, of that size too
	throughOther = 0.60 // a light kernel between, of another or unknown size
	pastHeavy    = 0.55 // a heavy kernel between, whose output has another size
	otherType    = 0.90 // as many elements, of another type
	onlyByTime   = 0.80 // the trace lacks the host's calls

	leastConfidence = 0.30 // pairs below this are not shown
)

// Search limits for the partner of a collective or GEMM.
const (
	maxSteps = 8
	maxLight = 2
	maxHeavy = 1
	tiny     = trace.Time(10_000) // an unknown kernel shorter than this is light
)

// findPairs finds dependent operations. What one rank shows is a pair only if all
// ranks of the collective show it (rule V3). It returns the number of collectives in kernels that compute a
// norm too, which have no partner: what replaces them would leave out the norm.
func findPairs(w *workload.Workload) (withNorm int) {
	f := newFinder(w)
	// by collective op
	found := map[workload.Direction]map[int32]candidate{workload.ComputeThenCollective: {}, workload.CollectiveThenCompute: {}}
	gemms := make([][]candidate, f.World) // by rank, by second
	for rank := range f.Ranks {
		gemms[rank] = f.candidates(rank, found)
	}
	f.Pairs = make([]workload.Pair, 0, min(len(f.Collectives),
		len(found[workload.ComputeThenCollective])+len(found[workload.CollectiveThenCompute])))
	for i := range f.Collectives {
		if trace.WithNorm(f.Ops[f.Collectives[i].Members[0]].Name) {
			withNorm++
			continue
		}
		f.pairCollective(int32(i), workload.ComputeThenCollective, found[workload.ComputeThenCollective])
		f.pairCollective(int32(i), workload.CollectiveThenCompute, found[workload.CollectiveThenCompute])
	}
	f.pairRounds()
	f.pairGEMMs(gemms)
	slices.SortStableFunc(f.Pairs, func(a, b workload.Pair) int {
		x, y := &f.Ops[a.First[0]], &f.Ops[b.First[0]]
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.ID, y.ID), cmp.Compare(a.Direction, b.Direction))
	})
	return withNorm
}

// candidates looks at every collective and every GEMM of a rank. A kernel is in one pair of a
// direction.
func (f *finder) candidates(rank int, found map[workload.Direction]map[int32]candidate) (gemms []candidate) {
	taken := map[workload.Direction]map[int32]bool{workload.ComputeThenCollective: {}, workload.CollectiveThenCompute: {}}
	for _, id := range f.Ranks[rank] {
		op := &f.Ops[id]
		switch {
		case op.Kind == trace.Collective:
			for d, h := range [...]candidate{
				workload.ComputeThenCollective: f.producer(op),
				workload.CollectiveThenCompute: f.consumer(op),
			} {
				kernel := h.first + h.second - id
				if h.confidence > 0 && !taken[workload.Direction(d)][kernel] {
					taken[workload.Direction(d)][kernel], found[workload.Direction(d)][id] = true, h
				}
			}
		case op.Shape.Kind == workload.GEMM || op.Shape.Kind == workload.GEMV:
			if h := f.gemmBefore(op); h.confidence >= leastConfidence {
				gemms = append(gemms, h)
			}
		}
	}
	return gemms
}

// pairCollective pairs a collective with a kernel before or after it.
func (f *finder) pairCollective(row int32, d workload.Direction, found map[int32]candidate) {
	c := &f.Collectives[row]
	gather := c.Op == trace.AllGather || c.Op == trace.AllToAll
	if c.Earlier || c.Op == trace.Barrier || d == workload.CollectiveThenCompute && !gather ||
		d == workload.ComputeThenCollective && c.Guessed && gather {
		return
	}
	p := workload.Pair{Direction: d, Collective: row, Step: f.Ops[c.Members[0]].Step, Confidence: 1}
	for _, id := range c.Members {
		h := found[id]
		if h.confidence < leastConfidence || len(p.First) > 0 && h.experts != p.Experts {
			return
		}
		join(&p, h)
	}
	f.Pairs = append(f.Pairs, p)
}

// pairRounds pairs the kernels and the collectives of a loop whose rounds are one of each,
// alike in every round, where nothing else was paired: their sizes need not be related, as
// in benchmarks of overlap (rule V3).
//
//	stream 7  |GGGG CCC GGGG CCC GGGG CCC|
func (f *finder) pairRounds() {
	n := len(f.Collectives)
	if n < 2 || slices.ContainsFunc(f.Pairs, func(p workload.Pair) bool { return p.Collective >= 0 }) {
		return
	}
	kernels := make([][]int32, f.World)
	for rank, ids := range f.Ranks {
		for _, id := range ids {
			op := &f.Ops[id]
			if op.Kind != trace.Compute {
				continue
			}
			if kernels[rank] = append(kernels[rank], id); op.Kernel != f.Ops[kernels[rank][0]].Kernel {
				return
			}
		}
		if len(kernels[rank]) != n {
			return
		}
	}
	pairs := make([]workload.Pair, n)
	for i := range f.Collectives {
		c := &f.Collectives[i]
		if first := &f.Collectives[0]; c.Op != first.Op || c.Bytes != first.Bytes || c.Op == trace.Barrier ||
			c.Earlier || len(c.Members) != f.World {
			return
		}
		pairs[i] = workload.Pair{
			Direction: workload.ComputeThenCollective, Collective: int32(i), Step: f.Ops[c.Members[0]].Step, Confidence: adjacentOnly,
			Evidence: []string{"a loop of one kernel and one collective, whose sizes differ: that the one sends what the other made is not known"},
		}
		for _, id := range c.Members {
			k := kernels[f.Ops[id].Rank][i]
			if f.Ops[k].End > f.Ops[id].Start {
				return
			}
			pairs[i].First, pairs[i].Second = append(pairs[i].First, k), append(pairs[i].Second, id)
		}
	}
	f.Pairs = append(f.Pairs, pairs...)
}

// join adds one rank's half. The weakest rank's evidence counts.
func join(p *workload.Pair, h candidate) {
	p.First = append(p.First, h.first)
	p.Second = append(p.Second, h.second)
	p.Experts = h.experts
	if len(p.Evidence) == 0 || h.confidence < p.Confidence {
		p.Evidence, p.Confidence = h.evidence, h.confidence
	}
}

// pairGEMMs pairs GEMMs of which one consumes the other's output. Ranks
// are joined by step, names and order.
func (f *finder) pairGEMMs(gemms [][]candidate) {
	type kin struct {
		step          int32
		first, second string
		nth           int
	}
	rows := map[kin]int{}
	for rank := range gemms {
		seen := map[kin]int{}
		for _, h := range gemms[rank] {
			a, b := &f.Ops[h.first], &f.Ops[h.second]
			k := kin{step: a.Step, first: a.Name, second: b.Name}
			seen[k]++
			k.nth = seen[kin{k.step, k.first, k.second, 0}]
			i, ok := rows[k]
			if !ok {
				i = len(f.Pairs)
				rows[k] = i
				f.Pairs = append(f.Pairs, workload.Pair{
					Direction: workload.ComputeThenCompute, Collective: -1,
					Step: a.Step, Confidence: 1,
				})
			}
			join(&f.Pairs[i], h)
		}
	}
}
