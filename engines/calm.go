package engines

import (
	"errors"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
)

// calm sets how long kernels would have lasted without the profiler, beside collectives that waited for captured
// ranks (rule L7). What slowed such a kernel is shared among what ran alongside by its time, and what the waits did
// goes with them. But without the profiler ranks are not level either: a kernel that the captured schedule, simulated
// at the pace of unprofiled hosts, has beside a collective again is slowed again. Of the captured slowing it keeps the
// larger of what was no wait and of the simulated slowing there over that in the capture.
func (s *isolation) calm(stop func() bool) error {
	waits := func(x subject) bool { return x.waited > 0 }
	if !slices.ContainsFunc(s.open, waits) {
		return nil
	}
	ran, err := s.unprofiled(stop)
	if err != nil {
		return err
	}
	for i := range s.open {
		x := &s.open[i]
		if !waits(*x) {
			continue
		}
		kept := 1 - x.waited
		if ran != nil {
			kept = max(kept, slowedAgain(x, ran[x.op.ID]))
		}
		x.op.Calm = 1 - (1-kept)*(1-float64(*x.alone())/float64(x.captured))
	}
	return nil
}

// slowedAgain is the slowing of a kernel where it runs without the profiler over that in the capture, both simulated, at
// most 1.
func slowedAgain(x *subject, ran plan.Interval) float64 {
	slowed := float64(ran.End-ran.Start)/float64(max(1, *x.alone())) - 1
	if slowed <= 0 {
		return 0
	}
	return min(1, slowed/max(x.stretch-1, 1e-9))
}

// unprofiled simulates the captured schedule with interference as hosts without the profiler issue it, and returns
// when each operation ran; nil if that cannot run.
func (s *isolation) unprofiled(stop func() bool) ([]plan.Interval, error) {
	w := s.w.Copy()
	w.Unprofiled = true
	pl, err := schedule.Planned(schedule.InPlace, w, s.m, plan.Values{}, plan.Scenario{})
	if err != nil {
		return nil, nil //nolint:nilerr // what waits did goes wholly
	}
	out := Outcome{Selection: plan.Selection{Strategy: schedule.InPlace}, Machine: s.m} // kept for what is relative to the same program
	result, err := out.run(w, pl, replay.Options{Name: "captured without the profiler", Stop: stop})
	if err == nil {
		return s.intervalsOf(result), nil
	}
	if errors.Is(err, replay.ErrStopped) {
		return nil, err
	}
	return nil, nil // as above
}
