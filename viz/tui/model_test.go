package tui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
	"github.com/overlapse/overlapse/viz/layout"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with testdata/<test's name>.golden.
func golden(t *testing.T, got string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(t.Name())+".golden")
	if *update {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Have(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got), -update rewrites it:\n%s", diff)
	}
}

// judged are options that say what the runs show.
var judged = Options{
	Verdict: "predicted fastest: decompose, 20 % less than the captured schedule (likely), because the all-reduce starts after the first tile",
	Times:   []Time{{Time: "480 µs"}, {Time: "384 µs", Change: "-20.0 %"}},
}

// TestScreen draws screens of every size and kind after some keys.
func TestScreen(t *testing.T) {
	for _, c := range []struct {
		name          string
		views         []layout.View
		o             Options
		width, height int
		keys          string
	}{
		{"selected", both(), Options{Colors: 256}, 100, 30, "G k k k k Enter , , m . f"},
		{"ascii", both(), Options{ASCII: true}, 80, 24, "j Enter"},
		{"gap", both(), Options{Colors: 256}, 100, 30, "2 j j w w"},
		{"compare", both(), Options{Colors: 256}, 100, 30, "x j Space"},
		{"figure", []layout.View{{Run: fused(40)}}, Options{Colors: 256}, 100, 30, "v"},
		{"host", both(), Options{}, 80, 24, "j j j j j j Space j Space"},
		{"prompt", both(), Options{}, 80, 24, ": 1 2 . 5 Space m"},
		{"help", both(), Options{}, 150, 24, "?"},
		{"help_narrow", both(), Options{}, 80, 24, "? Space"},
		{"verdict", both(), judged, 100, 30, ""},
		{"compare_low", append(both(), both()...), judged, 80, 15, "x"},
		{"tiny", both(), Options{Colors: 256}, 20, 5, "j Enter"},
		{"empty", []layout.View{{Run: &trace.Run{Name: "nothing"}}}, Options{}, 60, 16, "Enter . / x Enter n v x ]"},
		{"hostile", []layout.View{{Run: hostile()}}, Options{}, 100, 30, "j j"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(c.views, c.o)
			m.Update(tcell.NewEventResize(c.width, c.height))
			press(m, c.keys)
			cells := drawn(m, c.width, c.height)
			got := textOf(cells)
			if c.o.Colors > 0 {
				got += "--- colours\n" + colorsOf(cells)
			}
			golden(t, got)
		})
	}
}

// The help of every command is shown in full from 50 columns on.
func TestHelpIsNotCut(t *testing.T) {
	m := newModel(both(), Options{})
	m.help = true
	for _, width := range []int{helpWidth, 80, 100, 120, 160, 200} {
		if got := screen(m, width, 200); strings.Contains(got, "…") {
			t.Errorf("%d columns:\n%s", width, got)
		}
		for _, c := range commands() {
			if !strings.Contains(screen(m, width, 200), c.help) {
				t.Errorf("%d columns: no %q", width, c.help)
			}
		}
	}
}

// A run whose work begins late is shown from there on; 0 shows all.
func TestOpening(t *testing.T) {
	for late, want := range map[trace.Time]string{
		0: "0 ns to 10.01 µs", 2000: "0 ns to 12 µs", 30_000: "29.8 µs to 40 µs", -5000: "0 ns to 10.2 µs", // the host runs past the last kernel
	} {
		var b trace.Builder
		rank := b.AddRank(trace.Rank{})
		if late < 0 {
			lane := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
			b.Add(trace.Span{Kind: trace.HostCall, Lane: lane, Start: 15_000, End: 16_000, Parent: trace.None, Attr: trace.None, Name: b.Intern("x")})
			late = 0
		}
		for kind, start := range map[trace.LaneKind]trace.Time{trace.HostThread: 0, trace.Annotation: 10, trace.Queue: late} {
			lane := b.Lane(trace.Lane{Kind: kind, Rank: rank, Peer: trace.None})
			b.Add(trace.Span{Kind: trace.Compute, Lane: lane, Start: start, End: start + 10_000, Parent: trace.None, Attr: trace.None, Name: b.Intern("x")})
		}
		m := newModel([]layout.View{{Run: b.Finish(trace.Options{})}}, Options{})
		if got := state(m); !strings.HasSuffix(got, want) {
			t.Errorf("work from %d ns on: %s, want %s", late, got, want)
		}
		m.Update(tcell.NewEventKey(tcell.KeyRune, '0', 0))
		if got := state(m); !strings.Contains(got, " 0 ns to ") {
			t.Errorf("0 shows %s", got)
		}
	}
}

