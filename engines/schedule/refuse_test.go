package schedule_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A program with flags for each pair of ranks of a large job is refused.
func TestTooManyFlags(t *testing.T) {
	w := &workload.Workload{World: 64, Run: &trace.Run{}, Ranks: make([][]int32, 64)}
	e := plan.Strategy{Name: "s", Plan: func(pl *plan.Planner, _ plan.Values) (emit plan.Emitter, why string) {
		pl.Program.NewFlags(1<<26, "of a pair")
		return nil, ""
	}}
	_, err := schedule.Planned(e, w, machine.Machine{GPUs: 64}, nil, plan.Scenario{})
	if want := "s: does not apply: 67108929 flags between 64 ranks take too much memory to simulate (a job of at most 31 ranks)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
