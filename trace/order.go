package trace

import (
	"cmp"
	"slices"
)

// A sortKey is the sort key of a span. Keys are small and contiguous: sorting the
// spans themselves would move more memory.
type sortKey struct {
	start Time
	span  int32
	depth int8 // number of ancestors, at most maxDepth
}

const maxDepth = 100

// byStart returns the keys of all spans, sorted by start only.
func (b *Builder) byStart() []sortKey {
	if len(b.keys) != b.Len() {
		b.keys = make([]sortKey, b.Len())
		for i := range b.keys {
			b.keys[i] = sortKey{start: b.Run.Spans[i].Start, span: int32(i)}
		}
		b.keys = sortByStart(b.keys)
	}
	return b.keys
}

// eachStart calls f with the spans of some kinds that start at the same time, in order of
// addition, for each time. The slice is valid until f returns.
func (b *Builder) eachStart(of func(Kind) bool, f func(same []SpanID)) {
	var same []SpanID
	keys := b.byStart()
	for i, k := range keys {
		if of(b.Run.Spans[k.span].Kind) {
			same = append(same, SpanID(k.span))
		}
		if len(same) > 0 && (i+1 == len(keys) || keys[i+1].start != k.start) {
			f(same)
			same = same[:0]
		}
	}
}

// sort orders the spans and rewrites the parents. Equal spans keep the order
// in which they were added, except that a parent precedes its children.
func (b *Builder) sort() {
	r := &b.Run
	depth := r.Depths()
	if r.sorted(depth) {
		return
	}
	keys := b.byStart()
	for i := range keys {
		keys[i].depth = depth[keys[i].span]
	}
	for i := 0; i < len(keys); {
		j := i + 1
		for j < len(keys) && keys[j].start == keys[i].start {
			j++
		}
		if j > i+1 {
			slices.SortFunc(keys[i:j], r.compare)
		}
		i = j
	}
	at := make([]SpanID, len(keys))
	sorted := make([]Span, len(keys))
	for to, k := range keys {
		at[k.span] = SpanID(to)
		sorted[to] = r.Spans[k.span]
	}
	for i := range sorted {
		if p := sorted[i].Parent; p != None {
			sorted[i].Parent = at[p]
		}
	}
	r.Move(at)
	r.Spans, b.keys = sorted, nil
}

// sortByStart sorts by start only, stably: a radix sort from the lowest digit.
// slices.SortStableFunc takes three times as long (BenchmarkByStartSlices).
func sortByStart(keys []sortKey) []sortKey {
	const bits = 11
	first, last := keys[0].start, keys[0].start
	for _, k := range keys {
		first, last = min(first, k.start), max(last, k.start)
	}
	other := make([]sortKey, len(keys))
	for shift := 0; shift < 64 && uint64(last-first)>>shift > 0; shift += bits {
		var at [1 << bits]int32 // by digit: index of its next key
		for _, k := range keys {
			at[digit(k.start-first, shift, bits)]++
		}
		sum := int32(0)
		for d, n := range at {
			at[d] = sum
			sum += n
		}
		for _, k := range keys {
			d := digit(k.start-first, shift, bits)
			other[at[d]] = k
			at[d]++
		}
		keys, other = other, keys
	}
	return keys
}

func digit(t Time, shift, bits int) uint64 { return uint64(t) >> shift & (1<<bits - 1) }

// compare is the order of spans: by start, then outer before inner, then
// longest first, then by lane.
func (r *Run) compare(a, b sortKey) int {
	if a.start != b.start {
		return cmp.Compare(a.start, b.start)
	}
	if a.depth != b.depth {
		return cmp.Compare(a.depth, b.depth)
	}
	x, y := &r.Spans[a.span], &r.Spans[b.span]
	if x.End != y.End {
		return cmp.Compare(y.End, x.End)
	}
	if a.depth == maxDepth { // depth is saturated, so one may be the parent of the other; the parent was added first
		return cmp.Compare(a.span, b.span)
	}
	return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(a.span, b.span))
}

func (r *Run) sorted(depth []int8) bool {
	for i := 1; i < len(r.Spans); i++ {
		a := sortKey{r.Spans[i-1].Start, int32(i - 1), depth[i-1]}
		if r.compare(a, sortKey{r.Spans[i].Start, int32(i), depth[i]}) > 0 {
			return false
		}
	}
	return true
}

// Depths counts every span's ancestors.
func (r *Run) Depths() []int8 {
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
