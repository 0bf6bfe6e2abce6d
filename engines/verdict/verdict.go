// Package verdict recommends a strategy for a workload, with its predicted gain and the
// reliability of the prediction.
//
//	limit.go       what an iteration of an outcome consists of
//	prediction.go  an outcome as a change of the captured schedule
//	evidence.go    what the change rests on: caveats, each with its weight; host.go has those on hosts
//	possible.go    changes that cannot be, and those that are doubted
//	profiled.go    whether the profiler's part decides the sign
//	chance.go      how likely the change is, by the model of fitted.go
//	advice.go      how to get it
//	ladder.go      the search for settings, one change at a time
//	verdict.go     the recommendation on all changes, as sentences; winner.go chooses, slow.go, host.go and inside.go have
//	               sentences on the capture
//
// explain.go, traffic.go, versus.go and whatif.go explain the time of a strategy.
package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A Verdict is the recommendation for a workload. Judge forms it once, on all rows; the
// terminal, the report, the JSON and tune all show the same one.
type Verdict struct {
	Kind       Kind        `json:"kind"`
	Strategy   string      `json:"strategy,omitempty"` // recommended: a likely change, else the captured schedule; "" if nothing is
	Parameters plan.Values `json:"parameters,omitempty"`
	Change     float64     `json:"change"` // of the captured schedule's time, relative: -0.1 is 10 % less
	Chance
	Confidence Confidence `json:"confidence"` // in the recommended strategy
	// that cannot be told apart: from the recommended strategy or, without a likely change, from the captured schedule
	Candidates []string `json:"candidates,omitempty"`
	// share of the captured schedule in which devices wait for a launch by the host
	HostWait   float64           `json:"host_wait"`
	UnseenWait float64           `json:"unseen_wait,omitempty"` // share in which they wait for ranks that were not captured
	HostBound  bool              `json:"host_bound"`            // they exceed a tenth, and hosts launch the collectives that wait
	Below      []BelowBound      `json:"below_bound,omitempty"`
	Late       *overlap.LateRank `json:"waited_for,omitempty"` // rank that the others wait for in the capture; nil: none, or not known
	Advice     *Advice           `json:"advice,omitempty"`     // how to get the recommended strategy; nil if it is the captured schedule
	// most important first: what to change, what can be gained, who is waited for
	Sentences []string     `json:"sentences"`
	Phase     string       `json:"phase,omitempty"`  // the steps that the verdict is on, where phases are answered apart
	Phases    []Verdict    `json:"phases,omitempty"` // of one by phase: on each; only Late and Sentences of it are set
	tried     []Prediction // without results, faster ones of which are named
	paused    string       // sentence on pauses of the host that is still to be said; "": none
	infinite  bool         // a sentence has a number that is not finite
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
	keepCaptured     Kind = "captured is fastest"
	NoClearWinner    Kind = "no clear difference"
	Winner           Kind = "predicted fastest"
	Withdrawn        Kind = "no verdict"
	byPhase          Kind = "by phase"
)

// overlapsFrom is the share of the communication that runs alongside compute from which a
// schedule is said to overlap.
const overlapsFrom = 0.02

// needsReason is the change from which it is said why a strategy is not likely all the same.
const needsReason = -0.05

// Judge forms the verdict on outcomes of one workload. captured is the outcome of the
// captured schedule; it competes even if it is not among the others. Bounds and strategies
// without hardware do not compete. late is the rank that others wait for, or nil. tried are predictions without results
// that do not compete either: faster ones of them are named, and why they are passed over.
func Judge(w *workload.Workload, captured engines.Outcome, outcomes []Prediction, late *overlap.LateRank, tried ...Prediction) Verdict {
	if len(captured.Phases) > 1 && captured.Phase == 0 {
		var phases []Verdict
		for _, phase := range captured.Each() {
			phases = append(phases, Judge(w, captured.Of(phase), ofPhase(outcomes, phase), late, ofPhase(tried, phase)...))
		}
		return Joined(phases)
	}
	v := judged(w, captured, outcomes, late, tried)
	v.checkNumbers(w)
	return v
}

