package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/score"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/samples"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// replayOptions are the flags of `overlapse replay`.
type replayOptions struct {
	cli.Flags
	format  string
	dir     string
	emit    string // folder of the recommended settings; "": none
	explain bool
	why     bool
	pair    string // numbers of the pairs that the strategies change; "": all
	pairs   bool   // also compare the strategies on each kind of pair alone, and the best of each together
	ranks   []int
	window  string
	full    bool   // the user chose ranks or a window: record them without a limit
	whatIf  string // links=2,clock=0.9; "": nothing
}

func (a *app) replayCommand() *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay PATH...",
		Short: "Predict a captured trace's time under the overlap strategies",
		Long: `Replays a captured trace on a modelled machine under one or more strategies. Prints the
verdict with the lines to write, who waits for whom, a table with the predicted time of
each strategy, its change, effort and the probability that it takes less time (likely), and
what to run next. Without --strategy, strategies with about the captured time share a line.

--why adds the reasons: of each probability, of strategies that do not apply, and of the
self-check, which replays the captured schedule and states how far that is from the trace.
Times are per step if the trace marks steps (ProfilerStep#3, name#3), else of the whole
trace.

--explain prints the critical path of the captured schedule and of the best other one, or of
those that --strategy names: the kernel, copy or host call, its rank and duration, what it
waited for and what ended the wait. It also prints gains and losses against the captured
schedule, and that schedule's time with other links, memory, compute units, clock or
latencies (--what-if has that of each strategy).

-o records the workgroups of rank 0 and their phases in one iteration. Above 131,072
spans per strategy it records kernels only. --rank and --window choose other ranks and
times and have no such limit. --explain then covers the same window, except for the
what-ifs. A window given as a time is not compared, since the same time holds other work
there.`,
		Example: `  overlapse replay samples/moe-ep4
  overlapse replay samples/moe-ep4 --machine h200:4 --strategy decompose:chunks=8:priority=on,fused
  overlapse replay samples/moe-ep4 --strategy decompose,fused --explain
  overlapse replay samples/moe-ep4 --pairs
  overlapse replay samples/fsdp-step --ranks 16 --retarget h100
  overlapse replay samples/moe-ep4 --format csv > result.csv
  overlapse replay samples/moe-ep4 -o out && overlapse view out`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.Path = inputOf(&a.Reader, args)
			o.full = c.Flags().Changed("rank") || c.Flags().Changed("window")
			return a.replay(c.Context(), o)
		},
	}
	o.AddTo(c, "strategies, with settings")
	f := c.Flags()
	replayForms().flag(c, &o.format, "format")
	f.BoolVar(&o.explain, "explain", false, "also print the critical path, its gains and losses against the captured schedule, and what would change its time")
	f.BoolVar(&o.why, "why", false, "also print the reasons: of each probability, of strategies that do not apply, of the self-check")
	f.BoolVar(&o.pairs, "pairs", false, "also apply the strategies to each kind of pair alone, and the best strategy of each kind together")
	f.StringVar(&o.pair, "pair", "", "apply the strategies to these pairs only, by their numbers in inspect (1,3); the rest runs as captured")
	f.StringVarP(&o.dir, "output", "o", "", "also write report.html, result.json, result.csv, summary.md and, of the captured "+
		"schedule and the best other one or of each that --strategy names, timeline.json.gz (for Perfetto), profile.NAME.pb.gz "+
		"(for pprof) and spans.csv.gz into this folder")
	f.StringVar(&o.emit, "emit", "", "also write the recommended settings into this folder: variables, options of frameworks, lines of Python")
	f.IntSliceVar(&o.ranks, "rank", []int{0}, "with -o: ranks whose workgroups are recorded")
	f.StringVar(&o.window, "window", results.Iteration, "with -o and --explain: what to cover: iteration, all, or a time range such as 1.2ms-3ms")
	whatIfFlag(f, &o.whatIf, "also replay each strategy")
	return c
}

