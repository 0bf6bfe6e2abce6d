package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// contenders are the outcomes that can be recommended, fastest first.
func (v *Verdict) contenders(outcomes []Prediction) []Prediction {
	list := slices.DeleteFunc(slices.Clone(outcomes), func(o Prediction) bool {
		return o.Why != "" || o.Result == nil || o.Strategy.Kind == plan.Bound || o.Strategy.Kind == plan.Future ||
			o.Experimental() || asCaptured(o.Selection) ||
			// less overlap cannot help a step that waits for its host; the difference is that of pauses
			v.HostBound && o.Strategy.Kind == plan.Plain && o.Values["graph"] != "on"
	})
	slices.SortStableFunc(list, func(a, b Prediction) int { return cmp.Compare(a.Expected, b.Expected) })
	return list
}

// asCaptured reports whether a selection is the captured schedule itself.
func asCaptured(s plan.Selection) bool {
	return s.Strategy.Kind == plan.Exact && s.Strategy.String(s.Values) == ""
}

// isCheap reports whether a flag or code gets a prediction's strategy, without a kernel.
func isCheap(w *workload.Workload, p Prediction) bool {
	_, effort := HowTo(w, p.Outcome)
	return plan.CompareEfforts(effort, plan.ByCode) <= 0
}

// judge recommends a likely contender, else the captured schedule: of the fastest and those that cannot be told from
// it, the one that takes the least work.
func (v *Verdict) judge(w *workload.Workload, captured engines.Outcome, list []Prediction, refused string) {
	v.Strategy, v.Parameters = captured.Strategy.Name, captured.Values
	v.Confidence = Predict(w, captured, captured).Confidence
	nothing := v.nothing(w, captured, list, refused) // said behind a graph that pays
	if i := slices.IndexFunc(list, func(c Prediction) bool { return c.likely() }); i >= 0 {
		v.win(w, captured, list, i)
	}
	if nothing != "" {
		v.say("%s", nothing)
	}
	if v.Kind == Winner || v.Kind == NothingToCompare {
		return
	}
	faster := slices.DeleteFunc(slices.Clone(list), func(c Prediction) bool { return c.Change > Faster })
	if len(faster) == 0 {
		v.Kind = keepCaptured
		next := ""
		if i := slices.IndexFunc(list, func(c Prediction) bool { return !c.Same() }); i < 0 {
			next = fmt.Sprintf("; %s is the same program", list[0].Selection)
		} else if list[i].Change <= -unchanged {
			next = fmt.Sprintf("; the next is %s, %s", list[i].named(), trace.Percent(list[i].Change))
		}
		v.say("keep %s: no strategy is predicted to take at least %.0f %% less%s%s", baseName(w), -100*Faster, next, v.compared())
		return
	}
	known := slices.DeleteFunc(slices.Clone(faster), func(c Prediction) bool { return c.Evidence.Untested > 0 })
	if len(known) == 0 && DamageOf(w) == "" { // no headline of what may be worth nothing
		v.Kind, v.Candidates = NoClearWinner, selections(faster)
		first, why := faster[0], because(faster[0])
		if slices.ContainsFunc(faster, func(c Prediction) bool { return isCheap(w, c) }) {
			v.say("keep %s: %s, %s, is not known well enough: %s%s", baseName(w), first.named(),
				trace.Percent(first.Change), why, v.compared())
			return
		}
		v.say("keep %s: no flag or line of code is predicted to take at least %.0f %% less; a kernel may (%s, %s: %s)%s",
			baseName(w), -100*Faster, first.named(), trace.Percent(first.Change), why, v.compared())
		return
	}
	passed := ""
	if len(known) > 0 {
		unknown := slices.DeleteFunc(faster, func(c Prediction) bool {
			return c.Evidence.Untested == 0 || c.Expected >= known[0].Expected
		})
		if len(unknown) > 0 {
			passed = "; predicted faster, but passed over: " + passedOver(Prediction{}, unknown)
		}
		faster = known
	}
	v.Kind = NoClearWinner
	v.Candidates = selections(faster)
	if v.HostBound { // its sentence has told of the graph
		faster = slices.DeleteFunc(faster, func(c Prediction) bool { return c.Values["graph"] == "on" })
	}
	if len(faster) == 0 {
		return
	}
	most, names := faster[0], []string{}
	for _, c := range faster {
		if name := c.named(); !slices.Contains(names, name) { // bulk and multistream may share a variable
			names = append(names, name)
		}
		if c.Confidence.Chance.PFaster > most.Confidence.Chance.PFaster {
			most = c
		}
	}
	changes := trace.Percent(faster[0].Change)
	if last := trace.Percent(faster[len(faster)-1].Change); last != changes {
		changes = strings.TrimSuffix(changes, " %") + " to " + last
	}
	why := ""
	if faster[0].Change < needsReason {
		why = ": " + because(faster[0])
	}
	but := "not distinguishable from no change"
	if -faster[0].Change > faster[0].Confidence.Chance.Error { // a caveat, not the error, holds it back
		but = "not likely enough to recommend"
	}
	v.say("keep %s: %s, %s: %s (at most %s likely to gain %.0f %%%s)%s%s",
		baseName(w), few(names, " or "), changes, but, PercentOf(most.Confidence.Chance.PFaster), -100*Faster,
		why, passed, v.compared())
}