// judged is the verdict on a phase, or on all iterations, with whatever numbers it has.
func judged(w *workload.Workload, captured engines.Outcome, outcomes []Prediction, late *overlap.LateRank, tried []Prediction) Verdict {
	v := Verdict{Late: late, tried: tried}
	if captured.Phase > 0 {
		v.Phase = captured.Phases[captured.Phase-1].Steps.Phase
	}
	v.damaged(w)
	v.slow(w, &captured.Machine)
	first := len(v.Sentences)
	at := first // where the profiler's sentence stands
	v.hosts(w, captured, outcomes)
	v.boundBy(outcomes)
	kept := !v.withdraw(w, captured)
	if kept {
		v.judge(w, captured, v.contenders(outcomes), refusal(outcomes))
		if !slices.ContainsFunc(outcomes, func(o Prediction) bool { return o.Evidence.profiled }) {
			at = len(v.Sentences) // the change comes first, unless the slowing decides its sign
		}
	}
	if slowed := profilerText(w, captured); slowed != "" {
		v.Sentences = slices.Insert(v.Sentences, at, slowed)
	}
	if !kept {
		return v
	}
	v.experimental(outcomes)
	v.bound(w, captured, outcomes)
	if inside := InsideText(w, &captured.Machine); inside != "" {
		v.say("%s", inside)
	}
	v.waiting(w)
	if n := len(v.Sentences) - 1; v.Kind != Winner && v.LookFirst() >= MuchWaiting { // no change is worth as much
		last := v.Sentences[n]
		v.Sentences = slices.Insert(v.Sentences[:n], first, last)
	}
	return v
}

// damaged says first that the trace is damaged.
func (v *Verdict) damaged(w *workload.Workload) {
	if what := DamageOf(w); what != "" {
		v.say("the trace is damaged, so that nothing is called likely: %s", what)
	}
}

// ofPhase are the predictions of a phase.
func ofPhase(all []Prediction, phase int) (list []Prediction) {
	for i := range all {
		list = append(list, all[i].of(phase))
	}
	return list
}

// Joined is the verdict by phase of those on each. A sentence that holds for all is said once.
func Joined(phases []Verdict) Verdict {
	if len(phases) == 1 {
		return phases[0]
	}
	v := Verdict{Kind: byPhase, Phases: phases, Late: phases[0].Late}
	general := func(sentence string) bool {
		return !slices.ContainsFunc(phases, func(p Verdict) bool { return !slices.Contains(p.Sentences, sentence) })
	}
	for _, s := range phases[0].Sentences {
		if general(s) {
			v.say("%s", s)
		}
	}
	for _, p := range phases {
		for _, s := range p.Sentences {
			if !general(s) {
				v.say("%s steps: %s", p.Phase, s)
			}
		}
	}
	return v
}

// Each are the verdicts on the phases, or the one on all iterations.
func (v *Verdict) Each() []Verdict {
	if v.Kind == byPhase {
		return v.Phases
	}
	return []Verdict{*v}
}

// Headline is the first sentence, on each phase; "" without one.
func (v *Verdict) Headline() string {
	var list []string
	for _, p := range v.Each() {
		switch {
		case len(p.Sentences) == 0:
		case p.Phase == "":
			list = append(list, p.Sentences[0])
		default:
			list = append(list, p.Phase+" steps: "+p.Sentences[0])
		}
	}
	return strings.Join(list, "; ")
}

// Has reports whether the verdict on a phase is of a kind.
func (v *Verdict) Has(kind Kind) bool {
	return slices.ContainsFunc(v.Each(), func(p Verdict) bool { return p.Kind == kind })
}

// experimental says why the fastest prediction is not recommended if it has an experimental setting.
func (v *Verdict) experimental(outcomes []Prediction) {
	var fastest *Prediction
	for i := range outcomes {
		o := &outcomes[i]
		if o.Experimental() && o.Why == "" && (1+o.Change)/(1+v.Change)-1 <= Faster && (fastest == nil || o.Change < fastest.Change) {
			fastest = o
		}
	}
	if fastest != nil {
		v.say("%s, %s, is experimental: no measurement has such a setting, so it is not recommended", fastest.Selection,
			trace.Percent(fastest.Change))
	}
}

// LeastWaiting is the share of an iteration from which a verdict names the rank that is waited for.
const LeastWaiting = 0.01

// MuchWaiting is the share from which that comes before all else, unless a change is recommended.
const MuchWaiting = 0.1

