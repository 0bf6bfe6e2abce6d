package tui

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// A region is a rectangle of cells as wide as the surface.
type region struct{ y, h int }

// regions are the parts of the surface, from top to bottom. What there is no
// room for has no height; rows are left out last.
type regions struct {
	width                                                          int
	labels                                                         int // columns of labels, before the cells
	sums                                                           int // columns of sums, behind them
	header, verdict, overview, axis, rows, legend, details, status region
}

func (m *model) regions() regions {
	h := m.height
	r := regions{width: m.width, labels: min(m.page().labels, m.width*2/5, 36)}
	if m.together && len(m.times) > 0 {
		r.labels = 36
		for i, t := range m.times {
			r.labels = max(r.labels, utf8.RuneCountInString(nameOf(m.views[i])+t.Time+t.Change)+6)
		}
		r.labels = min(m.width*2/5, r.labels)
	}
	r.sums = m.page().sums(m.width)
	r.header.h = atLeast(h, 5)
	r.verdict.h = min(len(m.verdictLines(2)), max(0, (h-8)/8))
	r.axis.h = atLeast(h, 3)
	r.status.h = atLeast(h, 2)
	r.legend.h = atLeast(h, 9)
	if m.details && h >= 14 {
		r.details.h = min(8, h/3)
	}
	if (m.stats || m.hits || m.full || m.prompt != nil && len(m.matching(m.prompt)) > 0) && h >= 8 {
		r.details.h = max(3, h/2-2)
	}
	p := m.page()
	if m.overview && h >= 16 && *p.window != p.bounds {
		r.overview.h = 1
	}
	y := 0
	r.rows.h = max(0, h-r.header.h-r.verdict.h-r.overview.h-r.axis.h-r.status.h-r.legend.h-r.details.h)
	for _, part := range []*region{&r.header, &r.verdict, &r.overview, &r.axis, &r.rows, &r.legend, &r.details, &r.status} {
		part.y = y
		y += part.h
	}
	return r
}

func atLeast(h, least int) int {
	if h >= least {
		return 1
	}
	return 0
}

// cells is how many columns show time.
func (r regions) cells() int { return max(1, r.width-r.labels-r.sums) }

// Draw draws all of the model on a surface that was cleared.
func (m *model) Draw(s surface) {
	m.width, m.height = s.Size()
	if m.width <= 0 || m.height <= 0 {
		return
	}
	c := canvas{s, m.theme}
	p, r := m.page(), m.regions()
	if !p.filled {
		p.fill(r.rows.h)
	}
	p.scroll(r.rows.h)
	m.markKinds = m.shownMarks(p, r)
	if m.help {
		m.drawHelp(c)
		return
	}
	if r.header.h > 0 {
		m.drawHeader(c, p, r)
	}
	if r.verdict.h > 0 {
		for i, line := range m.verdictLines(r.verdict.h) {
			c.text(0, r.verdict.y+i, r.width, c.words(line), c.strong())
		}
	}
	if r.axis.h > 0 {
		m.drawAxis(c, p, r)
	}
	m.drawRows(c, p, r)
	if r.overview.h > 0 {
		m.drawOverview(c, p, r)
	}
	if r.legend.h > 0 {
		c.legend(p, r.legend.y, r.width, 1, m.markKinds)
	}
	if r.details.h > 0 {
		var list []Time
		if m.prompt != nil {
			list = m.matching(m.prompt)
		}
		switch {
		case len(list) > 0:
			m.drawChoices(c, r, list)
		case m.hits:
			m.drawHits(c, p, r)
		case m.stats:
			m.drawStats(c, p, r)
		default:
			m.drawDetails(c, r)
		}
	}
	if r.status.h > 0 {
		m.drawStatus(c, p, r)
	}
}

// verdictLines is the verdict in at most two lines, or in one; what does not fit the last ends
// in an ellipsis where it is drawn.
func (m *model) verdictLines(most int) []string {
	text := []rune(clean(m.verdict))
	if len(text) <= m.width || most == 1 {
		return []string{string(text)}[:min(1, len(text))]
	}
	at := m.width
	for at > m.width/2 && text[at] != ' ' {
		at--
	}
	return []string{string(text[:at]), strings.TrimLeft(string(text[at:]), " ")}
}

