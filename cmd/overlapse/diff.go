package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// diffOptions are the flags of `overlapse diff`.
type diffOptions struct {
	cli.Flags
	format string
	output string
	above  float64
	top    int

	predicted string // a result.json
}

func (a *app) diffCommand() *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff A B | diff TRACE --strategy a,b",
		Short: "Compare two traces, two results or two strategies",
		Long: `Prints where the time of two runs differs: by state of the ranks (compute alone,
overlapped, transfer, waiting, copies, idle), cause of idle time, rank, kernel class,
kernel and pair.
Times are per step if both traces mark steps, and means over ranks.

A and B are traces, or both folders written by replay -o, whose strategies are compared
by name. With one trace, --strategy names the two strategies to replay and compare.

--fail-above 3% exits with 3 if the time of a step, exposed communication (transfer and
waiting) or waiting for ranks grew by more than 3 % of A's step, and by more than twice the
standard error over the steps of both traces. For CI: --format junit or markdown, and the action in
.github/actions/overlapse.`,
		Example: `  overlapse diff before/ after/ --fail-above 3% --format junit -o diff.xml
  overlapse diff before/ after/ --predicted out/result.json
  overlapse diff samples/moe-ep4 --strategy bulk,fused
  overlapse diff monday/ tuesday/ --format html -o diff.html`,
		Args: func(c *cobra.Command, args []string) error {
			if two := o.Strategy != "" && o.predicted == ""; len(args) != 2 && !two || len(args) != 1 && two {
				return cli.Errorf("diff takes two paths, or one path and --strategy a,b (see overlapse diff --help)")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.diff(c.Context(), o, args) },
	}
	f := c.Flags()
	f.StringVar(&o.Strategy, "strategy", "", "two strategies, with settings, to replay the one trace under")
	f.StringVar(&o.predicted, "predicted", "", "result.json of replay -o on A, or its folder: says whether B's time "+
		"is within what it predicts for the change that it recommends, or for --strategy")
	f.StringVar(&o.Machine, "machine", "", "machine to replay on, as for replay")
	o.forms().flag(c, &o.format, "format")
	f.StringVarP(&o.output, "output", "o", "", "file to write; default: standard output")
	cli.FractionFlag(f, &o.above, "fail-above", -1, "exit with 3 if step time, exposed communication or waiting grew by more than this part of A's time (0.03 or 3%), beyond noise; negative: never")
	cli.IntFlag(f, &o.top, "top", 10, cli.Range[int]{Most: maxRows}, "rows of each group; 0: all")
	return c
}

func (o *diffOptions) forms() forms[*results.Difference] {
	return forms[*results.Difference]{
		{name: "table"},
		{name: "json", write: asJSON[*results.Difference]},
		{name: "markdown", note: "a comment on a pull request", write: func(w io.Writer, d *results.Difference) error { return d.WriteMarkdown(w, o.top) }},
		{name: "junit", note: "the checks of --fail-above", write: func(w io.Writer, d *results.Difference) error { return d.WriteJUnit(w) }},
		{name: "html", note: "with timelines of traces and strategies", write: func(w io.Writer, d *results.Difference) error { return d.WriteHTML(w, o.top) }},
	}
}

func (a *app) diff(ctx context.Context, o diffOptions, args []string) error {
	if o.output != "" && o.format == "table" {
		return cli.Errorf("-o needs --format json, junit, html or markdown (see overlapse diff --help)")
	}
	if o.format == "junit" && o.above < 0 {
		return cli.Errorf("--format junit needs --fail-above, such as 3%% (see overlapse diff --help)")
	}
	if o.predicted != "" && slices.ContainsFunc(args, results.IsResult) {
		return cli.Errorf("--predicted compares captures with a result: give the two captures (see overlapse diff --help)")
	}
	var d results.Difference
	var err error
	switch {
	case len(args) == 1:
		d, err = a.diffStrategies(ctx, o, args[0])
	default:
		if a.Kept == nil { // both are lifted twice
			a.Kept = map[string]*trace.Run{}
		}
		a.OwnNotes = true // they are on replays, which tell times alone here
		d, err = results.Measured(&a.Reader, args[0], args[1])
	}
	if err != nil {
		return err
	}
	if len(args) == 2 && !slices.ContainsFunc(args, results.IsResult) {
		if err := a.withoutProfiler(ctx, o, args, &d); err != nil {
			return err
		}
	}
	a.shown = &d
	if o.above >= 0 {
		d.Check(o.above)
	}
	if f := o.forms().named(o.format); f.write != nil {
		err = a.writeOut(o.output, func(w io.Writer) error { return f.write(w, &d) })
	} else {
		d.Print(a.Console, o.top)
	}
	if failed := d.Failed(); err == nil && failed != "" {
		return cli.Exit(cli.Threshold, "%s", failed)
	}
	return err
}

// withoutProfiler tells the difference of two captures the times of their steps as far as known without the profiler, and compares
// them with a prediction.
func (a *app) withoutProfiler(ctx context.Context, o diffOptions, paths []string, d *results.Difference) error {
	strategy := ""
	if o.Strategy != "" {
		sel, err := engines.ParseSelection(o.Strategy)
		if err != nil {
			return err
		}
		strategy = sel[0].String()
	}
	var took [2]map[string]trace.Time
	for i, path := range paths {
		o.Path, o.Strategy, took[i] = path, "captured", map[string]trace.Time{}
		sel, w, m, err := cli.Prepare(&a.Reader, o.Flags, engines.ParseSelection)
		switch { // else times are as they were recorded, also where the lateness of ranks that were not captured is a guess
		case err != nil && o.predicted != "":
			return err
		case err != nil, o.predicted == "" && w.Captured < len(w.Ranks):
			return nil //nolint:nilerr // what cannot be replayed can be compared
		}
		r, err := results.Of(ctx, a.Console, path, w, m, sel, o.Scenario(), replay.Options{Like: true, Stop: stopFunc(ctx)}, false, false)
		if err != nil {
			return err
		}
		for _, row := range r.Rows {
			took[i][row.Phase] = trace.Time(row.Time)
		}
	}
	return d.Verify(o.predicted, strategy, took)
}

// diffStrategies replays a trace under two strategies.
func (a *app) diffStrategies(ctx context.Context, o diffOptions, path string) (d results.Difference, err error) {
	o.Path = path
	sel, w, m, err := cli.Prepare(&a.Reader, o.Flags, engines.ParseSelection)
	if err != nil {
		return d, err
	}
	if len(sel) != 2 {
		return d, cli.Errorf("--strategy %q: give two strategies to compare, not %d", o.Strategy, len(sel))
	}
	r, err := results.Of(ctx, a.Console, path, w, m, sel, o.Scenario(), replay.Options{Stop: stopFunc(ctx)}, true, false)
	if err != nil {
		return d, err
	}
	if err := o.FailedError(r.Outcomes); err != nil {
		return d, err
	}
	for _, out := range r.Outcomes {
		if out.Result == nil {
			return d, cli.Exit(cli.Failed, "%s: %s", out.Strategy.Name, out.Why)
		}
	}
	return results.Simulated(r, w, &r.Outcomes[0], &r.Outcomes[1]), nil
}
