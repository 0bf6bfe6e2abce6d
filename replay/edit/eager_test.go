package edit

import (
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

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
