package layout

import (
	"cmp"
	"slices"
	"sort"

	"github.com/overlapse/overlapse/trace"
)

// The number of spans of a block. Less makes Merge read fewer spans and the sums of blocks take
// more memory: at 16 they take as much as the ids of the spans, at 64 as much for states, which lie
// together and are of several classes.
const (
	spanStride  = 16
	stateStride = 64
)

// An index answers how much time of each class a row has before a time. Its blocks are
// dense arrays, so that a time is found without reading spans, which lie far apart.
type index struct {
	ends    []trace.SpanID // the row's spans by drawn end; the row's own slice where the orders agree
	classes []Class        // that occur on the row, ascending; sums are by their position here
	started blocks         // of the row's spans by start
	stopped blocks         // of ends
	reach   []trace.Time   // the latest drawn end in the blocks up to each, by start
}

// blocks are every so many spans of an order; an incomplete one at the end is left out.
// Times wrap around where a run has very many spans; differences of sums are right all the
// same.
type blocks struct {
	stride int
	last   []trace.Time // by block: the start, or the drawn end, of its last span
	count  []int32      // by block and class: spans up to its end
	time   []trace.Time // likewise: the sum of their starts or ends
}

// sums counts spans and adds up times, by position of the class on the row.
type sums struct {
	n  [numClasses]int32
	at [numClasses]trace.Time
}

func newIndex(from *source, spans []trace.SpanID) index {
	ix := index{ends: spans}
	if inOrder := ix.setClasses(from, spans); !inOrder {
		ix.ends = slices.Clone(spans)
		slices.SortFunc(ix.ends, func(a, b trace.SpanID) int {
			return cmp.Or(cmp.Compare(from.drawnEnd(a), from.drawnEnd(b)), cmp.Compare(a, b))
		})
	}
	stride := spanStride
	if from.strip != nil {
		stride = stateStride
	}
	kept := len(spans) / stride
	ix.started, ix.stopped = newBlocks(stride, kept, len(ix.classes)), newBlocks(stride, kept, len(ix.classes))
	ix.reach = make([]trace.Time, 0, kept)
	at := ix.positions()
	var begun, over sums
	reach := -trace.Infinity
	for i := range kept * stride {
		start := from.start(spans[i])
		reach = max(reach, from.drawnEnd(spans[i]))
		begun.add(from, &at, spans[i], start, 1)
		over.add(from, &at, ix.ends[i], from.end(ix.ends[i]), 1)
		if (i+1)%stride == 0 {
			ix.started.add(&begun, start, len(ix.classes))
			ix.stopped.add(&over, from.drawnEnd(ix.ends[i]), len(ix.classes))
			ix.reach = append(ix.reach, reach)
		}
	}
	return ix
}

// setClasses lists the classes of spans, and of the workgroups that their time is taken from,
// and reports whether spans are in order of their drawn ends, too: the spans lie far apart in
// memory, so they are looked at once for both.
func (ix *index) setClasses(from *source, spans []trace.SpanID) (inOrder bool) {
	var has [numClasses]bool
	inOrder = true
	last, before := -trace.Infinity, trace.SpanID(trace.None)
	for _, id := range spans {
		end := from.drawnEnd(id)
		inOrder = inOrder && (last < end || last == end && before < id)
		last, before = end, id
		has[from.class(id)] = true
		if p := from.within(id); p != trace.None {
			has[from.class(p)] = true
		}
	}
	for c := range numClasses {
		if has[c] {
			ix.classes = append(ix.classes, c)
		}
	}
	return inOrder
}

// positions are the positions of classes in sums.
func (ix *index) positions() (at [numClasses]uint8) {
	for i, c := range ix.classes {
		at[c] = uint8(i)
	}
	return at
}

func newBlocks(stride, n, classes int) blocks {
	return blocks{stride, make([]trace.Time, 0, n), make([]int32, 0, n*classes), make([]trace.Time, 0, n*classes)}
}

func (b *blocks) add(s *sums, last trace.Time, classes int) {
	b.last = append(b.last, last)
	b.count = append(b.count, s.n[:classes]...)
	b.time = append(b.time, s.at[:classes]...)
}

// upTo are the sums of the first n blocks.
func (b *blocks) upTo(n, classes int) (s sums) {
	if n > 0 {
		copy(s.n[:], b.count[(n-1)*classes:n*classes])
		copy(s.at[:], b.time[(n-1)*classes:n*classes])
	}
	return s
}

