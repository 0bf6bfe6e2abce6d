package engines

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
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

// A row that was measured behind other work waits for no host; the same without
// that takes at least what its two launches take the host.
func TestQueuedRows(t *testing.T) {
	row := machine.Row{ID: "r", Machine: "h200x2", World: 2, Strategy: "bulk", Us: 1, Workload: machine.Workload{Kind: "gemv+collective", Collective: "all_reduce"}}
	run, err := format.Open(filepath.Join("../samples/measurements/2026-11-22-h200x2-flags/traces/bulk_gemv_n8192_k2048_w2"), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := h200(t, 2)
	alone := CheckRow(row, run, m, 0, 0)
	row.Params.Queued = true
	queued := CheckRow(row, run, m, 0, 0)
	if alone.Why != "" || queued.Why != "" {
		t.Fatal(alone.Why, queued.Why)
	}
	if least := 1e6 * (m.Launch.Host.Value + m.Launch.HostCollective.Value); alone.Predicted < least {
		t.Errorf("%.1f us, launching takes %.1f", alone.Predicted, least)
	}
	if queued.Predicted > 25 { // kernels of 8.3 and 5.7 us, and what lies between
		t.Errorf("behind other work %.1f us", queued.Predicted)
	}
}
