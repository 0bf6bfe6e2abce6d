package schedule_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Without host calls in the trace a pause in which a rank was idle stays: no schedule of
// the device's work removes what the host does.
func TestPausesWithoutHostCallsStay(t *testing.T) {
	const pause = 2_000_000
	s := plantest.Spec{Ranks: 2, Steps: 4, Op: trace.AllReduce, Bytes: 64 << 20, Gemm: 500_000, Comm: 300_000, Channels: 8}
	w := s.Build(t)
	for i := range w.Ops {
		by := trace.Time(w.Ops[i].Step) * pause
		w.Ops[i].Start += by
		w.Ops[i].End += by
		if w.Ops[i].Collective < 0 && w.Ops[i].Step > 0 {
			w.Ops[i].Gap += pause
		}
	}
	for i := range w.Collectives {
		by := trace.Time(w.Ops[w.Collectives[i].Members[0]].Step) * pause
		w.Collectives[i].Arrive += by
		w.Collectives[i].Depart += by
	}
	w.Pairs = nil
	out := enginetest.Outcome(t, w, plantest.H200(t, s.Ranks), "multistream", nil)
	if measured := plan.MeasuredSteps(w).Time(); out.Time < pause || out.Time > measured*11/10 {
		t.Errorf("an iteration takes %d ns, captured %d with a pause of %d", out.Time, measured, trace.Time(pause))
	}
}
