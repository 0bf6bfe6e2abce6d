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

// maxSegments bounds the byte ranges of a storage that are told apart. A storage that is
// accessed in more pieces counts as one range whose accesses are ordered one after
// another.
const maxSegments = 4096

// A memory is the storages of one rank while its operations are followed in order.
type memory struct {
	storages map[int32]*storage
	found    []workload.Edge // of the present operation
}

// A storage is one address. Its segments are disjoint and in order.
type storage struct {
	life     lifeKey
	lives    int32 // number of the present life
	segments []segment
	coarse   bool // only one segment, of all bytes
}

type lifeKey struct{ pass, life int32 }

// A segment is bytes with the same last writer and the same readers since.
type segment struct {
	from, to int64
	life     int32 // in which it was last written, or read before any write
	writer   int32 // -1: none
	certain  bool  // it is recorded that the writer writes
	readers  []int32
}

// access follows one operation. If it has to run after another kernel of its operator, it
// takes that one's place, and no dependency is found; else instead is -1.
func (m *memory) access(op int32, list []trace.Access, pass, instead int32) {
	for _, write := range []bool{false, true} {
		for i := range list {
			a := &list[i]
			if write && a.Write || !write && a.Read {
				m.touch(op, a, pass, write, instead)
			}
		}
	}
}

func (m *memory) touch(op int32, a *trace.Access, pass int32, write bool, instead int32) {
	emit := instead < 0
	st := m.storages[a.Storage]
	if st == nil {
		st = &storage{}
		m.storages[a.Storage] = st
	}
	if key := (lifeKey{pass, a.Life}); a.Life > 0 && key != st.life {
		st.life = key
		st.lives++
	}
	from, to := a.From, a.To
	if st.coarse {
		from, to = 0, 1<<62
	}
	for _, s := range st.within(from, to) {
		bytes := min(s.to, a.To) - max(s.from, a.From)
		stale := s.life != st.lives
		if emit && (!write || st.coarse) && !stale && s.writer >= 0 && s.writer != op {
			m.found = append(m.found, workload.Edge{
				Op: s.writer, Kind: workload.ReadAfterWrite,
				Evidence: known(a, s.certain), Bytes: bytes,
			})
		}
		switch {
		case write:
			if emit {
				m.overwrite(op, a, s, stale, bytes)
			}
			s.writer, s.readers, s.life, s.certain = op, nil, st.lives, !a.Inferred
		default:
			s.read(op, instead)
		}
	}
	if len(st.segments) > maxSegments {
		st.merge()
	}
}

// read adds a reader, in the place of an earlier kernel of its operator.
func (s *segment) read(op, instead int32) {
	last := len(s.readers) - 1
	switch {
	case last < 0 || s.readers[last] != op && s.readers[last] != instead:
		s.readers = append(s.readers, op)
	default:
		s.readers[last] = op
	}
}

// overwrite finds what an operation that writes a segment has to wait for: the readers
// of the last value, or, if there are none, its writer.
func (m *memory) overwrite(op int32, a *trace.Access, s *segment, stale bool, bytes int64) {
	others := false
	for _, r := range s.readers {
		if r != op {
			others = true
			m.found = append(m.found, workload.Edge{
				Op: r, Kind: workload.WriteAfterRead, Evidence: known(a, true),
				Reused: stale, Bytes: bytes,
			})
		}
	}
	if !others && s.writer >= 0 && s.writer != op {
		m.found = append(m.found, workload.Edge{
			Op: s.writer, Kind: workload.WriteAfterWrite, Evidence: known(a, s.certain),
			Reused: stale, Bytes: bytes,
		})
	}
}

// known is the evidence of an edge: of kernels of Inductor the tensors are recorded, but
// what is written only follows from the order of arguments.
func known(a *trace.Access, certain bool) workload.Evidence {
	if a.Inferred || !certain {
		return workload.Annotated
	}
	return workload.Exact
}

// within returns the segments of a range, after splitting those at its ends and filling
// gaps.
func (st *storage) within(from, to int64) []*segment {
	if to <= from {
		return nil
	}
	st.split(from)
	st.split(to)
	i, _ := slices.BinarySearchFunc(st.segments, from, func(s segment, at int64) int { return cmp.Compare(s.from, at) })
	j := i
	for at := from; at < to; j++ {
		if j == len(st.segments) || st.segments[j].from > at {
			end := to
			if j < len(st.segments) {
				end = min(end, st.segments[j].from)
			}
			st.segments = slices.Insert(st.segments, j, segment{from: at, to: end, life: st.lives, writer: -1})
		}
		at = st.segments[j].to
	}
	list := make([]*segment, 0, j-i)
	for k := i; k < j; k++ {
		list = append(list, &st.segments[k])
	}
	return list
}

// split cuts the segment that holds a byte and the one before it.
func (st *storage) split(at int64) {
	i, exact := slices.BinarySearchFunc(st.segments, at, func(s segment, at int64) int { return cmp.Compare(s.from, at) })
	if exact || i == 0 || st.segments[i-1].to <= at {
		return
	}
	right := st.segments[i-1]
	right.from, right.readers = at, slices.Clone(right.readers)
	st.segments[i-1].to = at
	st.segments = slices.Insert(st.segments, i, right)
}

// merge makes all segments one: later accesses wait for the last writer and all
// readers and writers since.
func (st *storage) merge() {
	one := segment{from: 0, to: 1 << 62, life: st.lives, writer: -1}
	for _, s := range st.segments {
		one.readers = append(one.readers, s.readers...)
		if s.writer >= 0 {
			one.readers = append(one.readers, s.writer)
			one.writer = max(one.writer, s.writer)
		}
	}
	slices.Sort(one.readers)
	one.readers = slices.Compact(one.readers)
	st.segments, st.coarse = []segment{one}, true
}
