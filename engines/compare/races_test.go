package compare_test

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
// do not. With a seed both outcomes are equally likely there. At a later chunk a
// collective goes first only where it did at the chunk before, in a third of the cases.
func TestRaces(t *testing.T) {
	first := func(seed int64, ranks, id, index, chunk int) bool {
		w, p := racing(workload.ComputeThenCollective, ranks, 1)
		r := &plan.Rank{Planner: &plan.Planner{Machine: plantest.H200(t, ranks), Scenario: plan.Scenario{Seed: seed}, Workload: w}, ID: id}
		p.Index = index
		return r.CommFirst(p, chunk)
	}
	for chunk := range 4 {
		if first(0, 2, 0, 0, chunk) || first(0, 2, 1, 0, chunk) {
			t.Errorf("chunk %d: two ranks, and a collective goes first", chunk)
		}
		if got := first(0, 4, 0, 0, chunk) || first(0, 4, 1, 0, chunk); got != (chunk == 0) {
			t.Errorf("chunk %d: ranks 0 and 1 of four differ: %v", chunk, got)
		}
	}
	n, again := 0, 0
	for seed := int64(1); seed <= 1000; seed++ {
		before := true
		for chunk := range 4 {
			now := first(seed, 4, 1, 2, chunk)
			if now && !before {
				t.Fatalf("seed %d: the collective of chunk %d goes first and that before does not", seed, chunk)
			}
			switch before = now; {
			case now && chunk == 0:
				n++
			case now && chunk == 1:
				again++
			}
		}
	}
	if n < 450 || n > 550 { // three standard deviations of a fair coin
		t.Errorf("the collective wins %d of 1000 races", n)
	}
	if again < n/3-45 || again > n/3+45 { // three of a third's, in 500
		t.Errorf("of %d races won, %d are won again", n, again)
	}
}

// An all-gather races twice: on a quarter of ranks the GEMM goes first for good, and
// an all-gather that went first stays ahead. In the median case ranks differ.
func TestRacesOfGathers(t *testing.T) {
	w, p := racing(workload.CollectiveThenCompute, 2, 2) // ranks 0 and 2
	first := func(sc plan.Scenario, place, chunk int) bool {
		return (&plan.Rank{Planner: &plan.Planner{Machine: plantest.H200(t, 4), Scenario: sc, Workload: w}, ID: 2 * place}).CommFirst(p, chunk)
	}
	never := 0
	for seed := int64(1); seed <= 1000; seed++ {
		sc := plan.Scenario{Seed: seed}
		ahead := first(sc, 1, 0)
		for chunk := 1; chunk < 4; chunk++ {
			now := first(sc, 1, chunk)
			if ahead && !now || chunk > 1 && now != ahead {
				t.Fatalf("seed %d: at chunk %d the gather goes first: %v, before: %v", seed, chunk, now, ahead)
			}
			ahead = now
		}
		if !ahead {
			never++
		}
	}
	if never < 209 || never > 291 { // three standard deviations of a quarter
		t.Errorf("on %d of 1000 ranks the GEMM goes first for good", never)
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
