package verdict

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
)

// muchAdded is how much more than its estimate without the profiler a captured step may take until the estimate is no
// small correction, relative to it.
const muchAdded = 0.05

// addedBy is how much longer a captured iteration took than the captured schedule is predicted to without the profiler,
// relative to that; 0 if the prediction is no estimate of this kind.
func addedBy(w *workload.Workload, captured compare.Outcome) float64 {
	if !w.Unprofiled || !w.Profiled() || w.Rescaled != nil || captured.Expected <= 0 || workload.Iterations(w) == 0 {
		return 0
	}
	return max(0, float64(plan.MeasuredStepTime(w))/float64(captured.Expected)-1)
}

// profiler says that the captured time is for a large part the profiler's, within which limits the time without it is, and
// how to get a capture that says more.
func (v *Verdict) profiler(w *workload.Workload, captured compare.Outcome) {
	added := addedBy(w, captured)
	if added <= muchAdded {
		return
	}
	said := fmt.Sprintf("the captured step took %.0f %% longer than it is estimated to without the profiler, which holds up the host: between %s, for which devices are busy, and %s",
		100*added, explain.Micros(plan.BusyTime(w)), explain.Micros(plan.MeasuredStepTime(w)))
	v.say("%s; a capture with fewer records a launch (with_stack and profile_memory off), or of more steps, says more", said)
}

// besideProfiler withdraws the likelihood of a change that is none with the waits that the profiler made: where the time
// without it is much shorter, an error of that estimate decides the sign.
func (p *Prediction) besideProfiler(w *workload.Workload, captured compare.Outcome) {
	if asCaptured(p.Selection) || addedBy(w, captured) <= muchAdded {
		return
	}
	profiled := *w
	profiled.Unprofiled = false
	var times [2]float64
	asIs := schedule.Captured
	values, _ := asIs.Values(nil)
	for i, s := range []plan.Selection{{Strategy: asIs, Values: values}, p.Selection} {
		out, err := compare.Run(&profiled, p.Machine, s, captured.Scenario, replay.Options{Like: true})
		if err != nil || out.Result == nil || out.Expected <= 0 {
			return
		}
		times[i] = float64(out.Expected)
	}
	if change := times[1]/times[0] - 1; change > Faster {
		p.Evidence.Untested++
		p.Evidence.Why = fmt.Sprintf("the estimate of the time without the profiler decides: with the waits of the capture it takes %s", signed(change))
		p.Confidence = p.Evidence.Confidence(p.Change)
	}
}
