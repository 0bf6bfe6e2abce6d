package engines

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A host is as many times slower than the profile's as its launch calls took
// longer; without either it is that one.
func TestHostPace(t *testing.T) {
	m := h200(t, 2)
	call := trace.Time(m.Launch.Call.Value * 1e9)
	unknown := h200(t, 2)
	unknown.Launch.Call = machine.Quantity{Mark: machine.Unknown}
	for _, c := range []struct {
		name  string
		m     machine.Machine
		calls []trace.Time
		want  float64
	}{
		{"the same", m, []trace.Time{call, 2 * call}, 1},
		{"twice as slow", m, []trace.Time{2 * call, call}, 2},
		{"no host in the trace", m, []trace.Time{0, 0}, 1},
		{"none in the profile", unknown, []trace.Time{2 * call, call}, 1},
	} {
		pl := &planner{m: c.m, w: &workload.Workload{Calls: c.calls}}
		if got := pl.hostPace(0); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
}
