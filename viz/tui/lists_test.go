package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// The critical path is a line through the spans on it; [ and ] go along it.
func TestCriticalPathOverlay(t *testing.T) {
	m := newModel([]layout.View{{Run: capture("moe", 1000)}}, Options{Colors: 256})
	plain := strings.Join(simulated(t, m, 100, 30), "\n")
	press(m, "C")
	if want := "critical path: "; !strings.HasPrefix(m.message, want) {
		t.Fatalf("message %q", m.message)
	}
	lines := simulated(t, m, 100, 30)
	screen := strings.Join(lines, "\n")
	if strings.Contains(plain, "━") || !strings.Contains(screen, "━") || !strings.Contains(screen, "╌") {
		t.Errorf("before\n%s\nafter\n%s", plain, screen)
	}
	// Rank 1 arrives last in the all-reduce: the path runs through its GEMM, not through that of rank 0.
	rank := 0
	for _, line := range lines[2:] {
		if strings.Contains(line, "rank 1 ") && strings.Contains(line, "▾") {
			rank = 1
		}
		if has := strings.Contains(line, "━"); strings.HasPrefix(strings.TrimSpace(line), "stream 7") && rank == 1 && !has {
			t.Errorf("no path on rank 1: %q", line)
		}
	}
	var visited []string
	press(m, "]")
	for range 20 {
		p := m.page()
		name := fmt.Sprintf("%d:%s", p.t.Rows[p.sel.row].Rank, p.t.Run(p.sel.row).NameOf(p.t.Span(p.sel.row, p.sel.span)))
		if n := len(visited); n > 0 && visited[n-1] == name {
			break
		}
		visited = append(visited, name)
		press(m, "[")
	}
	last := visited[len(visited)-1]
	if len(visited) < 3 || last != "1:void cutlass::gemm_128x256<float>(Params)" || !strings.Contains(m.message, "step 1 of ") {
		t.Errorf("[ goes through %v; %s", visited, m.message)
	}
	press(m, "]")
	if p := m.page(); p.t.Run(p.sel.row).NameOf(p.t.Span(p.sel.row, p.sel.span)) != visited[len(visited)-2][2:] {
		t.Errorf("] does not go back along %v", visited)
	}
	press(m, "C")
	if strings.Contains(strings.Join(simulated(t, m, 100, 30), "\n"), "━") {
		t.Error("C does not remove the path")
	}
}

// The hits of a search are listed, the selected one among them.
func TestHitList(t *testing.T) {
	m := newModel([]layout.View{{Run: capture("moe", 1000)}}, Options{Colors: 256})
	press(m, "/ ^ s o f t | ^ a d d $ Enter L n")
	screen := strings.Join(simulated(t, m, 100, 30), "\n")
	for _, want := range []string{"4 hits", "1  205.0 µs", "rank 0 · H200/stream 7  add", "rank 1 · H200/stream 7  softmax", "4  420.0 µs"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	press(m, "L")
	if strings.Contains(strings.Join(simulated(t, m, 100, 30), "\n"), "4 hits") {
		t.Error("L does not close the list")
	}
}

func TestFullNames(t *testing.T) {
	var b trace.Builder
	name := "void " + strings.Repeat("abcdefghi ", 20) + "end_of_the_name"
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{}), Peer: trace.None})
	b.Add(trace.Span{Kind: trace.Compute, End: 100, Name: b.Intern(name), Lane: lane, Parent: trace.None, Attr: trace.None})
	m := newModel([]layout.View{{Run: b.Finish(trace.Options{})}}, Options{Colors: 256})
	press(m, "j Enter")
	if strings.Contains(strings.Join(simulated(t, m, 80, 24), ""), "end_of_the_name") {
		t.Error("the name fits without asking for it")
	}
	press(m, "I")
	if screen := strings.Join(simulated(t, m, 80, 24), ""); !strings.Contains(screen, name) {
		t.Errorf("no full name:\n%s", screen)
	}
}

// Nine strategies can be used on small terminals: the range, the current run's rows, the
// selection and messages are there after every key.
func TestSmallTerminals(t *testing.T) {
	var views []layout.View
	for _, name := range []string{"measured", "bulk", "ideal", "decompose", "multistream", "fused", "tilesync", "onesided", "trigger"} {
		views = append(views, layout.View{Run: capture(name, 1000), Name: name})
	}
	for _, size := range [][2]int{{80, 24}, {40, 10}} {
		m := newModel(views, Options{Colors: 256})
		for _, c := range []struct{ keys, want string }{
			{"", "rank 0"},
			{"6", "fused"},
			{"j Enter ,", "stream 7"},
			{"w w w", "µs"},
			{"C", "critical path"},
			{"/ g e m m Enter L", "hits"},
			{"L x", "measured"},
			{"j j j j j j j j j", "decompose"},
			{"? Esc : 9", ":9"},
			{"Esc y", "show=all"},
		} {
			press(m, c.keys)
			screen := simulated(t, m, size[0], size[1])
			if !strings.Contains(strings.Join(screen, "\n"), c.want) {
				t.Errorf("%v: no %q after %q:\n%s", size, c.want, c.keys, strings.Join(screen, "\n"))
			}
			if r := m.regions(); r.rows.h < 3 {
				t.Errorf("%v: %d rows after %q", size, r.rows.h, c.keys)
			}
		}
	}
}
