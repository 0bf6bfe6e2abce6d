package lift

import (
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A statedEdge is a dependency of an op on an earlier one that the file states.
type statedEdge struct{ Op, On int32 }

// findStated finds the rank's dependencies among those that the file states. Where it states one
// of a captured graph, it states all between the nodes of that graph.
func (r *rankOps) findStated(run *trace.Run) {
	if r.Stated = r.Stated[:0]; len(run.Depends) == 0 {
		return
	}
	opAt := again(&r.opAt, len(run.Spans))
	for i := range r.Ops {
		opAt[r.Ops[i].Span] = int32(i) + 1
	}
	graphs := map[int64]bool{} // by the launch's correlation
	for _, d := range run.Depends {
		if op, on := opAt[d.To]-1, opAt[d.From]-1; op >= 0 && on >= 0 {
			r.Stated = append(r.Stated, statedEdge{op, on})
			correlation, _ := joins(run, run.Spans[d.To])
			graphs[correlation] = true
		}
	}
	slices.SortFunc(r.Stated, compareStated)
	for i := range r.Ops {
		if correlation, _ := joins(run, run.Spans[r.Ops[i].Span]); graphs[correlation] {
			r.Facts[i].Stated, r.Ops[i].Stated = correlation, true
		}
	}
}
