package engines

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
)

// In two races the GEMM stays first on at least one of two ranks in 7 of 16 cases, and
// on at least one of four ranks in 175 of 256.
func TestRaceOutcomes(t *testing.T) {
	for _, c := range []struct {
		ranks   int
		gathers bool
		chunks  int
		want    []raceOutcome
	}{
		{2, false, 8, []raceOutcome{{plan.GEMMFirst, 1. / 4}, {plan.CommFirst, 1. / 4}, {plan.RanksDiffer, 1. / 2}}},
		{4, false, 8, []raceOutcome{{plan.GEMMFirst, 1. / 16}, {plan.CommFirst, 1. / 16}, {plan.RanksDiffer, 7. / 8}}},
		{2, true, 2, []raceOutcome{{plan.GEMMFirst, 1. / 4}, {plan.CommFirst, 1. / 4}, {plan.RanksDiffer, 1. / 2}}},
		{2, true, 3, []raceOutcome{{plan.LastGEMMFirst, 7. / 16}, {plan.CommFirst, 1. / 4}, {plan.RanksDiffer, 5. / 16}}},
		{4, true, 4, []raceOutcome{{plan.LastGEMMFirst, 175. / 256}, {plan.CommFirst, 1. / 16}, {plan.RanksDiffer, 65. / 256}}},
	} {
		if got := raceOutcomes(c.ranks, c.gathers, c.chunks, 2); !slices.Equal(got, c.want) {
			t.Errorf("%d ranks, %d chunks, gathers %v: %v, want %v", c.ranks, c.chunks, c.gathers, got, c.want)
		}
	}
}
