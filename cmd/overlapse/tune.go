package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/results"
	"github.com/overlapse/overlapse/cmd/overlapse/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/retarget"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// tuneOptions are the flags of `overlapse tune`.
type tuneOptions struct {
	inputs.Flags
	format string
	top    int
	pair   string
	whatIf string
	emit   string // folder of the recommended settings; "": none
}

func (a *app) tuneCommand() *cobra.Command {
	var o tuneOptions
	c := &cobra.Command{
		Use:   "tune PATH...",
		Short: "Search the settings of strategies for the fastest on a trace",
		Long: `Replays a trace under every combination of the settings of one or more strategies:
chunks, channels, priority, order, variants. Settings are ranked by the time of the
whole iteration. Settings that you give are kept. Settings that cannot run are skipped
and counted. If dispatch order varies between runs, the time is the mean over the orders.`,
		Example: `  overlapse tune samples/llama70b-fc2-allreduce --strategy decompose
  overlapse tune samples/moe-ep4 --strategy decompose:variant=chunks,fused --top 3`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.Path = a.Input(args)
			return a.tune(c.Context(), o)
		},
	}
	o.AddTo(c, "strategies to tune, with the settings to keep")
	a.OutsideFlag(c)
	f := c.Flags()
	usage.ChoiceFlag(c, &o.format, "format", "table", "table or json", "table", "json")
	usage.IntFlag(f, &o.top, "top", 5, usage.Range[int]{Most: usage.MaxRows}, "number of settings to list per strategy; 0: all")
	inputs.WhatIfFlag(f, &o.whatIf, "search")
	f.StringVar(&o.emit, "emit", "", "also write the recommended settings into this folder: variables, options of frameworks, lines of Python")
	f.StringVar(&o.pair, "pair", "", "apply the strategies to these pairs only, by their numbers in inspect")
	return c
}

// A tuning is what `tune --format json` prints.
type tuning struct {
	Schema     int                 `json:"schema"`
	Verdict    verdict.Verdict     `json:"verdict"` // on the best settings of each strategy
	Strategies []tunedStrategy     `json:"strategies"`
	WhatIf     string              `json:"what_if,omitempty"` // factors on the machine's properties
	Rescaled   *workload.Rescaling `json:"rescaled,omitempty"`
}

// A tunedStrategy has the settings of one strategy, fastest first.
type tunedStrategy struct {
	Strategy   string             `json:"strategy"`
	Tried      int                `json:"tried"`
	Ran        int                `json:"ran"`
	Why        string             `json:"why,omitempty"` // why the others did not run
	Confidence verdict.Confidence `json:"confidence"`    // of the best
	Default    *tunedTime         `json:"default,omitempty"`
	Best       []tunedTime        `json:"best"`
}

// A tunedTime is the time with one combination of settings.
type tunedTime struct {
	Settings   string      `json:"settings"`
	Parameters plan.Values `json:"parameters"`
	Time       int64       `json:"time_ns"`
	Change     float64     `json:"change"` // relative to the captured schedule's replay
}

