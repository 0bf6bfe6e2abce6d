package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// replayOptions are the flags of `overlapse replay`.
type replayOptions struct {
	question
	format  string
	dir     string
	explain bool
	pair    string // numbers of pairs to replan; "" all
	pairs   bool   // also each kind of pair by itself, and the best of each together
	ranks   []int
	window  string
	full    bool // record what was asked for, however much it is
	seeds   int
	whatIf  string // links=2,memory=1.2; "" nothing
}

func (a *app) replayCommand() *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay PATH...",
		Short: "Predict a captured trace's time under the overlap strategies",
		Long: `Replays a captured trace on a modelled machine under one or more strategies and
prints what each would take, how that compares with the capture, how much
communication stays exposed, and what limits it.

The captured schedule is always replayed too; how far that is from the trace is
printed as the residual. Times are of one step where the trace marks steps
(ProfilerStep#3, name#3), else of the whole trace.

With --explain every strategy's critical path is printed: which kernel, copy or
host took how long on which rank, what it waited for and who ended the wait, what
the strategy gains and pays against bulk, what limited a rank over time, and what
faster links, memory, compute units or launches would change.

With -o, workgroups and their phases are recorded of rank 0 in one iteration where
that is no more than 131,072 spans a strategy, else kernels only; --rank and --window
choose others and record them however many they are. What --explain says is of that window too, except
for the what-ifs; a window by time lies elsewhere in bulk's iteration, so it is not
compared with bulk's.`,
		Example: `  overlapse replay samples/moe-ep4
  overlapse replay samples/moe-ep4 --machine h200x4 --strategy decompose:chunks=8:priority=on,fused
  overlapse replay samples/moe-ep4 --strategy decompose,fused --explain
  overlapse replay samples/moe-ep4 --pairs
  overlapse replay samples/moe-ep4 -o out && overlapse view out`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.path = a.input(args)
			o.full = c.Flags().Changed("rank") || c.Flags().Changed("window")
			return a.replay(c.Context(), o)
		},
	}
	o.flags(c, "strategies, with settings")
	f := c.Flags()
	f.StringVar(&o.format, "format", "table", "table, json or csv")
	f.BoolVar(&o.explain, "explain", false, "also say why: the critical path of each strategy, what it gains and pays against bulk, and what would change it")
	f.BoolVar(&o.pairs, "pairs", false, "also replan each kind of pair by itself, and all at once, each under its best strategy")
	f.StringVar(&o.pair, "pair", "", "replan only these pairs, numbered as inspect lists them (1,3); the rest stays as captured")
	f.StringVarP(&o.dir, "output", "o", "", "also write report.html, timeline.json.gz (for Perfetto), profile.pb.gz and result.json into this folder")
	f.IntSliceVar(&o.ranks, "rank", []int{0}, "with -o: ranks whose workgroups are recorded")
	f.StringVar(&o.window, "window", iteration, "with -o and --explain: when: one iteration, all, or a time like 1.2ms-3ms")
	f.IntVar(&o.seeds, "seeds", 0, "also replay so many times with other luck: which rank's kernels get compute units first, and when ranks arrive; 0: the median case only")
	f.StringVar(&o.whatIf, "what-if", "", "also replay each strategy's plan where links, memory or compute are so many times as fast: links=2,memory=1.2")
	return c
}

func (a *app) replay(ctx context.Context, o replayOptions) error {
	if err := choice("format", o.format, "table", "json", "csv"); err != nil {
		return err
	}
	if err := seedsInRange(o.seeds); err != nil {
		return err
	}
	altered, err := parseWhatIf(o.whatIf)
	if err != nil {
		return err
	}
	sel, w, m, err := prepare(a, o.question, engines.ParseSelection)
	if err != nil {
		return err
	}
	opts := replay.Options{Causes: o.explain || o.whatIf != "", Limits: o.explain || o.dir != "", Stop: until(ctx)}
	if err := o.between(&opts); err != nil {
		return err
	}
	if o.dir != "" {
		if err := o.checkRanks(w.World); err != nil {
			return err
		}
		opts.Level, opts.Ranks, opts.Tiles = replay.Phases, o.ranks, shownTiles
		if !o.full {
			opts.Most = shownSpans
		}
	}
	if o.pair != "" {
		if sel, err = selectedPairs(w, o.pair, sel); err != nil {
			return err
		}
	}
	r, err := a.compare(ctx, o.path, w, m, sel, o.scenario(), opts)
	if err != nil {
		return err
	}
	r.Window = o.window
	if o.clock != "captured" {
		r.Clock = o.clock
	}
	if o.seeds > 0 {
		if err := a.spread(ctx, r, m, sel, o.seeds, opts.Stop); err != nil {
			return err
		}
	}
	if o.pairs {
		if err := a.comparePairs(ctx, r, m, sel, opts); err != nil {
			return err
		}
	}
	if o.whatIf != "" {
		if err := a.whatIf(ctx, r, o.whatIf, altered, opts); err != nil {
			return err
		}
	}
	if o.explain {
		if err := a.explain(ctx, r, m, opts); err != nil {
			return err
		}
	}
	if o.dir != "" {
		if err := a.writeResults(ctx, o.dir, r); err != nil {
			return err
		}
	}
	switch o.format {
	case "json":
		err = writeJSON(a.out, r)
	case "csv":
		err = writeCSV(a.out, r)
	default:
		a.printReplay(r)
		a.printWhatIf(r, o.whatIf)
		a.printExplanations(r)
	}
	if err != nil {
		return err
	}
	return o.cannot(r.outcomes)
}

