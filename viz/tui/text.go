package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
)

// maxText bounds how much of a name is looked at; no line is that long.
const maxText = 2048

// clean makes text from a trace fit to show: what would move the cursor,
// change colours or turn the line around becomes a dot, one for each; at most
// two marks combine with a letter; and only the beginning of a very long text
// is kept.
func clean(s string) string {
	if n := maxText; len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	marks := 0
	for _, r := range s {
		switch {
		case unicode.Is(unicode.M, r):
			if marks++; marks > 2 || b.Len() == 0 {
				continue
			}
		case r == utf8.RuneError || !unicode.IsGraphic(r):
			r, marks = '·', 0
		case unicode.IsSpace(r):
			r, marks = ' ', 0
		default:
			marks = 0
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// A canvas is a Surface with what drawing on it needs.
type canvas struct {
	Surface
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
