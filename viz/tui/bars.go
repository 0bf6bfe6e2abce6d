package tui

import (
	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// eighths cut a cell from the left, heights from the bottom; index is in eighths.
var (
	eighths = [9]string{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"}
	heights = [9]string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
)

// few is up to how many spans in a cell are shown where they are; of more, the
// cell shows how much time they take and the class of most of it.
const few = 4

// bars draws the cells of a row into [x, x+w) and returns them.
func (m *Model) bars(c canvas, x, y, w int, p *page, row int) []layout.Cell {
	win := *p.window
	m.cells = p.t.Merge(m.cells[:0], row, win.From, win.To, w)
	if c.patterns() {
		for i, cell := range m.cells {
			c.Put(x+i, y, c.letter(cell), c.ink(cell.Class))
		}
		return m.cells
	}
	if at := &p.t.Rows[row]; (at.Kind >= layout.LaneRow || at.Strip && at.Kind == layout.RankHeading) && hasEdges(m.cells) {
		m.fine = p.t.Merge(m.fine[:0], row, win.From, win.To, 8*w)
	} else {
		m.fine = m.fine[:0]
	}
	for i, cell := range m.cells {
		var s string
		var style tcell.Style
		switch {
		case cell.Hits == 0:
			continue
		case len(m.fine) > 0 && cell.Hits <= few:
			s, style = c.edge(m.fine[8*i : 8*i+8])
		default:
			s, style = c.density(cell)
		}
		c.Put(x+i, y, s, style)
	}
	return m.cells
}

// hasEdges reports whether some cell is worth a closer look.
func hasEdges(cells []layout.Cell) bool {
	for _, cell := range cells {
		if cell.Hits > 1 && cell.Hits <= few || cell.Hits == 1 && cell.Busy < 1 {
			return true
		}
	}
	return false
}

// letter tells classes apart by glyph. In ASCII a small letter is a cell
// that is idle for more than half of its time.
func (t theme) letter(cell layout.Cell) string {
	ink := cell.Class.Ink()
	if !t.ascii {
		return string(ink.Shade)
	}
	if l := ink.Letter; cell.Busy < 0.5 && l >= 'A' && l <= 'Z' {
		return string(l - 'A' + 'a')
	}
	return string(ink.Letter)
}

// density shows how much of the cell is busy as height.
func (t theme) density(cell layout.Cell) (string, tcell.Style) {
	h := min(8, 1+int(cell.Busy*7.99))
	if h == 8 {
		return " ", t.on(cell.Class)
	}
	return heights[h], tcell.StyleDefault.Foreground(t.color(cell.Class))
}

// edge shows eight steps of time with at most two classes: the left part of
// the cell in one, the rest in the other, cut where the fewest steps are wrong.
func (t theme) edge(steps []layout.Cell) (string, tcell.Style) {
	var class [8]layout.Class
	blank := true
	for i, s := range steps {
		if s.Busy >= 0.5 {
			class[i], blank = s.Class, false
		}
	}
	if blank {
		return t.sliver(steps)
	}
	cut, left, right, wrong := 0, layout.Idle, layout.Idle, 9
	for k := 8; k > 0; k-- {
		a, misses := mostOf(class[:k])
		b, more := mostOf(class[k:])
		if misses+more < wrong {
			cut, left, right, wrong = k, a, b, misses+more
		}
	}
	style := tcell.StyleDefault
	switch {
	case cut == 8 || left == right:
		return " ", t.on(left)
	case right == layout.Idle:
		return eighths[cut], style.Foreground(t.color(left))
	case left == layout.Idle: // the glyph is the part without colour
		return eighths[cut], style.Foreground(t.color(right)).Reverse(true)
	}
	return eighths[cut], style.Foreground(t.color(left)).Background(t.color(right))
}

// sliver shows spans that take next to no time.
func (t theme) sliver(steps []layout.Cell) (string, tcell.Style) {
	for i, s := range steps {
		if s.Hits == 0 {
			continue
		}
		style := tcell.StyleDefault.Foreground(t.color(s.Class))
		if i >= 4 {
			return "▕", style
		}
		return eighths[1], style
	}
	return " ", tcell.StyleDefault
}

// mostOf is the most frequent class, the first of those equally frequent, and
// how many are of another.
func mostOf(class []layout.Class) (best layout.Class, others int) {
	most := 0
	for i := range class {
		n := 0
		for _, c := range class[i:] {
			if c == class[i] {
				n++
			}
		}
		if n > most {
			best, most = class[i], n
		}
	}
	return best, len(class) - most
}
