package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// tuneOptions are the flags of `overlapse tune`.
type tuneOptions struct {
	cli.Flags
	format string
	top    int
	pair   string
	whatIf string
	emit   string // folder of the recommended settings; "": none
	why    bool
	memory float64       // GiB that a rank has; 0: any
	within time.Duration // of the command; 0: until the search ends

	threshold string // "batch", or ""
	tokens    int    // of a captured step, for threshold; 0: as the trace tells
}

func (a *app) tuneCommand() *cobra.Command {
	var o tuneOptions
	c := &cobra.Command{
		Use:   "tune PATH...",
		Short: "Search one change after the other for a faster schedule of a trace",
		Long: `Climbs from the captured schedule by one change at a time: a strategy, then one of its
settings after the other. Each step takes the fastest of the changes that are likely to
gain at least 1 %, or the one of the least effort that cannot be told from it, and the last
is the one after which nothing likely is left. Prints
the ladder with the gain, the probability and the memory of every step, then the other
settings that were tried, fastest first. Settings that you give are kept; those that
overlapse strategies calls experimental are tried only if you give them. If dispatch
order varies between runs, the time is the mean over the orders.

--within 60s ends the search after that time from the start of the command and prints what is best so
far, with the number of settings left out. Defaults of all strategies are tried first, then the settings of
the strategy whose defaults are fastest.

--memory GIB refuses schedules that take more memory than the captured one and do not fit.
On the trace of a pipeline, its schedules are tried too, with more micro-batches.

--threshold batch answers another question: from which batch of a serving step on does a
strategy pay? It replays prefill and decode with batches of 1/8 to 64 times the captured one.
Without --strategy it tries two batches in turn, and one-shot and two-shot all-reduces.`,
		Example: `  overlapse tune samples/llama70b-fc2-allreduce --strategy decompose
  overlapse tune samples/fsdp-step
  overlapse tune samples/fsdp-step --within 60s
  overlapse tune samples/moe-ep4 --strategy decompose:variant=chunks,fused --top 3
  overlapse tune samples/llama70b-prefill --threshold batch --tokens 4096`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.Path = inputOf(&a.Reader, args)
			if o.threshold != "" {
				return a.threshold(c.Context(), o)
			}
			return a.tune(c.Context(), o)
		},
	}
	o.AddTo(c, "strategies to tune, with the settings to keep")
	f := c.Flags()
	cli.ChoiceFlag(c, &o.format, "format", "table", "table or json", "table", "json")
	cli.IntFlag(f, &o.top, "top", 5, cli.Range[int]{Most: maxRows}, "number of the other settings to list; 0: all")
	whatIfFlag(f, &o.whatIf, "search")
	f.StringVar(&o.emit, "emit", "", "also write the recommended settings into this folder: variables, options of frameworks, lines of Python")
	cli.ChoiceFlag(c, &o.threshold, "threshold", "", "batch: instead, from which batch of a serving step on a strategy pays, with the flag's value to set", "batch")
	cli.IntFlag(f, &o.tokens, "tokens", 0, cli.Range[int]{Most: 1 << 24},
		"with --threshold: tokens of a captured step's batch on one rank, where the trace does not tell; 0: as it tells")
	f.Float64Var(&o.memory, "memory", 0, "GiB that a rank has: schedules that take more than the captured one and do not fit are refused; 0: any. Needs the capture's own memory (profile_memory=True), else only what a schedule takes more counts")
	cli.DurationFlag(f, &o.within, "within", "time from the start of the command after which the search ends, such as 60s; 0: when nothing likely is left")
	f.BoolVar(&o.why, "why", false, "also print why settings do not apply, the reason of the verdict's probability, "+
		"and other ways to get the change")
	f.StringVar(&o.pair, "pair", "", "apply the strategies to these pairs only, by their numbers in inspect")
	return c
}

// A tuning is what `tune --format json` prints.
type tuning struct {
	Schema int `json:"schema"`
	// on the last step of the ladder, else on the fastest settings of each strategy
	Verdict    verdict.Verdict     `json:"verdict"`
	Ladder     []tunedTime         `json:"ladder"`            // likely changes, one at a time from the captured schedule
	Tried      []tunedTime         `json:"tried"`             // fastest first, those of the ladder included
	Strategies []verdict.Tally     `json:"strategies"`        // what was tried of each
	Control    []results.Row       `json:"control,omitempty"` // as of replay
	Within     string              `json:"within,omitempty"`  // --within, if it ended the search
	NotTried   int                 `json:"not_tried,omitempty"`
	WhatIf     string              `json:"what_if,omitempty"` // factors on the machine's properties
	Rescaled   *workload.Rescaling `json:"rescaled,omitempty"`
}

