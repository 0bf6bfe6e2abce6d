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
func drawnAt(m *Model, w, h int) []string {
	var cells tcell.CellBuffer
	cells.Resize(w, h)
	m.Draw(&cells)
	var lines []string
	for y := range h {
		lines = append(lines, Options{}.line(&cells, y))
	}
	return lines
}

// Defect 12: the header has the time range for any number of strategies, on every size.
func TestHeaderKeepsTheRange(t *testing.T) {
	var views []layout.View
	for _, name := range []string{"captured", "bulk", "ideal", "decompose", "multistream", "fused", "tilesync", "onesided", "trigger"} {
		views = append(views, layout.View{Run: capture(name, 1000), Name: name + " chunks=4:channels=8"})
	}
	for _, size := range [][2]int{{200, 60}, {120, 40}, {80, 24}, {40, 10}} {
		m := NewModel(views, Options{Colors: 256})
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
		for i, tab := range m.tabs(m.headerRoom()) {
			if got := m.tabAt(tab.from); got != i {
				t.Errorf("%v: a click on strategy %d goes to %d", size, i+1, got+1)
			}
		}
	}
}

// Defect 14: marks are drawn on all rows or on none, and the legend says how to see them.
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
	m := NewModel([]layout.View{{Run: b.Finish(trace.Options{KeepZero: true})}}, Options{Colors: 256})
	screen := strings.Join(drawnAt(m, 100, 20), "\n")
	if !strings.Contains(screen, "put issued (zoom in)") || strings.Count(screen, "▲") != 1 {
		t.Errorf("crowded marks:\n%s", screen)
	}
	m.window.To = 10_000
	screen = strings.Join(drawnAt(m, 100, 20), "\n")
	if strings.Contains(screen, "zoom in)") || strings.Count(screen, "▲") != 1+3+7 {
		t.Errorf("%d marks:\n%s", strings.Count(screen, "▲"), screen)
	}
}

// Defect 15: in eight colours cells are glyphs in colours that tell classes apart.
func TestEightColours(t *testing.T) {
	m := NewModel([]layout.View{{Run: fused(8)}}, Options{Colors: 8, Figure: &layout.Figure{Rows: 8}})
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
