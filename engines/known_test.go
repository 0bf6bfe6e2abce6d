package engines_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Strategies and settings that plan the same program, such as the captured schedule's, have one simulation, each under its own name.
func TestSameProgramIsSimulatedOnce(t *testing.T) {
	t.Parallel()
	w := plantest.LiftSample(t, "fsdp-step")
	m := plantest.H200(t, w.World)
	alone := must.Have(engines.Isolate(w, m, nil))(t)
	var simulated []string
	var mu sync.Mutex
	o := replay.Options{Like: true, Progress: func(run string, _ float64) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(simulated, run) {
			simulated = append(simulated, run)
		}
	}}
	control := must.Have(engines.Control(alone, m, plan.Scenario{}, o))(t)
	var outs []engines.Outcome
	for _, settings := range []string{"multistream,bulk,multistream:prefetch=2,multistream:prefetch=3", "bulk:channels=64"} {
		more := must.Have(engines.Compare(alone, m, enginetest.MustParse(t, settings), plan.Scenario{}, o, nil))(t)
		outs = append(outs, more...)
	}
	for _, of := range []struct {
		i     int
		as    *replay.Result
		equal bool
	}{{0, control.Result, true}, {1, control.Result, false}, {2, control.Result, false}, {3, control.Result, false}, {4, outs[1].Result, true}} {
		is := outs[of.i].Result
		if is.Run.Name != outs[of.i].String() || slices.Equal(is.Run.Spans, of.as.Run.Spans) != of.equal || (is.Makespan == of.as.Makespan) != of.equal {
			t.Errorf("%q runs %d ns, %q %d", is.Run.Name, is.Makespan, of.as.Run.Name, of.as.Makespan)
		}
	}
	if slices.Sort(simulated); !slices.Equal(simulated, []string{"", "bulk", "multistream prefetch=2", "multistream prefetch=3"}) {
		t.Errorf("simulated: %q", simulated)
	}
}