// A tunedTime is the time with one combination of settings.
type tunedTime struct {
	results.Row
	Step       float64 `json:"step_change"`   // of a ladder's step, relative to the step before
	StepChance float64 `json:"step_p_faster"` // that it takes at least 1 % less than the step before
}

func (a *app) tune(ctx context.Context, o tuneOptions) error {
	started := time.Now()
	var err error
	if o.WhatIf, err = parseWhatIf(o.whatIf); err != nil {
		return err
	}
	a.OwnNotes = o.format == "table" // --why has them
	candidates, w, m, err := cli.Prepare(&a.Reader, o.Flags, engines.ParseCandidates)
	if err != nil {
		return err
	}
	opts := replay.Options{Like: true, Stop: stopFunc(ctx)}
	sc := o.Scenario()
	if sc.MemoryLimit = int64(o.memory * (1 << 30)); o.memory < 0 || o.memory > 0 && sc.MemoryLimit <= 0 || o.memory > 1<<20 {
		return cli.Exit(cli.Usage, "--memory %v: GiB of a rank are between 0 and %d", o.memory, 1<<20)
	}
	if w, err = engines.Isolate(w, m, opts.Stop); err != nil { // what Isolation tells is printed
		return results.Stopped(ctx, err)
	}
	r, err := results.Of(ctx, a.Console, o.Path, w, m, nil, sc, opts, false, false)
	if err != nil {
		return err
	}
	if o.Clock != "captured" {
		r.Clock = o.Clock
	}
	candidates = slices.DeleteFunc(candidates, func(s []plan.Selection) bool {
		k := s[0].Strategy.Kind
		return k == plan.Exact || k == plan.Bound || k == plan.Future && o.Strategy == "all"
	})
	if o.Strategy == "all" && r.LaunchBound() {
		graph, err := engines.ParseSelection(engines.CapturedSelection().Strategy.Name + ":graph=on")
		if err != nil {
			return err
		}
		candidates = append(candidates, graph)
	}
	schedules, err := engines.OfSchedules(w, &m, true)
	if err != nil {
		return err
	}
	carriers, err := engines.OfCarriers(w, &m, true)
	if err != nil {
		return err
	}
	for _, more := range [][]plan.Selection{schedules, carriers} {
		if o.Strategy == "all" && more != nil {
			candidates = append(candidates, more)
		}
	}
	for i := range candidates {
		if o.pair != "" {
			if candidates[i], err = selectedPairs(w, o.pair, candidates[i]); err != nil {
				return err
			}
		}
	}
	var over func() bool
	if o.within > 0 {
		over = func() bool { return time.Since(started) >= o.within }
	}
	bar := a.Progress(-1, "tuning")
	ladders, err := r.Climb(m, candidates, opts, over, func() { bar.Add(1) })
	bar.Finish()
	if err != nil {
		return results.Stopped(ctx, err)
	}
	found := tuning{Schema: results.Version, Verdict: r.Verdict, WhatIf: o.WhatIf.String(), Rescaled: w.Rescaled, Control: r.Control}
	for i, l := range ladders {
		phase := r.Verdict.Each()[i].Phase
		found.Ladder = append(found.Ladder, tunedTimes(phase, l.Rungs)...)
		found.Tried = append(found.Tried, tunedTimes(phase, l.Tried)...)
		found.NotTried = max(found.NotTried, l.NotTried)
		for i, s := range l.Strategies { // of the phase that most settings were tried for
			if i == len(found.Strategies) {
				found.Strategies = append(found.Strategies, s)
			} else if s.Tried > found.Strategies[i].Tried {
				found.Strategies[i] = s
			}
		}
	}
	if found.NotTried > 0 {
		found.Within = o.within.String()
	}
	a.shown = &found
	tried := 0
	for _, s := range found.Strategies {
		tried += s.Tried
	}
	if o.emit != "" {
		if err := results.Emit(a.Console, &a.files, o.emit, found.Verdict); err != nil {
			return err
		}
	}
	if o.format == "json" {
		if err := results.WriteJSON(a.Out, found); err != nil {
			return err
		}
		return o.failedError(found.Strategies)
	}
	r.PrintFound(a.Console, tried, o.why)
	if o.memory > 0 {
		a.Say(refusedText(w, sc.MemoryLimit, found.Strategies))
	}
	if found.NotTried > 0 {
		a.Say(leftOutText(found, tried))
	}
	for i, l := range ladders {
		phase := r.Verdict.Each()[i].Phase
		a.printLadder(found, phase, l.Captured.Time)
		a.printTried(found, phase, o.top)
	}
	if o.why {
		fmt.Fprintln(a.Out)
		a.printWhy(found)
		for _, note := range r.Notes {
			a.Labelled("note", note)
		}
		results.PrintRescaled(a.Console, found.Rescaled)
	}
	fmt.Fprintln(a.Out)
	fmt.Fprintf(a.Out, "next      %s\n", a.afterTuning(o, &found, len(workload.Pairs(w)))) // in one line, to be pasted
	return o.failedError(found.Strategies)
}