func replayForms() forms[*results.Replayed] {
	return forms[*results.Replayed]{
		{name: "table"},
		{name: "json", write: asJSON[*results.Replayed]},
		{name: "markdown", write: results.WriteMarkdown},
		{name: "csv", write: func(w io.Writer, r *results.Replayed) error { return results.WriteCSV(w, r.CSV()) }},
	}
}

func (a *app) replay(ctx context.Context, o replayOptions) error {
	altered, err := parseWhatIf(o.whatIf)
	if err != nil {
		return err
	}
	a.OwnNotes = o.format == "table"
	sel, w, m, err := cli.Prepare(&a.Reader, o.Flags, engines.ParseSelection)
	if err != nil {
		return err
	}
	opts, err := o.simulation(ctx, w.World)
	if err != nil {
		return err
	}
	if o.pair != "" {
		if sel, err = selectedPairs(w, o.pair, sel); err != nil {
			return err
		}
	}
	r, err := results.Of(ctx, a.Console, o.Path, w, m, sel, o.Scenario(), opts, o.dir != "" || o.pairs, o.Strategy == "all" && o.pair == "")
	if err != nil {
		return err
	}
	r.Window = o.window
	if o.Clock != "captured" {
		r.Clock = o.Clock
	}
	if err := a.replayMore(ctx, o, r, m, sel, opts, altered); err != nil {
		return err
	}
	if r.Published, err = published(ctx, o, sel); err != nil {
		return results.Stopped(ctx, err)
	}
	if o.dir != "" {
		if err := results.WriteFolder(ctx, a.Console, &a.files, o.dir, r); err != nil {
			return err
		}
	}
	if err := a.writeReplayed(o, r); err != nil {
		return err
	}
	if o.emit != "" {
		if err := results.Emit(a.Console, &a.files, o.emit, r.Verdict); err != nil {
			return err
		}
	}
	failed := o.FailedError(r.Outcomes)
	if failed != nil && o.dir != "" { // what was written is complete, and says so too
		a.Notef("%v", failed)
		return nil
	}
	return failed
}

// published is what a paper says of the input, if that is a workload file as it is, on its own machine; else "".
func published(ctx context.Context, o replayOptions, sel []plan.Selection) (string, error) {
	if !cli.IsYAML(o.Path) || o.Machine != "" || o.Retarget != "" || o.Ranks != "" || o.pair != "" {
		return "", nil
	}
	text, err := guard.ReadFile(o.Path)
	if err != nil {
		return "", err
	}
	return score.Published(samples.Workloads(), o.Path, text, sel, stopFunc(ctx))
}

// replayMore runs the further replays that flags request: single pairs, what-ifs and explanations.
func (a *app) replayMore(ctx context.Context, o replayOptions, r *results.Replayed, m machine.Machine, sel []plan.Selection, opts replay.Options, altered machine.WhatIf) error {
	if o.pairs {
		if err := results.ComparePairs(ctx, a.Console, r, m, sel, opts); err != nil {
			return err
		}
	}
	if len(altered) > 0 {
		if err := results.WhatIf(ctx, a.Console, r, m, altered, opts); err != nil {
			return err
		}
	}
	if o.explain {
		return results.Explain(ctx, a.Console, r, m, opts, o.Strategy != "all")
	}
	return nil
}

// writeReplayed prints the result in the format of the flags.
func (a *app) writeReplayed(o replayOptions, r *results.Replayed) error {
	a.shown = r
	if f := replayForms().named(o.format); f.write != nil {
		return f.write(a.Out, r)
	}
	results.Print(a.Console, r, a.again(o.Flags), o.Strategy == "all", o.why)
	results.PrintExplanations(a.Console, r)
	return nil
}

// again is what makes another command read the same input, as words of a shell.
func (a *app) again(f cli.Flags) string {
	list := a.Inputs[f.Path]
	if list == nil {
		list = []string{f.Path}
	}
	for _, flag := range [][2]string{{"--machine", f.Machine}, {"--retarget", f.Retarget}, {"--ranks", f.Ranks}} {
		if flag[1] != "" {
			list = append(slices.Clone(list), flag[0], flag[1])
		}
	}
	return cli.ShellWords(list)
}

