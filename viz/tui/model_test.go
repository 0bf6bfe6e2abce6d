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

// TestKeys says what keys do to the row, the selection and the window.
func TestKeys(t *testing.T) {
	const stream7 = "j Enter " // selects the first kernel: nearest to the middle is add
	for _, c := range []struct{ keys, want string }{
		{"", "rank 0 · H200 | - | 0 ns to 480 µs"},
		{"w", "rank 0 · H200 | - | 96 µs to 384 µs"},
		{"w s", "rank 0 · H200 | - | 0 ns to 480 µs"},
		{"w a", "rank 0 · H200 | - | 38.4 µs to 326.4 µs"},
		{"w a a a", "rank 0 · H200 | - | 0 ns to 288 µs"},
		{"w End", "rank 0 · H200 | - | 192 µs to 480 µs"},
		{"w Right Home", "rank 0 · H200 | - | 0 ns to 288 µs"},
		{"w w 0", "rank 0 · H200 | - | 0 ns to 480 µs"},
		{"j", "stream 7 | - | 0 ns to 480 µs"},
		{stream7, "stream 7 | add | 0 ns to 480 µs"},
		{stream7 + ",", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"},
		{stream7 + ", ,", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"},
		{stream7 + ". . .", "stream 7 | softmax | 0 ns to 480 µs"},
		{stream7 + "f", "stream 7 | add | 204.5 µs to 210.5 µs"},
		{stream7 + "f .", "stream 7 | softmax | 420 µs to 426 µs"},
		{stream7 + "w w", "stream 7 | add | 132.8 µs to 305.6 µs"},
		{stream7 + ", [", "level 1 | cudaLaunchKernel | 0 ns to 480 µs"},
		{stream7 + ", [ ]", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"},
		{stream7 + "Esc", "stream 7 | - | 0 ns to 480 µs"},
		{"Space j", "rank 1 · H200 | - | 0 ns to 480 µs"},
		{"Enter j Enter k", "rank 0 · H200 | - | 0 ns to 480 µs"},
		{"G", "host threads (1) | - | 0 ns to 480 µs"},
		{"G g", "rank 0 · H200 | - | 0 ns to 480 µs"},
		{"/ N C C L Enter", "stream 20 | ncclDevKernel_AllReduce | 0 ns to 480 µs"},
		{"/ m m Enter n n", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"},
		{"/ a t e n Enter n n", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"}, // its operator
		{"/ m m Enter N", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"},
		{"/ x Backspace Backspace j", "stream 7 | - | 0 ns to 480 µs"},
		{"w w : 1 0 0 Space u s Enter", "rank 0 · H200 | - | 13.6 µs to 186.4 µs"},
		{"w : 9 s Enter", "rank 0 · H200 | - | 192 µs to 480 µs"},
		{"j Tab", "rank 0 · H200 | - | 0 ns to 480 µs"},
		{"j w Tab Tab", "stream 7 | - | 96 µs to 384 µs"},
		{"2 0", "rank 0 · H200 | - | 0 ns to 384 µs"},
		{"w w u", "rank 0 · H200 | - | 96 µs to 384 µs"},
		{"w w d d d u", "rank 0 · H200 | - | 153.6 µs to 326.4 µs"},
		{"w w u u u", "rank 0 · H200 | - | 0 ns to 480 µs"},
		{": f i n d = s o f t Enter", "stream 7 | softmax | 0 ns to 480 µs"},
		{": t = 1 0 u s - 5 0 u s & r o w = x Enter", "rank 0 · H200 | - | 10 µs to 50 µs"},
		{"/ ^ s o f t . * x $ Enter", "stream 7 | softmax | 0 ns to 480 µs"},
		{"/ g e m m _ 1 2 8 x 2 5 6 < Enter", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"},
		{"/ ( Enter", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs"},
		{"j x", "captured | - | 0 ns to 480 µs"},
		{"x G Enter G", "host threads (1) | - | 0 ns to 480 µs"},
	} {
		m := newModel(both(), Options{})
		m.Update(tcell.NewEventResize(100, 30))
		press(m, c.keys)
		if got := state(m); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.keys, got, c.want)
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

func TestMessages(t *testing.T) {
	for _, c := range []struct{ keys, want string }{
		{"F5", "no key F5 (? lists them)"},
		{"n", "nothing searched for (/)"},
		{"/ z z Enter", `no name or operator matches "zz"`},
		{"/ m m Enter", "1 of 4"},
		{"/ m m Enter N", "4 of 4"},
		{": 5 k Enter", `time "5 k" (write one like 12.5 ms)`},
		{": 9 s Enter", "9 s is outside 0 ns – 480 µs"},
		{"v", "rank 0 has no workgroups: overlapse replay TRACE -o out --rank 0, then view out; or view a *_wg_trace.csv"},
		{"m", "select a slice to measure from (Enter)"},
		{"]", "select a call, a kernel or a wait first (Enter)"},
		{"j Enter ]", "the run does not say what waited for it"},
		{"c", "copied"},
		{"u", "nothing to undo"},
		{": r a n k = x Enter", `address: rank: "x" is no rank`},
		{": f o o = x Enter", `address: no part "foo" (there are strategy, show, rank, kernel, t, find, row and at)`},
		{"w w j Enter y", "t=153.6us-326.4us&row=rank+0+%C2%B7+H200/stream+7&at=205us"},
		{"/ ^ s o f t Enter y", "find=%5Esoft&row=rank+0+%C2%B7+H200/stream+7&at=420us"},
		{"x y", "show=all&row=captured"},
	} {
		m := newModel(both(), Options{})
		press(m, strings.ReplaceAll(c.keys, "5 k", "5 Space k"))
		if m.message != c.want {
			t.Errorf("%q: message %q, want %q", c.keys, m.message, c.want)
		}
	}
}

func TestEffects(t *testing.T) {
	m := newModel(both(), Options{})
	for _, k := range []string{"q", "Ctrl-C", "/ Ctrl-C", "? q q"} {
		if !press(m, k).Quit {
			t.Errorf("%s does not quit", k)
		}
		m.prompt = nil
	}
	if press(m, "/ q").Quit || m.prompt.text != "q" {
		t.Error("q in a prompt quits")
	}
	press(m, "Esc")
	if !m.Update(tcell.NewEventInterrupt(nil)).Quit {
		t.Error("an interrupt does not quit")
	}
	got := press(m, "j Enter , c").Copy
	for _, want := range []string{"gemm_128x256<float>", "duration\t100 µs\n", "grid\t132×1×1 = 132 workgroups\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("copied %q, want %q in it", got, want)
		}
	}
}

func TestMouse(t *testing.T) {
	m := newModel(both(), Options{})
	screen(m, 100, 30)
	r := m.regions()
	at := func(x, y int, b tcell.ButtonMask) { m.Update(tcell.NewEventMouse(x, y, b, 0)) }
	click := func(x, y int) { at(x, y, tcell.ButtonPrimary); at(x, y, tcell.ButtonNone) }
	column := func(us trace.Time) int { return r.labels + m.page().window.Cell(us*1000, r.cells()) }
	row := func(i int) int { return r.rows.y + i }
	want := func(what, want string) {
		t.Helper()
		if got := state(m); got != want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
	}
	click(column(150), row(1))
	want("click on a kernel", "stream 7 | void cutlass::gemm_128x256<float>(Params) | 0 ns to 480 µs")
	click(column(300), row(1))
	want("click on idle time", "stream 7 | - | 0 ns to 480 µs")
	click(0, row(0))
	click(0, row(1))
	want("click on a heading's label", "rank 1 · H200 | - | 0 ns to 480 µs")
	click(0, row(0))
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
	want("wheel over the labels", fmt.Sprintf("engine 0 | - | %s to %s", layout.Exact(m.page().window.From), layout.Exact(m.page().window.To)))
	tabs, _ := m.header()
	click(tabs[1].from, 0)
	if m.tab != 1 {
		t.Error("a click on a run's name does not show it")
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
