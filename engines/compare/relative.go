package compare

import (
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A strategy starts from times alone and adds modelled interference, and its writer adds gaps and
// waits. What the model does to the captured schedule it does to others too, so the captured
// schedule is simulated by the same writer, and the new schedule's time is scaled by the captured
// schedule's time over that (rule L6, a control variate): a strategy that changes nothing takes
// the captured time.

// Control is the captured schedule as strategies simulate it, with nothing changed and not scaled: its distance
// from the captured time is the error of the simulation.
func Control(w *workload.Workload, m machine.Machine, sc plan.Scenario, o replay.Options) (Outcome, error) {
	out := Outcome{Selection: plan.Selection{Strategy: schedule.InPlace, Values: plan.Values{}}, Machine: m}
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return out, err
	}
	_, err = out.settleClock(w, sc, o)
	for _, t := range out.eachTime() {
		t.Expected, t.Best, t.Worst = t.Time, t.Time, t.Time
	}
	return out, err
}

// baseOf is the captured schedule as a plan has it written: of a step whose collectives stay in place, with or without
// settings that may move them.
func baseOf(pl *plan.Planner) *plan.Strategy {
	if pl.InPlace {
		return &schedule.Multistream
	}
	return &schedule.InPlace
}

// relativeTo scales the outcome's times by that ratio, those of each phase by the phase's own.
func (o *Outcome) relativeTo(w *workload.Workload, sc plan.Scenario, stop func() bool) error {
	if o.Strategy.Exact || o.Strategy.Bound || !plan.WasMeasured(w) || w.Isolation == nil || w.Isolation.Memo == nil || o.Result == nil || o.Changed.Workload.Origins != nil {
		return nil // Origins: the workload was cut anew, and other operations ran in the captured schedule
	}
	type key struct {
		plan.Scenario
		base       string
		unprofiled bool
	}
	sc.Seed, sc.Race, sc.Pace = 0, plan.MedianRace, 0
	found, err := w.Isolation.Memo.Get(key{sc, o.base.Name, w.Unprofiled}, func() (any, error) {
		var times [2][]*stepTime
		for i, s := range []plan.Strategy{schedule.Captured, *o.base} {
			v, _ := s.Values(nil)
			out := Outcome{Selection: plan.Selection{Strategy: s, Values: v}, Machine: o.Machine}
			if _, err := out.settleClock(w, sc, replay.Options{Like: true, Estimated: w.Run.Estimated, Stop: stop}); err != nil {
				return nil, err
			}
			times[i] = out.eachTime()
		}
		var ratios []float64 // of all iterations, then of those of each phase
		for i, was := range times[0] {
			ratio := 1.0
			if i < len(times[1]) && was.Time != 0 && times[1][i].Time != 0 {
				ratio = float64(was.Time) / float64(times[1][i].Time)
			}
			ratios = append(ratios, ratio)
		}
		return ratios, nil
	})
	if err != nil {
		return err
	}
	ratios := found.([]float64)
	for i, t := range o.eachTime() {
		if i < len(ratios) {
			t.Time, t.Noise = trace.Time(float64(t.Time)*ratios[i]+0.5), math.Abs(1/ratios[i]-1)
		}
	}
	return nil
}
