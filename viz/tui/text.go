package tui

import (
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace/guard"
)

// maxText bounds how much of a name is looked at; no line is that long.
const maxText = 2048

// clean is the beginning of a text from a trace, safe to show.
func clean(s string) string {
	if n := maxText; len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return guard.Line(s)
}

// A canvas is a Surface with what drawing on it needs.
type canvas struct {
	surface
	theme
}

// text writes clean text from x up to limit and returns where it ended. Text
// that does not fit ends in an ellipsis.
func (c canvas) text(x, y, limit int, s string, style tcell.Style) int {
	return c.styled(x, y, limit, s, func(int) tcell.Style { return style })
}

// styled is text with a style for each column.
func (c canvas) styled(x, y, limit int, s string, style func(x int) tcell.Style) int {
	s = clean(s)
	for s != "" && x < limit {
		rest, w := c.Put(x, y, s, style(x))
		if w == 0 {
			break
		}
		if x+w > limit || (x+w == limit && rest != "") {
			c.Put(x, y, c.ellipsis(), style(x))
			c.fill(x+1, y, limit, " ", style(x)) // the other half of a wide character
			return limit
		}
		s, x = rest, x+w
	}
	return x
}

// fill writes one grapheme into every cell of [x, limit).
func (c canvas) fill(x, y, limit int, s string, style tcell.Style) {
	for ; x < limit; x++ {
		c.Put(x, y, s, style)
	}
}
