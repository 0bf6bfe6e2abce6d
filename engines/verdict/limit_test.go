package verdict

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// captures are the samples that are training or serving steps.
var captures = []string{"ddp-step", "fsdp-step", "llama70b-fc2-allreduce", "llama70b-prefill", "moe-down-triton", "moe-ep4"}

// What an iteration consists of adds up to its time on every rank, and it computes for as
// long as a mean iteration of the run: of every sample and strategy, with some settings.
func TestTimesAddUp(t *testing.T) {
	const some = "all,bulk:channels=8,decompose:chunks=2,multistream:buffers=2,multistream:priority=on,multistream:graph=on,fused:order=oblivious,ideal:variant=gemm-rs"
	for _, name := range captures {
		t.Run(name, func(t *testing.T) {
			w := plantest.LiftSample(t, name)
			m := plantest.H200(t, w.World)
			sel := must.Have(engines.ParseSelection(some))(t)
			outs := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t)
			for _, out := range outs {
				if out.Result != nil {
					addUp(t, w, out)
				}
			}
		})
	}
}

func addUp(t *testing.T, w *workload.Workload, out engines.Outcome) {
	near := func(a, b trace.Time, by float64) bool { return math.Abs(float64(a-b)) <= by*float64(max(b, 1000)) }
	c := plan.StepsOf(w, out.Result.Run)
	whole := overlap.Collect(out.Result.Run).Metrics()
	n := trace.Time(max(1, workload.Iterations(w)))
	for rank, x := range c.Times(overlap.Collect(out.Result.Run), out.Time) {
		if least := min(x.Compute, x.Transfer, x.Waiting, x.Copies, x.Idle, x.Hidden); !near(x.Total(), out.Time, 0.001) || least < 0 {
			t.Errorf("%s: rank %d: %+v add up to %d ns of %d", out, rank, x, x.Total(), out.Time)
		}
		if all := whole.Ranks[rank].Compute / n; !out.Strategy.Inside && !near(x.Compute, all, 0.05) {
			t.Errorf("%s: rank %d computes for %d ns of an iteration, %d in the mean of the run", out, rank, x.Compute, all)
		}
	}
	if l := TimesOf(w, out); !near(l.Total(), out.Expected, 0.001) {
		t.Errorf("%s: %+v add up to %d ns of %d", out, l, l.Total(), out.Expected)
	}
}
