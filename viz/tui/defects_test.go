package tui

import (
	"fmt"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

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
