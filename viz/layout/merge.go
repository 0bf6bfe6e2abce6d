package layout

import (
	"slices"
	"sort"

	"github.com/overlapse/overlapse/trace"
)

// A Cell is what one cell (a character, a pixel) of a row shows.
type Cell struct {
	Class Class   // the most time; Idle only if no span touches the cell
	Busy  float32 // share of the cell that spans cover, over all lanes of the row; 0 to 1
	Hits  int32   // spans that touch the cell
}

// Merge appends to dst what each of so many equal cells of the window
// [from, to) of the axis shows of the row. A cell narrower than a nanosecond
// shows the nanosecond that it lies in. No span is lost: whatever it shares a
// cell with, the cell's Hits count it. Of some classes (0: all), a cell in which they
// take no time is empty, another has the share and the class of their time only.
func (t *Timeline) Merge(dst []Cell, row int, from, to trace.Time, cells int, of ClassSet) []Cell {
	c, w := t.cursor(row), Window{From: from - t.Offset(row), To: to - t.Offset(row)}
	c.only = of
	return c.merge(dst, w, 0, cells, cells, t.Rows[row].Lanes)
}

// Refine appends to dst by cells for each cell of a row that Merge gave for the window:
// what it gives for by times as many. Those of cells that need none are zero.
func (t *Timeline) Refine(dst []Cell, row int, from, to trace.Time, merged []Cell, by int, of ClassSet, needed func(Cell) bool) []Cell {
	c, w := t.cursor(row), Window{From: from - t.Offset(row), To: to - t.Offset(row)}
	c.only = of
	for i, cell := range merged {
		if needed(cell) {
			dst = c.merge(dst, w, by*i, by*(i+1), by*len(merged), t.Rows[row].Lanes)
			continue
		}
		for range by {
			dst = append(dst, Cell{})
		}
	}
	return dst
}

// merge appends cells first to end-1 of so many.
func (c *cursor) merge(dst []Cell, w Window, first, end, cells, lanes int) []Cell {
	for i := first; i < end; i++ {
		c.seek(w.Edge(i, cells))
		left := c.edge
		c.seek(max(w.Edge(i+1, cells), left.time+1))
		dst = append(dst, c.cell(&left, lanes))
		if c.time > w.Edge(i+1, cells) {
			c.edge = left
		}
	}
	return dst
}

// cell sums up what lies between an edge and the cursor.
func (c *cursor) cell(left *edge, lanes int) Cell {
	hits := c.begun - left.over
	if hits == 0 {
		return Cell{}
	}
	c.sum(left)
	c.sum(&c.edge)
	var best Class
	var most, busy trace.Time
	for k, class := range c.present {
		if !c.only.has(class) {
			continue
		}
		d := c.spent[k] - left.spent[k]
		busy += d
		if d > most {
			best, most = class, d
		}
	}
	if most == 0 && c.only != 0 {
		return Cell{}
	}
	if most == 0 { // spans of no length, which all begin here
		best = c.class(c.starts.order[left.begun])
	}
	share := float32(busy) / (float32(c.time-left.time) * float32(lanes))
	return Cell{Class: best, Busy: min(1, share), Hits: int32(hits)}
}

// A Tally is what a row did in a window.
type Tally struct {
	Time [numClasses]trace.Time // by class; over all lanes of the row
	Hits int                    // spans that touch the window
}

// Tally adds up [from, to) of the axis.
func (t *Timeline) Tally(row int, from, to trace.Time) Tally {
	c := t.cursor(row)
	c.seek(from - t.Offset(row))
	left := c.edge
	c.seek(max(from, to) - t.Offset(row))
	c.sum(&left)
	c.sum(&c.edge)
	tally := Tally{Hits: c.begun - left.over}
	for k, class := range c.present {
		tally.Time[class] = c.spent[k] - left.spent[k]
	}
	return tally
}

// At is the span drawn at a time of the axis, or None: of those that cover it
// the one that started last.
func (t *Timeline) At(row int, at trace.Time) trace.SpanID {
	spans, from := t.Rows[row].Spans, t.sourceOf(&t.Rows[row])
	lo, hi := t.Touching(row, at, at+1)
	for i := hi - 1; i >= lo; i-- {
		if from.drawnEnd(spans[i]) > at-t.Offset(row) {
			return spans[i]
		}
	}
	return trace.None
}

// Touching is the indices [lo, hi) in the row's Spans that hold every span which
// touches [from, to) of the axis. The one at lo does; those after it may end too early.
func (t *Timeline) Touching(row int, from, to trace.Time) (lo, hi int) {
	spans, of, reach := t.Rows[row].Spans, t.sourceOf(&t.Rows[row]), t.Rows[row].index.reach
	from, to = from-t.Offset(row), to-t.Offset(row)
	hi = sort.Search(len(spans), func(i int) bool { return of.start(spans[i]) >= to })
	lo = t.Rows[row].index.started.stride * sort.Search(len(reach), func(i int) bool { return reach[i] > from })
	for lo < hi && of.drawnEnd(spans[lo]) <= from {
		lo++
	}
	return min(lo, hi), hi
}

// RowOf is the lane row on which a span of a view is drawn, or None.
func (t *Timeline) RowOf(view int, id trace.SpanID) int {
	for i, row := range t.Rows {
		if row.View != view || row.Kind < LaneRow {
			continue
		}
		if _, found := slices.BinarySearch(row.Spans, id); found {
			return i
		}
	}
	return trace.None
}
