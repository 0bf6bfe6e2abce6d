package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// Print prints the answer: what to change, with its gain and cost, the lines to write and what they change of the step; then where
// the time goes, the table, and what to run next. input is what commands take to read the trace again. fold leaves out rows that
// nobody would choose tonight; why adds all reasons.
func Print(con *cli.Console, r *Replayed, input string, fold, why bool) {
	say := con.Say
	say(r.title(0))
	fmt.Fprintln(con.Out)
	r.printVerdict(con, why)
	for _, s := range r.answers() {
		say(s)
	}
	for _, phase := range r.reference.Each() {
		if shares := verdict.Shares(verdict.TimesOf(r.workload, r.reference.Of(phase))); len(shares) > 0 {
			con.Labelled("time", r.ofPhase(phase)+strings.Join(shares, ", "))
		}
	}
	if r.Published != "" {
		con.Labelled("published", r.Published)
	}
	shown := r.printRows(con, fold, why)
	if why && slices.ContainsFunc(shown, func(row *Row) bool { return row.Error > 0 }) {
		say(fmt.Sprintf("likely: probability of at least %.0f %% less time than %s; ±: its 80 %% interval, in points; "+
			"?: the prediction may be worth nothing, which the probability allows for", -100*verdict.Faster, r.given()))
	}
	printPairs(con, r)
	for _, row := range r.refused() {
		if !fold || why || row.defect() {
			say(r.phased(row) + " " + row.reason())
		}
	}
	if why {
		fmt.Fprintln(con.Out)
		for _, line := range r.why() {
			say(line)
		}
		for _, note := range r.Notes {
			con.Labelled("note", note)
		}
		PrintRescaled(con, r.Rescaled)
	}
	switch {
	case why:
		r.printModel(con, "")
	case r.Control == nil:
		r.printModel(con, "")
		con.Labelled("reasons", "--why")
	default:
		r.printModel(con, "; reasons: --why")
	}
	printNext(con, r.next(input))
}

// printVerdict prints the sentences of the verdict, and behind each recommendation how to get it and what it changes.
func (r *Replayed) printVerdict(con *cli.Console, why bool) {
	for k, s := range r.Verdict.Sentences {
		say := con.Say
		if k == 0 {
			say = con.Head
		}
		say(s)
		for i, v := range r.Verdict.Each() {
			if v.Advice == nil || s != v.Advice.Said && s != v.Phase+" steps: "+v.Advice.Said {
				continue
			}
			printAdvice(con, v.Advice, why)
			if row := r.recommendedOf(i); row != nil && row.changed != "" {
				con.Labelled("why", row.changed)
			}
		}
	}
}

// printRows prints the table of each phase, and returns the rows that it has.
func (r *Replayed) printRows(con *cli.Console, fold, why bool) (shown []*Row) {
	for i, phase := range r.reference.Each() {
		of := r.sorted(fold && !why, phase)
		none := r.Verdict.Each()[i].Kind == verdict.NothingToCompare
		if (len(of.rows) < 2 && of.alike == nil && of.later == nil || none) && fold && !why {
			continue
		}
		shown = append(shown, of.rows...)
		t := r.intervals(con, of.rows, !fold)
		if phase > 0 {
			t.Title = r.Phases[i].Phase + " steps"
		} else {
			fmt.Fprintln(con.Out)
		}
		if len(of.rows) > 0 {
			con.Show(t)
		}
		if len(of.alike) > 0 {
			con.Labelled("alike", r.sayings(of.alike)+": cannot be told from no change")
		}
		if len(of.later) > 0 {
			con.Labelled("later", r.sayings(of.later))
		}
	}
	if left := slices.DeleteFunc(r.refused(), (*Row).defect); len(shown) > 0 && fold && len(left) > 0 && !why {
		con.Labelled("other", "not applicable: "+r.sayings(left)+" (--why)")
	}
	return shown
}

// ofPhase names a phase in front of what is said of it; "" for all iterations.
func (r *Replayed) ofPhase(phase int) string {
	if phase == 0 {
		return ""
	}
	return r.reference.Phases[phase-1].Steps.Phase + " steps: "
}

// printModel prints what simulating the capture with interference gives, per operation that is checked and per step; nothing if
// nothing was measured. more stands behind it. Before, it says of a machine of which no number was measured that none was.
func (r *Replayed) printModel(con *cli.Console, more string) {
	if on, o := &r.reference.Machine, r.Origin; on.Profile != "" && o.Measured == 0 {
		published := 100 * float64(o.Published) / float64(max(1, o.Published+o.Assumed))
		con.Labelled("machine", fmt.Sprintf("no number of %s was measured on such a GPU: %.0f %% are published, the rest is assumed",
			on.Profile, published)+" (overlapse machines "+on.Profile+")")
	}
	if said := r.resimulated(); said != "" {
		con.Labelled("model", said+more)
	}
}

