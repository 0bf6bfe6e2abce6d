package tui

import (
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// simulated draws a model on a simulated terminal and returns its lines.
func simulated(t *testing.T, m *Model, width, height int) []string {
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
func labels(m *Model, lines []string, first, n int) string {
	var out []string
	for _, line := range lines[first : first+n] {
		out = append(out, strings.TrimSpace(string([]rune(line)[:m.regions().labels-1])))
	}
	return strings.Join(out, "; ")
}

// say types a command after ":".
func say(m *Model, text string) {
	press(m, ":")
	for _, r := range text {
		m.Update(tcell.NewEventKey(tcell.KeyRune, r, 0))
	}
	press(m, "Enter")
}

// Rows are kept at the top, moved, and left out by class, rank and name.
func TestRowsAreArranged(t *testing.T) {
	for _, c := range []struct{ say, keys, want string }{
		{"", "", "▾ rank 0 · H200; annotations 0; stream 7; stream 20"},
		{"", "j j *", "•stream 7; ▾ rank 0 · H200; annotations 0; stream 7"},
		{"", "j j * *", "▾ rank 0 · H200; annotations 0; stream 7; stream 20"},
		{"", "j j K", "▾ rank 0 · H200; stream 7; annotations 0; stream 20"},
		{"", "j j J J K", "▾ rank 0 · H200; annotations 0; stream 20; stream 7"},
		{"row up", "j", "▾ rank 0 · H200; annotations 0; stream 7; stream 20"}, // it is the first
		{"filter rank 1", "", "▾ rank 1 · H200; annotations 0; stream 7; stream 20"},
		{"filter class communication", "", "▾ rank 0 · H200; stream 20; link to rank 1; ▾ rank 1 · H200"},
		{"filter name soft.*", "", "▾ rank 0 · H200; stream 7; ▾ rank 1 · H200; stream 7"},
		{"filter softmax", "", "▾ rank 0 · H200; stream 7; ▾ rank 1 · H200; stream 7"},
		{"filter nothing at all", "", "▾ rank 0 · H200; annotations 0; stream 7; stream 20"},
		{"", "& s o f t Enter & Enter", "▾ rank 0 · H200; annotations 0; stream 7; stream 20"},
		{"", "& r a n k Space 1 Enter & s o f t Enter", "▾ rank 1 · H200; stream 7; ; "},
	} {
		m := NewModel([]layout.View{{Run: capture("moe", 1000)}}, Options{Colors: 256})
		press(m, c.keys)
		if c.say != "" {
			say(m, c.say)
		}
		if got := labels(m, simulated(t, m, 100, 30), 2, 4); got != c.want {
			t.Errorf("%q, %q:\n got %s\nwant %s", c.keys, c.say, got, c.want)
		}
	}
}

// A class that the filter leaves out takes no time on rows with another one.
func TestFilterOfClassesEmptiesCells(t *testing.T) {
	m := NewModel([]layout.View{{Run: fused(8)}}, Options{ASCII: true, Figure: &layout.Figure{}})
	before := strings.Join(simulated(t, m, 80, 20), "\n")
	say(m, "filter class wait")
	after := strings.Join(simulated(t, m, 80, 20), "\n")
	wait := strings.Count(before, "....")
	if strings.Contains(after, "RRRR") || strings.Contains(after, "CCCC") || strings.Count(after, "....") < wait || wait == 0 {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if !strings.Contains(after, "only class wait") {
		t.Errorf("the filter is not shown:\n%s", after)
	}
}

// Workgroups are sorted by id, CU and completion.
func TestWorkgroupsAreSorted(t *testing.T) {
	m := NewModel([]layout.View{{Run: fused(4)}}, Options{Colors: 256})
	m.page().closed[0] = false
	m.page().refresh()
	orders := map[string]string{}
	for _, by := range []string{"lane", "id", "cu", "completion"} {
		say(m, "sort "+by)
		orders[by] = labels(m, simulated(t, m, 100, 30), 2, 8)
	}
	if !strings.Contains(orders["completion"], "WG 0; WG 1; WG 2; WG 3") || !strings.Contains(orders["id"], "WG 0; WG 1; WG 2; WG 3") {
		t.Errorf("%v", orders)
	}
	m = NewModel([]layout.View{{Run: fused(8)}}, Options{Colors: 256}) // 7·(5·wg mod 16) makes WG 3 the slowest, then WG 6
	say(m, "sort completion")
	if got := strings.Join(simulated(t, m, 100, 30), "\n"); strings.Index(got, "WG 3") < strings.Index(got, "WG 7") {
		t.Errorf("the slowest workgroup is not the last:\n%s", got)
	}
	say(m, "sort color")
	if m.message != `cannot sort by "color" (by lane, cu, id or completion)` {
		t.Error(m.message)
	}
}

// When zoomed in, a line shows the whole axis and where the window is; a click on it goes there.
func TestOverview(t *testing.T) {
	m := NewModel(both(), Options{Colors: 256})
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

// The palette lists what fits and does the first.
func TestPalette(t *testing.T) {
	m := NewModel(both(), Options{Colors: 256})
	press(m, ": w o r k")
	screen := strings.Join(simulated(t, m, 80, 24), "\n")
	for _, want := range []string{"workgroups of a kernel or pair", "sort workgroups", ":work"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	press(m, "Esc")
	say(m, "stat")
	if !m.stats {
		t.Error("the first of the list is not done")
	}
	seen := map[string]bool{}
	for _, c := range commands() {
		for _, k := range append(c.keys, "name "+c.name) {
			if seen[k] || c.help == "" || c.do == nil || c.name == "" {
				t.Errorf("%q is twice in the table, or incomplete: %+v", k, c.name)
			}
			seen[k] = true
		}
	}
}

// The help has every command on every size.
func TestHelpHasAll(t *testing.T) {
	for _, size := range [][2]int{{200, 60}, {80, 24}, {40, 10}} {
		m := NewModel(both(), Options{Colors: 256})
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
