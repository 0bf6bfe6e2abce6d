package tui

import (
	"sort"

	"github.com/overlapse/overlapse/viz/layout"
)

// crowded is how many cells a row must have for each of its marks of a kind; more
// marks would hide what they mark.
const crowded = 6

// marksInView are a row's marks in the window.
func (p *page) marksInView(row int) []layout.Mark {
	all, shift := p.t.Rows[row].Marks, p.t.Offset(row)
	first := sort.Search(len(all), func(i int) bool { return all[i].At+shift >= p.window.From })
	last := sort.Search(len(all), func(i int) bool { return all[i].At+shift >= p.window.To })
	return all[first:last]
}

// shownMarks decides which kinds of marks are drawn, on all rows alike: those that
// are not crowded on any row of the screen.
func (m *Model) shownMarks(p *page, r regions) (shown [layout.NumMarks]bool) {
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

func (m *Model) drawMarks(c canvas, p *page, row, x, y int, cells []layout.Cell) {
	w, shift := len(cells), p.t.Offset(row)
	for _, k := range p.marksInView(row) {
		if !m.markKinds[k.Kind] {
			continue
		}
		i := p.window.Cell(k.At+shift, w)
		c.Put(x+i, y, c.mark(k.Kind), c.over(cells[i]).Bold(true))
	}
}