// resimulated is the model's error on the capture; "": nothing was measured.
func (r *Replayed) resimulated() string {
	if r.Control == nil {
		return ""
	}
	var steps []string
	for _, row := range r.Control {
		steps = append(steps, strings.TrimSpace(row.Phase+" step "+trace.Percent(row.Change)))
	}
	said := "re-simulated: " + strings.Join(steps, ", ")
	if i := r.Isolation; i != nil && i.Checked > 0 {
		said += fmt.Sprintf(", kernels %.0f %% off (p90 %.0f %%)", 100*i.Median, 100*i.P90)
	}
	return said
}

// title names the input, the machine, the iterations, and what differs from the capture; of a search how many settings were
// tried, else 0.
func (r *Replayed) title(tried int) string {
	parts := []string{r.Path, cli.MachineText(r.Machine, r.Guess)}
	times, profiled := r.capturedTimes()
	switch ranks := cli.Counted(r.Ranks, "rank"); {
	case tried > 0:
		if _, longest, _ := plan.MeasuredSteps(r.workload).Disturbed(); longest == 0 && r.reference.Phases == nil {
			times = trace.Micros(r.reference.Time)
		}
		parts = append(parts, cli.Counted(tried, "setting")+" tried", "captured "+times)
	case r.Captured < r.Ranks && r.Estimated == "" && r.Rescaled == nil:
		parts = append(parts, fmt.Sprintf("%d of %s captured", r.Captured, ranks), times)
	default:
		parts = append(parts, ranks, times)
	}
	if r.Estimated != "" {
		parts = append(parts, r.Estimated)
	}
	if r.Clock != "" {
		parts = append(parts, "clock "+r.Clock)
	}
	if profiled != "" {
		parts = append(parts, profiled)
	}
	return strings.Join(parts, " · ")
}

// PrintFound prints the verdict of a search that tried some settings, with the lines to write, and how far the model of this capture
// is to be trusted; why adds other ways to get the change.
func (r *Replayed) PrintFound(con *cli.Console, tried int, why bool) {
	con.Say(r.title(tried))
	fmt.Fprintln(con.Out)
	r.printVerdict(con, why)
	if r.Rescaled != nil {
		con.Say(rescaledText(r.Rescaled))
	}
	r.printModel(con, "")
}

// capturedTimes says how many iterations were captured and what one takes in the captured schedule, of each phase, and whether
// that is without the profiler.
func (r *Replayed) capturedTimes() (times, profiled string) {
	if r.Unprofiled {
		profiled = withoutProfiler(r.workload, r.reference, r.Clock != "")
	}
	return capturedText(r.workload, r.reference), profiled
}

// Step is what a captured step took, of each phase, and what it is estimated to take without the profiler if that differs, as text;
// and how long the trace shows it.
func (r *Replayed) Step() (text string, shown trace.Time) {
	text, profiled := r.capturedTimes()
	if r.Phases == nil {
		text, shown = trace.Micros(r.reference.Expected), trace.Time(r.Measured)
	}
	switch {
	case profiled == "":
		return text, shown
	case strings.HasPrefix(profiled, simulated):
		return r.measured() + ", simulated " + text, trace.Time(r.Measured)
	}
	return r.measured() + ", estimated " + text + " without the profiler", trace.Time(r.Measured)
}

// simulated begins what is said of times that are longer than the captured ones.
const simulated = "simulated"

// withoutProfiler says that times are estimates without the profiler, where that changes them, and what the captured ones are; else nothing.
// otherClock is that times are of another clock.
func withoutProfiler(w *workload.Workload, captured engines.Outcome, otherClock bool) string {
	steps := plan.MeasuredSteps(w)
	was, differ, above := trace.Micros(steps.Time()), false, true
	if len(captured.Phases) > 1 {
		was = phaseNames(steps.Phases())
	}
	for _, phase := range captured.Each() {
		of := captured.Of(phase)
		differ = differ || math.Abs(float64(steps.Of(phase).Time())/float64(max(1, of.Expected))-1) > sameTime
		above = above && of.Expected > steps.Of(phase).Time()
	}
	switch {
	case w.Rescaled == nil && (otherClock || !differ):
		return ""
	case w.Rescaled == nil && above: // a profiler shortens nothing
		return simulated + " (" + was + " captured)"
	}
	profiled, with := "estimated without the profiler", "it"
	if loads := loaded(w); 10*loads > steps.Time() {
		profiled, with = profiled+" and "+trace.Micros(loads)+" of loading kernels, which later iterations do not repeat", "both"
	}
	if w.Rescaled == nil {
		profiled += " (" + was + " with " + with + ")"
	}
	return profiled
}

