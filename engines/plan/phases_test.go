package plan

import "testing"

func TestIterationsWithoutStepsHaveNoPhases(t *testing.T) {
	loop := Steps{ranks: 1, each: [][]Interval{{{Start: 0, End: 5}}, {{Start: 5, End: 10}}}}
	if phases := loop.Phases(); phases != nil {
		t.Errorf("phases %v", phases)
	}
}
