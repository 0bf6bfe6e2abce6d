package plan_test

import (
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/engines/validate"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/trace/format"
)

// A row that was measured behind other work waits for no host; the same without
// that takes at least what its two launches take the host.
func TestQueuedRows(t *testing.T) {
	row := calibrate.Row{ID: "r", Machine: "h200x2", World: 2, Strategy: "bulk", Us: 1, Workload: calibrate.Workload{Kind: "gemv+collective", Collective: "all_reduce"}}
	run, err := format.Open(filepath.Join("../../samples/measurements/2026-11-22-h200x2-flags/traces/bulk_gemv_n8192_k2048_w2"), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := plantest.H200(t, 2)
	alone := validate.CheckRow(row, run, m, 0, 0)
	row.Params.Queued = true
	queued := validate.CheckRow(row, run, m, 0, 0)
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