// nothing says, and notes as the kind of the verdict, that there is nothing to compare; "": there is, or no strategy was selected.
func (v *Verdict) nothing(w *workload.Workload, captured engines.Outcome, list []Prediction, refused string) string {
	if slices.ContainsFunc(list, func(c Prediction) bool { return c.Strategy.Kind != plan.Plain && c.Strategy.Kind != plan.Exact }) {
		return ""
	}
	communicates := len(w.Collectives) > 0
	if communicates && refused == "" && len(list) > 0 { // no other strategy was selected
		return ""
	}
	v.Kind = NothingToCompare
	switch inside := InsideText(w, &captured.Machine); {
	case communicates && refused != "":
		return "nothing to compare: " + refused
	case communicates, inside != "": // what communicates inside is said of every trace
		return ""
	case w.Opaque():
		return "the trace shows no communication, and not what whole graphs consist of"
	}
	return "nothing to overlap: the trace has no communication" + copiesText(w, captured)
}

// because is the reason for a prediction's certainty, beside its name, which it does not repeat.
func because(p Prediction) string {
	name := p.Selection.String()
	return strings.NewReplacer(": "+name+" of ", " of ", ", "+name+" of ",
		" and of ").Replace(strings.TrimSuffix(p.Confidence.Why, ": "+name))
}

// copiesText says what copies take that no kernel runs beside, where no schedule moves them; "" if that is not worth a word.
func copiesText(w *workload.Workload, captured engines.Outcome) string {
	t := TimesOf(w, captured)
	if share := float64(t.Copies) / float64(max(1, t.Total())); share >= LeastWaiting {
		return fmt.Sprintf(", and copies, which take %.0f %% of the time, wait for no kernel: fewer bytes help", 100*share)
	}
	return ""
}

// compared says what tries more settings, unless they were searched.
func (v *Verdict) compared() string {
	if v.tried != nil {
		return ""
	}
	return "; overlapse tune tries more settings"
}

func selections(list []Prediction) (names []string) {
	for _, c := range list {
		names = append(names, c.Selection.String())
	}
	return names
}

// win recommends a contender; fastest is the first likely one.
func (v *Verdict) win(w *workload.Workload, captured engines.Outcome, list []Prediction, fastest int) {
	best := easiest(list, fastest)
	c := list[best]
	v.Kind, v.Strategy, v.Parameters, v.Change, v.Chance, v.Confidence = Winner, c.Strategy.Name, c.Values, c.Change,
		c.Confidence.Chance, c.Confidence
	a := AdviceOn(w, captured, c.Outcome)
	v.Advice = &a
	passed := slices.DeleteFunc(slices.Concat(list[:fastest], v.tried),
		func(o Prediction) bool { return o.Expected >= c.Expected || o.Why != "" })
	said := ""
	if v.HostBound && c.Values["graph"] != "on" {
		said = "of the schedules that the host launches: "
	}
	said += fmt.Sprintf("%s: %.1f ± %.1f %% less, %s likely to gain %.0f %%; %s",
		changeOf(a.Ways, c), -100*c.Change, 100*v.Error, PercentOf(v.PFaster), -100*Faster, a.Effort)
	switch {
	case a.Memory >= leastMemory:
		said += fmt.Sprintf(";%s %s more on a GPU%s", atLeast(c.Memory), trace.Bytes(a.Memory), ofMemory(w, captured, a.Memory))
	case a.Memory <= -leastMemory && len(c.Memory.Lacks) == 0:
		said += fmt.Sprintf("; %s less on a GPU", trace.Bytes(-a.Memory))
	}
	said += slowerPhase(captured, c)
	var changes []string
	easier := -1
	for i, other := range list {
		switch {
		case !other.likely() || i == best:
		case tied(c, other):
			v.Candidates = append(v.Candidates, other.Selection.String())
			changes = append(changes, fmt.Sprintf("%s (%s)", other.named(), trace.Percent(other.Change)))
		case easier < 0 && plan.CompareEfforts(other.Effort, c.Effort) < 0:
			easier = i
		}
	}
	v.Advice.Said = said
	v.say("%s", said)
	more := []string{"strategy: " + c.Selection.String()}
	if len(passed) > 0 {
		more = append(more, "predicted faster, but passed over: "+passedOver(c, passed))
	}
	if len(changes) > 0 {
		more = append(more, "not distinguishable from it: "+few(changes, ", "))
	}
	if easier >= 0 {
		o := &list[easier]
		more = append(more, fmt.Sprintf("with less work (%s): %s, %s", o.Effort, o.named(), trace.Percent(o.Change)))
	}
	v.say("%s", strings.Join(more, "; "))
}

