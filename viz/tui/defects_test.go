package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// drawnAt draws a model on a surface and returns its lines.
func drawnAt(m *model, w, h int) []string {
	var cells tcell.CellBuffer
	cells.Resize(w, h)
	m.Draw(&cells)
	var lines []string
	for y := range h {
		lines = append(lines, textLine(&cells, y))
	}
	return lines
}

// Defect 12: the header has the time range for any number of strategies, on every size.
func TestHeaderKeepsTheRange(t *testing.T) {
	var views []layout.View
	var times []Time
	for _, name := range []string{"captured", "bulk", "ideal", "decompose", "multistream", "fused", "tilesync", "onesided", "trigger"} {
		views = append(views, layout.View{Run: capture(name, 1000), Name: name + " chunks=4:channels=8"})
		times = append(times, Time{Time: "6.481 ms", Change: "-2.1 %"})
	}
	for _, size := range [][2]int{{200, 60}, {120, 40}, {80, 24}, {40, 10}} {
		m := newModel(views, Options{Colors: 256, Times: times})
		m.width, m.height = size[0], size[1]
		m.show(3)
		header := drawnAt(m, size[0], size[1])[0]
		if !strings.Contains(header, "480") || !strings.Contains(header, "µs") {
			t.Errorf("%v: no time range in %q", size, header)
		}
		for i := range views {
			if !strings.Contains(header, fmt.Sprint(i+1)) {
				t.Errorf("%v: no strategy %d in %q", size, i+1, header)
			}
		}
		if size[0] >= 80 && !strings.Contains(header, "decom") {
			t.Errorf("%v: the current strategy has no name in %q", size, header)
		}
		if n := strings.Count(header, "-2.1 %"); size[0] == 200 && n != len(views) {
			t.Errorf("%d changes in %q", n, header)
		}
		tabs, _ := m.header()
		for i, tab := range tabs {
			if got := m.tabAt(tab.from); got != i {
				t.Errorf("%v: a click on strategy %d goes to %d", size, i+1, got+1)
			}
		}
	}
}

// Defect 14: marks are drawn one by one on all rows or on none; digits count those that are not.
func TestMarksOnAllRowsOrNone(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	for wg := range 4 {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(wg), Persistent: int32(wg), CU: 0, Peer: 1, Row: trace.None, Col: trace.None})
		s := trace.Span{Kind: trace.Workgroup, Lane: lane, End: 100_000, Name: b.Intern("k"), Parent: trace.None, Attr: attr}
		s.Parent = b.Add(s)
		for i := range 1 + 60*(wg/3) { // the last has many
			at := trace.Time(i) * 1500
			b.Add(trace.Span{Kind: trace.PhasePut, Lane: lane, Start: at, End: at, Name: b.Intern("put"), Parent: s.Parent, Attr: attr})
		}
	}
	m := newModel([]layout.View{{Run: b.Finish(trace.Options{KeepZero: true})}}, Options{Colors: 256})
	screen := strings.Join(drawnAt(m, 100, 20), "\n")
	if !strings.Contains(screen, "put issued: digits count them") || strings.Count(screen, "▲") != 1 || strings.Count(screen, "1→1") != 3 || !strings.Contains(screen, "11111 1") {
		t.Errorf("crowded marks:\n%s", screen)
	}
	m.window.To = 10_000
	screen = strings.Join(drawnAt(m, 100, 20), "\n")
	if strings.Contains(screen, "digits") || strings.Count(screen, "▲") != 1+3+7 {
		t.Errorf("%d marks:\n%s", strings.Count(screen, "▲"), screen)
	}
}

