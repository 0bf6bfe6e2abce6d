package tiles_test

import (
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// GEMMs of different memory intensity have different thresholds in one program. Each
// takes as long as with its threshold applied to all.
func TestTriggerArbitrationOfEachGEMM(t *testing.T) {
	two := plantest.Scattered
	two.Steps = 2
	for _, intensities := range [][]float64{{.9, .6}, {.3, .9}, {.1, .9}} {
		w, m := two.Build(t), plantest.H200(t, 4)
		m.GPU.Memory.Value = 400e9
		for i := range w.Ops {
			op := &w.Ops[i]
			op.Read = intensities[op.Step] * m.GPU.Memory.Value * float64(two.Gemm) / 1e9
		}
		gemms := func(queue string) []trace.Time {
			run := enginetest.Outcome(t, w, m, "trigger", map[string]string{"arbitration": "mca", "queue": queue}).Result.Run
			took := []trace.Time{}
			for _, s := range run.Spans {
				if s.Kind == trace.Compute && run.RankOf(s) == 0 && run.NameOf(s) == "gemm_256x128" && run.Lanes[s.Lane].Kind == trace.Queue {
					took = append(took, s.End-s.Start)
				}
			}
			if len(took) != 2 {
				t.Fatalf("GEMMs %v, want 2", took)
			}
			return took
		}
		entries := func(step int) string {
			pl := plan.Planner{Workload: w, Machine: m}
			n := tiles.Threshold(tiles.Intensity(&pl, &w.Ops[w.Pairs[step].First[0]]))
			if n == tiles.Unlimited {
				return "none"
			}
			return strconv.Itoa(n)
		}
		got, first, second := gemms("auto"), gemms(entries(0)), gemms(entries(1))
		if got[0] != first[0] || got[1] != second[1] {
			t.Errorf("intensities %v: GEMMs take %v; with %s entries %v, with %s %v", intensities, got, entries(0), first, entries(1), second)
		}
		if first[0] == second[0] && first[1] == second[1] {
			t.Errorf("intensities %v: thresholds %s and %s do not matter (%v, %v)", intensities, entries(0), entries(1), first, second)
		}
	}
}
