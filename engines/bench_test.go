package engines_test

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// BenchmarkCompare replays a sample of two iterations of a whole model under all
// strategies, on as many cores as there are.
func BenchmarkCompare(b *testing.B) {
	w, m := plantest.LiftSample(b, "llama70b-prefill"), plantest.H200(b, 4)
	all := must.Have(engines.ParseSelection("all"))(b)
	for b.Loop() {
		if _, err := engines.Compare(w, m, all, plan.Scenario{}, replay.Options{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplayStep replays two training steps of fully_shard (1,800 operations on two
// ranks) under all strategies with their default settings, the durations alone included; and
// the same as steps of a job of which one rank was captured.
func BenchmarkReplayStep(b *testing.B) {
	const folder = "../samples/measurements/2026-11-22-h200x2-steps/traces/h200x2_fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardTrue"
	for _, ranks := range []int{2, 8, 64} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			path := folder
			if ranks > 2 {
				path += "/rank0.json.gz"
			}
			run := must.Have(format.Open(path, format.Options{}))(b)
			w := must.Have(lift.Workload(run, lift.Options{World: ranks}))(b)
			m := must.Have(machine.Load("h200"))(b)
			m = m.Resize(ranks)
			sel := must.Have(engines.ParseSelection("all"))(b)
			b.ReportMetric(float64(len(w.Ops)), "ops")
			for b.Loop() {
				if _, err := engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
