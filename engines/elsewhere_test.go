package engines_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A captured kernel that fits on no CU of the machine, as one of another GPU, keeps its time (rule D14).
func TestKernelOfAnotherGPU(t *testing.T) {
	m := plantest.H200(t, 2)
	took := func(shared int) trace.Time {
		w := plantest.Spec{Ranks: 2, Steps: 3, Op: trace.AllReduce, Bytes: 32 << 20, Gemm: 400_000, Comm: 150_000, Channels: 16}.Build(t)
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Kind == trace.Compute {
				k := *op.Kernel
				k.Footprint.Shared = shared
				op.Kernel = &k
			}
		}
		return enginetest.Outcome(t, w, m, "bulk", nil).Time
	}
	if here, elsewhere := took(100<<10), took(1<<20); elsewhere < here*98/100 || elsewhere > here*102/100 {
		t.Errorf("an iteration takes %d ns with kernels of another GPU, %d with those of this one", elsewhere, here)
	}
}
