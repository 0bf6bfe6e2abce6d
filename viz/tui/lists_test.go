package tui

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

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