// simulation is what the simulator records for these flags.
func (o *replayOptions) simulation(ctx context.Context, world int) (replay.Options, error) {
	opts := replay.Options{Like: !o.pairs}
	if o.dir != "" {
		opts = recording(o.ranks...)
		if opts.Usage = true; o.full {
			opts.Most = mostSpans
		}
	}
	opts.Limits, opts.Stop = o.dir != "", stopFunc(ctx)
	return opts, cmp.Or(o.setWindow(&opts), inJob(world, o.ranks...))
}

// setWindow sets the part of the replay that is recorded and explained.
func (o *replayOptions) setWindow(opts *replay.Options) error {
	switch o.window {
	case results.Iteration:
		return nil
	case "all":
		opts.To = trace.Infinity
		return nil
	}
	var ok bool
	if opts.From, opts.To, ok = timeRange(o.window); !ok {
		return cli.Errorf("--window %q: give iteration, all or a time range such as 1.2ms-3ms", o.window)
	}
	return nil
}

// timeRange reads "1.2ms-3ms".
func timeRange(text string) (from, to trace.Time, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	start, err1 := time.ParseDuration(first)
	end, err2 := time.ParseDuration(last)
	return trace.Time(start), trace.Time(end), ok && err1 == nil && err2 == nil && start >= 0 && end > start
}

// inJob rejects ranks of --rank that are not in the job.
func inJob(world int, ranks ...int) error {
	for _, r := range ranks {
		if r < 0 || r >= max(1, world) {
			return cli.Errorf("--rank %d: the job has ranks 0 to %d", r, world-1)
		}
	}
	return nil
}

// parseWhatIf reads the value of --what-if.
func parseWhatIf(s string) (machine.WhatIf, error) {
	x, err := machine.ParseWhatIf(s)
	if err != nil {
		return nil, cli.Errorf("--what-if %w", err)
	}
	return x, nil
}

// whatIfFlag adds --what-if.
func whatIfFlag(f *pflag.FlagSet, at *string, use string) {
	f.StringVar(at, "what-if", "", use+" on a machine with these properties times a factor, planned for it: "+listed(machine.PropertyNames())+" (links=2,clock=0.9); balanced: with all ranks as fast as the median one, balanced=fastest: as the fastest")
}

// selectedPairs restricts the selections to the pairs of --pair: numbers of
// inspect's table, separated by commas.
func selectedPairs(w *workload.Workload, numbers string, sel []plan.Selection) ([]plan.Selection, error) {
	kinds := workload.Pairs(w)
	var rows []int
	for _, word := range strings.Split(numbers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > len(kinds) {
			return nil, cli.Errorf("--pair %q: the trace has %s; see overlapse inspect", word, numbersOf(len(kinds)))
		}
		rows = append(rows, kinds[n-1].Rows...)
	}
	kept := slices.Clone(sel)
	for i := range kept {
		if kept[i].Strategy.Kind != plan.Exact {
			kept[i].Strategy = engines.On(kept[i].Strategy, rows)
		}
	}
	return kept, nil
}

// numbersOf is the range of pair numbers in words.
func numbersOf(kinds int) string {
	switch kinds {
	case 0:
		return "no pairs"
	case 1:
		return "pair 1 only"
	}
	return fmt.Sprintf("pairs 1 to %d", kinds)
}

// recording records the workgroups of ranks and their phases, as files and views have them.
func recording(ranks ...int) replay.Options {
	return replay.Options{Level: replay.Phases, Ranks: ranks, Tiles: shownTiles, Most: shownSpans}
}

// shownTiles bounds what reports and timelines hold of one persistent kernel: a
// lookup of half a million vectors would fill hundreds of megabytes.
const shownTiles = 1 << 15

// shownSpans bounds what files hold of one strategy unless the user chose ranks or
// a window: a training step of 80 ms has millions of workgroups and waits, and
// 131,072 spans are one to two megabytes of a compressed timeline.
const shownSpans = 1 << 17

// mostSpans bounds them where the user did: 100 MB of memory for one strategy.
const mostSpans = 1 << 19
