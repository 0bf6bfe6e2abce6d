// Package verdict recommends a strategy for a workload, with its predicted gain and the
// reliability of the prediction.
package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Verdict is the recommendation for a workload. Judge forms it once; the terminal, the
// report, the JSON and tune all show the same one.
type Verdict struct {
	Kind       Kind         `json:"kind"`
	Strategy   string       `json:"strategy,omitempty"` // predicted fastest; "" if there is nothing to compare
	Parameters plan.Values  `json:"parameters,omitempty"`
	Change     float64      `json:"change"`     // of the captured schedule's time, relative: -0.1 is 10 % less
	Confidence Confidence   `json:"confidence"` // in the predicted fastest
	HostWait   float64      `json:"host_wait"`  // share of the captured schedule in which devices wait for a launch by the host
	HostBound  bool         `json:"host_bound"` // HostWait exceeds a tenth
	Below      []BelowBound `json:"below_bound,omitempty"`
	Advice     *Advice      `json:"advice,omitempty"` // how to get the predicted fastest; nil if it is the captured schedule
	Sentences  []string     `json:"sentences"`        // most important first
}

// BelowBound is a strategy with less time than ideal, and the work that it saves.
type BelowBound struct {
	Strategy string `json:"strategy"`
	Why      string `json:"why"`
}

// A Kind is the kind of a verdict.
type Kind string

// The kinds of verdicts.
const (
	NothingToCompare Kind = "nothing to compare"
	KeepCaptured     Kind = "captured is fastest"
	NoClearWinner    Kind = "no clear difference"
	Winner           Kind = "predicted fastest"
)

// hostBound is the HostWait from which a verdict starts with it.
const hostBound = 0.1

// Judge forms the verdict on outcomes of one workload. captured is the outcome of the
// captured schedule; it competes even if it is not among the others. Bounds and strategies
// without hardware do not compete.
func Judge(w *workload.Workload, captured compare.Outcome, outcomes []compare.Outcome) Verdict {
	all := outcomes
	base := slices.IndexFunc(all, func(o compare.Outcome) bool { return o.Strategy.Exact })
	if base < 0 {
		base, all = len(all), append(slices.Clone(all), captured)
	}
	v := Verdict{HostWait: hostWait(w, captured)}
	v.HostBound = v.HostWait > hostBound
	if v.HostBound {
		v.say("host-bound: devices wait %.0f %% of the time for the host to launch the next kernel, which no overlap strategy changes; "+
			"a captured graph removes it (captured:graph=on predicts that), torch.compile and fewer, larger operators reduce it", 100*v.HostWait)
	}
	times, plain := make([]float64, len(all)), make([]bool, len(all))
	others := 0
	for i, o := range all {
		if i != base && (o.Why != "" || o.Strategy.Bound || o.Strategy.Future) {
			continue
		}
		if i != base && v.HostBound && o.Strategy.Plain && o.Values["graph"] != "on" {
			continue // less overlap cannot help a step that waits for its host; the difference is that of pauses
		}
		times[i], plain[i] = float64(o.Expected), i == base || o.Strategy.Plain
		if !plain[i] {
			others++
		}
	}
	v.boundBy(all)
	take, alike := compare.Choose(times, plain)
	if take < 0 {
		return v
	}
	v.judge(w, all, times, base, take, alike, others)
	return v
}