// drawAxis writes each tick's label to the right of the tick.
func (m *model) drawAxis(c canvas, p *page, r regions) {
	axis := layout.Ticks(*p.window, max(2, r.cells()/14))
	c.text(0, r.axis.y, r.labels, c.words(" "+axis.Label), c.faint())
	for _, t := range axis.Ticks {
		x := r.labels + p.window.Cell(t.At, r.cells())
		c.Put(x, r.axis.y, c.bar(), c.faint())
		if x+utf8.RuneCountInString(t.Label) < r.width-r.sums {
			c.text(x+1, r.axis.y, r.width, c.words(t.Label), c.faint())
		}
	}
	if r.sums > 0 {
		c.text(r.width-r.sums+1, r.axis.y, r.width, "comp.   put  wait", c.faint())
	}
	if m.pinned == nil {
		return
	}
	if i := p.window.Cell(*m.pinned, r.cells()); i >= 0 && i < r.cells() {
		c.text(r.labels+i, r.axis.y, r.width, c.pick("▼", "V"), c.strong())
	}
}

// drawRows draws the rows in view.
func (m *model) drawRows(c canvas, p *page, r regions) {
	first, tall := min(p.top, len(p.visible)), m.tall(p, r)
	rows := p.visible[first:min(first+r.rows.h, len(p.visible))]
	m.merge(p, rows, r.cells(), c.patterns())
	for i, row := range rows {
		y := r.rows.y + i*tall
		for below := 1; below < tall; below++ {
			c.drawBar(&m.bars[i], r.labels, y+below)
		}
		m.drawRow(c, p, r, y, row, &m.bars[i], first+i == p.cursor)
		if x := p.window.Cell(p.t.End, r.cells()); p.t.Late > 0 && x > 0 && x < r.cells() {
			c.Put(r.labels+x, y, c.bar(), c.strong()) // the kernel's end, before that of the slowest rank
		}
	}
}

// tall is how many lines a row has: more than one where runs are compared and all rows fit.
func (m *model) tall(p *page, r regions) int {
	if !m.together {
		return 1
	}
	return max(1, min(3, r.rows.h/max(1, len(p.visible))))
}

// drawOverview draws the rank of the cursor over the whole axis, and where the window is.
func (m *model) drawOverview(c canvas, p *page, r regions) {
	if len(p.visible) == 0 {
		return
	}
	row := p.row()
	for p.t.Rows[row].Parent != trace.None && p.t.Rows[row].Kind > layout.RankHeading {
		row = p.t.Rows[row].Parent
	}
	y, w := r.overview.y, r.cells()
	c.text(0, y, r.labels-1, " "+m.theme.words(clean(p.t.Rows[row].Label)), c.faint())
	b := bar{cells: p.t.Merge(nil, row, p.bounds.From, p.bounds.To, w, p.filter.classes)}
	c.drawBar(&b, r.labels, y)
	from, to := p.bounds.Cell(p.window.From, w), p.bounds.Cell(p.window.To-1, w)
	for x := from; x <= min(to, w-1); x++ {
		text := c.pick("─", "-")
		switch {
		case from == to:
			text = c.pick("◊", "#")
		case x == from:
			text = "["
		case x == to:
			text = "]"
		}
		c.Put(r.labels+x, y, text, c.over(b.cells[x]).Bold(true).Reverse(c.colors == 0))
	}
}

func (m *model) drawRow(c canvas, p *page, r regions, y, row int, b *bar, cursor bool) {
	style := c.plain()
	if p.t.Rows[row].Kind < layout.LaneRow {
		style = c.strong()
	}
	if cursor {
		style = c.cursor()
	}
	end := c.text(0, y, r.labels-1, m.label(p, row), style)
	if cursor {
		c.fill(end, y, r.labels-1, " ", style)
	}
	m.drawCells(c, p, row, r.labels, y, b)
	if r.sums > 0 {
		c.text(r.width-r.sums+1, y, r.width, p.summed(row), style)
	}
}

// sums is how many columns of a width the sums of workgroups take; only they have some.
func (p *page) sums(width int) int {
	if p.t.Title == "" || width < 80 {
		return 0
	}
	return 19
}

// summed is what a row's lanes computed, stored or put, and waited, of the time of the figure's kernel.
func (p *page) summed(row int) string {
	tally := p.t.Tally(row, p.t.Start, p.t.End)
	whole := float64(p.t.End-p.t.Start) * float64(max(1, p.t.Rows[row].Lanes))
	var of [3]trace.Time
	for _, class := range layout.Classes() {
		if i := class.Ink().Sum; i > 0 {
			of[i-1] += tally.Time[class]
		}
	}
	text := ""
	for _, d := range of {
		text += fmt.Sprintf(" %3.0f %%", 100*float64(d)/whole)
	}
	return strings.TrimPrefix(text, " ")
}

