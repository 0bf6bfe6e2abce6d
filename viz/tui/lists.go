package tui

import (
	"fmt"
	"unicode/utf8"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// drawHits lists the hits of the search around the one that was gone to last.
func (m *model) drawHits(c canvas, p *page, r regions) {
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
		x = c.text(x+1, y, r.width, pathOf(p.t, h.row)+"  ", c.faint())
		c.text(x, y, r.width, trace.Short(p.t.Run(h.row).NameOf(p.t.Span(h.row, h.span))), style)
	}
}

// drawChoices lists what can be replayed, as far as it has what was typed.
func (m *model) drawChoices(c canvas, r regions, list []Time) {
	lines, wide := r.details.h-1, 0
	for _, t := range list {
		wide = max(wide, utf8.RuneCountInString(clean(t.Name)))
	}
	wide = min(wide, r.width-24)
	c.text(0, r.details.y, r.width, "replay and show beside the captured step (type to narrow, Up and Down, Enter); or a time, or an address", c.strong())
	first := max(0, min(m.prompt.at-lines/2, len(list)-lines))
	for i := range min(lines, len(list)-first) {
		style, t := c.plain(), &list[first+i]
		if first+i == m.prompt.at {
			style = c.cursor()
		}
		y := r.details.y + 1 + i
		c.text(0, y, wide, t.Name, style)
		c.text(wide+1, y, r.width, fmt.Sprintf("%10s %9s", c.words(t.Time), t.Change), style)
	}
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
