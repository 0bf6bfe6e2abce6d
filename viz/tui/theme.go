package tui

import (
	"strings"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// A theme is how things look on a kind of terminal.
type theme struct {
	colors int
	ascii  bool
}

func (t theme) color(c layout.Class) tcell.Color {
	if t.colors >= 1<<24 {
		return tcell.NewHexColor(int32(c.Ink().RGB))
	}
	return tcell.PaletteColor(int(c.Ink().Ansi)) // tcell finds the nearest where there are fewer than 256
}

// on is the style of text on a class's colour.
func (t theme) on(c layout.Class) tcell.Style {
	style := tcell.StyleDefault
	if t.colors == 0 || c == layout.Idle {
		return style
	}
	ink := tcell.ColorBlack
	if c.Ink().Dark {
		ink = tcell.ColorWhite
	}
	return style.Background(t.color(c)).Foreground(ink)
}

// Styles of what is not data.
func (t theme) plain() tcell.Style  { return tcell.StyleDefault }
func (t theme) strong() tcell.Style { return tcell.StyleDefault.Bold(true) }
func (t theme) faint() tcell.Style  { return tcell.StyleDefault.Dim(true) }
func (t theme) cursor() tcell.Style { return tcell.StyleDefault.Reverse(true) }

// pick chooses between a Unicode text and its ASCII twin.
func (t theme) pick(unicode, ascii string) string {
	if t.ascii {
		return ascii
	}
	return unicode
}

func (t theme) ellipsis() string { return t.pick("…", "~") }
func (t theme) bar() string      { return t.pick("│", "|") }

// swatch is a piece of a class's colour, or its pattern.
func (t theme) swatch(c layout.Class) (string, tcell.Style) {
	switch {
	case t.ascii:
		return string(c.Ink().Letter), t.on(c)
	case t.colors == 0:
		return string(c.Ink().Shade), t.on(c)
	}
	return " ", t.on(c)
}

func (t theme) mark(k layout.MarkKind) string {
	return t.pick(string(k.Glyph()), string(k.Letter()))
}

// plainASCII turns what the layout writes for people into ASCII.
func (t theme) words(s string) string {
	if !t.ascii {
		return s
	}
	return strings.NewReplacer("µ", "u", "·", "-", "×", "x", "–", "-", "→", ">").Replace(s)
}
