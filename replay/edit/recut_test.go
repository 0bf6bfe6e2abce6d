package edit

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
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

// Without its graph a program launches library kernels, kernels of its own and collectives at what each costs a host.
func TestEagerLaunches(t *testing.T) {
	m := plantest.H200(t, 2)
	w := plantest.Step(t, 2, `
7 G1  100
7 own 100 G1
7 AR1 100 own`)
	for i := range w.Ops {
		w.Ops[i].Graph = true
		w.Ops[i].Compiled = w.Ops[i].Name == "own"
	}
	l := &m.Launch
	for i, want := range []float64{l.Host.Value, l.Compiled.Value, l.HostCollective.Value} {
		if got := Eager(w, m).Hosts[0].Issues[i].Work; got != nanoseconds(want) {
			t.Errorf("%s costs its host %d ns, want %.0f", w.Ops[i].Name, got, 1e9*want)
		}
	}
}
