package compare_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A strategy whose program is the captured schedule's has that schedule's run under its own name, without a simulation of its own.
func TestSameProgramIsSimulatedOnce(t *testing.T) {
	t.Parallel()
	w := plantest.LiftSample(t, "fsdp-step")
	m := plantest.H200(t, w.World)
	var simulated []string
	var mu sync.Mutex
	o := replay.Options{Like: true, Progress: func(run string, _ float64) {
		mu.Lock()
		defer mu.Unlock()
		simulated = append(simulated, run)
	}}
	alone, err := compare.Isolate(w, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	outs, err := compare.Compare(alone, m, enginetest.MustParse(t, "multistream,bulk"), plan.Scenario{}, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	control, err := compare.Control(alone, m, plan.Scenario{}, replay.Options{Like: true})
	if err != nil {
		t.Fatal(err)
	}
	same, other := outs[0].Result, outs[1].Result
	if same.Run.Name != "multistream" || !slices.Equal(same.Run.Spans, control.Result.Run.Spans) || same.Makespan != control.Result.Makespan {
		t.Errorf("%q runs %d ns, the captured schedule %d", same.Run.Name, same.Makespan, control.Result.Makespan)
	}
	if slices.Contains(simulated, "multistream") || !slices.Contains(simulated, "bulk") || other.Makespan == same.Makespan {
		t.Errorf("simulated: %q", slices.Compact(simulated))
	}
}
