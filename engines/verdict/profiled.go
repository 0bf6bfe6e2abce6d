package verdict

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// muchAdded is how much more than its estimate without the profiler a captured step may take until the estimate is no
// small correction, relative to it.
const muchAdded = 0.05

// added is how much longer a captured iteration took than the captured schedule is predicted to without the profiler, relative to
// that; 0 if the prediction is no estimate of this kind, below 0 where the estimate is longer, which no run without a profiler is.
func added(w *workload.Workload, captured engines.Outcome) float64 {
	measured := measuredStep(w, captured)
	if !w.Unprofiled || !w.Profiled() || w.Rescaled != nil || captured.Expected <= 0 || measured <= 0 || workload.Iterations(w) == 0 {
		return 0
	}
	return float64(measured)/float64(captured.Expected) - 1
}

// measuredStep is the captured time of an iteration of an outcome's phase.
func measuredStep(w *workload.Workload, captured engines.Outcome) trace.Time {
	return plan.MeasuredSteps(w).Of(captured.Phase).Time()
}

// profilerText says that the profiler made much of the captured time, between which limits the time without it is, and how to
// capture again; "" if it did not.
func profilerText(w *workload.Workload, captured engines.Outcome) string {
	added := added(w, captured)
	if added < 0 && plan.Contradicts(captured.Expected, measuredStep(w, captured)) {
		return fmt.Sprintf("the step without the profiler is estimated at %s, above the captured %s, which it cannot be: iterations or "+
			"kernels of the capture contradict each other; capture more steps",
			trace.Micros(captured.Expected), trace.Micros(measuredStep(w, captured)))
	}
	if added <= muchAdded {
		return ""
	}
	limits := "at most " + trace.Micros(measuredStep(w, captured))
	alone := slices.Contains(w.Copies, true) && len(w.Collectives) > 0 // waits for the others may look busy
	if busy := plan.BusyTime(w, captured.Phase); busy > 0 && !alone {
		limits = fmt.Sprintf("between %s, for which devices are busy, and %s", trace.Micros(busy), trace.Micros(measuredStep(w, captured)))
	}
	r := lift.RecorderOf(w.Run)
	less := r.Less
	if r.Torch && plan.CapturedPeak(w) > 0 {
		less += ", profile_memory off"
	}
	if less != "" {
		less = " (" + less + ")"
	}
	return fmt.Sprintf("the captured step took %.0f %% longer than its estimate without the profiler, which holds up the host: "+
		"that time is %s; record less for each launch%s, or more steps", 100*added, limits, less)
}

// besideProfiler makes a likely gain no likelier than where it is least of what the time without the profiler may be: with the
// waits of the capture, or with hosts that are as fast as they may be. Where the profiler added much, an error of that estimate
// decides. Where that estimate is above the captured time, no gain is likely.
func (p *Prediction) besideProfiler(w *workload.Workload, captured engines.Outcome) {
	added := added(w, captured)
	if added < 0 && !asCaptured(p.Selection) && plan.Contradicts(captured.Expected, measuredStep(w, captured)) {
		p.Evidence.Untested, p.Evidence.profiled = p.Evidence.Untested+1, true
		p.Evidence.Why = fmt.Sprintf("the estimate of the time without the profiler is %.0f %% above the captured one, "+
			"which it cannot be", 100*(1/(1+added)-1))
		p.Confidence = p.Evidence.Confidence(p.Change)
		return
	}
	if asCaptured(p.Selection) || added <= muchAdded {
		return
	}
	profiled, fast := w.Copy(), captured.Scenario
	profiled.Unprofiled, fast.FastHosts = false, true
	values, _ := schedule.Captured.Values(nil)
	base := plan.Selection{Strategy: schedule.Captured, Values: values}
	least, why := p.Change, ""
	for _, end := range []struct {
		w        *workload.Workload
		sc       plan.Scenario
		supposed string
	}{
		{profiled, captured.Scenario, "with the waits of the capture"},
		{w, fast, "with hosts as fast as they may be"},
	} {
		times := [2]float64{}
		for i, s := range []plan.Selection{base, p.Selection} {
			out, err := engines.Run(end.w, p.Machine, s, end.sc, replay.Options{Like: true})
			if err != nil || out.Result == nil || out.Expected <= 0 {
				return
			}
			times[i] = float64(out.Of(p.Phase).Expected)
		}
		if change := times[1]/times[0] - 1; change > least {
			least, why = change, fmt.Sprintf("the estimate of the time without the profiler decides: %s it takes %s",
				end.supposed, trace.Percent(change))
		}
	}
	at := p.Evidence.Confidence(least).Chance.PFaster
	if at < Likely {
		p.Evidence.Untested, p.Evidence.profiled, p.Evidence.Why = p.Evidence.Untested+1, true, why
		p.Confidence = p.Evidence.Confidence(p.Change)
	} else {
		p.Confidence.Chance.Error += least - p.Change
	}
	p.Confidence.Chance.PFaster = min(p.Confidence.Chance.PFaster, at)
}
