package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// replayOptions are the flags of `overlapse replay`.
type replayOptions struct {
	replayFlags
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
	sel, w, m, err := prepare(a, o.replayFlags, engines.ParseSelection)
	if err != nil {
		return err
	}
	opts := replay.Options{Causes: o.explain || o.whatIf != "", Limits: o.explain || o.dir != "", Stop: stopFunc(ctx)}
	if err := o.setWindow(&opts); err != nil {
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
	return o.failedError(r.outcomes)
}

// iteration is the window that engines choose without one.
const iteration = "iteration"

// setWindow sets the window of what is recorded and explained.
func (o *replayOptions) setWindow(opts *replay.Options) error {
	switch o.window {
	case iteration:
		return nil
	case "all":
		opts.To = trace.Infinity
		return nil
	}
	from, to, ok := strings.Cut(o.window, "-")
	start, err1 := time.ParseDuration(from)
	end, err2 := time.ParseDuration(to)
	if !ok || err1 != nil || err2 != nil || start < 0 || end <= start {
		return usageError{fmt.Errorf("--window %q is neither iteration nor all nor a time like 1.2ms-3ms", o.window)}
	}
	opts.From, opts.To = trace.Time(start), trace.Time(end)
	return nil
}

// checkRanks refuses ranks to record that the job does not have.
func (o *replayOptions) checkRanks(world int) error {
	for _, r := range o.ranks {
		if r < 0 || r >= world {
			return usageError{fmt.Errorf("--rank %d: the job has ranks 0 to %d", r, world-1)}
		}
	}
	return nil
}