// failedError is an error if a strategy that the user selected runs with no settings.
func (o *tuneOptions) failedError(tuned []verdict.Tally) error {
	var names []string
	for _, s := range tuned {
		if s.Defect != nil {
			return s.Defect
		}
		if s.Ran == 0 && s.NotTried == 0 {
			names = append(names, s.Strategy+": "+s.Why)
		}
	}
	if o.Strategy == "all" || len(names) == 0 {
		return nil
	}
	return cli.Exit(cli.Failed, "%s: no settings of a selected strategy can run: %s", o.Path, strings.Join(names, "; "))
}

func tunedTimes(phase string, rungs []verdict.Rung) []tunedTime {
	list := []tunedTime{}
	for _, r := range rungs {
		list = append(list, tunedTime{results.RowOf(&r.Prediction, phase), r.Step, r.StepChance.PFaster})
	}
	return list
}

// added are the settings of a step of the ladder that the step before does not have, in words.
func (t *tunedTime) added(before *tunedTime) string {
	words := func(t *tunedTime) []string {
		return strings.Split(strings.TrimPrefix(cmp.Or(t.Says, t.Name()), "set "), " and ")
	}
	if before == nil || before.Strategy != t.Strategy {
		return strings.Join(words(t), " and ")
	}
	had := words(before)
	return "+ " + strings.Join(slices.DeleteFunc(words(t), func(word string) bool { return slices.Contains(had, word) }), " ")
}

// refusedText says what a limit of memory refuses and from where it counts.
func refusedText(w *workload.Workload, limit int64, tallies []verdict.Tally) string {
	from := "the capture does not record its own memory: only what a setting takes more is compared"
	if records := lift.RecorderOf(w.Run).Memory; records != "" {
		from = "the capture does not record its own memory (" + records + "): only what a setting takes more is compared"
	}
	if captured := plan.CapturedPeak(w); captured > 0 {
		from = "the captured schedule takes " + trace.Bytes(captured)
	}
	var list []string
	for _, s := range tallies {
		if s.TooLarge > 0 {
			list = append(list, fmt.Sprintf("%s of %s", cli.Counted(s.TooLarge, "setting"), s.Strategy))
		}
	}
	refused := "no setting is refused"
	if len(list) > 0 {
		refused = "refused: " + strings.Join(list, ", ")
	}
	return fmt.Sprintf("memory of %s: %s; %s", trace.Bytes(limit), refused, from)
}

// leftOutText says what the search did not try when its time was over.
func leftOutText(found tuning, tried int) string {
	var list []string
	for _, s := range found.Strategies {
		if s.NotTried > 0 {
			list = append(list, fmt.Sprintf("%d of %s", s.NotTried, s.Strategy))
		}
	}
	return fmt.Sprintf("best so far: %d of %s were not tried: --within %s (%s)",
		found.NotTried, cli.Counted(found.NotTried+tried, "setting"), found.Within, strings.Join(list, ", "))
}

// of are the times of a phase.
func of(phase string, all []tunedTime) []tunedTime {
	return slices.DeleteFunc(slices.Clone(all), func(t tunedTime) bool { return t.Phase != phase })
}

