package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

func state(name string, a, b trace.Time) overlap.Change {
	return overlap.Change{Group: overlap.ByState, Name: name, A: a, B: b, Diff: b - a}
}

func simulatedKernel(name string, a, b trace.Time, countA, countB int) overlap.Change {
	return overlap.Change{Group: overlap.ByKernel, Name: name, A: a, B: b, Diff: b - a, CountA: countA, CountB: countB}
}

// A fused kernel is compared with the GEMM and the part of the collectives that it replaces, in
// both directions, and the causes add up to the difference of the states.
func TestFusedKernelsAreAGroup(t *testing.T) {
	exposed := overlap.Transferring.String()
	rows := func() []overlap.Change {
		return []overlap.Change{
			state("compute alone", 2800, 3000), state(exposed, 900, 350), state("idle", 20, 190),
			{Group: overlap.ByCause, Name: "flag", A: 20, B: 190, Diff: 170},
			simulatedKernel("gemm + all_to_all", 0, 2900, 0, 3), simulatedKernel("gemm", 2700, 0, 3, 0),
			simulatedKernel("nccl", 900, 350, 6, 3), simulatedKernel("add", 100, 100, 3, 3),
		}
	}
	kinds := map[string]trace.Kind{"gemm + all_to_all": trace.Compute, "gemm": trace.Compute, "add": trace.Compute, "nccl": trace.Collective}
	operations := map[string]string{"nccl": "all_to_all"}
	reversed := rows()
	for i := range reversed {
		r := &reversed[i]
		r.A, r.B, r.CountA, r.CountB, r.Diff = r.B, r.A, r.CountB, r.CountA, -r.Diff
	}
	for sign, in := range map[trace.Time][]overlap.Change{1: rows(), -1: reversed} {
		joined, moved := joinFused(in, kinds, operations)
		sums := map[string]trace.Time{}
		for _, c := range causesOf(joined, moved, kinds) {
			sums[c.Name] += sign * c.Diff
		}
		want := map[string]trace.Time{"gemm and all_to_all": 2900 - 2700 - 550, exposed: 0, "idle for flag": 170, "add": 0, "kernels side by side": 0}
		if diff := cmp.Diff(want, sums); diff != "" {
			t.Errorf("direction %d: %s", sign, diff)
		}
	}
}

// A kernel with another name that runs as often replaces the one that is gone.
func TestExplanation(t *testing.T) {
	rows := []overlap.Change{
		state("compute alone", 60_000_000, 56_700_000), state("waiting", 5_000_000, 3_900_000), state("copies", 1_000_000, 1_200_000),
		simulatedKernel("gemm_old", 30_000_000, 0, 4, 0), simulatedKernel("gemm_new", 0, 26_700_000, 0, 4), simulatedKernel("add", 30_000_000, 30_000_000, 9, 9),
	}
	d := Difference{A: side{Time: 66_000_000}, B: side{Time: 61_800_000}, PerStep: true, Change: 61.8/66 - 1}
	d.Causes = causesOf(rows, 0, map[string]trace.Kind{"gemm_old": trace.Compute, "gemm_new": trace.Compute, "add": trace.Compute})
	want := "B is 4200.0 µs per step (6.4 %) faster. Less: gemm_new in place of gemm_old -3300.0 µs, waiting -1100.0 µs. More: copies +200.0 µs."
	d.sortCauses()
	if got := d.explain(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r := differenceOf(side{Time: 100_000, under: "bulk", items: []overlap.Item{{Group: byStrategy, Name: "bulk", Time: 100_000}, {Group: byStrategy, Name: "fused", Time: 80_000}}},
		side{Time: 101_000, items: []overlap.Item{{Group: byStrategy, Name: "bulk", Time: 101_000}, {Group: byStrategy, Name: "fused", Time: 90_000}}})
	if want := "Under bulk, B is 1.0 µs (1.0 %) slower. Most differs fused: +12.5 %."; r.Explanation != want {
		t.Errorf("got  %s\nwant %s", r.Explanation, want)
	}
	d.B.Time, d.Change, d.Causes = d.A.Time, 0, nil
	if got, want := d.explain(), "A and B take the same time, 66.00 ms per step."; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
