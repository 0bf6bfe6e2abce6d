package compare

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A schedule that moves operations of a capture in which they overlapped starts from times
// alone and adds modelled interference. What interference does beyond the model it did to
// the captured schedule too, so the captured schedule is simulated in the same way, and the
// new schedule's time is scaled by the captured schedule's measured over simulated time
// (rule L6, a control variate). Where nothing overlapped there is no interference; there the
// ratio is at least 1: pauses that only the captured schedule has are not gained.

// relativeTo scales the outcome's time by that ratio, for a strategy with a Base.
func (o *Outcome) relativeTo(w *workload.Workload, sc plan.Scenario, stop func() bool) error {
	base := o.Strategy.Base
	if base == nil || !plan.WasMeasured(w) || w.Isolation == nil || w.Isolation.Memo == nil || o.Result == nil || !o.step || o.Changed.Workload.Origins != nil {
		return nil // Origins: the workload was cut anew, and other operations ran in the captured schedule
	}
	type key struct {
		plan.Scenario
		base string
	}
	sc.Seed, sc.Race, sc.Pace = 0, plan.MedianRace, 0
	found, err := w.Isolation.Memo.Get(key{sc, base.Name}, func() (any, error) {
		var times [2]trace.Time
		for i, s := range []plan.Strategy{schedule.Captured, *base} {
			v, _ := s.Values(nil)
			out := Outcome{Selection: plan.Selection{Strategy: s, Values: v}, Machine: o.Machine}
			if _, err := out.settleClock(w, sc, replay.Options{Like: true, Estimated: w.Run.Estimated, Stop: stop}); err != nil {
				return nil, err
			}
			times[i] = out.Time
		}
		if times[0] == 0 || times[1] == 0 {
			return 1.0, nil
		}
		return float64(times[0]) / float64(times[1]), nil
	})
	if err != nil {
		return err
	}
	ratio := found.(float64)
	if !overlapped(w) {
		ratio = max(1, ratio)
	}
	o.Time = trace.Time(float64(o.Time)*ratio + 0.5)
	return nil
}

// overlapped reports whether compute ran alongside collectives for a tenth of their time.
func overlapped(w *workload.Workload) bool {
	var beside, all trace.Time
	for row, runs := range w.Isolation.CoRunners {
		all += w.Collectives[row].Transfer()
		for _, r := range runs {
			beside += r.Time
		}
	}
	return beside > 0 && beside > all/10
}
