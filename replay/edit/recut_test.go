package edit

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// A lookup that waits for single reads leaves a collective alone; one that saturates the
// memory, and copies, do not.
func TestDisturbs(t *testing.T) {
	r := newRecut(&workload.Workload{}, machinetest.Load(t, "h200"), recut{})
	for _, c := range []struct {
		kind  workload.ShapeKind
		bytes float64 // in a millisecond, of 4.1 GB
		want  bool
	}{{workload.Embedding, 1.2e9, false}, {workload.Embedding, 3.5e9, true}, {workload.Elementwise, 1.2e9, true}, {workload.GEMM, 0.1e9, true}} {
		op := &workload.Op{End: 1_000_000, Read: c.bytes, Kernel: &workload.Kernel{Shape: workload.Shape{Kind: c.kind}}}
		if got := r.disturbs(op); got != c.want {
			t.Errorf("%s of %.1f GB: %v", c.kind, c.bytes/1e9, got)
		}
	}
}
