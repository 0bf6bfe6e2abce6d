package compare_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay"
)

// A schedule takes the same time whether kernels that are alone are simulated as one phase,
// as for times, or by workgroup, as for pictures (rule D14).
func TestCoarseKeepsTimes(t *testing.T) {
	w := plantest.LiftSample(t, "measurements/2026-11-22-h200x2-steps/traces/h200x2_ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue")
	sel, err := engines.ParseSelection("bulk,decompose")
	if err != nil {
		t.Fatal(err)
	}
	m := plantest.H200(t, w.World)
	for _, s := range sel {
		var times []float64
		for _, o := range []replay.Options{{}, {Level: replay.Workgroups, Ranks: []int{0}, To: 1}} {
			out, err := compare.Run(w, m, s, plan.Scenario{}, o)
			if err != nil || out.Result == nil {
				t.Fatal(err, out.Why)
			}
			times = append(times, float64(plan.StepTime(w, out.Result.Run)))
		}
		if math.Abs(times[1]/times[0]-1) > 0.001 {
			t.Errorf("%s: %.0f ns by workgroup, %.0f as for times", s.Strategy.Name, times[1], times[0])
		}
	}
}
