package tui

import (
	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// A drag is the left button held down.
type drag struct {
	x, y   int
	window layout.Window // when it began
	top    int
	moved  bool
}

func (m *model) mouse(ev *tcell.EventMouse) {
	x, y := ev.Position()
	switch buttons := ev.Buttons(); {
	case m.help || m.prompt != nil:
	case buttons&tcell.WheelUp != 0:
		m.wheel(x, 0.8, -3)
	case buttons&tcell.WheelDown != 0:
		m.wheel(x, 1/0.8, 3)
	case buttons&tcell.WheelLeft != 0:
		m.pan(-0.1)
	case buttons&tcell.WheelRight != 0:
		m.pan(0.1)
	case buttons&tcell.ButtonPrimary != 0 && m.drag == nil:
		p := m.page()
		m.drag = &drag{x: x, y: y, window: *p.window, top: p.top}
	case buttons&tcell.ButtonPrimary != 0:
		m.dragTo(x, y)
	case m.drag != nil:
		if !m.drag.moved {
			m.click(x, y)
		}
		m.drag = nil
	}
}

// wheel zooms around the pointer, and scrolls over the labels.
func (m *model) wheel(x int, factor float64, lines int) {
	p, r := m.page(), m.regions()
	if x < r.labels {
		m.rows(lines)
		return
	}
	*p.window = p.window.Zoom(factor, m.timeAt(x), p.bounds, shortest)
}

// dragTo moves what was under the pointer to where the pointer is.
func (m *model) dragTo(x, y int) {
	d, p, r := m.drag, m.page(), m.regions()
	if x == d.x && y == d.y && !d.moved {
		return
	}
	d.moved = true
	cell := float64(d.window.Len()) / float64(r.cells())
	*p.window = d.window.Pan(trace.Time(cell*float64(d.x-x)), p.bounds)
	height := max(1, r.rows.h)
	top := max(0, min(d.top+d.y-y, len(p.visible)-height))
	p.move(max(top, min(p.cursor, top+height-1)))
	p.top = top
}

// click selects what is under the pointer, or opens and closes a heading.
func (m *model) click(x, y int) {
	p, r := m.page(), m.regions()
	if y == r.header.y && r.header.h > 0 {
		if tab := m.tabAt(x); tab >= 0 {
			m.show(tab)
		}
		return
	}
	if y == r.overview.y && r.overview.h > 0 && x >= r.labels {
		at := p.bounds.Edge(min(x-r.labels, r.cells()-1), r.cells())
		p.pan(at - (p.window.From + p.window.Len()/2))
		return
	}
	at := p.top + (y-r.rows.y)/m.tall(p, r)
	if y < r.rows.y || y >= r.rows.y+r.rows.h || at >= len(p.visible) {
		return
	}
	p.move(at)
	row := p.row()
	if x < r.labels {
		p.toggle(row)
		return
	}
	when := m.timeAt(x)
	p.sel, p.pointed = selection{row, trace.None}, &when
	if id := p.nearest(row, when); id != trace.None && p.touches(selection{row, id}, x-r.labels, r.cells()) {
		p.sel.span = id
	}
}

// touches reports whether a span is drawn in a cell or the one beside it.
func (p *page) touches(s selection, cell, cells int) bool {
	from, to := p.times(s)
	return p.window.Cell(from, cells) <= cell+1 && p.window.Cell(max(from, to-1), cells) >= cell-1
}

// timeAt is the time in the middle of a column.
func (m *model) timeAt(x int) trace.Time {
	p, r := m.page(), m.regions()
	i := max(0, min(x-r.labels, r.cells()-1))
	a, b := p.window.Edge(i, r.cells()), p.window.Edge(i+1, r.cells())
	return a + (b-a)/2
}