// add counts a span n times that starts, or ends, at the time. A phase takes its time
// away from the workgroup that it is a part of.
func (s *sums) add(from *source, at *[numClasses]uint8, id trace.SpanID, time trace.Time, n int32) {
	c := at[from.class(id)]
	s.n[c] += n
	s.at[c] += time * trace.Time(n)
	if p := from.within(id); p != trace.None {
		c := at[from.class(p)]
		s.n[c] -= n
		s.at[c] -= time * trace.Time(n)
	}
}

// A cursor moves along one row from left to right.
type cursor struct {
	source
	only          ClassSet
	present       []Class           // on the row
	at            [numClasses]uint8 // position of a class in sums
	starts, stops tallier
	edge
}

// An edge is a place on a row.
type edge struct {
	time   trace.Time
	begun  int                    // spans that start before it
	over   int                    // spans that are drawn to end at or before it
	spent  [numClasses]trace.Time // F: the time of each class before it, by position
	summed bool                   // spent is known
}

func (t *Timeline) cursor(row int) cursor {
	r := &t.Rows[row]
	c := cursor{source: t.sourceOf(r), present: r.index.classes, at: r.index.positions()}
	c.starts = tallier{order: r.Spans, blocks: &r.index.started}
	c.stops = tallier{order: r.index.ends, blocks: &r.index.stopped, ends: true}
	c.time = -trace.Infinity
	return c
}

// seek moves to a time not before the last one.
func (c *cursor) seek(at trace.Time) {
	if at == c.time {
		return
	}
	c.time, c.summed = at, false
	starts, ends := c.starts.order, c.stops.order
	lo, hi := c.starts.block(c.begun, at)
	c.begun = lo + sort.Search(hi-lo, func(i int) bool { return c.start(starts[lo+i]) >= at })
	lo, hi = c.stops.block(c.over, at+1)
	c.over = lo + sort.Search(hi-lo, func(i int) bool { return c.drawnEnd(ends[lo+i]) > at })
}

// sum fills in what the edge lacks.
func (c *cursor) sum(e *edge) {
	if e.summed {
		return
	}
	begun, over := c.starts.first(c, e.begun), c.stops.first(c, e.over)
	for k := range c.present {
		e.spent[k] = trace.Time(begun.n[k]-over.n[k])*e.time - (begun.at[k] - over.at[k])
	}
	e.summed = true
}

// A tallier adds up the first spans of an order, from the last answer or from
// a block, whichever is nearer.
type tallier struct {
	order  []trace.SpanID
	blocks *blocks
	ends   bool // ordered by end; else by start
	n      int
	sums   sums // over order[:n]
}

// block is where in the order, from position from on, the first span whose time is at
// least so late is: in [lo, hi), or at hi.
func (t *tallier) block(from int, at trace.Time) (lo, hi int) {
	last, stride := t.blocks.last, t.blocks.stride
	b := gallop(min(from/stride, len(last)), len(last), func(i int) bool { return last[i] >= at })
	return max(from, b*stride), min((b+1)*stride, len(t.order))
}

func (t *tallier) first(c *cursor, n int) *sums {
	stride := t.blocks.stride
	base := n / stride
	if n%stride > stride/2 && base < len(t.blocks.last) {
		base++
	}
	if near := max(n-base*stride, base*stride-n); n < t.n || n-t.n > near {
		t.n, t.sums = base*stride, t.blocks.upTo(base, len(c.present))
	}
	for ; t.n < n; t.n++ {
		t.count(c, t.order[t.n], 1)
	}
	for t.n > n {
		t.n--
		t.count(c, t.order[t.n], -1)
	}
	return &t.sums
}

// count adds a span, or takes it away.
func (t *tallier) count(c *cursor, id trace.SpanID, n int32) {
	at := c.start(id)
	if t.ends {
		at = c.end(id)
	}
	t.sums.add(&c.source, &c.at, id, at, n)
}

// gallop is the first i in [lo, n) for which ok holds, or n. It looks near lo first.
func gallop(lo, n int, ok func(int) bool) int {
	step := 1
	for lo+step <= n && !ok(lo+step-1) {
		lo += step
		step *= 2
	}
	hi := min(lo+step-1, n)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if ok(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
