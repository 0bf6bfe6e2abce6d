package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Dataflow
//
// The stage of the dataflow finds what the data of operations depend on: recorded accesses, ranges that
// frameworks mark, streams and events, and the user's corrections.

// flowOf finds what the data of every op of a rank depend on (rule V7).
//
// Ops with accesses are followed in the order in which the host issued them: for every
// byte range, the last writer and the readers since are kept. For other ops, ranges that
// frameworks mark, streams and events tell.
//
//	host order |A writes x  B reads x  C writes x|   B read after write of A, C write after read of B
//
// row is the rank's in Run.Ranks; found is its result, by op.
func flowOf(run *trace.Run, r *rankOps, row int, ranges annotations, found [][]workload.Edge) {
	var room arena[workload.Edge]
	m := memory{storages: map[int32]*storage{}}
	last := map[int32]int32{} // by number in Run.Uses: the last kernel of the operator
	a := annotator{
		rankOps: r, ranges: ranges.names, marks: ranges.marks[row], within: around(run, r, ranges.names), all: found,
		gathers: map[string]int32{}, copied: map[string][]int32{}, inRange: trace.None, compute: -1, optimizer: -1, sum: -1,
	}
	for _, id := range a.hostOrder() {
		a.pass(run, issued(&r.Ops[id]))
		m.found = m.found[:0]
		if uses := r.Facts[id].Uses; uses != 0 {
			before, several := last[uses]
			last[uses] = id
			if !several || !a.precedes(before, id) {
				before = -1
			}
			m.access(id, run.AccessesOf(uses), run.Uses[uses-1].Pass, before)
			if before >= 0 {
				m.found = append(m.found, workload.Edge{Op: before, Kind: workload.ReadAfterWrite, Evidence: workload.Exact})
			}
		}
		m.found = a.stated(id, m.found)
		a.found = a.settled(id, m.found)
		a.annotate(run, id)
		a.guess(id)
		found[id] = room.Keep(a.found)
		m.found = a.found
	}
}

// hostOrder lists ops in the order in which the host issued them; those of one launch,
// and those whose launch is unknown, by their start. It matters only where accesses or ranges
// are recorded.
func (a *annotator) hostOrder() []int32 {
	ids := make([]int32, len(a.Ops))
	for i := range ids {
		ids[i] = int32(i)
	}
	if !slices.ContainsFunc(a.Facts, func(f fact) bool { return f.Uses != 0 }) && len(a.marks) == 0 &&
		!slices.ContainsFunc(a.within, func(id trace.SpanID) bool { return id != trace.None }) {
		return ids
	}
	slices.SortStableFunc(ids, func(x, y int32) int { return cmp.Compare(issued(&a.Ops[x]), issued(&a.Ops[y])) })
	return ids
}

// issued is when the host issued an op or, if that is unknown, when it started.
func issued(op *workload.Op) trace.Time {
	if op.Issued != trace.Infinity {
		return op.Issued
	}
	return op.Start
}

// precedes reports whether times allow that an op waited for an earlier one: it ended
// before, or both are of one stream, on which kernels may overlap if they are launched
// so.
func (a *annotator) precedes(earlier, id int32) bool {
	return earlier < id && (a.Facts[earlier].Queue == a.Facts[id].Queue || a.Ops[earlier].End <= a.Ops[id].Start)
}

// settled joins the edges to each earlier op, leaves out what times contradict, and
// returns the rest by earlier op.
func (a *annotator) settled(id int32, found []workload.Edge) []workload.Edge {
	found = slices.DeleteFunc(found, func(e workload.Edge) bool { return !a.precedes(e.Op, id) })
	slices.SortFunc(found, func(x, y workload.Edge) int { return cmp.Or(cmp.Compare(x.Op, y.Op), cmp.Compare(x.Kind, y.Kind)) })
	kept := found[:0]
	for _, e := range found {
		n := len(kept) - 1
		if n < 0 || kept[n].Op != e.Op {
			kept = append(kept, e)
			continue
		}
		k := &kept[n]
		k.Evidence, k.Reused = max(k.Evidence, e.Evidence), k.Reused && e.Reused
		if k.Kind == e.Kind {
			k.Bytes += e.Bytes
		}
	}
	return kept
}

// edgeTo is the index of the edge to an earlier op, or where it would be.
func edgeTo(edges []workload.Edge, op int32) (at int, ok bool) {
	return slices.BinarySearchFunc(edges, op, func(e workload.Edge, op int32) int { return cmp.Compare(e.Op, op) })
}

// An arena holds small lists in memory that many share, for speed.
type arena[T any] []T

// Keep copies a list; nil for an empty one.
func (a *arena[T]) Keep(list []T) []T {
	const block = 1024
	n := len(list)
	if n == 0 {
		return nil
	}
	if cap(*a)-len(*a) < n {
		*a = make([]T, 0, max(block, n))
	}
	first := len(*a)
	*a = append(*a, list...)
	return (*a)[first : first+n : first+n]
}
