package verdict

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// notBelieved begins the reason of a row that is withdrawn.
const notBelieved = "not believed: "

// check withdraws a prediction that cannot be: every time is positive, no part of one is negative,
// every number is finite, and no gain is larger than what the schedule can change of the captured one
// (touched). It says of a possible one what is against it: a change within the error of the captured
// schedule's own simulation, a gain though the same work has more exposed communication, beyond
// what collectives measurably slowed kernels, or one of a graph that would be none with the captured waits for ranks that
// nobody captured.
func (p *Prediction) check(w *workload.Workload, captured engines.Outcome) {
	base := captured.Expected
	why := impossible(base, *p.Times)
	for _, t := range []trace.Time{p.Expected, p.Best, p.Worst} {
		if why == "" && t <= 0 {
			why = fmt.Sprintf("a time of %s", trace.Micros(t))
		}
	}
	if why == "" && !finite(p.Change, p.Noise, p.Evidence.Spread, p.Evidence.Rest) {
		why = "its change, or what that rests on, is no number"
	}
	gain := base - p.Expected
	// bounds are no schedules
	if why == "" && gain > 0 && p.Simulated > 0 && captured.Times != nil && !p.Evidence.none && !asCaptured(p.Selection) {
		was, is := *captured.Times, simulatedTimes(w, p.Outcome)
		rounding := trace.Time(leastGain * float64(base)) // of parts
		gaps, work := max(0, was.Idle-is.Idle), max(0, was.Compute-is.Compute)
		switch most := was.Exposed() + was.Copies + gaps + work; {
		case gain > most+rounding:
			why = fmt.Sprintf("it gains %s, and can change %s at most: exposed communication, copies, gaps and work that it removes",
				trace.Micros(gain), trace.Micros(most))
		case !p.Evidence.OtherKernels && is.Exposed() > was.Exposed() && gain > rounding &&
			beyond(base, gain, gaps+engines.SlowdownOf(w).Time, p.Change):
			p.Evidence.doubt("it exposes %s of communication more than the captured schedule and removes no work: only less interference could make it faster, and kernels alone show no slowdown of that size here",
				trace.Micros(is.Exposed()-was.Exposed()))
		}
	}
	if why != "" {
		p.Why, p.Result, p.Change = notBelieved+why, nil, 0
		p.Evidence = Evidence{none: true}
		return
	}
	if gain >= trace.Time(-Faster*float64(base)) && p.Values["graph"] == "on" && !p.Evidence.none {
		if _, unseen, _, _ := waits(w, captured); float64(gain)+Faster*float64(base) < unseen*float64(base) {
			p.Evidence.doubt("devices wait %.0f %% of the time for ranks that were not captured, and nothing in the trace says that a graph ends that: capture all ranks", 100*unseen)
		}
	}
	p.Evidence = p.Evidence.Beside(p.Noise, p.Change).besideCopies(p.Noise, p.Change)
}

// beyond reports whether a schedule that removes no work gains more of a time than it can by idle time and interference that
// go: all of its gain if that is no change that counts, else by more than the error of a change that everything is known of.
func beyond(base, gain, most trace.Time, change float64) bool {
	if float64(most) < -Faster*float64(base) {
		return gain > most
	}
	return float64(gain-most) > (Evidence{}).Confidence(change).Chance.Error*float64(base)
}

// besideCopies is the evidence for a change where ranks are copies. These are never late, so that noise has not all of the error
// of the captured schedule's simulation: a change that may be none, by its own error, may be worth nothing.
func (e Evidence) besideCopies(noise, change float64) Evidence {
	if size := math.Abs(change); e.Copied && e.Untested == 0 && !e.none && size > 0 && size < noise+e.Confidence(change).Chance.Error {
		e.doubt("within the noise floor, of which copies of ranks show a part: they are never late")
	}
	return e
}

// Beside is the evidence for a change that may be within the error of the captured schedule's own simulation, noise: one that
// does not exceed it by as much as a change that counts.
func (e Evidence) Beside(noise, change float64) Evidence {
	if size := math.Abs(change); noise > -Faster && size >= leastGain && size < noise-Faster && !e.none {
		e.doubt("within the noise floor: the captured schedule, simulated in the same way, is %.1f %% off", 100*noise)
	}
	return e
}

// doubt notes a reason after which a prediction may be worth nothing.
func (e *Evidence) doubt(format string, args ...any) {
	e.Untested++
	e.Why = fmt.Sprintf(format, args...)
}

// impossible says what of a time and its parts cannot be; "": nothing.
func impossible(time trace.Time, parts overlap.Times) string {
	if time <= 0 {
		return fmt.Sprintf("the captured schedule takes %s", trace.Micros(time))
	}
	for _, part := range append(sharesOf(parts), Part{"hidden", parts.Hidden}) {
		if part.Time < 0 {
			return fmt.Sprintf("%s of %s", part.What, trace.Micros(part.Time))
		}
	}
	return ""
}

// withdraw withdraws the verdict where no collective has a time, where the measured step cannot be as the trace tells it, as no change is
// relative to such a time, and where the durations on another machine are guesses.
func (v *Verdict) withdraw(w *workload.Workload, captured engines.Outcome) bool {
	why := ""
	if captured.Result != nil {
		why = impossible(captured.Expected, TimesOf(w, captured))
	}
	if measured := measuredStep(w, captured); why == "" && w.Rescaled == nil && measured <= 0 {
		why = fmt.Sprintf("the measured step takes %s", trace.Micros(measured))
	}
	switch n := w.Untimed(); {
	case n > 0:
		v.say("no verdict: none of the %d collectives of the trace has a time", n)
	case why != "":
		v.say(notAsTraced, why)
	case w.Rescaled != nil && w.Rescaled.TooGuessed():
		shapes := lift.RecorderOf(w.Run).Shapes
		if shapes != "" {
			shapes = "sizes (" + shapes + "), and"
		}
		v.say("no verdict for %s: for %.0f %% of the captured time the trace does not show what limits it; record %s steps without captured graphs",
			w.Rescaled.To, 100*w.Rescaled.Guessed(), shapes)
	default:
		return false
	}
	v.Kind = Withdrawn
	return true
}

// notAsTraced is the sentence of a verdict that is withdrawn for a reason.
const notAsTraced = "no verdict: %s, so that the iterations are not what the trace says; check that all ranks recorded the same steps (overlapse inspect)"

// checkNumbers withdraws a verdict with a number that is not finite, in a field or in a sentence, or with a share that none can be.
func (v *Verdict) checkNumbers(w *workload.Workload) {
	shares := []float64{v.HostWait, v.UnseenWait, v.PFaster}
	numbers := []any{v.Change, v.Error, v.HostWait, v.UnseenWait, v.PFaster}
	if l := v.Late; l != nil {
		shares = append(shares, l.Share)
		numbers = append(numbers, l.Share, l.Slower, l.Balanced)
	}
	const rounding = 1e-9
	none := func(share float64) bool { return share < -rounding || share > 1+rounding }
	if !v.infinite && finite(numbers...) && !slices.ContainsFunc(shares, none) {
		return
	}
	*v = Verdict{Phase: v.Phase, Kind: Withdrawn}
	v.damaged(w)
	v.say(notAsTraced, "a number that follows from its times is none, or a share is above all")
}

// finite reports whether all numbers among the values of a text are.
func finite(values ...any) bool {
	return !slices.ContainsFunc(values, func(x any) bool {
		number, is := x.(float64)
		return is && (math.IsNaN(number) || math.IsInf(number, 0))
	})
}
