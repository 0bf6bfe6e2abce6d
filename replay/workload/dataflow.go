package workload

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An EdgeKind is the reason why one operation has to run after another one.
type EdgeKind uint8

// The kinds of edges. Stream order is one schedule of the dataflow, not part of it: an edge
// of kind StreamOnly may be broken by a schedule.
const (
	ReadAfterWrite  EdgeKind = iota + 1 // it reads what the earlier one wrote
	WriteAfterRead                      // it overwrites what the earlier one read
	WriteAfterWrite                     // both write the same bytes
	StreamOnly                          // nothing is known but the order on a stream, or an event
)

func (k EdgeKind) String() string {
	return [...]string{"", "read after write", "write after read", "write after write", "stream order only"}[k]
}

// An Evidence is the source of a data dependency. Higher values are better.
type Evidence uint8

// The evidence, worst first.
const (
	Guessed   Evidence = iota // streams, events, sizes and names
	Annotated                 // ranges that a framework marks; arguments of Inductor's kernels, by their order
	Exact                     // tensors in an execution trace; dependencies that the file states
	Given                     // the user's corrections
)

func (e Evidence) String() string { return [...]string{"guessed", "annotated", "exact", "given"}[e] }

// An Edge is a dependency of one operation on an earlier one of its rank. The kernels of
// one operator of the framework share its accesses: each reads what the one before wrote,
// of unknown bytes, and only the first has the operator's other edges.
type Edge struct {
	Op       int32 // the earlier operation
	Kind     EdgeKind
	Evidence Evidence
	Reused   bool  // exists only because an allocator reused memory: an artefact of the captured schedule
	Bytes    int64 // that both access; 0: unknown
}

// Recorded reports whether an edge is of data, and more than a guess.
func (e *Edge) Recorded() bool { return e.Kind == ReadAfterWrite && e.Evidence > Guessed }

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
	if len(edges) == 0 && (w.Ops[op].GraphEdges || w.Run != nil && w.Run.UsesOf(w.Run.Spans[w.Ops[op].Span]) != 0) {
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
	return w.Run != nil && slices.ContainsFunc(w.Run.Ledger.Entries,
		func(e trace.Entry) bool { return strings.Contains(e.Reason, trace.WholeGraph) })
}

// A FlowSummary is the dataflow graph in numbers, of captured ranks only.
type FlowSummary struct {
	Operations map[string]int `json:"operations"` // by the best evidence for what they depend on
	Edges      map[string]int `json:"edges"`      // by kind, without those of Reused
	Reused     int            `json:"reused"`     // edges that exist only because memory was reused
	ChainNs    trace.Time     `json:"chain_ns"`   // longest chain of a step (median over steps): durations of ops that wait for each other's data; 0: unknown, as most dependencies are guessed
	ChainOps   int            `json:"chain_operations"`
	StepNs     trace.Time     `json:"step_ns"` // captured duration of that step on that rank; without steps, of the run
}

// Flows describes the dataflow graph.
func Flows(w *Workload) FlowSummary {
	s := FlowSummary{Operations: map[string]int{}, Edges: map[string]int{}}
	var found, best []chain
	for rank, ids := range w.Ranks {
		if w.Copies[rank] {
			continue
		}
		for _, id := range ids {
			s.Operations[w.EvidenceOf(id).String()]++
			for _, e := range w.Edges(id) {
				if e.Reused {
					s.Reused++
				} else {
					s.Edges[e.Kind.String()]++
				}
			}
		}
		best = slices.Grow(best[:0], len(ids))[:len(ids)]
		found = append(found, chains(w, ids, best)...)
	}
	if len(found) > 0 {
		slices.SortStableFunc(found, func(a, b chain) int { return cmp.Compare(a.time, b.time) })
		c := found[len(found)/2]
		s.ChainNs, s.ChainOps, s.StepNs = c.time, c.ops, c.end-c.start
		if ops := s.Operations[Guessed.String()]; ops > 0 && ops >= s.Operations[Exact.String()] {
			s.ChainNs, s.ChainOps = 0, 0
		}
	}
	return s
}

// A chain is the longest one of a step: ops each of which waits for the data of the
// one before.
type chain struct {
	time       trace.Time
	ops        int
	start, end trace.Time // of the step's ops
}

// chains finds the longest chain of every step of a rank, or of all ops if no step is
// marked. A collective takes the time of its transfer. best is room: by op, the longest that
// ends with it.
func chains(w *Workload, ids []int32, best []chain) []chain {
	if len(ids) == 0 {
		return nil
	}
	base := ids[0]
	clear(best)
	steps := make([]chain, len(w.Steps)+1)
	for _, id := range ids {
		op := &w.Ops[id]
		var before chain
		for _, e := range w.Waits(id) {
			if c := best[e.Op-base]; w.Ops[e.Op].Step == op.Step && c.time > before.time {
				before = c
			}
		}
		took := op.Dur()
		if op.Collective >= 0 {
			took = min(took, w.Collectives[op.Collective].Transfer())
		}
		c := chain{time: before.time + took, ops: before.ops + 1}
		best[id-base] = c
		s := &steps[op.Step+1]
		if s.ops == 0 {
			s.start = op.Start
		}
		s.end = max(s.end, op.End)
		if c.time >= s.time {
			s.time, s.ops = c.time, c.ops
		}
	}
	if len(w.Steps) > 0 {
		steps = steps[1:]
	}
	return slices.DeleteFunc(steps, func(c chain) bool { return c.ops == 0 })
}
