package tui

import (
	"fmt"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// drawHits lists the hits of the search around the one that was gone to last.
func (m *Model) drawHits(c canvas, p *page, r regions) {
	lines, chosen := r.details.h-1, p.hit
	c.text(0, r.details.y, r.width, fmt.Sprintf("%d hits (n, N; L closes the list)", len(p.hits)), c.strong())
	first := max(0, min(chosen-lines/2, len(p.hits)-lines))
	for i := range min(lines, len(p.hits)-first) {
		h := p.hits[first+i]
		from, to := p.times(h)
		style := c.plain()
		if first+i == chosen {
			style = c.cursor()
		}
		y := r.details.y + 1 + i
		x := c.text(0, y, r.width, fmt.Sprintf("%*d  %-12s %-10s", len(fmt.Sprint(len(p.hits))), first+i+1, c.words(layout.Short(from)), c.words(layout.Short(to-from))), style)
		x = c.text(x+1, y, r.width, p.t.Path(h.row)+"  ", c.faint())
		c.text(x, y, r.width, layout.ShortName(p.t.Run(h.row).NameOf(p.t.Span(h.row, h.span))), style)
	}
}

// difference goes to the workgroup with the next smaller or larger difference, from the
// largest on.
func (m *Model) difference(by int) {
	p := m.page()
	if p.differences == nil {
		p.differences, p.difference = p.t.Differences(), -1
		if by < 0 {
			p.difference = 1
		}
	}
	if len(p.differences) == 0 {
		m.message = "there are no workgroups to compare here (v, then x)"
		return
	}
	p.difference = max(0, min(p.difference+by, len(p.differences)-1))
	d := p.differences[p.difference]
	p.reveal(d.Row)
	at := p.t.Completion(d.Row)
	*p.window = p.window.Show(at-1, at, p.bounds)
	if id := p.nearest(d.Row, at-1); id != trace.None {
		p.sel = selection{d.Row, id}
	}
	than, word := "the median of its kernel", "later"
	if d.Than != trace.None {
		than = "under " + clean(nameOf(p.t.Views[p.t.Rows[d.Than].View]))
	}
	if d.Later < 0 {
		word = "earlier"
	}
	m.message = fmt.Sprintf("%d of %d: %s ends %s %s than %s", p.difference+1, len(p.differences), clean(p.t.Rows[d.Row].Label), layout.Exact(max(d.Later, -d.Later)), word, than)
}

// wrapped is a text in lines of a width, of grapheme clusters.
func (c canvas) wrapped(y, lines, width int, s string) {
	for i := 0; i < lines && s != ""; i++ {
		x := 0
		for s != "" && x < width {
			rest, w := c.Put(x, y+i, s, c.strong())
			if w == 0 {
				return
			}
			if x+w > width && x > 0 {
				c.Put(x, y+i, " ", c.plain())
				break
			}
			s, x = rest, x+w
		}
	}
}
