package compare

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
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

func TestModes(t *testing.T) {
	for _, c := range []struct {
		name  string
		times []trace.Time
		want  []mode
	}{
		{"one time", []trace.Time{100}, []mode{{1, 100}}},
		{"alike", []trace.Time{1000, 1001, 1002, 1010}, []mode{{4, 1001}}},
		{"two groups", []trace.Time{1250, 1260, 1494, 1500, 1507}, []mode{{2, 1250}, {3, 1500}}},
		{"evenly spread", []trace.Time{1000, 1100, 1200, 1300}, []mode{{4, 1100}}},
	} {
		if d := cmp.Diff(c.want, modes(c.times)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}
