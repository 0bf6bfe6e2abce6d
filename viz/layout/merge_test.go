package layout

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// TestMergeNaive compares Merge with the sum, cell by cell, over every span of the row.
func TestMergeNaive(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		tl := New(randomViews(t))
		for row := range tl.Rows {
			w := randomWindow(t, tl)
			cells := rapid.IntRange(1, 40).Draw(t, "cells")
			of := ClassSet(rapid.SampledFrom([]int{0, 1 << Local, 1<<Comm | 1<<remote1, 1 << Wait}).Draw(t, "classes"))
			got := tl.Merge(nil, row, w.From, w.To, cells, of)
			for i, g := range got {
				a, b := w.Edge(i, cells), w.Edge(i+1, cells)
				want := naiveCell(tl, row, a, max(b, a+1), of)
				if g.Class != want.Class || g.Hits != want.Hits || math.Abs(float64(g.Busy-want.Busy)) > 1e-5 {
					t.Fatalf("row %d %q cell %d [%d, %d): %+v, want %+v", row, tl.Rows[row].Label, i, a, b, g, want)
				}
			}
		}
	})
}

// naiveCell adds up what spans cover of [a, b), one after the other.
func naiveCell(tl *Timeline, row int, a, b trace.Time, of ClassSet) Cell {
	from, shift := tl.sourceOf(&tl.Rows[row]), tl.Offset(row)
	var at [numClasses]trace.Time
	var c Cell
	first := Idle
	for _, id := range tl.Rows[row].Spans {
		s := tl.Span(row, id)
		s.Start, s.End = s.Start+shift, s.End+shift
		if s.Start >= b || max(s.End, s.Start+1) <= a {
			continue
		}
		c.Hits++
		if first == Idle && s.Start >= a {
			first = tl.Class(row, id)
		}
		covered := max(0, min(s.End, b)-max(s.Start, a))
		at[tl.Class(row, id)] += covered
		if p := from.within(id); p != trace.None {
			at[tl.Class(row, p)] -= covered
		}
	}
	var busy trace.Time
	for k, d := range at {
		if !of.has(Class(k)) {
			continue
		}
		busy += d
		if d > 0 && (c.Class == Idle || d > at[c.Class]) {
			c.Class = Class(k)
		}
	}
	if busy == 0 && of != 0 {
		return Cell{}
	}
	if busy == 0 {
		c.Class = first
	}
	c.Busy = min(1, float32(busy)/float32(b-a)/float32(tl.Rows[row].Lanes))
	return c
}

// TestMergeLosesNothing: the cell that holds a span's start shows something.
func TestMergeLosesNothing(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		tl := New(randomViews(t))
		cells := rapid.IntRange(1, 100).Draw(t, "cells")
		for row := range tl.Rows {
			merged := tl.Merge(nil, row, tl.Start, tl.End, cells, 0)
			for _, id := range tl.Rows[row].Spans {
				at := tl.Span(row, id).Start + tl.Offset(row)
				if at == tl.End { // no length, at the very end
					continue
				}
				if c := merged[tl.Bounds().Cell(at, cells)]; c.Hits == 0 || c.Class == Idle {
					t.Fatalf("row %q: span %d at %d is in an empty cell", tl.Rows[row].Label, id, at)
				}
			}
		}
	})
}

// TestAtNaive compares At with a search through every span.
func TestAtNaive(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		tl := New(randomViews(t))
		for row := range tl.Rows {
			at := trace.Time(rapid.Int64Range(int64(tl.Start)-2, int64(tl.End)+2).Draw(t, "at"))
			want := trace.SpanID(trace.None)
			for _, id := range tl.Rows[row].Spans {
				s := tl.Span(row, id)
				if x := at - tl.Offset(row); s.Start <= x && x < max(s.End, s.Start+1) {
					want = id
				}
			}
			if got := tl.At(row, at); got != want {
				t.Fatalf("row %q at %d: span %d, want %d", tl.Rows[row].Label, at, got, want)
			}
		}
	})
}

// TestRowsHoldEverySpan: every span is on exactly one lane or level row.
func TestRowsHoldEverySpan(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		tl := New(randomViews(t))
		seen := make([]map[trace.SpanID]int, len(tl.Views))
		for v := range seen {
			seen[v] = map[trace.SpanID]int{}
		}
		for i, row := range tl.Rows {
			if row.After <= i || row.After > len(tl.Rows) || row.Parent >= i {
				t.Fatalf("row %d: after %d, parent %d", i, row.After, row.Parent)
			}
			if row.Kind >= LaneRow {
				for _, id := range row.Spans {
					seen[row.View][id]++
				}
			}
		}
		for v, view := range tl.Views {
			for id := range view.Run.Spans {
				if n := seen[v][trace.SpanID(id)]; n != 1 {
					t.Fatalf("view %d: span %d is on %d rows", v, id, n)
				}
			}
		}
	})
}

