package tui

import (
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/viz/layout"
)

// simulated draws a model on a simulated terminal and returns its lines.
func simulated(t *testing.T, m *model, width, height int) []string {
	t.Helper()
	s := tcell.NewSimulationScreen("UTF-8")
	must.Do(t, s.Init())
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
