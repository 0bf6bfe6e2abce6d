package tui

import (
	"strings"
	"testing"
	"unicode"

	"github.com/gdamore/tcell/v2"
	"pgregory.net/rapid"
)

// strict is a surface that allows nothing outside itself, and no text that a
// terminal would obey.
type strict struct {
	t     *rapid.T
	w, h  int
	ascii bool
	one   tcell.CellBuffer
}

func (s *strict) Size() (int, int) { return s.w, s.h }

func (s *strict) Put(x, y int, text string, style tcell.Style) (string, int) {
	if w, _ := s.one.Size(); w == 0 {
		s.one.Resize(2, 1)
	}
	rest, width := s.one.Put(0, 0, text, style)
	if x < 0 || y < 0 || x >= s.w || y >= s.h {
		s.t.Fatalf("%q at (%d, %d) of %d × %d", text, x, y, s.w, s.h)
	}
	put := strings.TrimSuffix(text, rest)
	for _, r := range put {
		if !unicode.IsGraphic(r) || s.ascii && isOurs(r) {
			s.t.Fatalf("%q holds %U", put, r)
		}
	}
	if len([]rune(put)) > 8 {
		s.t.Fatalf("one cell holds %d runes", len([]rune(put)))
	}
	return rest, width
}

// isOurs reports whether a rune is one that the view itself draws with.
func isOurs(r rune) bool {
	return strings.ContainsRune("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉▓▒░▤▥▚▞═│▾▸▲△◆•▼◊µ→×–", r)
}

// Clean text stays as it is, and is short.
func TestClean(t *testing.T) {
	for _, s := range hostileNames() {
		if once := clean(s); clean(once) != once || len(once) > 2*maxText {
			t.Errorf("clean(%.20q) is not clean, or long: %d bytes", s, len(once))
		}
	}
}

// TestText: text stays within its limit, and fills it if it is cut.
func TestText(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
		end   int
	}{
		{"abc", 5, "abc  |", 3},
		{"abcde", 5, "abcde|", 5},
		{"abcdef", 5, "abcd…|", 5},
		{"漢字", 5, "漢字 |", 4},
		{"漢字", 4, "漢字 |", 4},
		{"漢字x", 4, "漢…  |", 4},
		{"漢字", 3, "漢…  |", 3},
		{"漢", 1, "…    |", 1},
		{"abc", 0, "     |", 0},
		{"", 3, "     |", 0},
	} {
		var cells tcell.CellBuffer
		cells.Resize(6, 1)
		cells.Fill(' ', tcell.StyleDefault)
		cells.Put(5, 0, "|", tcell.StyleDefault)
		end := canvas{surface: &cells}.text(0, 0, c.limit, c.text, tcell.StyleDefault)
		got := strings.TrimSuffix(textOf(&cells), "\n")
		if got != c.want || end != c.end {
			t.Errorf("%q in %d: %q to %d, want %q to %d", c.text, c.limit, got, end, c.want, c.end)
		}
	}
}
