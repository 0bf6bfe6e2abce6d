package tui

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// A page is one timeline with its state of browsing.
type page struct {
	t       *layout.Timeline
	window  *layout.Window // pages over the same axis share it
	bounds  layout.Window
	closed  []bool // by row: those below are hidden
	filled  bool   // fill was done
	visible []int  // rows that are not hidden, in the order that they are shown
	cursor  int    // index in visible of the row that keys act on
	top     int    // index in visible of the first row drawn
	sel     selection
	hit     int         // the one gone to last
	sought  string      // the last search, "": none
	hits    []selection // of the last search
	pointed *trace.Time // where a click met no span
	filter  filter
	hidden  []bool            // by row, by the filter; nil: none is
	labels  int               // columns that the longest label takes
	classes []layout.Class    // that occur, for the legend
	marks   []layout.MarkKind // likewise
}

// A selection is a span on a row. Its span is None where nothing is selected.
type selection struct {
	row  int
	span trace.SpanID
}

// manyLanes is how many lanes a heading may have without starting out closed.
const manyLanes = 48

func newPage(t *layout.Timeline, window *layout.Window, bounds layout.Window) *page {
	p := &page{t: t, window: window, bounds: bounds, closed: make([]bool, len(t.Rows)), sel: selection{0, trace.None}}
	for i, row := range t.Rows {
		p.labels = max(p.labels, 2*row.Depth+utf8.RuneCountInString(clean(row.Label))+4)
		if t.Leaf(i) {
			continue
		}
		detail := row.Detail || t.Rows[i+1].Detail && row.Kind == layout.LaneRow
		crowd := row.Kind == layout.GroupHeading && row.Lanes > manyLanes
		compared := (row.Kind == layout.RankHeading || row.Kind == layout.GroupHeading) && len(t.Views) > 1
		p.closed[i] = detail || crowd || compared
	}
	p.classes, p.marks = t.Present()
	p.refresh()
	return p
}

// fill opens headings of a comparison as long as all rows fit the height: the same ones of
// every run together, runs before ranks before groups of lanes.
func (p *page) fill(height int) {
	p.filled = true
	if len(p.t.Views) == 1 {
		return
	}
	at := p.row()
	defer func() {
		p.move(max(p.cursor, slices.Index(p.visible, at)))
	}()
	for row := range p.t.Rows {
		p.closed[row] = p.closed[row] || p.t.Rows[row].Kind == layout.RunHeading && !p.t.Leaf(row)
	}
	p.refresh()
	for _, kind := range []layout.RowKind{layout.RunHeading, layout.RankHeading, layout.GroupHeading} {
		rows := map[string][]int{} // by path below the run's heading
		var paths []string
		for row, run := 0, 0; row < len(p.t.Rows); row++ {
			r := &p.t.Rows[row]
			if r.Parent == trace.None {
				run = row
			}
			if r.Kind == kind && p.closed[row] && !r.Detail {
				path := strings.TrimPrefix(pathOf(p.t, row), p.t.Rows[run].Label)
				if rows[path] == nil {
					paths = append(paths, path)
				}
				rows[path] = append(rows[path], row)
			}
		}
		for _, path := range paths {
			if p.set(rows[path], false); len(p.visible) > height {
				p.set(rows[path], true)
				return
			}
		}
	}
}

// set opens or closes headings.
func (p *page) set(headings []int, closed bool) {
	for _, row := range headings {
		p.closed[row] = closed
	}
	p.refresh()
}

// refresh recomputes the visible rows and keeps the cursor on its row, or on
// the heading that now hides it.
func (p *page) refresh() {
	row := p.row()
	p.visible = p.visible[:0]
	for i := 0; i < len(p.t.Rows); {
		hidden := p.hidden != nil && p.hidden[i]
		if !hidden {
			p.visible = append(p.visible, i)
		}
		if i++; hidden || p.closed[i-1] {
			i = p.t.Rows[i-1].After
		}
	}
	for row != trace.None && !slices.Contains(p.visible, row) && len(p.t.Rows) > 0 {
		row = p.t.Rows[row].Parent
	}
	p.move(slices.Index(p.visible, row))
}

// row is the row under the cursor; 0 where there are none.
func (p *page) row() int {
	if p.cursor < len(p.visible) {
		return p.visible[p.cursor]
	}
	return 0
}

// move puts the cursor on a visible row, given by its index.
func (p *page) move(at int) { p.cursor = max(0, min(at, len(p.visible)-1)) }

// scroll makes the cursor one of the rows drawn when that many fit.
func (p *page) scroll(height int) {
	height = max(1, height)
	p.top = max(min(p.top, p.cursor, len(p.visible)-height), p.cursor-height+1, 0)
}

// toggle opens or closes a heading.
func (p *page) toggle(row int) {
	if row < len(p.closed) && !p.t.Leaf(row) {
		p.closed[row] = !p.closed[row]
		p.refresh()
	}
}

// reveal opens whatever hides a row and puts the cursor on it.
func (p *page) reveal(row int) {
	for i := p.t.Rows[row].Parent; i != trace.None; i = p.t.Rows[i].Parent {
		p.closed[i] = false
	}
	if p.hidden != nil && p.hidden[row] {
		p.setFilter(filter{})
	}
	p.refresh()
	p.move(slices.Index(p.visible, row))
}

// times is where the selected span lies on the axis.
func (p *page) times(s selection) (from, to trace.Time) {
	span, shift := p.t.Span(s.row, s.span), p.t.Offset(s.row)
	return span.Start + shift, span.End + shift
}

// choose selects a span and brings it into view.
func (p *page) choose(s selection) {
	p.sel = s
	p.reveal(s.row)
	from, to := p.times(s)
	*p.window = show(*p.window, from, max(to, from+1), p.bounds)
}

// pan moves the window by a time.
func (p *page) pan(by trace.Time) { *p.window = p.window.Pan(by, p.bounds) }

// nearest is the span of a row that is closest to a time, or None.
func (p *page) nearest(row int, at trace.Time) trace.SpanID {
	if id := p.t.At(row, at); id != trace.None {
		return id
	}
	spans := p.t.Rows[row].Spans
	_, i := p.t.Touching(row, at, at+1)
	distance := func(i int) trace.Time {
		from, to := p.times(selection{row, spans[i]})
		return max(from-at, at-to)
	}
	switch {
	case len(spans) == 0:
		return trace.None
	case i == 0:
		return spans[0]
	case i == len(spans) || distance(i-1) <= distance(i):
		return spans[i-1]
	}
	return spans[i]
}

// step selects the next or previous span of the selection's row.
func (p *page) step(by int) {
	row := p.row()
	if p.sel.span == trace.None || p.sel.row != row {
		p.enter(row)
		return
	}
	spans := p.t.Rows[row].Spans
	at, _ := slices.BinarySearch(spans, p.sel.span)
	if at += by; at >= 0 && at < len(spans) {
		p.choose(selection{row, spans[at]})
	}
}

// enter selects the span of a row nearest to the middle of the window.
func (p *page) enter(row int) {
	if row >= len(p.t.Rows) {
		return
	}
	if id := p.nearest(row, p.window.From+p.window.Len()/2); id != trace.None {
		p.choose(selection{row, id})
	}
}

// show moves the window as little as it takes to show [from, to), or its start
// if it is too long.
func show(w layout.Window, from, to trace.Time, bounds layout.Window) layout.Window {
	if to > w.To {
		w = w.Pan(to-w.To, bounds)
	}
	if from < w.From {
		w = w.Pan(from-w.From, bounds)
	}
	return w
}