// state is the row, the selection and the window in words.
func state(m *model) string {
	p := m.page()
	sel := "-"
	if p.sel.span != trace.None {
		sel = p.t.Run(p.sel.row).NameOf(p.t.Span(p.sel.row, p.sel.span))
	}
	return fmt.Sprintf("%s | %s | %s to %s", p.t.Rows[p.row()].Label, sel, layout.Exact(p.window.From), layout.Exact(p.window.To))
}

// The wheel zooms at the pointer, and what is dragged moves with it; clicks are in testdata/keys.txt.
func TestMouse(t *testing.T) {
	m := newModel(both(), Options{})
	screen(m, 100, 30)
	r := m.regions()
	at := func(x, y int, b tcell.ButtonMask) { m.Update(tcell.NewEventMouse(x, y, b, 0)) }
	column := func(us trace.Time) int { return r.labels + m.page().window.Cell(us*1000, r.cells()) }
	row := func(i int) int { return r.rows.y + i }
	pointer := column(240)
	under := m.timeAt(pointer)
	at(pointer, row(1), tcell.WheelUp)
	if w := m.page().window; w.Len() != 384_000 || m.timeAt(pointer)-under > 1000 || under-m.timeAt(pointer) > 1000 {
		t.Errorf("the wheel zooms to %v, the pointer is at %d instead of %d", w, m.timeAt(pointer), under)
	}
	before := *m.page().window
	at(pointer, row(1), tcell.ButtonPrimary)
	at(pointer+5, row(1), tcell.ButtonPrimary)
	at(pointer+5, row(1), tcell.ButtonNone)
	if moved := before.From - m.page().window.From; moved != before.Len()*5/trace.Time(r.cells()) {
		t.Errorf("five columns of %d drag by %d of %d", r.cells(), moved, before.Len())
	}
	at(0, row(1), tcell.WheelDown)
	if got := state(m); !strings.HasPrefix(got, "engine 0 | - | ") || *m.page().window == before {
		t.Errorf("the wheel over the labels goes to %s", got)
	}
}

// TestAnyInput: whatever comes, at whatever size, the model draws inside its
// surface, stays in its bounds and does not panic.
func TestAnyInput(t *testing.T) {
	views := [][]layout.View{
		both(), {{Run: fused(40)}}, {{Run: hostile()}, {Run: &trace.Run{}}}, {{Run: &trace.Run{}}}, {{Run: extreme()}},
	}
	var keys []string
	for _, b := range commands() {
		keys = append(keys, b.keys...)
	}
	keys = append(keys, "1", "2", "9", "Backspace", "Ü", "F5")
	rapidtest.Check(t, func(t *rapid.T) {
		o := Options{Colors: rapid.SampledFrom([]int{0, 8, 256, 1 << 24}).Draw(t, "colors"), ASCII: rapid.Bool().Draw(t, "ascii")}
		m := newModel(rapid.SampledFrom(views).Draw(t, "views"), o)
		w, h := 80, 24
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				w, h = rapid.IntRange(0, 130).Draw(t, "width"), rapid.IntRange(0, 40).Draw(t, "height")
				m.Update(tcell.NewEventResize(w, h))
			case 1:
				b := rapid.SampledFrom([]tcell.ButtonMask{0, tcell.ButtonPrimary, tcell.WheelUp, tcell.WheelDown, tcell.WheelLeft}).Draw(t, "button")
				m.Update(tcell.NewEventMouse(rapid.IntRange(-1, 130).Draw(t, "x"), rapid.IntRange(-1, 40).Draw(t, "y"), b, 0))
			default:
				m.Update(keyNamed(rapid.SampledFrom(keys).Draw(t, "key")))
			}
			m.Draw(&strict{t: t, w: w, h: h, ascii: o.ASCII})
			p := m.page()
			if win := *p.window; win.From < p.bounds.From || win.To > p.bounds.To || win.Len() < 1 {
				t.Fatalf("window %v in %v", win, p.bounds)
			}
			if p.cursor < 0 || p.cursor >= max(1, len(p.visible)) || p.top < 0 || p.top > p.cursor && w > 0 && h > 0 {
				t.Fatalf("cursor %d, top %d of %d rows", p.cursor, p.top, len(p.visible))
			}
		}
	})
}
