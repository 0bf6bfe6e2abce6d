package tui

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

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