// easiest is the index of the one of the least effort among those that cannot be told from the fastest; the first of equals.
func easiest(list []Prediction, fastest int) int {
	best := fastest
	for i, other := range list {
		if other.likely() && tied(list[fastest], other) && plan.CompareEfforts(other.Effort, list[best].Effort) < 0 {
			best = i
		}
	}
	return best
}

// changeOf is a change in the words of the program's libraries; without such words in plain ones, and what the strategy does.
func changeOf(ways []plan.Way, c Prediction) string {
	said := plan.Said(ways)
	if said == "" {
		said = c.named()
		if c.Strategy.Summary != "" {
			said += " (" + c.Strategy.Summary + ")"
		}
	}
	return said
}

// ofMemory is what a GPU of the capture has, and what of it the captured schedule and more bytes take.
func ofMemory(w *workload.Workload, captured engines.Outcome, more int64) string {
	var has int64
	for i := range w.Run.Ranks {
		if bytes := w.Run.Ranks[i].Device.MemoryBytes; has == 0 || bytes < has {
			has = bytes
		}
	}
	if has == 0 || w.Rescaled != nil {
		return ""
	}
	if peak := plan.CapturedPeak(w); peak > 0 {
		return fmt.Sprintf(", %s of its %s instead of %s", trace.Bytes(peak+more), trace.Bytes(has), trace.Bytes(peak))
	}
	how := ""
	if added(w, captured) > muchAdded { // recording more would slow such a step further
		how = " in a capture of its own"
	}
	records := lift.RecorderOf(w.Run).Memory
	if records == "" {
		return fmt.Sprintf(" of %s (peak unknown)", trace.Bytes(has))
	}
	return fmt.Sprintf(" of %s (peak unknown: %s%s)", trace.Bytes(has), records, how)
}

// passedOver names the fastest of the predictions that are faster than the one that is named first, and why it is not.
func passedOver(c Prediction, faster []Prediction) string {
	o := slices.MinFunc(faster, func(a, b Prediction) int { return cmp.Compare(a.Expected, b.Expected) })
	why := because(o)
	if o.likely() {
		p := fitted.chance(o.ChangeFrom(c.Expected), o.Evidence.and(c.Evidence)).PFaster
		why = fmt.Sprintf("%s likely to gain another %.0f %%", PercentOf(p), -100*Faster)
	}
	said := fmt.Sprintf("%s, %s (%s)", o.named(), trace.Percent(o.Change), why)
	if n := len(faster) - 1; n > 0 {
		said += fmt.Sprintf(" and %d more", n)
	}
	return said
}

// tied reports whether the faster of two predictions is not likely to be faster than the other.
func tied(a, b Prediction) bool {
	if b.Expected < a.Expected {
		a, b = b, a
	}
	return fitted.chance(a.ChangeFrom(b.Expected), a.Evidence.and(b.Evidence)).PFaster < Likely
}

// slowerPhase names the other phases that a strategy recommended for one makes slower, if it does.
func slowerPhase(captured engines.Outcome, c Prediction) string {
	var slower []string
	for i := range min(len(captured.Phases), len(c.Phases)) {
		was, is := captured.Phases[i], c.Phases[i]
		if by := float64(is.Expected)/float64(max(1, was.Expected)) - 1; c.Phase > 0 && i+1 != c.Phase && by > -Faster {
			slower = append(slower, fmt.Sprintf("%s steps take %.1f %% more", was.Steps.Phase, 100*by))
		}
	}
	if len(slower) == 0 {
		return ""
	}
	return ", though " + strings.Join(slower, " and ") + ": keep it off for them"
}

// leastMemory is the difference from which memory is worth a word: GPUs have thousands of times as much.
const leastMemory = 5 << 20

// atLeast says that a difference of memory is a lower bound.
func atLeast(m plan.Memory) string {
	if len(m.Lacks) > 0 {
		return " at least"
	}
	return ""
}

// and is the evidence of a comparison of two predictions.
func (e Evidence) and(other Evidence) Evidence {
	e.OtherKernels, e.Copied = e.OtherKernels || other.OtherKernels, e.Copied || other.Copied
	e.Spread = math.Hypot(e.Spread, other.Spread)
	e.Poor, e.Unproven, e.Untested = max(e.Poor, other.Poor), max(e.Unproven, other.Unproven), max(e.Untested, other.Untested)
	return e
}

// few joins at most four words.
func few(words []string, with string) string {
	const most = 4
	if more := len(words) - most; more > 0 {
		return strings.Join(words[:most], with) + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, with)
}