func randomViews(t *rapid.T) []View {
	var views []View
	for range rapid.IntRange(1, 2).Draw(t, "views") {
		views = append(views, View{Run: randomRun(t), Offset: trace.Time(rapid.Int64Range(-50, 50).Draw(t, "offset"))})
	}
	return views
}

func randomWindow(t *rapid.T, tl *Timeline) Window {
	from := rapid.Int64Range(int64(tl.Start)-5, int64(tl.End)).Draw(t, "from")
	to := rapid.Int64Range(from+1, int64(tl.End)+5).Draw(t, "to")
	return Window{trace.Time(from), trace.Time(to)}
}

// randomRun draws everything that rows can hold: queues whose spans overlap,
// host calls that nest or do not, workgroups with and without phases, spans of no length.
func randomRun(t *rapid.T) *trace.Run {
	var b trace.Builder
	times := rapid.Int64Range(0, rapid.SampledFrom([]int64{20, 1000, 1e9}).Draw(t, "scale"))
	kinds := rapid.SampledFrom([]trace.Kind{trace.Compute, trace.Collective, trace.Copy, trace.HostCall, trace.Workgroup, trace.Marker})
	ranks := rapid.Int32Range(1, 2).Draw(t, "ranks")
	for range ranks {
		b.AddRank(trace.Rank{ID: trace.None})
	}
	for range rapid.SampledFrom([]int{0, 5, 300}).Draw(t, "spans") {
		s := trace.Span{Kind: kinds.Draw(t, "kind"), Parent: trace.None, Attr: trace.None}
		s.Lane = b.Lane(trace.Lane{
			Kind: laneFor(s.Kind), Rank: rapid.Int32Range(0, ranks-1).Draw(t, "rank"),
			ID: rapid.Int64Range(0, 1).Draw(t, "lane"), Peer: trace.None,
		})
		s.Start = trace.Time(times.Draw(t, "start"))
		s.End = s.Start + trace.Time(times.Draw(t, "length"))
		id := b.Add(s)
		if s.Kind == trace.Workgroup {
			addPhases(t, &b, id)
		}
	}
	return b.Finish(trace.Options{KeepZero: rapid.Bool().Draw(t, "keep zero")})
}

func laneFor(k trace.Kind) trace.LaneKind {
	switch k {
	case trace.HostCall:
		return trace.HostThread
	case trace.Workgroup:
		return trace.Persistent
	case trace.Marker:
		return trace.Annotation
	}
	return trace.Queue
}

// addPhases cuts a workgroup into phases, with gaps.
func addPhases(t *rapid.T, b *trace.Builder, wg trace.SpanID) {
	at, end, lane := b.Span(wg).Start, b.Span(wg).End, b.Span(wg).Lane
	kinds := rapid.SampledFrom([]trace.Kind{trace.PhaseCompute, trace.PhaseStore, trace.PhasePut, trace.PhaseWait})
	for range rapid.IntRange(0, 3).Draw(t, "phases") {
		from := trace.Time(rapid.Int64Range(int64(at), int64(end)).Draw(t, "from"))
		at = trace.Time(rapid.Int64Range(int64(from), int64(end)).Draw(t, "to"))
		b.Add(trace.Span{Start: from, End: at, Kind: kinds.Draw(t, "phase"), Lane: lane, Parent: wg, Attr: trace.None})
	}
}

// TestTally: the tally of a window is what its cells show, put together.
func TestTally(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		tl := New(randomViews(t))
		for row := range tl.Rows {
			w := randomWindow(t, tl)
			mid := trace.Time(rapid.Int64Range(int64(w.From), int64(w.To)).Draw(t, "mid"))
			whole, left, right := tl.Tally(row, w.From, w.To), tl.Tally(row, w.From, mid), tl.Tally(row, mid, w.To)
			cell := tl.Merge(nil, row, w.From, w.To, 1, 0)[0]
			if whole.Hits != int(cell.Hits) {
				t.Fatalf("%d spans, its cell has %d", whole.Hits, cell.Hits)
			}
			for k, at := range whole.Time {
				if at != left.Time[k]+right.Time[k] || at > whole.Time[cell.Class] {
					t.Fatalf("%s: %d in all, %d and %d in the parts; %s is shown", Class(k), at, left.Time[k], right.Time[k], cell.Class)
				}
			}
		}
	})
}
