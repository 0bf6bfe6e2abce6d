package workload

import (
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// Waits returns the edges of an op that every schedule has to keep: those of data,
// without those that exist only because memory was reused or that a stream's order
// alone suggests.
func (w *Workload) Waits(op int32) []Edge {
	var list []Edge
	for _, e := range w.Edges(op) {
		if e.Kind != StreamOnly && !e.Reused {
			list = append(list, e)
		}
	}
	return list
}

// Edges are what an op depends on, by earlier op; none where that is not known.
func (w *Workload) Edges(op int32) []Edge {
	if int(op) < len(w.Flow) {
		return w.Flow[op]
	}
	return nil
}

// EvidenceOf is the best evidence for what an op depends on. An op without edges whose
// accesses are recorded, or whose graph's dependencies are stated, is Exact.
func (w *Workload) EvidenceOf(op int32) Evidence {
	edges := w.Edges(op)
	if len(edges) == 0 && (w.Ops[op].Stated || w.Run != nil && w.Run.UsesOf(w.Run.Spans[w.Ops[op].Span]) != 0) {
		return Exact
	}
	best := Guessed
	for _, e := range edges {
		best = max(best, e.Evidence)
	}
	return best
}

// Opaque reports whether the trace has graphs of which it shows only the whole: communication
// may be hidden in them.
func (w *Workload) Opaque() bool {
	return w.Run != nil && slices.ContainsFunc(w.Run.Ledger.Entries, func(e trace.Entry) bool { return strings.Contains(e.Reason, trace.WholeGraph) })
}
