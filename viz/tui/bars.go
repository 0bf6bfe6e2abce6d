package tui

import (
	"runtime"
	"slices"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/trace/guard"
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

// A bar is the cells of a row, and eight steps of time for those that need them.
type bar struct{ cells, fine []layout.Cell }

// merge computes the bars of rows side by side: of a run of ten million spans, reading them
// takes most of a frame.
func (m *model) merge(p *page, rows []int, w int, patterns bool) {
	m.bars = slices.Grow(m.bars[:0], len(rows))[:len(rows)]
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, row := range rows {
		group.Go(guard.Func(func() error {
			m.bars[i].merge(p, row, w, patterns)
			return nil
		}))
	}
	if err := group.Wait(); err != nil {
		panic(err) // on the goroutine that restores the terminal
	}
}

func (b *bar) merge(p *page, row, w int, patterns bool) {
	win, at := *p.window, &p.t.Rows[row]
	b.cells, b.fine = p.t.Merge(b.cells[:0], row, win.From, win.To, w, p.filter.classes), b.fine[:0]
	if !patterns && (at.Kind >= layout.LaneRow || at.Strip && at.Kind == layout.RankHeading) {
		b.fine = p.t.Refine(b.fine, row, win.From, win.To, b.cells, 8, p.filter.classes, hasEdges)
	}
}

// drawBar draws the cells of a row from x on.
func (c canvas) drawBar(b *bar, x, y int) {
	for i, cell := range b.cells {
		var s string
		var style tcell.Style
		switch {
		case c.patterns():
			s, style = c.letter(cell), c.ink(cell.Class)
		case cell.Hits == 0:
			continue
		case len(b.fine) > 0 && hasEdges(cell):
			s, style = c.edge(b.fine[8*i : 8*i+8])
		default:
			s, style = c.density(cell)
		}
		c.Put(x+i, y, s, style)
	}
}

// hasEdges reports whether a cell is worth a closer look.
func hasEdges(cell layout.Cell) bool {
	return cell.Hits > 1 && cell.Hits <= few || cell.Hits == 1 && cell.Busy < 1
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
