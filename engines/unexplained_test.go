package engines

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A prediction does not depend on whether its causes can be recorded: of ranks that are too large together, one is simulated.
func TestTooLargeToExplain(t *testing.T) {
	w := plantest.Spec{Ranks: 2, Steps: 2, Op: trace.AllReduce, Bytes: 32 << 20, Gemm: 400_000, Comm: 150_000, Channels: 16}.Build(t)
	v, _ := schedule.Bulk.Values(nil)
	out, err := Run(w, plantest.H200(t, 2), plan.Selection{Strategy: schedule.Bulk, Values: v}, plan.Scenario{}, replay.Options{Causes: true, Limits: true, MostWGs: 300})
	if err != nil || out.Result == nil || out.Program != nil || !strings.Contains(out.Unexplained, "take too long to simulate") {
		t.Errorf("%v: %s, %v, not explained: %q", err, out.Why, out.Result != nil, out.Unexplained)
	}
}