// LateRank is the rank that the others wait for in the capture, with the change of the captured schedule if no rank
// were slower than the median one; nil: none, or not known.
func LateRank(w *workload.Workload, captured engines.Outcome) *overlap.LateRank {
	if w.Run.Estimated != "" || w.Rescaled != nil {
		return nil
	}
	late := plan.MeasuredSteps(w).WaitedFor(overlap.Collect(w.Run))
	if late == nil || late.Share < LeastWaiting || captured.Result == nil {
		return late
	}
	w, err := engines.Isolate(w, captured.Machine, nil)
	if err != nil {
		return late
	}
	sc := plan.Scenario{Clock: captured.Scenario.Clock, Rest: captured.Scenario.Rest}
	mean := func(out engines.Outcome, err error) float64 {
		if err != nil || out.Result == nil {
			return 0
		}
		ran, _ := plan.StepsOf(w, out.Result.Run).Ran()
		switch n := len(ran); n {
		case 0:
			return float64(out.Time)
		case 1:
			return float64(ran[0].Length())
		default: // the first has the start of the ranks and a cold host
			return float64(ran[n-1].End-ran[0].End) / float64(n-1)
		}
	}
	changed, m := edit.WhatIf(w, captured.Machine, machine.WhatIf{{Name: machine.Balanced, By: machine.ByMedian}})
	balanced := mean(engines.Run(changed, m, captured.Selection, sc, replay.Options{Like: true}))
	as := mean(engines.Control(w, captured.Machine, sc, replay.Options{Like: true})) // which strategies are relative to: simulated once
	if balanced > 0 && as > 0 {
		late.Balanced = balanced/as - 1
	}
	return late
}

// LookFirst is the share of an iteration that others wait for one rank, if balanced ranks would be faster or nothing is
// known of that because the work of the ranks differs; else 0: as where only the profiler delays a rank.
func (v *Verdict) LookFirst() float64 {
	if v.Late == nil || v.Late.Cause != overlap.LateWork && v.Late.Balanced > -LeastWaiting {
		return 0
	}
	return v.Late.Share
}

// waiting says what devices wait for that no strategy changes: a host that pauses, the rank that the others wait for in the
// capture, or ranks that are not captured.
func (v *Verdict) waiting(w *workload.Workload) {
	v.sayPaused()
	if v.UnseenWait >= LeastWaiting && !v.HostBound && len(w.Slow) == 0 { // else the first sentence has told of it
		v.say("devices wait %.0f %% of the time for ranks that were not captured, which no overlap changes: capture all to see why",
			100*v.UnseenWait)
	}
	if v.LookFirst() >= LeastWaiting {
		v.say("look first at rank %d: %s", v.Late.Rank, LateText(v.Late))
	}
}

// LateText says what it costs that others wait for a rank, how steady that is, what takes the rank longer, and what
// balanced ranks change.
func LateText(late *overlap.LateRank) string {
	text := fmt.Sprintf("others wait %s an iteration for it", trace.Micros(late.Cost))
	if late.Iterations > 1 {
		text += fmt.Sprintf(", last in %d of %d (%s to %s)", late.Last, late.Iterations, trace.Micros(late.Least), trace.Micros(late.Most))
	} else {
		text += ", one iteration was captured"
	}
	switch late.Cause {
	case overlap.LateHost:
		text += fmt.Sprintf("; its device is idle %s longer than the others: its host (profilers slow it), or its data",
			trace.Micros(late.Idle))
	case overlap.LateClock:
		text += fmt.Sprintf("; all of its kernels take %.1f %% longer: its clock", 100*late.Slower)
	case overlap.LateKernels:
		k := late.Longer[0]
		name := []rune(trace.Short(k.Name))
		if len(name) > 28 {
			name = append(name[:27], '…')
		}
		text += fmt.Sprintf("; %s takes %s (%.1f %%) longer there", string(name), trace.Micros(k.Time), 100*k.By)
	case overlap.LateWork:
		text += fmt.Sprintf("; its work differs: kernels or grids that no other rank launches as often take %s longer",
			trace.Micros(late.Other))
	default:
		text += ", though its kernels and its host take "
		if late.Excess > 0 {
			text += "only " + trace.Micros(late.Excess) + " longer"
		} else {
			text += "no longer"
		}
	}
	if late.Balanced != 0 {
		text += fmt.Sprintf("; --what-if balanced: %+.1f %% in the mean", 100*late.Balanced)
	}
	return text
}

