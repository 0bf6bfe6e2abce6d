package verdict

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A decomposition as a part of a mix varies between runs as it does alone: the
// same expected time and the same extremes, and as evidence.
func TestMixRaces(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	s := enginetest.MustParse(t, "decompose")[0]
	alone := must.Have(engines.Run(w, m, s, plan.Scenario{}, replay.Options{}))(t)
	if alone.Best >= alone.Expected || alone.Worst <= alone.Expected {
		t.Fatalf("alone it takes %d, from %d to %d: nothing varies", alone.Expected, alone.Best, alone.Worst)
	}
	choice := engines.PairChoice{Outcomes: []engines.Outcome{alone}}
	for i := range w.Pairs {
		choice.Rows = append(choice.Rows, i)
	}
	mixed := must.Have(engines.Run(w, m, plan.Selection{Strategy: engines.MixedOf([]engines.PairChoice{choice}), Values: plan.Values{}}, plan.Scenario{}, replay.Options{}))(t)
	if mixed.Expected != alone.Expected || mixed.Best != alone.Best || mixed.Worst != alone.Worst {
		t.Errorf("in a mix %d (%d to %d), alone %d (%d to %d)", mixed.Expected, mixed.Best, mixed.Worst, alone.Expected, alone.Best, alone.Worst)
	}
	if mix, own := EvidenceOf(w, mixed), EvidenceOf(w, alone); mix.Spread == 0 || mix.Spread != own.Spread {
		t.Errorf("spread %v in a mix, %v alone", mix.Spread, own.Spread)
	}
}

// Copies from the host are of saved tensors if the backward pass needs them and copies to the host came before: weights that are
// streamed, and an optimizer on the host, which copies to the host as well, are none.
func TestCopiesBringBack(t *testing.T) {
	w := plantest.LiftSample(t, "measurements/2026-11-30-h200-copies/traces/serial_1024")
	if bringsBack(w) {
		t.Error("weights are said to be saved tensors")
	}
	half := len(w.Run.Copies) / 2
	for i := range w.Run.Copies[:half] {
		w.Run.Copies[i].Dir = trace.DeviceToHost
	}
	if bringsBack(w) {
		t.Error("what an optimizer on the host brings is said to be saved tensors")
	}
	for i := range w.Ops {
		w.Ops[i].Backward = true
	}
	if !bringsBack(w) {
		t.Error("saved tensors are not known as such")
	}
}

// The scales of the distribution of changes are those that measured rows gave (rule E8), written out here: an
// edit of a constant must not pass unseen.
func TestScales(t *testing.T) {
	m := Model{Kernels: 0.02, Order: 0.02, Unknown: 0.1}
	scale := func(e Evidence) float64 {
		_, scale := m.errorOf(0, e)
		return scale
	}
	for _, c := range []struct {
		name string
		e    Evidence
		want float64
	}{
		{"two runs of one schedule differ by 0.6 %", Evidence{OtherKernels: true}, math.Sqrt(0.006*0.006 + 0.02*0.02)},
		{"which is left where everything else is known", Evidence{OtherKernels: true, Rest: 1}, 0.006},
		{"ranks that were not captured widen the rest by a tenth", Evidence{OtherKernels: true, Copied: true}, math.Sqrt(0.006*0.006 + 0.022*0.022)},
	} {
		if got := scale(c.e); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: scale %.6f, want %.6f", c.name, got, c.want)
		}
	}
	if got, want := m.unknown(Evidence{}), math.Sqrt(0.006*0.006+0.1*0.1); math.Abs(got-want) > 1e-12 {
		t.Errorf("scale of a prediction that does not hold %.6f, want %.6f", got, want)
	}
}

// Under no strategy does a stream or a slot of the samples stand still for no reason.
func TestSamplesHaveReasons(t *testing.T) {
	for _, sample := range []string{"moe-ep4", "llama70b-prefill", "llama70b-fc2-allreduce"} {
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			w := plantest.LiftSample(t, sample)
			for _, e := range engines.All() {
				v := must.Have(e.Values(nil))(t)
				out := must.Have(engines.Run(w, plantest.H200(t, w.World), plan.Selection{Strategy: e, Values: v}, plan.Scenario{}, replay.Options{Level: replay.Phases, Ranks: []int{1}}))(t)
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

// Kernels of libraries that store to peers are for one node; between nodes others put.
func TestWaysBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		file, strategy string
		effort         plan.Effort
	}{
		{"td-gemm-rs", "onesided", plan.ByFlag},
		{"td-gemm-rs-2nodes", "onesided", plan.ThirdParty},
		{"td-gemm-rs", "fused", plan.ThirdParty},
		{"td-gemm-rs-2nodes", "fused", plan.OwnKernel},
	} {
		w, m := plantest.SampleOperator(t, c.file)
		if _, effort := HowTo(w, enginetest.Outcome(t, w, m, c.strategy, nil)); effort != c.effort {
			t.Errorf("%s of %s: %s, want %s", c.strategy, c.file, effort, c.effort)
		}
	}
}
