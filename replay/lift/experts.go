package lift

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
)

// In a mixture of experts under tensor parallelism every rank has a slice of every expert. An
// all-gather brings the tokens of all ranks, each goes to several experts, and the rows of the
// grouped GEMM are the tokens times their experts. Behind the last GEMM the rows of a token are
// added before a reduce-scatter or an all-reduce (rule V23):
//
//	all-gather       tokens           x hidden
//	rows by expert   tokens x experts x hidden   a permutation, or an index that the GEMM reads through
//	grouped GEMMs    tokens x experts x columns
//	weighted sum     tokens           x hidden
//	reduce-scatter   tokens / ranks   x hidden

// Confidence of pairs whose rows are not equally many.
const (
	flowsExactly  = 0.95 // recorded accesses connect the two through a kernel that changes the number of rows
	flowsToGroups = 0.90 // recorded accesses connect a grouped GEMM; they do not say which input it reads
	rowsByGroups  = 0.80 // adjacent, a grouped GEMM
)

// expertsOf is the rows of a GEMM for each row of width elements that is communicated: the
// experts of a token; 0 if they are not a whole number above one.
func expertsOf(g *workload.Shape, sent size, width int64) int64 {
	if g.Kind != workload.GEMM || sent.elements <= 0 || width <= 0 || sent.elements%width != 0 {
		return 0
	}
	tokens := sent.elements / width
	if g.M%tokens != 0 || g.M == tokens || g.Groups > 1 && g.M/tokens > g.Groups {
		return 0
	}
	return g.M / tokens
}

// readsRows is a pair of a gather and a GEMM that reads each of the brought rows several
// times; confidence 0 if it is none.
func (f *finder) readsRows(c, g *workload.Op, brought size, t search) candidate {
	k := expertsOf(&g.Shape, brought, g.Shape.K)
	why := fmt.Sprintf("each of %d rows that were brought is in its first input %d times", brought.elements/max(1, g.Shape.K), k)
	a, _ := operands(g)
	through := func(op *workload.Op) bool { return kernel.MovesRows(op) && leaves(op, a) }
	for _, id := range t.between {
		if op := &f.Ops[id]; through(op) && output(op).known() { // of the size of what the GEMM reads
			t.confidence *= throughSame / throughOther
		}
	}
	return f.byRows(c.ID, g.ID, g, k, t, why, through)
}

// makesRows is a pair of a GEMM and a reduction that sends the sums of several of its rows.
func (f *finder) makesRows(g, c *workload.Op, sent size, t search) candidate {
	k := expertsOf(&g.Shape, sent, g.Shape.N)
	why := fmt.Sprintf("each of %d rows that are sent is the sum of %d of its output", sent.elements/max(1, g.Shape.N), k)
	through := func(op *workload.Op) bool { return kernel.SumsRows(op) && leaves(op, sent) }
	return f.byRows(g.ID, c.ID, g, k, t, why, through)
}

// leaves reports whether an op's output has a size, or an unknown one.
func leaves(op *workload.Op, want size) bool {
	out := output(op)
	return !out.known() || out.agree(want) > 0
}

// byRows judges a GEMM with k rows for each communicated one. A grouped GEMM is enough
// evidence; another one needs recorded accesses that lead through a kernel that changes the
// number of rows.
func (f *finder) byRows(first, second int32, g *workload.Op, k int64, t search, why string, through func(*workload.Op) bool) candidate {
	if k == 0 {
		return candidate{}
	}
	changes := slices.ContainsFunc(t.between, func(id int32) bool {
		return through(&f.Ops[id]) && f.flows(first, id, t.between) && f.flows(id, second, t.between)
	})
	switch {
	case changes:
		t.evidence, t.confidence = []string{"recorded accesses"}, flowsExactly
	case g.Shape.Groups > 1 && f.flows(first, second, t.between):
		t.evidence, t.confidence = []string{"recorded accesses"}, flowsToGroups
	case g.Shape.Groups > 1:
		t.confidence *= rowsByGroups
	default:
		return candidate{}
	}
	return candidate{first: first, second: second, evidence: append(t.evidence, why), confidence: t.confidence, experts: int32(min(k, 1<<30))}
}

// flows reports whether recorded accesses lead from one op to a later one through some or none
// of the ops between.
func (f *finder) flows(from, to int32, between []int32) bool {
	return slices.ContainsFunc(f.Edges(to), func(e workload.Edge) bool {
		return e.Kind == workload.ReadAfterWrite && e.Evidence >= workload.Exact && (e.Op == from || slices.Contains(between, e.Op) && f.flows(from, e.Op, between))
	})
}
