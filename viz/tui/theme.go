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

// patterns reports whether classes are told apart by glyphs: where there are no
// colours, or too few for a class each.
func (t theme) patterns() bool { return t.ascii || t.colors < 256 }

func (t theme) color(c layout.Class) tcell.Color {
	switch {
	case t.colors >= 1<<24:
		return tcell.NewHexColor(int32(c.Ink().RGB))
	case t.colors >= 256:
		return tcell.PaletteColor(int(c.Ink().Ansi))
	}
	return tcell.PaletteColor(int(c.Ink().Basic))
}

// ink is the style of a class's glyph.
func (t theme) ink(c layout.Class) tcell.Style {
	if t.colors < 8 || c == layout.Idle {
		return tcell.StyleDefault
	}
	return tcell.StyleDefault.Foreground(t.color(c))
}

// on is the style of text on a class's colour, or on its pattern.
func (t theme) on(c layout.Class) tcell.Style {
	style := tcell.StyleDefault
	if t.patterns() || c == layout.Idle {
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
		return string(c.Ink().Letter), t.ink(c)
	case t.patterns():
		return string(c.Ink().Shade), t.ink(c)
	}
	return " ", t.on(c)
}

func (t theme) mark(k layout.MarkKind) string {
	return t.pick(string(k.Glyph()), string(letter(k)))
}

// plainASCII turns what the layout writes for people into ASCII.
func (t theme) words(s string) string {
	if !t.ascii {
		return s
	}
	return strings.NewReplacer("µ", "u", "·", "-", "×", "x", "–", "-", "→", ">").Replace(s)
}

// letter is the mark in ASCII.
func letter(k layout.MarkKind) byte { return "^'*!"[k] }
