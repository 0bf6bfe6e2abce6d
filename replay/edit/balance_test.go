package edit_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Of three ranks that take 100, 120 and 160 µs, all take 120, or all 100. What one rank
// alone launches twice stays.
func TestBalanced(t *testing.T) {
	for text, want := range map[string]trace.Time{"balanced": 120_000, "balanced=fastest": 100_000} {
		w, m := plantest.Step(t, 3, "7 G1 100\n7 AR1=16 100 G1=16\n7 G2 50 AR1=16"), plantest.H200(t, 3)
		for rank, by := range []trace.Time{100_000, 120_000, 160_000} {
			for _, id := range w.Ranks[rank] {
				op := &w.Ops[id]
				switch {
				case op.Name == "G1":
					op.End = op.Start + by
				case op.Name == "G2" && rank == 2:
					k := *op.Kernel
					k.Name, op.Kernel = "own", &k
				}
			}
		}
		x := must.Have(machine.ParseWhatIf(text))(t)
		if x.String() != text {
			t.Errorf("%s reads as %s", text, x)
		}
		balanced, on := edit.WhatIf(w, m, x)
		if on.GPU.Flops.Value != m.GPU.Flops.Value {
			t.Error("another machine")
		}
		for i := range balanced.Ops {
			switch op := &balanced.Ops[i]; op.Name {
			case "G1":
				if op.DurAlone() != want || balanced.Lasts(op) != want {
					t.Errorf("%s: rank %d takes %d ns alone and %d in the captured schedule, want %d", text, op.Rank, op.DurAlone(), balanced.Lasts(op), want)
				}
			case "G2", "own":
				if op.DurAlone() != 50_000 {
					t.Errorf("%s: %s takes %d ns", text, op.Name, op.DurAlone())
				}
			}
		}
	}
	for _, text := range []string{"balanced=2", "balanced,balanced=fastest"} {
		if _, err := machine.ParseWhatIf(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