// Where marks of two kinds are crowded, a cell shows of which its last one is, not a digit that could be of either.
func TestCrowdedMarksOfTwoKinds(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, Peer: trace.None})
	attr := b.AddWorkgroup(trace.WorkgroupAttr{CU: 0, Peer: 1, Row: trace.None, Col: trace.None})
	own := b.AddWorkgroup(trace.WorkgroupAttr{CU: 0, Peer: trace.None, Row: trace.None, Col: trace.None})
	s := trace.Span{Kind: trace.Workgroup, Lane: lane, End: 100_000, Name: b.Intern("k"), Parent: trace.None, Attr: attr}
	s.Parent = b.Add(s)
	for i := range 120 {
		mark := trace.Span{Kind: trace.PhasePut, Lane: lane, Start: trace.Time(i) * 800, End: trace.Time(i) * 800, Name: b.Intern("put"), Parent: s.Parent, Attr: attr}
		if i >= 60 {
			mark.Kind, mark.Name, mark.Attr = trace.Marker, b.Intern("slice ready"), own
		}
		b.Add(mark)
	}
	screen := strings.Join(drawnAt(newModel([]layout.View{{Run: b.Finish(trace.Options{KeepZero: true})}}, Options{Colors: 256}), 100, 20), "\n")
	if strings.Contains(screen, "digits") || !strings.Contains(screen, "▲▲▲▲▲▲") || !strings.Contains(screen, "◆◆◆◆◆◆") || strings.Contains(screen, "◆▲") {
		t.Errorf("marks of two kinds:\n%s", screen)
	}
}

// Defect 15: in eight colours cells are glyphs in colours that tell classes apart.
func TestEightColours(t *testing.T) {
	m := newModel([]layout.View{{Run: fused(8)}}, Options{Colors: 8, Figure: &layout.Figure{Rows: 8}})
	var cells tcell.CellBuffer
	cells.Resize(100, 20)
	m.Draw(&cells)
	seen := map[string]bool{}
	for y := range 20 {
		for x := range 100 {
			text, style, _ := cells.Get(x, y)
			if fg, bg, _ := style.Decompose(); fg != tcell.ColorDefault || bg != tcell.ColorDefault {
				if fg-tcell.ColorValid > 7 || bg != tcell.ColorDefault {
					t.Fatalf("%q at %d,%d is in colours %v on %v", text, x, y, fg, bg)
				}
				seen[fmt.Sprintf("%s %d", text, fg-tcell.ColorValid)] = true
			}
		}
	}
	for _, want := range []string{"█ 6", "▓ 3", "░ 7"} { // compute, compute for a peer, wait
		if !seen[want] {
			t.Errorf("no %s among %v", want, seen)
		}
	}
}

// Defect 7: every spelling of UTF-8 in a locale is UTF-8.
func TestLocale(t *testing.T) {
	for charset, want := range map[string]bool{"UTF-8": true, "utf8": true, "utf-8": true, "UTF8": true, "US-ASCII": false, "ISO8859-1": false, "": false} {
		if isUTF8(charset) != want {
			t.Errorf("%q is UTF-8: %v", charset, !want)
		}
	}
}

// pairOf is a simulated run of one kernel of two workgroups, operation 3, the second of
// which waits for a put of the first.
func pairOf(name string, from, length trace.Time) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None, Name: "stream 7"})
	attr := b.AddKernel(trace.Kernel{Origin: 3, Op: trace.None, Comm: trace.None})
	k := b.Add(trace.Span{Kind: trace.Compute, Name: b.Intern("gemm"), Lane: queue, Parent: trace.None, Attr: attr, Start: from, End: from + length})
	for wg := range trace.Time(2) {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		tile := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(wg), Persistent: int32(wg), CU: 0, Peer: trace.None, Row: trace.None, Col: trace.None})
		w := b.Add(trace.Span{Kind: trace.Workgroup, Name: b.Intern("gemm"), Lane: lane, Parent: k, Attr: tile, Start: from, End: from + length})
		s := trace.Span{Kind: trace.PhasePut, Name: b.Intern("put"), Lane: lane, Parent: w, Attr: tile, Start: from + length/4, End: from + length/4}
		if wg == 1 {
			s.Kind, s.Name, s.Attr, s.End = trace.PhaseWait, b.Intern(`slice, posted by GPU 0 "gemm"`), trace.None, from+length/2
		}
		b.Add(s)
	}
	return b.Finish(trace.Options{Name: name, Simulated: true, KeepZero: true})
}

