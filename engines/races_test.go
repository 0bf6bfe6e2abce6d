package engines_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// racing is a pair on some ranks that lie so far apart.
func racing(d workload.Direction, ranks, apart int) (*workload.Workload, *plan.Pair) {
	w, p := &workload.Workload{World: ranks * apart}, &workload.Pair{Direction: d}
	for i := range ranks {
		w.Ops = append(w.Ops, workload.Op{ID: int32(i), Rank: i * apart})
		p.First = append(p.First, int32(i))
	}
	return w, &plan.Pair{Pair: p}
}

// In the median case two ranks have the same race outcome at the first chunk, and four
// do not. At a later chunk the GEMM goes first.
func TestRaces(t *testing.T) {
	first := func(ranks, id, chunk int) bool {
		w, p := racing(workload.ComputeThenCollective, ranks, 1)
		r := &plan.Rank{Planner: &plan.Planner{Machine: plantest.H200(t, ranks), Workload: w}, ID: id}
		return r.CommFirst(p, chunk)
	}
	for chunk := range 4 {
		if first(2, 0, chunk) || first(2, 1, chunk) {
			t.Errorf("chunk %d: two ranks, and a collective goes first", chunk)
		}
		if got := first(4, 0, chunk) || first(4, 1, chunk); got != (chunk == 0) {
			t.Errorf("chunk %d: ranks 0 and 1 of four differ: %v", chunk, got)
		}
	}
}

// An all-gather that went first stays ahead. In the median case ranks differ.
func TestRacesOfGathers(t *testing.T) {
	w, p := racing(workload.CollectiveThenCompute, 2, 2) // ranks 0 and 2
	first := func(sc plan.Scenario, place, chunk int) bool {
		return (&plan.Rank{Planner: &plan.Planner{Machine: plantest.H200(t, 4), Scenario: sc, Workload: w}, ID: 2 * place}).CommFirst(p, chunk)
	}
	for _, c := range []struct {
		race plan.RaceOutcome
		want [2][3]bool // by rank and chunk
	}{
		{plan.MedianRace, [2][3]bool{{true, true, true}, {false, true, true}}},
		{plan.GEMMFirst, [2][3]bool{}},
		{plan.CommFirst, [2][3]bool{{true, true, true}, {true, true, true}}},
		{plan.LastGEMMFirst, [2][3]bool{{true, true, true}, {}}},
	} {
		for id := range c.want {
			for chunk, want := range c.want[id] {
				if got := first(plan.Scenario{Race: c.race}, id, chunk); got != want {
					t.Errorf("outcome %d, rank %d, chunk %d: %v", c.race, id, chunk, got)
				}
			}
		}
	}
}
