package verdict

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Under no strategy does a stream or a slot of the samples stand still for no reason.
func TestSamplesHaveReasons(t *testing.T) {
	for _, sample := range []string{"moe-ep4", "llama70b-prefill", "llama70b-fc2-allreduce"} {
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			w := plantest.LiftSample(t, sample)
			for _, e := range engines.All() {
				v, err := e.Values(nil)
				if err != nil {
					t.Fatal(err)
				}
				out, err := engines.Run(w, plantest.H200(t, w.World), plan.Selection{Strategy: e, Values: v}, plan.Scenario{}, replay.Options{Level: replay.Phases, Ranks: []int{1}})
				if err != nil {
					t.Fatal(err)
				}
				if out.Result == nil {
					continue
				}
				for _, i := range out.Result.Idle() {
					if i.Cause == program.Cause(0) {
						t.Errorf("%s: stream %d of rank %d stands still from %d to %d", e.Name, i.Queue, i.Rank, i.Start, i.End)
					}
				}
				held, vacant := 0, 0
				for _, s := range out.Result.Run.Spans {
					switch {
					case s.Kind == trace.Workgroup:
						held++
					case s.Vacant():
						vacant++
						if name := out.Result.Run.NameOf(s); name == "" || strings.HasPrefix(name, program.Cause(0).String()) {
							t.Errorf("%s: a slot is vacant from %d to %d: %q", e.Name, s.Start, s.End, name)
						}
					}
				}
				if (held > 0) != (vacant > 0) {
					t.Errorf("%s: %d workgroups, %d vacant times", e.Name, held, vacant)
				}
			}
		})
	}
}
