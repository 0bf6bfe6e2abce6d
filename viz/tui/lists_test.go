package tui

import (
	"cmp"
	"fmt"
	"slices"
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
	if want := "critical path: "; !strings.HasPrefix(m.message, want) || !strings.Contains(m.message, "; L lists the longest ") {
		t.Fatalf("message %q", m.message)
	}
	length := func(h selection) trace.Time { return m.page().t.Span(h.row, h.span).Dur() }
	if hits := m.page().hits; len(hits) < 2 || !slices.IsSortedFunc(hits, func(a, b selection) int { return cmp.Compare(length(b), length(a)) }) {
		t.Errorf("the longest work on the path is not listed: %v", hits)
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

// A search goes to a hit on the cursor's rank, leaves out ranges that have kernels' names, and says while it is typed what it finds.
func TestSearchOfRank(t *testing.T) {
	run := capture("moe", 1000)
	for i := range run.Spans { // a range of the name of a kernel
		if s := &run.Spans[i]; s.Kind == trace.Marker {
			s.Name = run.Spans[slices.IndexFunc(run.Spans, func(s trace.Span) bool { return s.Kind == trace.Collective })].Name
		}
	}
	m := newModel([]layout.View{{Run: run}}, Options{Colors: 256})
	for m.page().t.Rows[m.page().row()].Rank != 1 {
		press(m, "j")
	}
	press(m, "/ A l l R e d u c e")
	if screen := strings.Join(simulated(t, m, 100, 30), "\n"); !strings.Contains(screen, "/AllReduce   ncclDevKernel_AllReduce") {
		t.Errorf("no name while typing:\n%s", screen)
	}
	press(m, "Enter")
	p := m.page()
	if at := p.t.Rows[p.sel.row]; at.Rank != 1 || len(p.hits) != 2 {
		t.Errorf("%d hits, the first on %s", len(p.hits), pathOf(p.t, p.sel.row))
	}
}

// What does not fit of a path is left out in its middle, of other names at the end.
func TestHeaderCutsPaths(t *testing.T) {
	for name, want := range map[string]string{
		"real/h200x2/traces/h200x2_ddp_hf_llama_bucket_mb25_overlapTrue": "1 real/h200x2/traces/h200x2_ddp_…llama_bucket_mb25_overlapTrue",
		strings.Repeat("reshard_after_forward=False ", 3):                "1 reshard_after_forward=False reshard_after_forward=False res…",
	} {
		m := newModel([]layout.View{{Run: capture("moe", 1000), Name: name}}, Options{Colors: 256})
		if line := simulated(t, m, 120, 30)[0]; !strings.Contains(line, want) {
			t.Errorf("header %q, want %q", line, want)
		}
	}
}

// Comparing one run alone says how to get another.
func TestCompareOneRun(t *testing.T) {
	m := newModel(both()[:1], Options{Colors: 256, Choices: []Time{{Name: "bulk", Strategy: "bulk"}}})
	if press(m, "x"); !strings.HasSuffix(m.message, "the key : lists what to replay beside it") {
		t.Errorf("message %q", m.message)
	}
}

// The difference of a measured and a simulated run says which is which: the error of the model is in it.
func TestDifferenceSaysWhatIsSimulated(t *testing.T) {
	for _, simulated2 := range []bool{false, true} {
		views := both()
		views[1].Run.Simulated = simulated2
		m := newModel(views, Options{Colors: 256})
		press(m, "x t")
		screen := strings.Join(simulated(t, m, 120, 40), "\n")
		if strings.Contains(screen, "; 1 as measured, 2 as simulated") != simulated2 || !strings.Contains(screen, "1: count") {
			t.Errorf("simulated %v:\n%s", simulated2, screen)
		}
	}
}
