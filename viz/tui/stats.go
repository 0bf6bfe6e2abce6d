package tui

import (
	"fmt"
	"unicode/utf8"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
	"github.com/overlapse/overlapse/viz/layout"
)

// chosenRange is the range of the statistics: from the mark to the end of the selection,
// else what is in view.
func (m *Model) chosenRange(p *page) layout.Window {
	if m.pinned == nil || p.sel.span == trace.None {
		return *p.window
	}
	from, to := p.times(p.sel)
	w := layout.Window{From: min(*m.pinned, from), To: max(*m.pinned, to)}
	w.To = max(w.To, w.From+1)
	return w
}

// mostCounted is how many spans statistics are computed of in every frame.
const mostCounted = 1 << 20

// drawStats lists what the row under the cursor, or the lanes below it, did in the range:
// count, time, share of the range, percentiles of the durations and the achieved rate.
func (m *Model) drawStats(c canvas, p *page, r regions) {
	row := p.row()
	if row >= len(p.t.Rows) {
		return
	}
	w := m.chosenRange(p)
	title := fmt.Sprintf("%s from %s to %s (%s)", clean(p.t.Rows[row].Label), layout.Exact(w.From), layout.Exact(w.To), layout.Short(w.Len()))
	c.text(0, r.details.y, r.width, c.words(title), c.strong())
	if p.countIn(row, w) > mostCounted {
		c.text(0, r.details.y+1, r.width, "too many spans: zoom in, or choose a lane", c.plain())
		return
	}
	numbers := []string{"count", "time", "share", "median", "90 %", "longest", "rate"}
	width := []int{7, 10, 8, 10, 10, 10, 14}
	for total := r.width - 24; len(width) > 2 && sum(width) > total; {
		numbers, width = numbers[:len(numbers)-1], width[:len(width)-1]
	}
	wide := max(8, r.width-sum(width))
	line := func(y int, name string, cells []string, faint bool) {
		style := c.plain()
		if faint {
			style = c.faint()
		}
		c.text(2, y, min(wide, r.width), name, style)
		x := wide
		for i := range width {
			text := c.words(cells[i])
			c.text(x+max(0, width[i]-utf8.RuneCountInString(text)), y, min(x+width[i], r.width), text, style)
			x += width[i]
		}
	}
	line(r.details.y+1, "", numbers, true)
	for i, s := range p.t.Stats(row, w.From, w.To) {
		y := r.details.y + 2 + i
		if i+2 >= r.details.h {
			break
		}
		sign, style := c.swatch(s.Class)
		c.Put(0, y, sign, style)
		line(y, names.Short(s.Name), []string{
			fmt.Sprint(s.Count), layout.Short(s.Time), fmt.Sprintf("%.1f %%", 100*float64(s.Time)/float64(w.Len())),
			layout.Short(s.P50), layout.Short(s.P90), layout.Short(s.Max), s.Rate,
		}, false)
	}
}

// countIn is how many spans of the row and of those below it are in a range.
func (p *page) countIn(row int, w layout.Window) (n int) {
	for i := row; i < p.t.Rows[row].After; i++ {
		lo, hi := p.t.Touching(i, w.From, w.To)
		n += hi - lo
	}
	return n
}

func sum(widths []int) (n int) {
	for _, w := range widths {
		n += w
	}
	return n
}