// judge selects among the competing outcomes.
func (v *Verdict) judge(w *workload.Workload, all []compare.Outcome, times []float64, base, take, alike, others int) {
	name := func(i int) string {
		if i == base {
			return baseName(w)
		}
		return all[i].Selection.String()
	}
	v.Change = times[take]/max(1, times[base]) - 1
	v.Strategy, v.Parameters, v.Confidence = all[take].Strategy.Name, all[take].Values, ConfidenceOf(w, all[take])
	less := fmt.Sprintf("%.1f %% less than %s", -100*v.Change, name(base))
	switch {
	case others == 0:
		v.Kind = NothingToCompare
		if why := firstReason(all); why != "" { // else no strategy was selected
			v.say("nothing to compare: no overlap strategy applies to this trace (%s)", why)
		}
	case take == base:
		v.Kind = KeepCaptured
	case times[base]*(1-compare.RunsDiffer) <= times[take]:
		v.Kind = NoClearWinner
		v.say("no clear difference: %s is predicted to take %s, and two runs of one program differ by %.0f %%", name(take), less, 100*compare.RunsDiffer)
	case alike >= 0:
		v.Kind = NoClearWinner
		v.say("no clear difference: %s is predicted to take %s, but no less than %s does by more than two runs of one program differ, %.0f %%", name(take), less, name(alike), 100*compare.RunsDiffer)
	default:
		v.Kind = Winner
		v.say("predicted fastest: %s, %s (confidence %s%s: %s)", name(take), less, v.Confidence.Level, band(w, all[take], v.Confidence.Level), v.Confidence.Why)
	}
	next := -1
	for i, t := range times {
		if i != base && t > 0 && (next < 0 || t < times[next]) {
			next = i
		}
	}
	if v.Kind == Winner {
		a := AdviceOn(w, all[base], all[take])
		v.Advice, v.Sentences = &a, append(v.Sentences, a.sentences(name(take))...)
	}
	if v.Kind == KeepCaptured {
		v.say("predicted fastest: %s; the next is %s, %.1f %% more", name(base), name(next), 100*(times[next]/max(1, times[base])-1))
	}
	v.bound(w, all, times, base, name(base))
	if explain.LimitOf(w, all[base]).Hidden == 0 {
		return
	}
	for i, o := range all {
		if saved := times[i]/max(1, times[base]) - 1; o.Strategy.Plain && i != base && times[i] > 0 && saved > compare.RunsDiffer {
			v.say("%s overlaps already: without overlap it would take %.1f %% more (%s)", name(base), 100*saved, name(i))
			break
		}
	}
}

// bound says what the step consists of and what the best overlap of its operations gains.
func (v *Verdict) bound(w *workload.Workload, all []compare.Outcome, times []float64, base int, name string) {
	i := slices.IndexFunc(all, func(o compare.Outcome) bool {
		return o.Strategy.Bound && !o.Strategy.Exact && o.Why == "" && o.Expected > 0
	})
	if all[base].Result == nil || i < 0 {
		return
	}
	idealIs := all[i].Strategy.Name
	if v.HostBound {
		idealIs += ", which does not wait for the host either"
	}
	l := explain.LimitOf(w, all[base])
	whole := max(1, float64(l.Total()))
	v.say("%s exposes communication for %.1f %% of its time and idles for %.1f %%; overlap of the same operations can gain at most %.1f %% (%s)",
		name, 100*float64(l.Exposed())/whole, 100*float64(l.Idle)/whole, 100*max(0, 1-float64(all[i].Expected)/max(1, times[base])), idealIs)
	if v.Kind != Winner && len(w.Collectives) > 0 {
		v.say("channels, bucket_mb, prefetch, keep_gathered and interleave may change this: overlapse tune --strategy multistream")
	}
}

func (v *Verdict) say(format string, args ...any) {
	v.Sentences = append(v.Sentences, fmt.Sprintf(format, args...))
}

// boundBy lists the outcomes with less time than the bound, and why.
func (v *Verdict) boundBy(all []compare.Outcome) {
	i := slices.IndexFunc(all, func(o compare.Outcome) bool {
		return o.Result != nil && o.Strategy.Bound && !o.Strategy.Exact && o.Strategy.String(o.Values) == ""
	})
	if i < 0 {
		return
	}
	for _, o := range all {
		if o.Why == "" && o.Expected > 0 && o.Expected < all[i].Expected && !o.Strategy.Bound {
			v.Below = append(v.Below, BelowBound{o.Selection.String(), workSaved(o.Selection)})
		}
	}
}

// workSaved is the work that a strategy avoids and the bound includes.
func workSaved(s plan.Selection) string {
	if s.Strategy.Saves != "" {
		return s.Strategy.Saves
	}
	for _, part := range s.Strategy.Parts {
		if why := workSaved(part); why != "" {
			return why
		}
	}
	if s.Strategy.String(s.Values) != "" {
		return "with these settings the same operations take less time alone"
	}
	return ""
}

