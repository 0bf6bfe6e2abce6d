package tui

import (
	"bytes"
	"strings"
	"testing"

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
		{"figure_256", []layout.View{{Run: fused(16)}}, 60, Options{Colors: 256, Figure: figure}},
		{"figure_rgb", []layout.View{{Run: fused(16)}, {Run: fused(8)}}, 60, Options{Colors: 1 << 24, Figure: figure}},
		{"figure_of_some", append(both(), layout.View{Run: fused(8)}), 60, Options{Figure: figure}},
		{"narrow", both(), 8, Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Print(&out, c.views, c.width, c.o); err != nil {
				t.Fatal(err)
			}
			golden(t, out.String())
		})
	}
}

func TestPrintWithoutWorkgroups(t *testing.T) {
	var out bytes.Buffer
	err := Print(&out, both(), 80, Options{Figure: &layout.Figure{}})
	const want = "captured: rank 0 has no workgroups (view a *_wg_trace.csv, or a replay that records them)"
	if err == nil || err.Error() != want || out.Len() > 0 {
		t.Errorf("error %v, want %s; wrote %q", err, want, out.String())
	}
}

// TestPrintHostile: nothing of a trace's names reaches the terminal as a command.
func TestPrintHostile(t *testing.T) {
	for _, colors := range []int{0, 256} {
		var out bytes.Buffer
		if err := Print(&out, []layout.View{{Run: hostile()}}, 200, Options{Colors: colors}); err != nil {
			t.Fatal(err)
		}
		rest := out.String()
		for i := strings.IndexByte(rest, '\x1b'); i >= 0; i = strings.IndexByte(rest, '\x1b') {
			end := strings.IndexByte(rest[i:], 'm')
			if colors == 0 || end < 0 || strings.Trim(rest[i+2:i+end], "0123456789;") != "" {
				t.Fatalf("escape %.20q", rest[i:])
			}
			rest = rest[:i] + rest[i+end+1:]
		}
		for _, r := range rest {
			if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
				t.Fatalf("%U is printed", r)
			}
		}
	}
}
