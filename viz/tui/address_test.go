package tui

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
	"github.com/overlapse/overlapse/viz/layout"
)

// A view that was reached by any keys is the same view when its address is gone to.
func TestAddressLeadsBack(t *testing.T) {
	lists := [][]layout.View{both(), {{Run: fused(40)}}, {{Run: pairOf("bulk", 5000, 1000)}, {Run: pairOf("fused", 100, 800)}}}
	keys := []string{"w", "s", "a", "d", "j", "k", "Enter", ".", ",", "Tab", "x", "v", "p", "G", "Space", "n", "f", "0"}
	rapidtest.Check(t, func(t *rapid.T) {
		views := rapid.SampledFrom(lists).Draw(t, "views")
		m := newModel(views, Options{Strategy: "bulk,fused"})
		for range rapid.IntRange(0, 20).Draw(t, "keys") {
			press(m, rapid.SampledFrom(keys).Draw(t, "key"))
		}
		if rapid.Bool().Draw(t, "search") {
			press(m, "/ ^ g Enter")
		}
		want := m.address()
		parsed := must.Have(layout.ParseAddress(want.String()))(t)
		other := newModel(views, Options{Strategy: "bulk,fused", At: parsed})
		if got := other.address(); got != want {
			t.Fatalf("%s leads to %s", want, got)
		}
		m.goToAddress(parsed) // from where it is
		if got := m.address(); got != want {
			t.Fatalf("%s leads from itself to %s", want, got)
		}
	})
}