// A replayed is a trace replayed under several strategies: what the table,
// result.json and the report are made of.
type replayed struct {
	Path       string              `json:"path"`
	Machine    string              `json:"machine"`
	Ranks      int                 `json:"ranks"`
	Captured   int                 `json:"captured_ranks"`
	Iterations int                 `json:"iterations"` // times below are of one, if there are any
	Pairs      int                 `json:"pairs"`
	Clock      string              `json:"clock,omitempty"`     // at which times are predicted, where it is not the capture's
	Window     string              `json:"window,omitempty"`    // that was recorded and explained: iteration, all, or a time
	Measured   int64               `json:"measured_ns"`         // of the schedule as given, where it is estimated
	Estimated  string              `json:"estimated,omitempty"` // what times rest on where nobody measured the trace's
	Residual   compare.Residual    `json:"residual"`
	Isolation  *workload.Isolation `json:"isolation"` // how durations alone were found
	Verdict    verdict.Verdict     `json:"verdict"`
	Rows       []replayRow         `json:"strategies"`
	PairKinds  []pairRow           `json:"pair_kinds,omitempty"`
	Notes      []string            `json:"notes"`
	base       int64               // time of the captured schedule, replayed
	outcomes   []compare.Outcome   // as Rows
	limits     []explain.Limit     // as Rows
	workload   *workload.Workload
	scenario   plan.Scenario
}

// A replayRow is one strategy's line. Times are nanoseconds.
type replayRow struct {
	Strategy   string      `json:"strategy"`
	Parameters plan.Values `json:"parameters"`
	Applies    bool        `json:"applies"`
	Why        string      `json:"why,omitempty"`               // it does not apply
	Time       int64       `json:"time_ns,omitempty"`           // expected: the mean over who gets compute units first
	Change     float64     `json:"change"`                      // of the captured replay's time: -0.1 is 10 % less
	Compute    int64       `json:"compute_ns"`                  // mean over ranks, as the three below
	Overlapped int64       `json:"overlapped_communication_ns"` // with compute beside it
	Exposed    int64       `json:"exposed_communication_ns"`    // without
	Idle       int64       `json:"idle_ns"`                     // no compute, communication or copy
	Limit      string      `json:"limited_by,omitempty"`
	// Memory is the bytes of memory a rank and iteration, by cause.
	Memory []explain.Moved `json:"memory,omitempty"`
	// Explanation is there if it was asked for.
	Explanation *explain.Explanation `json:"explanation,omitempty"`
	// Confidence is how far the time can be trusted.
	Confidence verdict.Confidence `json:"confidence"`
	// Approximation is there if rates were approximate.
	Approximation *replay.Approximation `json:"approximation,omitempty"`
	// Seeds is there if it was asked for.
	Seeds *compare.Spread `json:"seeds,omitempty"`
	// WhatIf is the change on the machine that --what-if asked about.
	WhatIf   *explain.WhatIf `json:"what_if,omitempty"`
	settings string
}

