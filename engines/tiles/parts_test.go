package tiles_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A GEMM in other parts along K takes as long as parts of its loop and the sums of its parts, one after another (rule
// T11): 64x12288x6144 in tiles of 64x256 on an H100 and an H200, whose kernels took so long in 1, 2, 3 and 5 parts
// (engines/score/testdata/h*00-tiles.jsonl, rows of spread, last workgroups). Shares of the loop alone are up to 38 % short.
func TestPartsAddTheirSums(t *testing.T) {
	measured := map[string]map[string]float64{
		"h100": {"1": 291.8, "2": 158.3, "3": 120.2, "5": 93.7},
		"h200": {"1": 296.2, "2": 155, "3": 116.7, "5": 87.1},
	}
	for gpu, took := range measured {
		m := must.Have(machine.Load(gpu + ":1"))(t)
		w := plantest.Chain{Ranks: 1, Steps: 1, M: 64, GEMMs: []plantest.Dense{
			{Name: "gemm", N: 6144, K: 12288, Rows: 64, Cols: 256, Dur: trace.Time(1000 * took["1"])},
			{Name: "next", N: 12288, K: 6144, Rows: 64, Cols: 256, Dur: 150_000},
		}}.Build(t)
		pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
		for parts, us := range took {
			is := float64(tiles.InParts(pl, &w.Ops[0], parts, 0).DurAlone()) / 1000
			if is > 1.01*us || is < 0.74*us {
				t.Errorf("%s in %s parts: %.1f us, measured %.1f", gpu, parts, is, us)
			}
		}
	}
}