func (m *model) label(p *page, row int) string {
	at := &p.t.Rows[row]
	sign := "  "
	switch {
	case p.t.Leaf(row):
	case p.closed[row]:
		sign = m.theme.pick("▸ ", "+ ")
	default:
		sign = m.theme.pick("▾ ", "- ")
	}
	text := clean(at.Label)
	if at.Kind == layout.RunHeading && !m.figure && at.View < len(m.times) {
		text += strings.TrimRight(fmt.Sprintf("  %s %s", m.times[at.View].Time, m.times[at.View].Change), " ")
	}
	return strings.Repeat("  ", at.Depth) + sign + m.theme.words(text)
}

// drawCells draws a row's cells and what is written on them.
func (m *model) drawCells(c canvas, p *page, row, x, y int, b *bar) {
	cells := b.cells
	c.drawBar(b, x, y)
	m.drawGaps(c, p, row, x, y, len(cells))
	if p.t.Rows[row].Kind >= layout.LaneRow {
		m.drawCaptions(c, p, row, x, y, cells, m.drawPath(c, p, row, x, y, cells))
	}
	m.drawMarks(c, p, row, x, y, cells)
	if p.sel.row == row && p.sel.span != trace.None {
		m.drawSelection(c, p, x, y, cells)
	}
}

// over is the style of what is written over a cell.
func (t theme) over(cell layout.Cell) tcell.Style {
	if cell.Busy < 0.5 {
		return tcell.StyleDefault
	}
	return t.on(cell.Class)
}

// drawCaptions writes captions on the spans that have room for them, underlined on the
// cells of the critical path.
func (m *model) drawCaptions(c canvas, p *page, row, x, y int, cells []layout.Cell, critical []bool) {
	w := len(cells)
	lo, hi := p.t.Touching(row, p.window.From, p.window.To)
	if hi-lo > w {
		return
	}
	margin := 0
	if c.patterns() {
		margin = 2 // leave some of the pattern
	}
	for _, id := range p.t.Rows[row].Spans[lo:hi] {
		from, to := p.times(selection{row, id})
		a := max(0, p.window.Cell(from, w)) + margin
		b := min(w, p.window.Cell(to, w)) - margin
		if p.window.Edge(a, w) < from {
			a++
		}
		if b-a < 3 {
			continue
		}
		caption := c.words(clean(p.t.Caption(row, id)))
		if b-a < 8 && utf8.RuneCountInString(caption) > b-a {
			continue // too short to be useful
		}
		if margin > 0 && caption != "" && utf8.RuneCountInString(caption)+2 <= b-a {
			caption = " " + caption + " "
		}
		c.styled(x+a, y, x+b, caption, func(at int) tcell.Style {
			return c.over(cells[at-x]).Underline(critical != nil && critical[at-x])
		})
	}
}

// drawSelection puts the selected span between brackets.
func (m *model) drawSelection(c canvas, p *page, x, y int, cells []layout.Cell) {
	from, to := p.times(p.sel)
	w := len(cells)
	a, b := p.window.Cell(from, w), p.window.Cell(max(from, to-1), w)
	if b < 0 || a >= w {
		return
	}
	style := func(i int) tcell.Style { return c.over(cells[i]).Bold(true).Reverse(c.colors == 0) }
	if a == b {
		c.Put(x+a, y, c.pick("◊", "#"), style(a).Reverse(true))
		return
	}
	if a >= 0 {
		c.Put(x+a, y, "[", style(a))
	}
	if b < w {
		c.Put(x+b, y, "]", style(b))
	}
}

// drawGaps writes why a queue was stalled, where it was.
func (m *model) drawGaps(c canvas, p *page, row, x, y, w int) {
	for _, g := range p.t.Stalls(row) {
		a := max(0, p.window.Cell(g.Start, w)+1)
		b := min(w, p.window.Cell(g.End, w))
		if b-a >= utf8.RuneCountInString(g.Cause)+2 {
			c.text(x+a+1, y, x+b, g.Cause, c.faint())
		}
	}
}

// legend names the classes and marks that occur, in so many lines.
func (c canvas) legend(p *page, y, width, lines int, marks [layout.NumMarks]bool) {
	x, last := 0, y+lines-1
	entry := func(sign, name string, style tcell.Style) {
		if end := x + 2 + utf8.RuneCountInString(name); end > width && y < last {
			x, y = 0, y+1
		}
		if x+2 < width {
			c.Put(x, y, sign, style)
			x = 2 + c.text(x+2, y, width, name, c.plain())
		}
	}
	for _, class := range p.classes {
		s, style := c.swatch(class)
		entry(s, class.String(), style)
	}
	for _, k := range p.marks {
		name := k.String()
		switch {
		case marks[k]:
		case counted(marks):
			name += ": digits count them, 9 for more"
		default:
			name += ": one for all of a cell"
		}
		entry(c.mark(k), name, c.strong())
	}
}