// compare replays the selections, and the captured schedule whether it was asked
// for or not: if not, only its times are needed.
func (a *app) compare(ctx context.Context, path string, w *workload.Workload, m machine.Machine, sel []plan.Selection, sc plan.Scenario, opts replay.Options) (*replayed, error) {
	bar := a.progress(len(sel), "replaying")
	outcomes, err := compare.Compare(w, m, sel, sc, opts, func() { _ = bar.Add(1) })
	_ = bar.Finish()
	var base compare.Outcome
	if i := strategyIn(outcomes, "captured"); i >= 0 {
		base = outcomes[i]
	} else if err == nil {
		base, err = compare.Run(w, m, engines.CapturedSelection(), sc, replay.Options{Stop: opts.Stop})
	}
	if err != nil {
		return nil, stopped(ctx, fmt.Errorf("%s: %w", path, err))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if base.Result == nil {
		return nil, fmt.Errorf("%s: %s", path, base.Why)
	}
	asMeasured := base
	if sc.Clock != plan.CapturedClock { // the capture's own clock
		same := sc
		same.Clock = plan.CapturedClock
		if asMeasured, err = compare.Run(w, m, engines.CapturedSelection(), same, replay.Options{Stop: opts.Stop}); err != nil {
			return nil, stopped(ctx, fmt.Errorf("%s: %w", path, err))
		}
	}
	r := &replayed{
		Path: path, Machine: m.Name, Ranks: w.World, Captured: w.Captured, Iterations: workload.Iterations(w), Pairs: len(w.Pairs),
		Measured: int64(plan.MeasuredStepTime(w)), Residual: compare.ResidualOf(w, asMeasured.Result.Run), Isolation: w.Isolation, Notes: w.Notes, Estimated: w.Run.Estimated,
		base: int64(base.Time), outcomes: outcomes, workload: w, scenario: sc,
	}
	for _, out := range r.outcomes {
		r.add(out)
	}
	r.Verdict = verdict.Judge(w, base, outcomes)
	return r, nil
}

// stopped is the interruption where that is why a replay failed, else the error.
func stopped(ctx context.Context, err error) error {
	if errors.Is(err, replay.ErrStopped) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// add appends a strategy's row.
func (r *replayed) add(out compare.Outcome) {
	row := replayRow{
		Strategy: out.Strategy.Name, Parameters: out.Values, settings: out.Strategy.String(out.Values),
		Applies: out.Result != nil, Why: out.Why,
	}
	var l explain.Limit
	if out.Result != nil {
		l = explain.LimitOf(r.workload, out)
		row.Time = int64(out.Expected)
		row.Change = float64(out.Expected)/float64(max(1, r.base)) - 1
		row.Compute, row.Overlapped, row.Exposed, row.Idle = int64(l.Compute+l.Overlapped), int64(l.Communication), int64(l.Exposed), int64(l.Idle)
		row.Limit = l.Text
		row.Memory = explain.MemoryByCause(r.workload, out)
		row.Confidence = verdict.ConfidenceOf(r.workload, out)
		if x := out.Result.Approximation; x.Paths > 0 {
			row.Approximation = &x
		}
	}
	r.Rows, r.limits = append(r.Rows, row), append(r.limits, l)
}

// why is why a row has no time.
func (r *replayRow) why() string {
	if strings.HasPrefix(r.Why, "cannot run") {
		return r.Why
	}
	return "does not apply: " + r.Why
}

// unit says what the times are of.
func (r *replayed) unit() string {
	switch {
	case r.Iterations > 1:
		return fmt.Sprintf("one iteration of %d", r.Iterations)
	case r.Iterations == 1:
		return "the one iteration"
	}
	return "the whole trace"
}

func (a *app) printReplay(r *replayed) {
	fmt.Fprintf(a.out, "%s on %s: %d ranks, %s of %s; times of %s\n", plain.Line(r.Path), plain.Line(r.Machine), r.Ranks, counted(r.Pairs, "pair"), counted(len(r.workload.PairKinds()), "kind"), r.unit())
	if r.Clock != "" {
		fmt.Fprintf(a.out, "all times are at clock %s, the captured schedule's too\n", r.Clock)
	}
	if r.Estimated != "" {
		fmt.Fprintln(a.out, plain.Line(r.Estimated))
	}
	fmt.Fprintln(a.out)
	t := a.table("strategy", "parameters", "time", "change", "exposed comm.", "confidence", "limited by")
	for _, row := range r.Rows {
		if !row.Applies {
			t.AppendRow(table.Row{r.shown(row.Strategy), row.settings, "-", "-", "-", "-", row.why()})
			continue
		}
		t.AppendRow(table.Row{r.shown(row.Strategy), row.settings, micros(trace.Time(row.Time)), percent(row.Change), micros(trace.Time(row.Exposed)), row.Confidence.Level, row.Limit})
	}
	t.Render()
	a.printApproximation(r)
	a.printVerdict(r.Verdict)
	a.printPairs(r)
	a.printSpreads(r)
	a.printDoubts(r)
	a.printIsolation(r.Isolation)
	res := r.Residual
	fmt.Fprintf(a.out, "\nresidual of the %s schedule: worst %s of %d operations", r.given(), micros(res.Worst), res.Ops)
	if res.Worst > 0 {
		fmt.Fprintf(a.out, " (%s, %.2f %%)", plain.Line(shorten(res.WorstOp, 40)), res.WorstPct)
	}
	fmt.Fprintf(a.out, "; %d beyond 1 µs and 1 %%; %s %s\n", res.Outside, r.basis(), micros(trace.Time(r.Measured)))
}

// shownTiles bounds what reports and timelines hold of one persistent kernel: a
// lookup of half a million vectors would fill hundreds of megabytes.
const shownTiles = 1 << 15

// shownSpans bounds what files hold of one strategy unless the user chose ranks or
// a window: a training step of 80 ms has millions of workgroups and waits, and
// 131,072 spans are one to two megabytes of a compressed timeline.
const shownSpans = 1 << 17

// coarse says of which strategies workgroups are left out, and how to get them.
func (r *replayed) coarse() string {
	var names []string
	for _, out := range r.outcomes {
		if out.Result != nil && out.Result.Coarse {
			names = append(names, out.Result.Run.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("recorded without workgroups, which would be more than %d spans each: %s (--window 1ms-3ms records all of a part, --window iteration all of rank 0)", shownSpans, strings.Join(names, ", "))
}

// given says what the schedule that strategies are compared with is: nobody
// captured that of a workload file.
func (r *replayed) given() string {
	if r.Estimated != "" {
		return "given"
	}
	return "captured"
}

// shown is what a strategy is called in tables.
func (r *replayed) shown(strategy string) string {
	if strategy == "captured" {
		return r.given()
	}
	return strategy
}

// basis says whether the schedule as given was measured.
func (r *replayed) basis() string { return basisOf(r.workload.Run) }

func basisOf(run *trace.Run) string {
	if run.Estimated != "" {
		return "estimated"
	}
	return "measured"
}

func percent(change float64) string {
	if change > -0.0005 && change < 0.0005 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*change)
}

func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(plain.JSON(w))
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func writeCSV(w io.Writer, r *replayed) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"strategy", "parameters", "applies", "time_us", "change", "exposed_us", "limited_by", "confidence", "confidence_why", "fastest_us", "median_us", "slowest_us", "basis"})
	for _, row := range r.Rows {
		why := row.Limit
		if !row.Applies {
			why = row.Why
		}
		_ = c.Write(slices.Concat([]string{
			row.Strategy, row.settings, fmt.Sprint(row.Applies), fmt.Sprintf("%.3f", float64(row.Time)/1e3),
			fmt.Sprintf("%.4f", row.Change), fmt.Sprintf("%.3f", float64(row.Exposed)/1e3), why,
			string(row.Confidence.Level), row.Confidence.Why,
		}, row.spread(), []string{r.basis()}))
	}
	c.Flush()
	return c.Error()
}

// printVerdict says what to do, and what takes less than the bound.
func (a *app) printVerdict(v verdict.Verdict) {
	for i, sentence := range v.Sentences {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintln(a.out, plain.Line(sentence))
	}
	for i, b := range v.Below {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintf(a.out, "%s takes less than ideal, which pays for what it saves: %s\n", plain.Line(b.Strategy), b.Why)
	}
}

// printIsolation says what the captured overlap did to kernels and collectives.
func (a *app) printIsolation(i *workload.Isolation) {
	switch {
	case i == nil || i.Disturbed == 0:
	case i.Why != "":
		fmt.Fprintf(a.out, "\n%d of %d operations ran beside others when captured; their times alone are not known: %s\n", i.Disturbed, i.Operations, plain.Line(i.Why))
	default:
		fmt.Fprintf(a.out, "\n%d of %d operations ran beside others when captured: alone, their compute takes %.0f %% less and their collectives %.0f %% less "+
			"(simulated with interference, they are %.1f %% off their captured times in the median, %.1f %% in the 90th percentile)\n",
			i.Disturbed, i.Operations, 100*(1-1/max(1, i.Compute)), 100*(1-1/max(1, i.Collective)), 100*i.Median, 100*i.P90)
	}
}
