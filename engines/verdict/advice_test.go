package verdict

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
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
