package engines_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Two kernels run side by side on two streams. If one's operator lists tensors that the
// memory does not move in its time, its time alone stays what it is, and so does bulk's.
func TestTrafficWithinMemoryRate(t *testing.T) {
	m := plantest.H200(t, 2)
	rate := m.GPU.Memory.Value
	for _, c := range []struct{ listed, kept float64 }{{0.5, 0.5}, {2, 1}, {100, 0}} { // relative to what the memory moves in its time
		w := plantest.Step(t, 2, "7 G1 100\n8 b 50\n9 AR1=16 100 G1=16\n7 G2 100 AR1=16 waits AR1")
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Name == "b" {
				k := *op.Kernel
				k.Shape.Kind = workload.Elementwise
				op.Kernel, op.Read = &k, c.listed*rate*plan.Seconds(op.Dur())
			}
		}
		out, err := engines.Run(w, m, enginetest.MustParse(t, "bulk")[0], plan.Scenario{}, replay.Options{})
		if err != nil || out.Time < 230_000 || out.Time > 300_000 {
			t.Errorf("%g times the memory's rate: bulk takes %d ns, %v", c.listed, out.Time, err)
		}
		alone := must.Have(engines.Isolate(w, m, nil))(t)
		for i := range alone.Ops {
			op := &alone.Ops[i]
			if op.Name != "b" {
				continue
			}
			if moved := op.Read / rate / plan.Seconds(op.Dur()); math.Abs(moved-c.kept) > 1e-9 || op.DurAlone() < op.Dur()/2 {
				t.Errorf("%g times the memory's rate: %g kept, %d ns alone of %d", c.listed, moved, op.DurAlone(), op.Dur())
			}
		}
	}
}
