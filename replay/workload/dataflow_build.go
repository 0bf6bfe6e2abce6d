package workload

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// flow finds what the data of every op of a rank depend on (rule V7).
//
// Ops with accesses are followed in the order in which the host issued them: for every
// byte range, the last writer and the readers since are kept. For other ops, ranges that
// frameworks mark, streams and events tell.
//
//	host order |A writes x  B reads x  C writes x|   B read after write of A, C write after read of B
func (l *lifter) flow(src *source) {
	run := l.Run
	unknown := make([]bool, len(src.ops))
	var order []int32
	if len(run.Uses) > 0 || len(l.ranges) > 0 {
		order = src.hostOrder()
	}
	m := memory{storages: map[int32]*storage{}}
	last := map[int32]int32{} // by number in Run.Uses: the last kernel of the operator
	for i := range src.ops {
		unknown[i] = run.UsesOf(run.Spans[src.ops[i].Span]) == 0
	}
	for _, id := range order {
		uses := run.UsesOf(run.Spans[src.ops[id].Span])
		if unknown[id] {
			continue
		}
		before, several := last[uses]
		last[uses] = id
		if !several || !src.precedes(before, id) {
			before = -1
		}
		m.found = m.found[:0]
		m.access(id, run.AccessesOf(uses), run.Uses[uses-1].Pass, before)
		if before >= 0 {
			m.found = append(m.found, Edge{Op: before, Kind: ReadAfterWrite, Evidence: Exact})
		}
		src.flow[id] = src.settled(id, m.found)
	}
	src.annotate(l.ranges, unknown, order)
	src.guess(unknown)
}

// hostOrder lists ops in the order in which the host issued them; those of one launch,
// and those whose launch is unknown, by their start.
func (src *source) hostOrder() []int32 {
	order := make([]int32, len(src.ops))
	for i := range order {
		order[i] = int32(i)
	}
	at := func(i int32) trace.Time {
		if op := &src.ops[i]; op.Issued != trace.Infinity {
			return op.Issued
		}
		return src.ops[i].Start
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(at(a), at(b)) })
	return order
}

// precedes reports whether times allow that an op waited for an earlier one: it ended
// before, or both are of one stream, on which kernels may overlap if they are launched
// so.
func (src *source) precedes(earlier, id int32) bool {
	return earlier < id && (src.facts[earlier].queue == src.facts[id].queue || src.ops[earlier].End <= src.ops[id].Start)
}

// settled joins the edges to each earlier op, leaves out what times contradict, and
// returns the rest by earlier op.
func (src *source) settled(id int32, found []Edge) []Edge {
	found = slices.DeleteFunc(found, func(e Edge) bool { return !src.precedes(e.Op, id) })
	slices.SortFunc(found, func(a, b Edge) int { return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Kind, b.Kind)) })
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
	return src.room.keep(kept)
}

// guess adds what streams and events say about ops without accesses (rule V8). A collective reads
// what the op before its issue wrote, and an op that waited for a collective reads what
// that received; other orders may mean nothing.
func (src *source) guess(unknown []bool) {
	var found []Edge
	for i := range src.ops {
		id := int32(i)
		found = append(found[:0], src.flow[i]...)
		for _, d := range src.ops[i].After {
			if !unknown[id] && !unknown[d.Op] {
				continue
			}
			kind := StreamOnly
			if src.facts[i].reads && (src.ops[i].Kind == trace.Collective) != (src.ops[d.Op].Kind == trace.Collective) {
				kind = ReadAfterWrite
			}
			if at, ok := edgeTo(found, d.Op); !ok {
				found = slices.Insert(found, at, Edge{Op: d.Op, Kind: kind, Evidence: Guessed})
			}
		}
		if len(found) > len(src.flow[i]) {
			src.flow[i] = src.room.keep(found)
		}
	}
}

// edgeTo is the index of the edge to an earlier op, or where it would be.
func edgeTo(edges []Edge, op int32) (at int, ok bool) {
	return slices.BinarySearchFunc(edges, op, func(e Edge, op int32) int { return cmp.Compare(e.Op, op) })
}

// addEdge adds an edge unless there is one to the same op.
func (src *source) addEdge(id int32, e Edge) {
	if at, ok := edgeTo(src.flow[id], e.Op); !ok {
		src.flow[id] = slices.Insert(src.flow[id], at, e)
	}
}
