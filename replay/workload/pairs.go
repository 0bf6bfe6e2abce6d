package workload

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

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

// pair finds dependent operations. What one rank shows is a pair only if all
// ranks of the collective show it (rule V3).
func (l *lifter) pair() {
	bases := make([]int32, l.World)
	for rank, ids := range l.Ranks {
		if len(ids) > 0 {
			bases[rank] = ids[0]
		}
	}
	for i := range l.Collectives {
		l.pairCollective(int32(i), ComputeThenCollective, bases, func(row, op int32) candidate { return l.candidates[row].producers[op] })
		l.pairCollective(int32(i), CollectiveThenCompute, bases, func(row, op int32) candidate { return l.candidates[row].consumers[op] })
	}
	l.pairRounds()
	l.pairGEMMs(bases)
	slices.SortStableFunc(l.Pairs, func(a, b Pair) int {
		x, y := &l.Ops[a.First[0]], &l.Ops[b.First[0]]
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.ID, y.ID), cmp.Compare(a.Direction, b.Direction))
	})
}

// pairCollective pairs a collective with a kernel before or after it.
func (l *lifter) pairCollective(row int32, d Direction, bases []int32, find func(row, op int32) candidate) {
	c := &l.Collectives[row]
	gather := c.Op == trace.AllGather || c.Op == trace.AllToAll
	if c.Part || c.Op == trace.Barrier || d == CollectiveThenCompute && !gather || d == ComputeThenCollective && c.Guessed && gather {
		return
	}
	p := Pair{Direction: d, Collective: row, Step: l.Ops[c.Members[0]].Step, Confidence: 1}
	for _, id := range c.Members {
		rank := l.Ops[id].Rank
		h := find(l.Rows[rank], id-bases[rank])
		if h.confidence < leastConfidence || len(p.First) > 0 && h.experts != p.Experts {
			return
		}
		p.join(h, bases[rank])
	}
	l.Pairs = append(l.Pairs, p)
}

// pairRounds pairs the kernels and the collectives of a loop whose rounds are one of each,
// alike in every round, where nothing else was paired: their sizes need not be related, as
// in benchmarks of overlap (rule V14).
//
//	stream 7  |GGGG CCC GGGG CCC GGGG CCC|
func (l *lifter) pairRounds() {
	n := len(l.Collectives)
	if n < 2 || slices.ContainsFunc(l.Pairs, func(p Pair) bool { return p.Collective >= 0 }) {
		return
	}
	kernels := make([][]int32, l.World)
	for rank, ids := range l.Ranks {
		for _, id := range ids {
			op := &l.Ops[id]
			if op.Kind != trace.Compute {
				continue
			}
			if kernels[rank] = append(kernels[rank], id); op.Kernel != l.Ops[kernels[rank][0]].Kernel {
				return
			}
		}
		if len(kernels[rank]) != n {
			return
		}
	}
	pairs := make([]Pair, n)
	for i := range l.Collectives {
		c := &l.Collectives[i]
		if first := &l.Collectives[0]; c.Op != first.Op || c.Bytes != first.Bytes || c.Op == trace.Barrier || c.Part || len(c.Members) != l.World {
			return
		}
		pairs[i] = Pair{
			Direction: ComputeThenCollective, Collective: int32(i), Step: l.Ops[c.Members[0]].Step, Confidence: adjacentOnly,
			Evidence: []string{"a loop of one kernel and one collective, whose sizes differ: that the one sends what the other made is not known"},
		}
		for _, id := range c.Members {
			k := kernels[l.Ops[id].Rank][i]
			if l.Ops[k].End > l.Ops[id].Start {
				return
			}
			pairs[i].First, pairs[i].Second = append(pairs[i].First, k), append(pairs[i].Second, id)
		}
	}
	l.Pairs = append(l.Pairs, pairs...)
}

// join adds one rank's half. The weakest rank's evidence counts.
func (p *Pair) join(h candidate, base int32) {
	p.First = append(p.First, h.first+base)
	p.Second = append(p.Second, h.second+base)
	p.Experts = h.experts
	if len(p.Evidence) == 0 || h.confidence < p.Confidence {
		p.Evidence, p.Confidence = h.evidence, h.confidence
	}
}

// pairGEMMs pairs GEMMs of which one consumes the other's output. Ranks
// are joined by step, names and order.
func (l *lifter) pairGEMMs(bases []int32) {
	type kin struct {
		step          int32
		first, second string
		nth           int
	}
	rows := map[kin]int{}
	for rank, row := range l.Rows {
		seen := map[kin]int{}
		for _, h := range l.candidates[row].gemms {
			a, b := &l.sources[row].ops[h.first], &l.sources[row].ops[h.second]
			k := kin{step: a.Step, first: a.Name, second: b.Name}
			seen[k]++
			k.nth = seen[kin{k.step, k.first, k.second, 0}]
			i, ok := rows[k]
			if !ok {
				i = len(l.Pairs)
				rows[k] = i
				l.Pairs = append(l.Pairs, Pair{Direction: ComputeThenCompute, Collective: -1, Step: a.Step, Confidence: 1})
			}
			l.Pairs[i].join(h, bases[rank])
		}
	}
}
