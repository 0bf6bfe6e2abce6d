package verdict

import (
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A decomposition as a part of a mix varies between runs as it does alone: the
// same expected time and the same extremes, and as evidence.
func TestMixRaces(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	s := enginetest.MustParse(t, "decompose")[0]
	alone, err := engines.Run(w, m, s, plan.Scenario{}, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if alone.Best >= alone.Expected || alone.Worst <= alone.Expected {
		t.Fatalf("alone it takes %d, from %d to %d: nothing varies", alone.Expected, alone.Best, alone.Worst)
	}
	choice := engines.PairChoice{Outcomes: []engines.Outcome{alone}}
	for i := range w.Pairs {
		choice.Rows = append(choice.Rows, i)
	}
	mixed, err := engines.Run(w, m, plan.Selection{Strategy: engines.MixedOf([]engines.PairChoice{choice}), Values: plan.Values{}}, plan.Scenario{}, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if mixed.Expected != alone.Expected || mixed.Best != alone.Best || mixed.Worst != alone.Worst {
		t.Errorf("in a mix %d (%d to %d), alone %d (%d to %d)", mixed.Expected, mixed.Best, mixed.Worst, alone.Expected, alone.Best, alone.Worst)
	}
	if mix, own := EvidenceOf(w, mixed), EvidenceOf(w, alone); mix.Spread == 0 || mix.Spread != own.Spread {
		t.Errorf("spread %v in a mix, %v alone", mix.Spread, own.Spread)
	}
}
