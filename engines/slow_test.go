package engines_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Where collectives take several times the machine's law, other kernels in their place have no prediction: they may be as slow.
func TestSlowCollectivesKeepTheirKernels(t *testing.T) {
	w := *plantest.LiftSample(t, "llama70b-fc2-allreduce")
	w.Slow = []workload.SlowCollective{{Op: trace.AllReduce, Took: 5000, Law: 1000, Machine: "h200:4"}}
	for selection, refused := range map[string]bool{
		"captured": false, "bulk": false, "multistream": false, "decompose": false, "bulk:channels=16": false,
		"fused": true, "onesided:impl=twoshot": true, "bulk:protocol=ll": true, "bulk:algorithm=tree": true, "multistream:carrier=dma": true,
	} {
		sel, err := engines.ParseSelection(selection)
		if err != nil {
			t.Fatal(err)
		}
		_, err = schedule.Planned(sel[0].Strategy, &w, plantest.H200(t, 4), sel[0].Values, plan.Scenario{})
		var na *plan.NotApplicable
		if got := errors.As(err, &na) && strings.HasPrefix(na.Why, "no prediction: all_reduce takes 5 times the law of h200:4"); got != refused {
			t.Errorf("%s: %v, want refused: %v", selection, err, refused)
		}
	}
}