func (a *app) tune(ctx context.Context, o tuneOptions) error {
	altered, err := inputs.ParseWhatIf(o.whatIf)
	if err != nil {
		return err
	}
	candidates, w, m, err := inputs.Prepare(&a.Reader, o.Flags, engines.ParseCandidates)
	if err != nil {
		return err
	}
	if len(altered) > 0 {
		changed := altered.Of(m)
		w, m = retarget.To(w, m, changed), changed
	}
	candidates = slices.DeleteFunc(candidates, func(s []plan.Selection) bool { return s[0].Strategy.Bound })
	n := 0
	for i := range candidates {
		if o.pair != "" {
			if candidates[i], err = inputs.SelectedPairs(w, o.pair, candidates[i]); err != nil {
				return err
			}
		}
		n += len(candidates[i])
	}
	opts := replay.Options{Stop: inputs.StopFunc(ctx)}
	base, err := compare.Run(w, m, engines.CapturedSelection(), o.Scenario(), opts)
	if err != nil {
		return results.Stopped(ctx, err)
	}
	if base.Result == nil {
		return fmt.Errorf("%s: %s", o.Path, base.Why)
	}
	found := tuning{Schema: schema.Version, WhatIf: altered.String(), Rescaled: w.Rescaled}
	var best []compare.Outcome // of each strategy
	bar, tried := a.Progress(n, "tuning"), 0
	opts.Progress = bar.Share
	for _, sel := range candidates {
		tuned, err := compare.Tune(w, m, sel, o.Scenario(), opts, func() { bar.Add(1) })
		if err != nil {
			return results.Stopped(ctx, err)
		}
		t := tunedOf(sel, tuned, base.Time, o.top)
		tried += tuned.Tried
		if len(tuned.Ran) > 0 {
			out, err := compare.Run(w, m, tuned.Ran[0].Selection, o.Scenario(), opts) // Tune keeps no results
			if err != nil {
				return results.Stopped(ctx, err)
			}
			best, t.Confidence = append(best, out), verdict.ConfidenceOf(w, out)
		}
		found.Strategies = append(found.Strategies, t)
	}
	bar.Finish()
	found.Verdict = verdict.Judge(w, base, best)
	if o.emit != "" {
		if err := results.Emit(a.Console, &a.files, o.emit, found.Verdict); err != nil {
			return err
		}
	}
	if o.format == "json" {
		if err := schema.WriteJSON(a.Out, found); err != nil {
			return err
		}
		return o.failedError(found.Strategies)
	}
	fmt.Fprintf(a.Out, "%s on %s: %d settings tried; captured %s\n\n", plain.Line(o.Path), plain.Line(m.Name), tried, text.Micros(base.Time))
	if w.Run.Estimated != "" {
		fmt.Fprintln(a.Out, plain.Line(w.Run.Estimated))
	}
	a.printTuned(found.Strategies)
	results.PrintVerdict(a.Console, found.Verdict)
	results.PrintRescaled(a.Console, found.Rescaled)
	return o.failedError(found.Strategies)
}

// failedError is an error if a strategy that the user selected runs with no settings.
func (o *tuneOptions) failedError(tuned []tunedStrategy) error {
	var names []string
	for _, s := range tuned {
		if s.Ran == 0 {
			names = append(names, s.Strategy+": "+s.Why)
		}
	}
	if o.Strategy == "all" || len(names) == 0 {
		return nil
	}
	return usage.NotRun{Err: fmt.Errorf("%s: no settings of a selected strategy can run: %s", o.Path, strings.Join(names, "; "))}
}

func tunedOf(sel []plan.Selection, found compare.Tuning, base trace.Time, top int) tunedStrategy {
	e := sel[0].Strategy
	ran := found.Ran
	t := tunedStrategy{Strategy: e.Name, Tried: found.Tried, Ran: len(ran), Why: found.Why, Best: []tunedTime{}}
	first := e.String(sel[0].Values)
	distinct := 0
	for i, out := range ran {
		if i > 0 && out.Expected != ran[i-1].Expected {
			distinct++
		}
		settings := e.String(out.Values)
		x := tunedTime{settings, out.Values, int64(out.Expected), float64(out.Expected)/float64(max(1, base)) - 1}
		if top == 0 || distinct < top {
			t.Best = append(t.Best, x)
		}
		if settings == first {
			t.Default = &x
		}
	}
	return t
}

func (a *app) printTuned(tuned []tunedStrategy) {
	t := a.Table("strategy", "settings", "time", "change", "vs defaults", "confidence")
	var notes []string
	for _, s := range tuned {
		if s.Ran == 0 {
			notes = append(notes, s.Strategy+": "+s.Why)
			continue
		}
		for i, b := range s.Best {
			if i > 0 && b.Time == s.Best[i-1].Time {
				continue // the same program with other settings
			}
			name, versus, confidence := "", "", ""
			if i == 0 {
				name, confidence = s.Strategy, string(s.Confidence.Level)
			}
			if s.Default != nil {
				versus = text.Percent(float64(b.Time)/float64(max(1, s.Default.Time)) - 1)
			}
			settings := b.Settings
			if settings == "" {
				settings = "(defaults)"
			}
			t.AppendRow(table.Row{name, settings, text.Micros(trace.Time(b.Time)), text.Percent(b.Change), versus, confidence})
		}
		if d := s.Default; d != nil && float64(d.Time)*(1-compare.RunsDiffer) < float64(s.Best[0].Time) {
			notes = append(notes, fmt.Sprintf("%s: no clear difference from its defaults: runs of the same program vary by %.0f %%", s.Strategy, 100*compare.RunsDiffer))
		}
		if left := s.Tried - s.Ran; left > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d settings do not apply or cannot run; the first: %s", s.Strategy, left, s.Tried, s.Why))
		}
	}
	t.Render()
	for i, n := range notes {
		if i == 0 {
			fmt.Fprintln(a.Out)
		}
		fmt.Fprintln(a.Out, plain.Line(n))
	}
}
