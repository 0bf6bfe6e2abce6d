package lift_test

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// A workload in other parts is a workload: ops in order, dependencies that hold, every
// operation once or, in a chain, once a part. Every iteration is issued in the same order. Cut
// back, steps have their captured times.
func TestRecut(t *testing.T) {
	w := lift.Open(t, "samples/measurements/2026-11-20-h200x4/traces/dlrm_train", lift.Options{})
	chains, m := lift.Chains(w), machinetest.Load(t, "h200")
	cut, _ := edit.Recut(w, m, 4, 0, nil)
	lift.CheckInvariants(t, cut)
	if got, want := len(cut.Collectives), len(w.Collectives)+3*len(chains); got != want {
		t.Errorf("%d collectives, want %d", got, want)
	}
	for i := range cut.Ops {
		if op, from := &cut.Ops[i], &w.Ops[cut.Origin(int32(i))]; op.Name != from.Name || op.Rank != from.Rank || op.Step != from.Step {
			t.Fatalf("op %d is %s of rank %d, from %s of rank %d", i, op.Name, op.Rank, from.Name, from.Rank)
		}
	}
	sameOrder(t, cut)
	again := lift.Chains(cut)
	if len(again) != len(chains) || again[0].Parts() != 4 {
		t.Fatalf("%d chains, the first in %d parts; want %d in 4", len(again), again[0].Parts(), len(chains))
	}
	whole, _ := edit.Recut(cut, m, 1, 0, nil)
	lift.CheckInvariants(t, whole)
	if len(whole.Ops) != len(w.Ops) || len(whole.Collectives) != len(w.Collectives) {
		t.Fatalf("%d ops and %d collectives, want %d and %d", len(whole.Ops), len(whole.Collectives), len(w.Ops), len(w.Collectives))
	}
	for i := range w.Steps {
		for r := range w.World {
			was, is := w.Steps[i].End[r]-w.Steps[i].Start[r], whole.Steps[i].End[r]-whole.Steps[i].Start[r]
			if d := float64(is) / float64(was); d < 0.97 || d > 1.03 {
				t.Errorf("step %d on rank %d takes %d ns, was %d", i, r, is, was)
			}
		}
	}
}

// sameOrder reports iterations of a rank that are not issued in the order of the first one, as forged times of issue once had
// them: the first issue of a capture takes no known time, so that it tied with the one behind it.
func sameOrder(t *testing.T, w *workload.Workload) {
	t.Helper()
	for rank := range w.Ranks {
		names := make([][]string, len(w.Steps))
		for _, id := range w.IssueOrder(rank) {
			if op := &w.Ops[id]; op.Step >= 0 {
				names[op.Step] = append(names[op.Step], op.Name)
			}
		}
		for i := range names {
			if !slices.Equal(names[i], names[0]) {
				t.Errorf("rank %d issues step %d in another order than the first one", rank, i)
			}
		}
	}
}

// A step with async tensor parallelism has pipelined all-gathers and reduce-scatters in
// turn; whole, it has as many collectives of the library as the same model compiled
// without, GEMMs over all rows and no barriers.
func TestUnpipelined(t *testing.T) {
	w := lift.Open(t, lift.StepTraces+"tp_sp_s4096_modeasync_tp", lift.Options{})
	compiled := lift.Open(t, lift.StepTraces+"tp_sp_s4096_modecompiled", lift.Options{})
	pipelines := edit.Pipelines(w)
	if n := len(edit.Pipelines(compiled)); n != 0 {
		t.Errorf("%d in the compiled step, want none", n)
	}
	if got, want := len(pipelines), len(compiled.Collectives); got != want {
		t.Fatalf("%d pipelined collectives, want %d", got, want)
	}
	for i := range pipelines {
		if c := &compiled.Collectives[i]; pipelines[i].Op != c.Op || pipelines[i].Bytes != c.Bytes {
			t.Errorf("%d: %s of %d bytes, want %s of %d", i, pipelines[i].Op, pipelines[i].Bytes, c.Op, c.Bytes)
		}
	}
	whole := edit.Undecomposed(w, machinetest.Load(t, "h200"), 0)
	lift.CheckInvariants(t, whole)
	gemms := func(w *workload.Workload) (rows int64) {
		for i := range w.Ops {
			if w.Ops[i].Shape.Kind == workload.GEMM {
				rows += w.Ops[i].Shape.M
			}
		}
		return rows
	}
	if got, want := gemms(whole), gemms(compiled); got != want || len(whole.Collectives) != len(compiled.Collectives) {
		t.Errorf("GEMMs of %d rows and %d collectives, want %d and %d", got, len(whole.Collectives), want, len(compiled.Collectives))
	}
}
