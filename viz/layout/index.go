package layout

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// stride is the number of spans between two stored running sums: a power of two
// that makes the sums cost about as much memory as the ids.
const stride = 64

// An index answers how much time of each class a row has before a time.
type index struct {
	ends             []trace.SpanID // the row's spans by drawn end; the row's own slice where the orders agree
	started, stopped []sums         // over the first 1·stride, 2·stride, ... spans of each order
	reach            []trace.Time   // the latest drawn end of those same spans, by start
}

// sums counts spans and adds up times, by class. Times wrap around where a run
// has very many spans; differences of sums are right all the same.
type sums struct {
	n  [numClasses]int32
	at [numClasses]trace.Time
}

// drawnEnd is where a span ends in a picture: one of no length takes a
// nanosecond when it is counted, and none when time is added up.
func drawnEnd(s *trace.Span) trace.Time { return max(s.End, s.Start+1) }

func newIndex(r *trace.Run, classes []Class, spans []trace.SpanID) index {
	byEnd := func(a, b trace.SpanID) int {
		return cmp.Or(cmp.Compare(drawnEnd(&r.Spans[a]), drawnEnd(&r.Spans[b])), cmp.Compare(a, b))
	}
	kept := len(spans) / stride
	ix := index{ends: spans, started: make([]sums, 0, kept), stopped: make([]sums, 0, kept), reach: make([]trace.Time, 0, kept)}
	if !slices.IsSortedFunc(spans, byEnd) {
		ix.ends = slices.Clone(spans)
		slices.SortFunc(ix.ends, byEnd)
	}
	var begun, over sums
	reach := -trace.Infinity
	for i := range spans {
		reach = max(reach, drawnEnd(&r.Spans[spans[i]]))
		begun.add(r, classes, spans[i], r.Spans[spans[i]].Start)
		over.add(r, classes, ix.ends[i], r.Spans[ix.ends[i]].End)
		if (i+1)%stride == 0 {
			ix.started = append(ix.started, begun)
			ix.stopped = append(ix.stopped, over)
			ix.reach = append(ix.reach, reach)
		}
	}
	return ix
}

// add counts a span that starts, or ends, at the time. A phase takes its time
// away from the workgroup that it is a part of.
func (s *sums) add(r *trace.Run, classes []Class, id trace.SpanID, at trace.Time) {
	c := classes[id]
	s.n[c]++
	s.at[c] += at
	if p := within(r, id); p != trace.None {
		c := classes[p]
		s.n[c]--
		s.at[c] -= at
	}
}

// within is the span of the same row that a span is drawn on top of, or None.
func within(r *trace.Run, id trace.SpanID) trace.SpanID {
	s := &r.Spans[id]
	if !s.Kind.InKernel() || s.Parent == trace.None {
		return trace.None
	}
	p := &r.Spans[s.Parent]
	if !p.Kind.InKernel() || p.Lane != s.Lane || s.Start < p.Start || s.End > p.End {
		return trace.None
	}
	return s.Parent
}

// A cursor moves along one row from left to right.
type cursor struct {
	run           *trace.Run
	classes       []Class
	starts, stops tallier
	edge
}

// An edge is a place on a row.
type edge struct {
	at     trace.Time
	begun  int                    // spans that start before it
	over   int                    // spans that are drawn to end at or before it
	spent  [numClasses]trace.Time // F: the time of each class before it
	summed bool                   // spent is known
}

func (t *Timeline) cursor(row int) cursor {
	r := &t.Rows[row]
	run, classes := t.spansOf(r)
	c := cursor{run: run, classes: classes}
	c.starts = tallier{order: r.Spans, kept: r.index.started}
	c.stops = tallier{order: r.index.ends, kept: r.index.stopped, ends: true}
	c.at = -trace.Infinity
	return c
}

// seek moves to a time not before the last one.
func (c *cursor) seek(at trace.Time) {
	if at == c.at {
		return
	}
	c.at, c.summed = at, false
	spans, starts, ends := c.run.Spans, c.starts.order, c.stops.order
	c.begun = gallop(c.begun, len(starts), func(i int) bool { return spans[starts[i]].Start >= at })
	c.over = gallop(c.over, len(ends), func(i int) bool { return drawnEnd(&spans[ends[i]]) > at })
}

// sum fills in what the edge lacks.
func (c *cursor) sum(e *edge) {
	if e.summed {
		return
	}
	begun, over := c.starts.first(c, e.begun), c.stops.first(c, e.over)
	for k := range e.spent {
		e.spent[k] = trace.Time(begun.n[k]-over.n[k])*e.at - (begun.at[k] - over.at[k])
	}
	e.summed = true
}

// A tallier adds up the first spans of an order, from the last answer or from
// a kept sum, whichever is nearer.
type tallier struct {
	order []trace.SpanID
	kept  []sums
	ends  bool // ordered by end; else by start
	n     int
	sums  sums // over order[:n]
}

func (t *tallier) first(c *cursor, n int) *sums {
	if base := n / stride * stride; n < t.n || t.n < base {
		t.n, t.sums = base, sums{}
		if base > 0 {
			t.sums = t.kept[base/stride-1]
		}
	}
	for ; t.n < n; t.n++ {
		id := t.order[t.n]
		at := c.run.Spans[id].Start
		if t.ends {
			at = c.run.Spans[id].End
		}
		t.sums.add(c.run, c.classes, id, at)
	}
	return &t.sums
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
