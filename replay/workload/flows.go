package workload

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

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
