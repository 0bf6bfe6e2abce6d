package trace

import (
	"cmp"
	"math/bits"
	"slices"
)

const maxDepth = 100 // of depths

// byStart returns all spans by start, and those of one start in order of addition.
func (b *Builder) byStart() []SpanID {
	if len(b.order) != b.Len() {
		b.order = make([]SpanID, b.Len())
		from := make([]SpanID, b.Len())
		for i := range from {
			from[i] = SpanID(i)
		}
		b.Run.sortByStart(from, b.order)
	}
	return b.order
}

// eachStart calls f with the spans of some kinds that start at the same time, in order of
// addition, for each time. The slice is valid until f returns.
func (b *Builder) eachStart(of func(Kind) bool, f func(same []SpanID)) {
	var same []SpanID
	order := b.byStart()
	for i, id := range order {
		s := b.Span(id)
		if of(s.Kind) {
			same = append(same, id)
		}
		if len(same) > 0 && (i+1 == len(order) || b.Span(order[i+1]).Start != s.Start) {
			f(same)
			same = same[:0]
		}
	}
}

// sort orders the spans and rewrites the parents. Equal spans keep the order
// in which they were added, except that a parent precedes its children.
func (b *Builder) sort() {
	r := &b.Run
	depth := r.depths()
	if r.sorted(depth) {
		return
	}
	order := b.byStart()
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && r.Spans[order[j]].Start == r.Spans[order[i]].Start {
			j++
		}
		if j > i+1 {
			slices.SortFunc(order[i:j], func(x, y SpanID) int { return r.compare(x, y, depth) })
		}
		i = j
	}
	at := make([]SpanID, len(order))
	for to, from := range order {
		at[from] = SpanID(to)
	}
	r.gather(order)
	for i := range r.Spans {
		if p := &r.Spans[i].Parent; *p != None {
			*p = at[*p]
		}
	}
	b.order = nil
	r.Move(at)
}

// gather moves span order[i] to i, a part of each at a time, in a third of the memory of a copy.
// Following the cycles of the order needs none and takes five times as long.
func (r *Run) gather(order []SpanID) {
	spans := r.Spans
	type part struct{ low, high, id int32 }
	parts := make([]part, len(order))
	for to, from := range order {
		s := &spans[from]
		parts[to] = part{int32(s.Start), int32(s.Start >> 32), int32(s.Name)}
	}
	for i, p := range parts {
		spans[i].Start, spans[i].Name = Time(p.high)<<32|Time(uint32(p.low)), NameID(p.id)
	}
	for to, from := range order {
		s := &spans[from]
		parts[to] = part{int32(s.End), int32(s.End >> 32), int32(s.Lane)}
	}
	for i, p := range parts {
		spans[i].End, spans[i].Lane = Time(p.high)<<32|Time(uint32(p.low)), LaneID(p.id)
	}
	for to, from := range order {
		s := &spans[from]
		parts[to] = part{int32(s.Parent), s.Attr, int32(s.Kind)}
	}
	for i, p := range parts {
		spans[i].Parent, spans[i].Attr, spans[i].Kind = SpanID(p.low), p.high, Kind(p.id)
	}
}

// sortByStart sorts spans by start, stably, into another slice: into buckets of equal length of
// time, a few spans to each, which are sorted in turn. It takes a fourth of the memory of a radix
// sort, which needs the starts, and as long.
func (r *Run) sortByStart(from, to []SpanID) {
	const few = 32
	spans := r.Spans
	if len(from) > few {
		first, last := spans[from[0]].Start, spans[from[0]].Start
		for _, id := range from {
			first, last = min(first, spans[id].Start), max(last, spans[id].Start)
		}
		shift := max(0, bits.Len64(uint64(last-first))-bits.Len(uint(len(from)/4)))
		ends := make([]int32, uint64(last-first)>>shift+1) // by bucket: first its number of spans
		for _, id := range from {
			ends[uint64(spans[id].Start-first)>>shift]++
		}
		sum := int32(0)
		for i, n := range ends {
			ends[i] = sum
			sum += n
		}
		for _, id := range from {
			bucket := uint64(spans[id].Start-first) >> shift
			to[ends[bucket]] = id
			ends[bucket]++
		}
		begin := int32(0)
		for _, end := range ends {
			if end-begin > few && shift > 0 {
				copy(from[begin:end], to[begin:end])
				r.sortByStart(from[begin:end], to[begin:end])
			}
			begin = end
		}
	} else {
		copy(to, from)
	}
	last := spans[to[0]].Start
	for i, id := range to { // within the buckets
		start := spans[id].Start
		if start >= last {
			last = start
			continue
		}
		for ; i > 0 && spans[to[i-1]].Start > start; i-- {
			to[i] = to[i-1]
		}
		to[i] = id
	}
}

// compare is the order of spans: by start, then outer before inner, then
// longest first, then by lane.
func (r *Run) compare(a, b SpanID, depth []int8) int {
	x, y := &r.Spans[a], &r.Spans[b]
	if x.Start != y.Start {
		return cmp.Compare(x.Start, y.Start)
	}
	if depth[a] != depth[b] {
		return cmp.Compare(depth[a], depth[b])
	}
	if x.End != y.End {
		return cmp.Compare(y.End, x.End)
	}
	if depth[a] == maxDepth { // depth is saturated, so one may be the parent of the other; the parent was added first
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(a, b))
}

func (r *Run) sorted(depth []int8) bool {
	for i := 1; i < len(r.Spans); i++ {
		if r.compare(SpanID(i-1), SpanID(i), depth) > 0 {
			return false
		}
	}
	return true
}

// depths counts every span's ancestors.
func (r *Run) depths() []int8 {
	depth := make([]int8, len(r.Spans))
	for i := range r.Spans {
		for p := r.Spans[i].Parent; p != None && depth[i] < maxDepth; p = r.Spans[p].Parent {
			if int(p) < i { // counted already
				depth[i] = min(depth[i]+depth[p]+1, maxDepth)
				break
			}
			depth[i]++
		}
	}
	return depth
}
