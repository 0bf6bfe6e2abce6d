package edit

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Batch returns a copy of a workload whose iterations have up/down times the rows on a machine, in n parts
// that do not depend on each other (rule V24): two batches of half the tokens, as two-batch overlap splits them, or a batch of
// another size. Every operation becomes n, and every collective. What an operation waited for
// when captured, its parts wait for in their own part.
//
//	captured   |A      |R      |B      |          R: collective
//	2 parts    |A0 |A1 |R0 |R1 |B0 |B1 |          a strategy orders them anew
func Batch(w *workload.Workload, m machine.Machine, up, down, n int) *workload.Workload {
	laws := &cost.Laws{Machine: &m, Workload: w}
	e := &workload.Edit{Of: w, Steps: slices.Clone(w.Steps)}
	var order []int32
	for rank := range w.Ranks {
		order = append(order, w.IssueOrder(rank)...)
	}
	at := make([]int32, len(order)) // by operation: its place in order
	for i, id := range order {
		at[id] = int32(i)
	}
	row := func(id int32, k int) int32 { return at[id]*int32(n) + int32(k) }
	for i := range w.Collectives {
		for k := range n {
			part := laws.Cut(slices.Repeat([]*workload.Collective{&w.Collectives[i]}, up), down*n, 0)
			part.Seq, part.Members, part.Arrive, part.Depart, part.Shortest = part.Seq*int64(n)+int64(k), nil, 0, 0, 0
			if w.Ops[w.Collectives[i].Members[0]].Graph { // a host launches each part, as late as the whole
				part.Late /= trace.Time(n)
			}
			e.Collectives = append(e.Collectives, part)
		}
	}
	for _, id := range order {
		for k := range n {
			e.Add(partOf(w, id, k, n, row))
		}
		if op := &w.Ops[id]; op.Collective < 0 {
			for k := range n {
				p := laws.Kernel(slices.Repeat([]*workload.Op{op}, up), cost.Part{K: k, Of: down * n}).Op
				part := &e.Rows[row(op.ID, k)]
				part.Kernel, part.Read, part.Write, part.Alone = p.Kernel, p.Read, p.Write, p.Alone
			}
		}
	}
	for _, p := range w.Pairs {
		for k := range n {
			e.AddPair(p, func(id int32) int32 { return row(id, k) })
		}
	}
	for i := range e.Steps {
		e.Steps[i].Batch.Tokens = e.Steps[i].Batch.Tokens * int64(up) / int64(down)
	}
	b := e.Done()
	if n == 1 { // the captured schedule, of other durations
		b.Origins, b.Scale = nil, make([]float64, len(b.Ops))
		for i := range b.Ops {
			b.Scale[i] = float64(b.Ops[i].Alone) / float64(max(1, w.Ops[i].DurAlone()))
		}
		for i := range b.Collectives {
			b.Collectives[i].Scale = float64(b.Collectives[i].Alone) / float64(max(1, w.Collectives[i].TransferAlone()))
		}
	}
	if b.Rescaled == nil { // its clock is that of the capture
		b.Rescaled = &workload.Rescaling{From: m.Name, To: m.Name, Same: true, Of: w, On: m}
	}
	return b
}

// fewRows is the most rows of a GEMM of a step that is taken for decoding where the trace does not
// tell its phase.
const fewRows = 256

// WithTokens gives the steps of unknown batch the tokens that the user knows, and those of unknown
// phase the one that so many rows suggest.
func WithTokens(w *workload.Workload, tokens int64) *workload.Workload {
	known := w.Copy()
	for i := range known.Steps {
		b := &known.Steps[i].Batch
		if b.Tokens == 0 || tokens > 0 {
			b.Tokens = tokens
		}
		switch {
		case b.Phase != workload.NoPhase || b.Tokens == 0 || w.Trains():
		case b.Tokens > fewRows:
			b.Phase = workload.Prefill
		default:
			b.Phase = workload.Decode
		}
	}
	return known
}

// partOf is the k-th of n parts of an op, at its place in the captured one's time. It waits for the parts with its number.
// A host launches each part, but all those of a captured graph at once.
func partOf(w *workload.Workload, id int32, k, n int, row func(int32, int) int32) workload.Row {
	op := &w.Ops[id]
	part := workload.Row{Op: *op, Origin: id, Issue: id}
	part.Batch, part.After = uint8(k), nil
	part.Start, part.End = op.Start+op.Dur()*trace.Time(k)/trace.Time(n), op.Start+op.Dur()*trace.Time(k+1)/trace.Time(n)
	if k > 0 {
		if part.Gap = 0; op.Graph {
			part.Issue = -1
		}
	}
	if op.Collective >= 0 {
		part.Collective, part.Alone = op.Collective*int32(n)+int32(k), 0
	}
	for _, d := range op.After {
		d.Op = row(d.Op, k)
		part.After = append(part.After, d)
		part.Flow = append(part.Flow, workload.Edge{Op: d.Op, Kind: workload.ReadAfterWrite})
	}
	for _, e := range w.Edges(id) {
		e.Op = row(e.Op, k)
		part.Flow = append(part.Flow, e)
	}
	slices.SortStableFunc(part.Flow, func(a, b workload.Edge) int { return cmp.Compare(a.Op, b.Op) })
	part.Flow = slices.CompactFunc(part.Flow, func(a, b workload.Edge) bool { return a.Op == b.Op })
	return part
}
