package engines

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

func TestModes(t *testing.T) {
	for _, c := range []struct {
		name  string
		times []trace.Time
		want  []Mode
	}{
		{"one time", []trace.Time{100}, []Mode{{1, 100}}},
		{"alike", []trace.Time{1000, 1001, 1002, 1010}, []Mode{{4, 1001}}},
		{"two groups", []trace.Time{1250, 1260, 1494, 1500, 1507}, []Mode{{2, 1250}, {3, 1500}}},
		{"evenly spread", []trace.Time{1000, 1100, 1200, 1300}, []Mode{{4, 1100}}},
	} {
		if d := cmp.Diff(c.want, modes(c.times)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// Of the captured arrivals, what is the same every time is how a rank is and no
// chance; the first collective starts with the host.
//
//	collective 1   rank 0 at 0, rank 1 at 10
//	collective 2   rank 0 at 0, rank 1 at 10
//	collective 3   rank 0 at 5, rank 1 at 0
func TestSkews(t *testing.T) {
	w := &workload.Workload{World: 2}
	for i, starts := range [][2]trace.Time{{0, 900}, {0, 10}, {100, 110}, {205, 200}} {
		c := workload.Collective{}
		for r, at := range starts {
			id := int32(len(w.Ops))
			w.Ops = append(w.Ops, workload.Op{ID: id, Rank: r, Start: at, Collective: int32(i)})
			c.Members = append(c.Members, id)
		}
		w.Collectives = append(w.Collectives, c)
	}
	// Usual: rank 0 at 0, rank 1 at 10. The third: rank 0 is 5 late, rank 1 is 10 early.
	if d := cmp.Diff([][]trace.Time{{0, 0}, {0, 0}, {15, 0}}, skews(w)); d != "" {
		t.Error(d)
	}
}

// A seed is a result: the same one gives the same time. Different ones differ
// where ranks race, and nothing at all moves where there is no chance.
func TestSpreads(t *testing.T) {
	run, err := format.Open("../samples/llama70b-fc2-allreduce", format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.Lift(run, workload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := h200(t, 4)
	sel, err := ParseSelection("captured,decompose:chunks=2,tilesync")
	if err != nil {
		t.Fatal(err)
	}
	one, err := Spreads(w, m, sel, 6, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Spreads(w, m, sel, 6, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(one, two); d != "" {
		t.Error(d)
	}
	if one[0].Fastest() != one[0].Slowest() {
		t.Errorf("the captured schedule takes %v to %v", one[0].Fastest(), one[0].Slowest())
	}
	if one[1].Fastest() == one[1].Slowest() {
		t.Errorf("decomposed, ranks race, and all seeds take %v", one[1].Fastest())
	}
	if len(one[2].Times) != 0 {
		t.Errorf("tilesync does not apply and has times %v", one[2].Times)
	}
}

// In the median case two ranks fall alike and four do not, at the first chunk; a
// seed's toss is fair there, and a collective goes first later only where it did
// before, in a third of the cases.
func TestToss(t *testing.T) {
	first := func(seed int64, ranks, id, index, chunk int) bool {
		m := h200(t, ranks)
		m.Seed = seed
		r := &rank{pl: &planner{m: m}, id: id}
		p := &workload.Pair{First: make([]int32, ranks), Direction: workload.ComputeThenCollective}
		return r.commFirst(&pair{Pair: p, index: index}, chunk)
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
		t.Errorf("%d of 1000 tosses fall to the collective", n)
	}
	if again < n/3-45 || again > n/3+45 { // three of a third's, in 500
		t.Errorf("of %d, %d fall to it again", n, again)
	}
}

// Gathers are tossed for twice: on a quarter of ranks the product goes first for
// good, and a gather that went first stays ahead. In the median case ranks differ.
func TestTossOfGathers(t *testing.T) {
	p := &pair{Pair: &workload.Pair{First: make([]int32, 2), Direction: workload.CollectiveThenCompute}}
	first := func(seed int64, id, chunk int) bool {
		m := h200(t, 2)
		m.Seed = seed
		return (&rank{pl: &planner{m: m, w: &workload.Workload{World: 2}}, id: id}).commFirst(p, chunk)
	}
	never := 0
	for seed := int64(1); seed <= 1000; seed++ {
		ahead := first(seed, 1, 0)
		for chunk := 1; chunk < 4; chunk++ {
			now := first(seed, 1, chunk)
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
		t.Errorf("on %d of 1000 ranks the product goes first for good", never)
	}
	for _, c := range []struct {
		seed int64
		want [2][3]bool // by rank and chunk
	}{
		{0, [2][3]bool{{true, true, true}, {false, true, true}}},
		{noneFirst, [2][3]bool{}},
		{allFirst, [2][3]bool{{true, true, true}, {true, true, true}}},
		{allButOne, [2][3]bool{{true, true, true}, {}}},
	} {
		for id := range c.want {
			for chunk, want := range c.want[id] {
				if got := first(c.seed, id, chunk); got != want {
					t.Errorf("seed %d, rank %d, chunk %d: %v", c.seed, id, chunk, got)
				}
			}
		}
	}
}