// Bands are, by level of confidence, the 90th percentile of |predicted / measured - 1| in
// percent over all rows of samples/measurements, which were measured on H200.
var bands = map[Level]int{High: 5, Medium: 8, Low: 27}

// Band is the error that 90 % of the measured predictions of a level stay below, in percent.
func Band(l Level) int { return bands[l] }

// HasBand reports whether predictions like an outcome were compared with measurements: a
// schedule that runs on an H200, from a capture on it with the same ranks.
func HasBand(w *workload.Workload, out compare.Outcome) bool {
	e := out.Strategy
	return w.Rescaled == nil && out.Machine.Profile == "h200" && !e.Exact && !e.Bound && !e.Future
}

// band is the band in words, with a space in front; "" if there is none.
func band(w *workload.Workload, out compare.Outcome, l Level) string {
	if !HasBand(w, out) {
		return ""
	}
	return fmt.Sprintf(" ±%d %%", Band(l))
}

// baseName is the name of the schedule that a comparison starts from.
func baseName(w *workload.Workload) string {
	if w.Run.Estimated != "" {
		return "the given schedule"
	}
	return "the captured schedule"
}

// firstReason is the reason why the first strategy does not apply.
func firstReason(all []compare.Outcome) string {
	for _, o := range all {
		if o.Why != "" && !o.Strategy.Bound && !o.Strategy.Plain {
			return o.Strategy.Name + ": " + o.Why
		}
	}
	return ""
}

// hostWait is the share of an outcome's time in which a device is idle because its host
// has not launched the next operation: the largest of all ranks. The first of several
// iterations, and the time before the first operation, are excluded: a cold start.
func hostWait(w *workload.Workload, out compare.Outcome) float64 {
	if out.Result == nil {
		return 0
	}
	from, _ := plan.StepsOf(w, out.Result.Run).Steady()
	late, busy := make([][]plan.Interval, len(from)), make([][]plan.Interval, len(from))
	run := out.Result.Run
	began := make([]bool, len(from))
	for _, s := range run.Spans { // by start
		if r := run.RankOf(s); s.Kind.OnDevice() && r < len(from) && s.End > s.Start {
			if !began[r] {
				began[r], from[r] = true, max(from[r], s.Start)
			}
			busy[r] = append(busy[r], plan.Interval{Start: s.Start, End: s.End})
		}
	}
	for _, i := range out.Result.Idle {
		if i.Cause == program.HostIssue && i.Rank < len(from) && i.End > from[i.Rank] {
			late[i.Rank] = append(late[i.Rank], plan.Interval{Start: max(i.Start, from[i.Rank]), End: i.End})
		}
	}
	worst := 0.0
	for r, f := range from {
		if whole := out.Result.Makespan - f; whole > 0 {
			worst = max(worst, float64(outside(mergeIntervals(late[r]), mergeIntervals(busy[r])))/float64(whole))
		}
	}
	return worst
}

// mergeIntervals is the union of intervals, sorted and disjoint.
func mergeIntervals(all []plan.Interval) []plan.Interval {
	slices.SortFunc(all, func(a, b plan.Interval) int { return cmp.Compare(a.Start, b.Start) })
	var apart []plan.Interval
	for _, i := range all {
		if n := len(apart) - 1; n >= 0 && i.Start <= apart[n].End {
			apart[n].End = max(apart[n].End, i.End)
			continue
		}
		apart = append(apart, i)
	}
	return apart
}

// outside is the length of some intervals outside of others; both are merged.
func outside(some, others []plan.Interval) (length trace.Time) {
	for _, i := range some {
		at := i.Start
		for len(others) > 0 && others[0].End <= at {
			others = others[1:]
		}
		for _, o := range others {
			if o.Start >= i.End {
				break
			}
			length += max(0, o.Start-at)
			at = max(at, o.End)
		}
		length += max(0, i.End-at)
	}
	return length
}
