package plan_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Where power is plentiful the clock never falls, whatever is asked; where it is
// scarce it is full only at first.
func TestRegimes(t *testing.T) {
	w := plantest.MoeDown.Build(t)
	times := func(knee float64, regimes ...plan.ClockRegime) (at []float64) {
		m := plantest.H200(t, w.World)
		m.Clock.Knee.Value = knee
		for _, regime := range regimes {
			at = append(at, float64(enginetest.OutcomeIn(t, w, m, "bulk", nil, plan.Scenario{Clock: regime}).Time))
		}
		return at
	}
	all := []plan.ClockRegime{plan.FullClock, plan.SettledClock, plan.CapturedClock}
	if at := times(2, all...); at[0] != at[1] || at[0] != at[2] {
		t.Errorf("with power for all it takes %v", at)
	}
	at := times(0.4, all...)
	if at[1] < at[0]*1.05 {
		t.Errorf("with little power it takes %v at first and %v for long", at[0], at[1])
	}
	if at[2] > at[0]*1.01 || at[2] < at[0]*0.99 {
		t.Errorf("as captured it takes %v, captured was %v", at[2], at[0])
	}
}

// For long, a strategy settles where its draw can be kept up.
func TestSustainedDraw(t *testing.T) {
	w := plantest.MoeDown.Build(t)
	m := plantest.H200(t, w.World)
	m.Clock.Knee.Value = 0.4
	for _, e := range []string{"bulk", "decompose", "multistream"} {
		out := enginetest.OutcomeIn(t, w, m, e, nil, plan.Scenario{Clock: plan.SettledClock})
		d := plan.ClockOf(w, &m, out.Scenario, out.Changed).Demand(out.Scenario, out.Time)
		if draw := m.Clock.Draw(d, d.At); math.Abs(draw/0.4-1) > 0.02 {
			t.Errorf("%s settles at %.3f of the clock and draws %.3f", e, d.At, draw)
		}
	}
}

// On another GPU a loop of five iterations (7.8 ms, GEMMs at full clock, which for long would be 0.91) has the full clock
// too; for long it has that GPU's steady one.
func TestShortLoopsOnAnotherGPU(t *testing.T) {
	run := must.Have(format.Open("../../samples/measurements/2026-11-23-h200x2-eighth/traces/bulk_olmo2_fc2_all_reduce_w2", format.Options{}))(t)
	captured := must.Have(lift.Workload(run, lift.Options{}))(t)
	other := machinetest.Load(t, "h100:2")
	w := edit.To(captured, plantest.H200(t, 2), other)
	at := map[plan.ClockRegime]trace.Time{}
	for _, regime := range []plan.ClockRegime{plan.FullClock, plan.CapturedClock, plan.SettledClock} {
		at[regime] = enginetest.OutcomeIn(t, w, other, "captured", nil, plan.Scenario{Clock: regime}).Time
	}
	if at[plan.CapturedClock] != at[plan.FullClock] || float64(at[plan.SettledClock]) < 1.05*float64(at[plan.FullClock]) {
		t.Errorf("as captured it takes %d ns, at the full clock %d, for long %d", at[plan.CapturedClock], at[plan.FullClock], at[plan.SettledClock])
	}
}
