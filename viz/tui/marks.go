package tui

import (
	"sort"
	"strconv"

	"github.com/overlapse/overlapse/viz/layout"
)

// crowded is how many cells a row must have for each of its marks of a kind; more
// marks would hide what they mark, and a digit counts those of a cell. Of several
// kinds a digit would not say which, and a cell has the mark of its last one.
const crowded = 6

// marksInView are a row's marks in the window.
func (p *page) marksInView(row int) []layout.Mark {
	all, shift := p.t.Rows[row].Marks, p.t.Offset(row)
	first := sort.Search(len(all), func(i int) bool { return all[i].At+shift >= p.window.From })
	last := sort.Search(len(all), func(i int) bool { return all[i].At+shift >= p.window.To })
	return all[first:last]
}

// shownMarks decides which kinds of marks are drawn one by one, on all rows alike: those that
// are not crowded on any row of the screen. Of the others, digits count those of each cell.
func (m *model) shownMarks(p *page, r regions) (shown [layout.NumMarks]bool) {
	if !m.marks {
		return shown
	}
	most := max(1, r.cells()/crowded)
	for k := range shown {
		shown[k] = true
	}
	for i := p.top; i < min(p.top+r.rows.h, len(p.visible)); i++ {
		var n [layout.NumMarks]int
		for _, k := range p.marksInView(p.visible[i]) {
			if n[k.Kind]++; n[k.Kind] > most {
				shown[k.Kind] = false
			}
		}
	}
	return shown
}

// counted reports whether digits count marks: those of one kind alone are crowded.
func counted(shown [layout.NumMarks]bool) bool {
	n := 0
	for _, is := range shown {
		if !is {
			n++
		}
	}
	return n == 1
}

func (m *model) drawMarks(c canvas, p *page, row, x, y int, cells []layout.Cell) {
	if !m.marks {
		return
	}
	w, shift := len(cells), p.t.Offset(row)
	at, n := -1, 0 // the cell that is being counted
	for _, k := range p.marksInView(row) {
		i := p.window.Cell(k.At+shift, w)
		if m.markKinds[k.Kind] {
			c.Put(x+i, y, c.mark(k.Kind), c.over(cells[i]).Bold(true))
			continue
		}
		if i != at {
			at, n = i, 0
		}
		n++
		sign := strconv.Itoa(min(n, 9))
		if !counted(m.markKinds) {
			sign = c.mark(k.Kind)
		}
		c.Put(x+i, y, sign, c.over(cells[i]))
	}
}
