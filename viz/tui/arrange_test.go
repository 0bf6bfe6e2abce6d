package tui

import (
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// simulated draws a model on a simulated terminal and returns its lines.
func simulated(t *testing.T, m *model, width, height int) []string {
	t.Helper()
	s := tcell.NewSimulationScreen("UTF-8")
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	defer s.Fini()
	s.SetSize(width, height)
	m.Update(tcell.NewEventResize(width, height))
	m.Draw(s)
	s.Show()
	cells, w, _ := s.GetContents()
	var lines []string
	for row := range slices.Chunk(cells, w) {
		var line strings.Builder
		for _, cell := range row {
			if len(cell.Runes) == 0 || cell.Runes[0] == 0 {
				cell.Runes = []rune{' '}
			}
			line.WriteString(string(cell.Runes))
		}
		lines = append(lines, line.String())
	}
	return lines
}

// labels are the labels of n lines from one on.
func labels(m *model, lines []string, first, n int) string {
	var out []string
	for _, line := range lines[first : first+n] {
		out = append(out, strings.TrimSpace(string([]rune(line)[:m.regions().labels-1])))
	}
	return strings.Join(out, "; ")
}

// filterBy types a filter.
func filterBy(m *model, text string) {
	press(m, "&")
	for _, r := range text {
		m.Update(tcell.NewEventKey(tcell.KeyRune, r, 0))
	}
	press(m, "Enter")
}

// Rows are left out by class, rank and name.
func TestRowsAreFiltered(t *testing.T) {
	for _, c := range []struct{ filter, keys, want string }{
		{"", "", "▾ rank 0 · H200; stream 7; stream 20; engine 0"},
		{"rank 1", "", "▾ rank 1 · H200; stream 7; stream 20; engine 0"},
		{"class communication", "", "▾ rank 0 · H200; stream 20; link to rank 1; ▾ rank 1 · H200"},
		{"name soft.*", "", "▾ rank 0 · H200; stream 7; ▾ rank 1 · H200; stream 7"},
		{"softmax", "", "▾ rank 0 · H200; stream 7; ▾ rank 1 · H200; stream 7"},
		{"nothing at all", "", "▾ rank 0 · H200; stream 7; stream 20; engine 0"},
		{"", "& s o f t Enter & Enter", "▾ rank 0 · H200; stream 7; stream 20; engine 0"},
		{"", "& r a n k Space 1 Enter & s o f t Enter", "▾ rank 1 · H200; stream 7; ; "},
	} {
		m := newModel([]layout.View{{Run: capture("moe", 1000)}}, Options{Colors: 256})
		press(m, c.keys)
		if c.filter != "" {
			filterBy(m, c.filter)
		}
		if got := labels(m, simulated(t, m, 100, 30), 2, 4); got != c.want {
			t.Errorf("%q, %q:\n got %s\nwant %s", c.keys, c.filter, got, c.want)
		}
	}
}

// A class that the filter leaves out takes no time on rows with another one.
func TestFilterOfClassesEmptiesCells(t *testing.T) {
	m := newModel([]layout.View{{Run: fused(8)}}, Options{ASCII: true, Figure: &layout.Figure{}})
	before := strings.Join(simulated(t, m, 80, 20), "\n")
	filterBy(m, "class waiting")
	after := strings.Join(simulated(t, m, 80, 20), "\n")
	wait := strings.Count(before, "....")
	if strings.Contains(after, "RRRR") || strings.Contains(after, "CCCC") || strings.Count(after, "....") < wait || wait == 0 {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if !strings.Contains(after, "only class waiting") {
		t.Errorf("the filter is not shown:\n%s", after)
	}
}

// When zoomed in, a line shows the whole axis and where the window is; a click on it goes there.
func TestOverview(t *testing.T) {
	m := newModel(both(), Options{Colors: 256})
	if line := simulated(t, m, 100, 30)[1]; strings.Contains(line, "[") {
		t.Errorf("an overview of all: %q", line)
	}
	press(m, "w w w")
	line := simulated(t, m, 100, 30)[1]
	if !strings.Contains(line, "rank 0") || !strings.Contains(line, "[") || !strings.Contains(line, "]") {
		t.Errorf("no overview: %q", line)
	}
	r := m.regions()
	m.Update(tcell.NewEventMouse(99, r.overview.y, tcell.ButtonPrimary, 0))
	m.Update(tcell.NewEventMouse(99, r.overview.y, tcell.ButtonNone, 0))
	if p := m.page(); p.window.To != p.bounds.To {
		t.Errorf("a click at the end goes to %v of %v", *p.window, p.bounds)
	}
	press(m, "O")
	if line := simulated(t, m, 100, 30)[1]; strings.Contains(line, "rank 0") {
		t.Errorf("O does not remove it: %q", line)
	}
}

// No key does two things, and every command has a key and a help.
func TestCommandsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		for _, k := range c.keys {
			if seen[k] {
				t.Errorf("%q is twice in the table", k)
			}
			seen[k] = true
		}
		if len(c.keys) == 0 || c.help == "" || c.do == nil {
			t.Errorf("incomplete: %+v", c)
		}
	}
}

// The help has every command on every size.
func TestHelpHasAll(t *testing.T) {
	for _, size := range [][2]int{{200, 60}, {80, 24}, {40, 10}} {
		m := newModel(both(), Options{Colors: 256})
		press(m, "?")
		seen := ""
		for range 20 {
			seen += strings.Join(simulated(t, m, size[0], size[1]), "\n")
			press(m, "Space")
			if !m.help {
				break
			}
		}
		for _, c := range commands() {
			if begin := c.help[:min(len(c.help), 20)]; !strings.Contains(seen, begin) {
				t.Errorf("%v: no %q in the help", size, begin)
			}
		}
	}
}
