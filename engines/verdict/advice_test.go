package verdict

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Copies from the host are of saved tensors if the backward pass needs them and copies to the host came before: weights that are
// streamed, and an optimizer on the host, which copies to the host as well, are none.
func TestCopiesBringBack(t *testing.T) {
	w := plantest.LiftSample(t, "measurements/2026-11-30-h200-copies/traces/serial_1024")
	if bringsBack(w) {
		t.Error("weights are said to be saved tensors")
	}
	half := len(w.Run.Copies) / 2
	for i := range w.Run.Copies[:half] {
		w.Run.Copies[i].Dir = trace.DeviceToHost
	}
	if bringsBack(w) {
		t.Error("what an optimizer on the host brings is said to be saved tensors")
	}
	for i := range w.Ops {
		w.Ops[i].Backward = true
	}
	if !bringsBack(w) {
		t.Error("saved tensors are not known as such")
	}
}

// Kernels of libraries that store to peers are for one node; between nodes others put.
func TestWaysBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		file, strategy string
		effort         plan.Effort
	}{
		{"td-gemm-rs", "onesided", plan.ByFlag},
		{"td-gemm-rs-2nodes", "onesided", plan.ThirdParty},
		{"td-gemm-rs", "fused", plan.ThirdParty},
		{"td-gemm-rs-2nodes", "fused", plan.OwnKernel},
	} {
		w, m := plantest.SampleOperator(t, c.file)
		if _, effort := HowTo(w, enginetest.Outcome(t, w, m, c.strategy, nil)); effort != c.effort {
			t.Errorf("%s of %s: %s, want %s", c.strategy, c.file, effort, c.effort)
		}
	}
}