// capturedText is how many iterations were captured and what one takes in the captured schedule, of each phase.
func capturedText(w *workload.Workload, captured engines.Outcome) string {
	var phases []plan.PhaseTime
	for i, p := range captured.Phases {
		if len(captured.Phases) > 1 {
			p.Steps.Time = captured.Of(i + 1).Expected
		}
		phases = append(phases, p.Steps)
	}
	switch n := workload.Iterations(w); {
	case phases != nil:
		return phaseNames(phases)
	case n > 0:
		return iterationsIn(n, captured.Expected, plan.MeasuredSteps(w))
	}
	return trace.Micros(captured.Expected)
}

// sameTime is the difference of two runs of one step in the median, relative: again_us in samples/measurements.
const sameTime = 0.0032

// loaded is the longest time that a rank's launches took to load kernels, an iteration.
func loaded(w *workload.Workload) (longest trace.Time) {
	for _, h := range w.Hosts {
		longest = max(longest, h.Loads)
	}
	return longest / trace.Time(max(1, workload.Iterations(w)))
}

// answers are sentences on what flags asked for.
func (r *Replayed) answers() (list []string) {
	if x := r.Rescaled; x != nil {
		list = append(list, rescaledText(x))
	}
	list = append(list, r.whatIfText())
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// why are the reasons for the numbers, one a line.
func (r *Replayed) why() (lines []string) {
	type reason struct {
		text string
		rows []*Row
	}
	var reasons []reason
	for i := range r.Rows {
		row := &r.Rows[i]
		if !row.Applies {
			continue
		}
		line := fmt.Sprintf("%s: %s", r.phased(row), row.Limit)
		if hidden, ok := hiddenPercent(row.Times); ok {
			line += fmt.Sprintf("; %.0f %% of communication is hidden", hidden)
		}
		lines = append(lines, line)
		if row.Error == 0 || row.Confidence.Why == "" {
			continue
		}
		k := slices.IndexFunc(reasons, func(x reason) bool { return x.text == row.Confidence.Why })
		if k < 0 {
			k, reasons = len(reasons), append(reasons, reason{text: row.Confidence.Why})
		}
		reasons[k].rows = append(reasons[k].rows, row)
	}
	for _, x := range reasons {
		lines = append(lines, fmt.Sprintf("certainty (%s): %s", r.names(x.rows), x.text))
	}
	for i := range r.Rows {
		for _, note := range r.Rows[i].Notes {
			if said := r.named(&r.Rows[i]) + ": " + note; !slices.Contains(lines, said) {
				lines = append(lines, said)
			}
		}
	}
	for i, v := range r.Verdict.Each() {
		for _, b := range v.Below {
			lines = append(lines, r.ofPhase(r.reference.Each()[i])+belowIdeal(b))
		}
	}
	for _, row := range r.Rows {
		if x := row.Approximation; x != nil {
			lines = append(lines, fmt.Sprintf("%s: bandwidth shares are approximate, since up to %d transfers contend at once: each transfer ends up to %.2g %% of the total time early or late",
				row.Strategy, x.Paths, 100*x.Error))
		}
	}
	for _, p := range r.Waves {
		if p.Apart-p.Together < 0.01 {
			continue
		}
		lines = append(lines, fmt.Sprintf("pair %d: %s fills the GPU %.2f times, %s %.2f times: %.0f waves one after the other, %.2f side by side",
			p.Pair, cli.Shorten(p.First, 30), p.Waves.First, cli.Shorten(p.Second, 30), p.Waves.Second, p.Apart, p.Together))
	}
	if i := r.Isolation; i != nil && i.Disturbed > 0 {
		lines = append(lines, isolationText(i))
	}
	return append(lines, r.basis()+" "+r.measured())
}

// printAdvice prints the lines to set; alternatives and the places if all is set, or where a program has to be changed there.
func printAdvice(con *cli.Console, a *verdict.Advice, all bool) {
	told := map[string]bool{} // libraries that a note tells of
	for _, w := range a.Ways {
		var said string
		switch {
		case w.Needed:
			said = strings.TrimSuffix(fmt.Sprintf("%s (%s; %s", w.For, w.Effort, w.Costs), "; ") + "): "
		case all:
			said = "or: "
		default:
			continue
		}
		if !all && w.Line == "" && w.Says == "" && w.Effort == plan.ByFlag { // by default
			continue
		}
		if !all && w.Says != "" {
			said = ""
		}
		library := strings.TrimSpace(w.Library + " " + w.Version)
		said += library
		if w.Note != "" {
			said = strings.TrimSuffix(said, ": ") + ": " + w.Note
		}
		for line := range strings.Lines(w.Line) { // whole, to be copied
			fmt.Fprintf(con.Out, "%10s%s\n", "", strings.TrimRight(guard.Line(line), " \n"))
		}
		if said != library || !told[library] {
			con.Labelled("how", said)
		}
		told[library] = true
	}
	if len(a.Where) > 0 && (all || a.Effort != plan.ByFlag) {
		con.Labelled("where", strings.Join(a.Where, "; "))
	}
}

// printNext prints the next step on one line, since it may be a command to paste.
func printNext(con *cli.Console, step string) {
	fmt.Fprintf(con.Out, "next      %s\n", guard.Line(step))
}

// next is the most useful next step: a command that can be pasted, or what to record.
func (r *Replayed) next(input string) string {
	v, recorder := &r.Verdict, lift.RecorderOf(r.workload.Run)
	late, wins := 0.0, v.Has(verdict.Winner)
	if !wins && r.whatIf() == "" {
		late = v.LookFirst()
	}
	only := func(kind verdict.Kind) bool {
		return !slices.ContainsFunc(v.Each(), func(p verdict.Verdict) bool { return p.Kind != kind })
	}
	switch {
	case only(verdict.Withdrawn):
		return "overlapse inspect " + input
	case len(r.workload.Collectives) == 0:
		return "overlapse view " + input
	case only(verdict.NothingToCompare):
		return "overlapse inspect " + input
	case slices.ContainsFunc(v.Each(), func(p verdict.Verdict) bool {
		return p.Kind == verdict.Winner && (p.Advice.Effort == plan.ByFlag || p.Advice.Effort == plan.ByCode)
	}):
		return "overlapse tune " + input + " --emit settings"
	case late < verdict.MuchWaiting && len(r.PairKinds) == 0 && len(workload.Pairs(r.workload)) > 1 && v.Has(verdict.NoClearWinner):
		return "overlapse replay " + input + " --pairs"
	case late >= verdict.LeastWaiting:
		return "overlapse replay " + input + " --what-if balanced"
	case len(r.PairKinds) > 0 && !wins: // what to record for a surer answer
		return "overlapse inspect " + input + " --all"
	case recorder.Torch && recorder.Engine == "" && len(r.workload.Run.Operators) > 0 && verdict.Guessed(r.workload):
		return "record " + recorder.Dataflow
	}
	return "overlapse tune " + input
}

// belowIdeal says why a strategy is faster than the bound.
func belowIdeal(b verdict.BelowBound) string {
	return fmt.Sprintf("%s is faster than ideal because it saves work that ideal includes: %s", b.Strategy, b.Why)
}

// isolationText is how much the overlap in the capture slowed kernels and collectives.
func isolationText(i *workload.Isolation) string {
	ran := fmt.Sprintf("%d of %d operations ran concurrently with others in the capture", i.Disturbed, i.Operations)
	if i.Why != "" {
		return ran + "; their isolated times are unknown: " + i.Why
	}
	ran += fmt.Sprintf(": isolated, their compute takes %.0f %% less time and their collectives %.0f %% less", 100*(1-1/max(1, i.Compute)), 100*(1-1/max(1, i.Collective)))
	if i.Checked > 0 {
		ran += fmt.Sprintf("; self-check: for %d of them other instances show the isolated time; simulated with interference, they differ from their captured times by %.1f %% in the median and %.1f %% at the 90th percentile",
			i.Checked, 100*i.Median, 100*i.P90)
	}
	return ran
}

// phaseNames writes how many steps of each phase of serving there are, and how long one takes:
// "10 decode steps of 9.80 ms, 32 tokens each".
func phaseNames(phases []plan.PhaseTime) string {
	var list []string
	for _, p := range phases {
		text := fmt.Sprintf("%s of %s", cli.Counted(p.Steps, p.Phase+" step"), trace.Micros(p.Time))
		if p.Phase == "" {
			text = fmt.Sprintf("%s of %s", cli.Counted(p.Steps, "other step"), trace.Micros(p.Time))
		}
		if p.Tokens > 0 {
			text += fmt.Sprintf(" (%s)", cli.Counted(int(p.Tokens), "token"))
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
