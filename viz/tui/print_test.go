package tui

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/viz/layout"
)

func TestPrint(t *testing.T) {
	figure := &layout.Figure{Cluster: 8, Rows: 16}
	for _, c := range []struct {
		name  string
		views []layout.View
		width int
		o     Options
	}{
		{"lanes", both(), 100, Options{}},
		{"lanes_ascii", both(), 60, Options{ASCII: true}},
		{"figure", []layout.View{{Run: fused(40), Name: "fused, aware"}}, 100, Options{Figure: figure}},
		{"figure_of_some", append(both(), layout.View{Run: fused(8)}), 60, Options{Figure: figure}},
		{"narrow", both(), 8, Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			must.Do(t, Print(&out, c.views, c.width, c.o))
			golden(t, out.String())
		})
	}
}

func TestPrintWithoutWorkgroups(t *testing.T) {
	var out bytes.Buffer
	err := Print(&out, both(), 80, Options{Figure: &layout.Figure{}})
	const want = "captured: rank 0 has no workgroups: overlapse replay TRACE -o out --rank 0, then view out; or view a *_wg_trace.csv"
	if err == nil || err.Error() != want || out.Len() > 0 {
		t.Errorf("error %v, want %s; wrote %q", err, want, out.String())
	}
}

// TestPrintHostile: nothing of a trace's names reaches the terminal as a command.
func TestPrintHostile(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, Print(&out, []layout.View{{Run: hostile()}}, 200, Options{Colors: 256}))
	for _, r := range out.String() {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
			t.Fatalf("%U is printed", r)
		}
	}
}

// Any width is one that can be printed.
func TestPrintWidth(t *testing.T) {
	for width, want := range map[int]int{-1 << 63: 1, -1: 1, 0: 1, 3: 3, 1 << 62: maxColumns} {
		var out bytes.Buffer
		must.Do(t, Print(&out, both(), width, Options{}))
		widest := 0
		for line := range strings.Lines(out.String()) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		if widest > want || widest < want/2 {
			t.Errorf("width %d: the widest line has %d columns, want %d at most", width, widest, want)
		}
	}
}

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
