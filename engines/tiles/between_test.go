package tiles_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Of the captured steps beside the checkout most have dependent GEMMs that tilesync can serve.
func TestTilesyncSteps(t *testing.T) {
	steps, err := filepath.Glob("../../../shared/data/steps/*/traces/*")
	if _, no := os.Stat("../../../shared/data"); no != nil || testing.Short() {
		t.Skip("the folder shared beside the checkout is absent: no captured steps")
	}
	if err != nil || len(steps) < 70 {
		t.Fatal(len(steps), err)
	}
	applies := 0
	for _, path := range steps {
		run := must.Have(format.Open(path, format.Options{}))(t)
		w := must.Have(lift.Workload(run, lift.Options{}))(t)
		v := must.Have(tiles.Tilesync.Values(nil))(t)
		_, err = schedule.Planned(tiles.Tilesync, w, plantest.H200(t, 2), v, plan.Scenario{})
		switch {
		case err == nil:
			applies++
		case len(err.Error()) < len("tilesync: does not apply: no GEMM in the trace"):
			t.Errorf("%s: no reason: %v", path, err)
		}
	}
	if applies < 40 {
		t.Errorf("tilesync applies to %d of %d steps", applies, len(steps))
	}
}