// overlaps says what the captured schedule gains from its own overlap, if that is likely; else "". Settings do not overlap more.
func overlaps(w *workload.Workload, captured engines.Outcome, outcomes []Prediction) string {
	if t := TimesOf(w, captured); float64(t.Hidden) <= overlapsFrom*float64(t.Hidden+t.Exposed()) {
		return ""
	}
	for _, o := range outcomes {
		if o.Strategy.Kind != plan.Plain || o.Why != "" || o.Strategy.String(o.Values) != "" {
			continue
		}
		if slower := 1 - fitted.Below(-math.Log1p(Faster), math.Log1p(o.Change), o.Evidence); slower >= Likely {
			return fmt.Sprintf("without overlap %.1f %% more", 100*o.Change)
		}
	}
	return ""
}

// leastGain is the share of an iteration that reads as zero.
const leastGain = 0.0005

// boundOf is the bound on overlap of the same operations, or nil.
func boundOf(all []Prediction) *Prediction {
	i := slices.IndexFunc(all, func(o Prediction) bool {
		return o.Strategy.Kind == plan.Bound && o.Result != nil && o.Strategy.String(o.Values) == ""
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// bound says what the best overlap of the same operations gains, and what the captured overlap does.
func (v *Verdict) bound(w *workload.Workload, captured engines.Outcome, all []Prediction) {
	if captured.Result == nil {
		return
	}
	if len(w.Collectives) == 0 {
		if t := TimesOf(w, captured); t.Copies > t.Total()/2 && v.Kind != NothingToCompare { // else said with it
			v.say("copies take %.0f %% of the time while no kernel runs: fewer bytes save more than any overlap",
				100*float64(t.Copies)/float64(t.Total()))
		}
		return
	}
	said := overlaps(w, captured, slices.Concat(all, v.tried))
	if ideal := boundOf(all); ideal != nil {
		idle := idleSaved(w, captured, ideal.Outcome)
		gain := "overlap of the same work can save nothing"
		if saved := -ideal.Change - idle; saved >= leastGain {
			gain = fmt.Sprintf("overlap of the same work can save at most %.1f %%", 100*saved)
		}
		if idle > 0 {
			gain += ", idle time aside"
		}
		said = strings.TrimSuffix(gain+"; "+said, "; ")
	}
	if said != "" {
		v.say("%s", said)
	}
}

// idleSaved is the share of the captured time for which devices are idle, of no collective, and are not under a bound, from a
// tenth on: that time goes with what held up their hosts, not with overlap. Less may be what streams take to wait for each other.
func idleSaved(w *workload.Workload, captured, bound engines.Outcome) float64 {
	was := TimesOf(w, captured)
	if share := float64(was.Idle-TimesOf(w, bound).Idle) / float64(was.Total()); share > hostBound {
		return share
	}
	return 0
}

func (v *Verdict) say(format string, args ...any) {
	v.infinite = v.infinite || !finite(args...)
	v.Sentences = append(v.Sentences, fmt.Sprintf(format, args...))
}

// boundBy lists the outcomes with less time than the bound, and why.
func (v *Verdict) boundBy(all []Prediction) {
	ideal := boundOf(all)
	for _, o := range all {
		compared := o.Strategy.Kind != plan.Exact && o.Strategy.Kind != plan.Bound
		if ideal != nil && compared && o.Why == "" && o.Expected > 0 && o.Expected < ideal.Expected {
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

// baseName is the name of the schedule that a comparison starts from.
func baseName(w *workload.Workload) string {
	if w.Run.Estimated != "" {
		return "the given schedule"
	}
	return "the captured schedule"
}

// refusal says which strategies do not apply, with the reason of the first; "": all do.
func refusal(all []Prediction) string {
	var names []string
	first := ""
	for _, o := range all {
		overlaps := !slices.Contains([]plan.Kind{plan.Plain, plan.Exact, plan.Bound}, o.Strategy.Kind)
		if overlaps && o.Why != "" && !strings.HasPrefix(o.Why, "cannot run") && !slices.Contains(names, o.Strategy.Name) {
			names = append(names, o.Strategy.Name)
			first = cmp.Or(first, o.Why)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s does not apply to this trace (%s)", names[0], first)
	case 2:
		return fmt.Sprintf("neither %s nor %s applies to this trace (%s: %s)", names[0], names[1], names[0], first)
	}
	return fmt.Sprintf("none of %d overlap strategies applies to this trace (%s: %s)", len(names), names[0], first)
}