// titleOf is a table's title with the phase that it is about.
func titleOf(title, phase string) string {
	if phase == "" {
		return title
	}
	return phase + " steps: " + title
}

// printLadder prints one likely change of a phase after the other.
func (a *app) printLadder(found tuning, phase string, captured trace.Time) {
	ladder := of(phase, found.Ladder)
	if len(ladder) == 0 {
		return
	}
	t := cli.Table{
		Title:   titleOf("one change after the other", phase),
		Columns: []string{"schedule", "time", "change", "likely", "in all", "memory"},
	}
	t.Add("captured", captured, "", "", "", "")
	var before *tunedTime
	for i := range ladder {
		r := &ladder[i]
		step, likely, change := trace.Percent(r.Step), verdict.PercentOf(r.StepChance), trace.Percent(r.Change)
		t.Add(r.added(before), trace.Time(r.Time), step, likely, change, results.MemoryText(r.PeakMemory, r.MemoryLacks))
		before = r
	}
	a.Show(&t)
	said := "change, likely: against the line above, and the probability of a gain of 1 %"
	if found.NotTried == 0 {
		said += "; no further change has 80 %"
	}
	a.Say(said)
}

// printTried prints the fastest settings of a phase that are not steps of the ladder.
func (a *app) printTried(found tuning, phase string, top int) {
	var rows []*results.Row
	for i := range found.Control {
		if found.Control[i].Phase == phase {
			rows = append(rows, &found.Control[i])
		}
	}
	tried, last := of(phase, found.Tried), int64(0)
	left := top
	for i := range tried {
		r := &tried[i].Row
		same := func(step tunedTime) bool { return step.Strategy == r.Strategy && step.Settings == r.Settings }
		if r.Time == last || slices.ContainsFunc(of(phase, found.Ladder), same) { // equal times: the same program
			continue
		}
		if left--; top > 0 && left < 0 {
			break
		}
		rows, last = append(rows, r), r.Time
	}
	slices.SortStableFunc(rows, func(a, b *results.Row) int { return cmp.Compare(a.Time, b.Time) })
	t := results.Table(rows, a.Width)
	t.Title = titleOf("other settings, fastest first", phase)
	a.Show(t)
}

// printWhy prints why settings do not run, and the main reason of the verdict's probability.
func (a *app) printWhy(found tuning) {
	for _, v := range found.Verdict.Each() {
		if why := v.Confidence.Why; why != "" {
			a.Say(titleOf("certainty: "+why, v.Phase))
		}
	}
	for _, s := range found.Strategies {
		switch {
		case s.Tried == 0:
		case s.Ran == 0:
			a.Say(s.Strategy + ": " + s.Why)
		case s.Ran < s.Tried:
			a.Say(fmt.Sprintf("%s: %d of %d settings do not apply or cannot run; the first: %s", s.Strategy, s.Tried-s.Ran, s.Tried, s.Why))
		}
	}
}

// afterTuning is the next step: write the settings, or measure them, or look closer, pair by pair where there are several kinds.
func (a *app) afterTuning(o tuneOptions, found *tuning, pairs int) string {
	input, v := a.again(o.Flags), &found.Verdict
	switch {
	case !v.Has(verdict.Winner) && pairs > 1:
		return "overlapse replay " + input + " --pairs"
	case !v.Has(verdict.Winner): // what to record for a surer answer
		return "overlapse inspect " + input + " --all"
	case o.emit == "" && slices.ContainsFunc(v.Each(), func(p verdict.Verdict) bool {
		return p.Advice != nil && p.Advice.Effort != plan.OwnKernel
	}):
		asked := o.pair != "" || o.whatIf != "" || o.memory > 0 || o.Clock != "captured" || len(v.Each()) > 1
		if last := len(found.Ladder) - 1; last >= 0 && !asked { // what was found, without the search
			strategy := strings.Join(append([]string{found.Ladder[last].Strategy}, strings.Fields(found.Ladder[last].Settings)...), ":")
			return "overlapse replay " + input + " " + cli.ShellWords([]string{"--strategy", strategy, "--emit", "settings"})
		}
		return "overlapse tune " + input + " --emit settings"
	}
	return "capture the changed program, then: overlapse diff " + input + " NEW"
}
