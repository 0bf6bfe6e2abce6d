package engines

import (
	"math"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
)

// On two ranks a quarter of fair tosses falls to both products, a quarter to both
// collectives and a half differs; on four a sixteenth, a sixteenth and the rest.
func TestExpected(t *testing.T) {
	for _, c := range []struct {
		path  string
		ranks int
		alike float64
	}{
		{"../samples/measurements/2026-11-21-h200x2/traces/bulk_moe_wide_all_to_all_w2", 2, 1. / 4},
		{"../samples/llama70b-fc2-allreduce", 4, 1. / 16},
	} {
		run, err := format.Open(c.path, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := workload.Lift(run, workload.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sel, err := ParseSelection("decompose:chunks=2,decompose:chunks=1,bulk")
		if err != nil {
			t.Fatal(err)
		}
		m := h200(t, c.ranks)
		fell := map[int64]float64{}
		for _, seed := range []int64{noneFirst, allFirst, everyOther} {
			m.Seed = seed
			out, err := Run(w, m, sel[0], replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if out.Expected != out.Time {
				t.Errorf("a fall is given, and %v expected of %v", out.Expected, out.Time)
			}
			fell[seed] = float64(out.Time)
		}
		m.Seed = 0
		for i, s := range sel {
			out, err := Run(w, m, s, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := float64(out.Time)
			if i == 0 {
				want = c.alike*(fell[noneFirst]+fell[allFirst]) + (1-2*c.alike)*fell[everyOther]
			}
			if got := float64(out.Expected); math.Abs(got-want) > 1 {
				t.Errorf("%d ranks, %s: expected %.0f ns, want %.0f", c.ranks, s.Engine.Name, got, want)
			}
			if out.Best > out.Expected || out.Worst < out.Expected || i > 0 && out.Best != out.Worst {
				t.Errorf("%d ranks, %s: %v is expected of %v to %v", c.ranks, s.Engine.Name, out.Expected, out.Best, out.Worst)
			}
		}
	}
}

// Of two ranks a product stays first on one or both, tossed for twice, in 7 cases of
// 16; of four in 175 of 256.
func TestFalls(t *testing.T) {
	for _, c := range []struct {
		ranks   int
		gathers bool
		chunks  int
		want    []fall
	}{
		{2, false, 8, []fall{{noneFirst, 1. / 4}, {allFirst, 1. / 4}, {everyOther, 1. / 2}}},
		{4, false, 8, []fall{{noneFirst, 1. / 16}, {allFirst, 1. / 16}, {everyOther, 7. / 8}}},
		{2, true, 2, []fall{{noneFirst, 1. / 4}, {allFirst, 1. / 4}, {everyOther, 1. / 2}}},
		{2, true, 3, []fall{{allButOne, 7. / 16}, {allFirst, 1. / 4}, {everyOther, 5. / 16}}},
		{4, true, 4, []fall{{allButOne, 175. / 256}, {allFirst, 1. / 16}, {everyOther, 65. / 256}}},
	} {
		if got := falls(c.ranks, c.gathers, c.chunks); !slices.Equal(got, c.want) {
			t.Errorf("%d ranks, %d chunks, gathers %v: %v, want %v", c.ranks, c.chunks, c.gathers, got, c.want)
		}
	}
}

// The least expected time is chosen; a plain way is named if it is within what two
// runs of one program differ by.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		expected    []float64
		isPlain     []bool
		take, plain int
	}{
		{[]float64{100, 90, 80}, []bool{true, false, false}, 2, -1},
		{[]float64{100, 99, 98.5}, []bool{true, false, false}, 2, 0},
		{[]float64{100, 97.9, 0}, []bool{true, false, false}, 1, -1},
		{[]float64{100, 99.5, 99}, []bool{true, true, false}, 2, 1},
		{[]float64{80, 90}, []bool{true, false}, 0, -1},
		{[]float64{100, 99}, []bool{false, false}, 1, -1},
		{[]float64{0, 99}, []bool{true, false}, 1, -1},
		{[]float64{0}, []bool{true}, -1, -1},
	} {
		if take, plain := choose(c.expected, c.isPlain); take != c.take || plain != c.plain {
			t.Errorf("%v, plain %v: %d, plain %d; want %d and %d", c.expected, c.isPlain, take, plain, c.take, c.plain)
		}
	}
}

// A decomposition as a part of a mix varies between runs as it does alone: the
// same expected time and the same extremes, and the confidence says so.
func TestMixRaces(t *testing.T) {
	w, m := moeDown.build(t), h200(t, 4)
	s := mustParse(t, "decompose")[0]
	alone, err := Run(w, m, s, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if alone.Best >= alone.Expected || alone.Worst <= alone.Expected {
		t.Fatalf("alone it takes %d, from %d to %d: nothing varies", alone.Expected, alone.Best, alone.Worst)
	}
	choice := PairChoice{Outcomes: []Outcome{alone}}
	for i := range w.Pairs {
		choice.Rows = append(choice.Rows, i)
	}
	mixed, err := Run(w, m, Selection{mixedOf([]PairChoice{choice}), Values{}}, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if mixed.Expected != alone.Expected || mixed.Best != alone.Best || mixed.Worst != alone.Worst {
		t.Errorf("in a mix %d (%d to %d), alone %d (%d to %d)", mixed.Expected, mixed.Best, mixed.Worst, alone.Expected, alone.Best, alone.Worst)
	}
	v := doubts{w: w, out: mixed, m: &m}
	if v.race(); len(v.found) != 1 || v.found[0].level != Medium {
		t.Errorf("doubts %+v, want one of medium confidence", v.found)
	}
}
