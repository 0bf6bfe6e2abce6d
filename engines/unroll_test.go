package engines

import "testing"

// A loop unrolled from few captured iterations is the loop captured at length.
func TestUnroll(t *testing.T) {
	few, many := moeDown, moeDown
	few.steps, many.steps = 3, 9
	m := h200(t, few.ranks)
	w := unroll(few.build(t), many.steps)
	if _, n := iterations(w); n != many.steps {
		t.Fatalf("%d iterations, want %d", n, many.steps)
	}
	for _, e := range []string{"captured", "bulk", "multistream", "decompose"} {
		got, want := outcome(t, w, m, e, nil), outcome(t, many.build(t), m, e, nil)
		if got.Time != want.Time {
			t.Errorf("%s: %d ns an iteration, captured at length %d", e, got.Time, want.Time)
		}
	}
	if r := ResidualOf(w, outcome(t, w, m, "captured", nil).Result.Run); r.Ops != len(w.Ops) || r.Worst > 1 {
		t.Errorf("residual %+v of %d ops", r, len(w.Ops))
	}
	same := few.build(t)
	if unroll(same, 2) != same {
		t.Error("a workload with enough iterations was rebuilt")
	}
}