func pressed(m *model, keys string) {
	for _, k := range keys {
		m.Update(tcell.NewEventKey(tcell.KeyRune, k, 0))
	}
}

// Defect 2: workgroups of one kernel are compared on one clock under every strategy.
func TestPartsOnOneClock(t *testing.T) {
	views := []layout.View{{Run: pairOf("bulk", 5000, 1000)}, {Run: pairOf("fused", 100, 800)}}
	m := newModel(views, Options{Colors: 256})
	pressed(m, "v")
	one := strings.Join(drawnAt(m, 100, 20), "\n")
	if !strings.Contains(one, "gemm, operation 3") || !strings.Contains(one, "bulk  1.000 µs") || !strings.Contains(one, "WG 1") {
		t.Errorf("one run:\n%s", one)
	}
	window := *m.page().window
	pressed(m, "2")
	if other := strings.Join(drawnAt(m, 100, 20), "\n"); !strings.Contains(other, "fused  800 ns") || *m.page().window != window {
		t.Errorf("the other run, in %v after %v:\n%s", *m.page().window, window, other)
	}
	pressed(m, "x")
	both := strings.Join(drawnAt(m, 100, 20), "\n")
	if !strings.Contains(both, "bulk  1.000 µs") || !strings.Contains(both, "fused  800 ns  -20.0 %") {
		t.Errorf("both runs:\n%s", both)
	}
	pressed(m, "pv")
	if m.figure || strings.Contains(strings.Join(drawnAt(m, 100, 20), "\n"), "-20.0 %") {
		t.Error("v does not go back")
	}
}

// [ goes from a wait to the put that ended it, and ] back.
func TestFollowPuts(t *testing.T) {
	m := newModel([]layout.View{{Run: pairOf("fused", 0, 1000)}}, Options{Colors: 256})
	p := m.page()
	run := p.t.Views[0].Run
	for id, s := range run.Spans {
		if s.Kind == trace.PhaseWait {
			p.choose(selection{p.t.RowOf(0, trace.SpanID(id)), trace.SpanID(id)})
		}
	}
	pressed(m, "[")
	if got := run.Spans[p.sel.span]; got.Kind != trace.PhasePut {
		t.Fatalf("[ goes to %v: %s", got.Kind, m.message)
	}
	pressed(m, "]")
	if got := run.Spans[p.sel.span]; got.Kind != trace.PhaseWait {
		t.Errorf("] goes to %v: %s", got.Kind, m.message)
	}
}

// t shows statistics of what is in view, or from the mark to the selection.
func TestStatistics(t *testing.T) {
	m := newModel([]layout.View{{Run: capture("moe", 1000)}}, Options{Colors: 256})
	pressed(m, "t")
	screen := strings.Join(drawnAt(m, 110, 30), "\n")
	for _, want := range []string{"rank 0 · H200 from 0 ns to 480 µs", "transfer", "all_reduce", "GB/s", "median", "idle: "} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	p := m.page()
	for i, row := range p.t.Rows {
		if row.Label == "stream 7" && row.Rank == 0 {
			p.choose(selection{i, row.Spans[0]})
			pressed(m, "m.")
			break
		}
	}
	screen = strings.Join(drawnAt(m, 110, 30), "\n")
	if !strings.Contains(screen, "stream 7 from 100 µs to 210 µs") || !strings.Contains(screen, "gemm_128x256") {
		t.Errorf("from the mark to the selection:\n%s", screen)
	}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {20, 5}, {1, 1}} {
		drawnAt(m, size[0], size[1])
	}
}
