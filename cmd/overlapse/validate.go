package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines/score"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/guard"
)

// validateOptions are the flags of `overlapse validate`.
type validateOptions struct {
	path    string
	traces  string
	machine string
	format  string
	output  string
	above   float64
}

func (a *app) validateCommand() *cobra.Command {
	var o validateOptions
	c := &cobra.Command{
		Use:   "validate FILE.jsonl | DATASET",
		Short: "Compare predictions with measured times",
		Long: `Replays the trace of every measured row under the row's strategy and settings. Prints
the predicted and the measured time; the median and the 90th percentile of the absolute
error by strategy; and the regret: the measured time of the strategy that is predicted
fastest, over that of the strategy that is measured fastest. The output states where
bulk is within 2 %, the variation between runs of the same program.

A row is predicted at the clock of its measurement: the full clock (params: cool), the
steady clock under the power limit (sustained), or by default the clock of its thirteen
iterations with rest_us between them, after the rows before it of the same trace.

A row that cannot be predicted is listed with the reason. Exit code 3 if the median
error over all rows is above --fail-above.

For a dataset, a folder with an index.yaml such as samples/measurements, it verifies
every checksum, predicts all sets, compares the start and end of workgroups with time
stamps if a set has them, and writes the accuracy tables as Markdown, held-out sets
first. --format csv or json also prints every row, with its set, on standard output.`,
		Example: `  overlapse validate rows.jsonl --machine h200:4 --fail-above 0.1
  overlapse validate samples/measurements/2026-11-21-h200x2/rows.jsonl
  overlapse validate samples/measurements -o samples/measurements/ACCURACY.md`,
		Args: onePath,
		RunE: func(c *cobra.Command, args []string) error {
			o.path = args[0]
			return a.validate(c.Context(), o, c.Flags().Changed("format"))
		},
	}
	f := c.Flags()
	f.StringVar(&o.traces, "traces", "", "folder that the rows' traces are relative to; default: that of the file")
	f.StringVar(&o.machine, "machine", "", "machine to predict for; default: that of each row")
	validatedForms().flag(c, &o.format, "format")
	f.StringVarP(&o.output, "output", "o", "", "file for the accuracy tables of a dataset; default: standard output")
	cli.FractionFlag(f, &o.above, "fail-above", 0, "exit with 3 if the median error is above this fraction; 0: never")
	return c
}

// A validated is the JSON form. Errors and regrets are fractions.
type validated struct {
	Schema     int                    `json:"schema"`
	Rows       []validatedRow         `json:"rows"`
	Strategies map[string]score.Score `json:"strategies"`
	Regret     score.Regret           `json:"regret"`
	Changes    score.ChangeScore      `json:"changes"` // against the reference: the captured variant of a step, else bulk
	Skipped    []validateSkip         `json:"skipped"`
	checks     []score.Check
}

type validatedRow struct {
	Set         string         `json:"set,omitempty"` // of a dataset
	ID          string         `json:"id"`
	Strategy    string         `json:"strategy"`
	Params      dataset.Params `json:"params"`
	PredictedUs float64        `json:"predicted_us"`
	MeasuredUs  float64        `json:"measured_us"`
	Error       float64        `json:"error"`
	Clock       string         `json:"clock"`                     // of the prediction, as --clock of replay has it
	Change      *float64       `json:"change,omitempty"`          // against the reference; nil: none is predicted
	Measured    *float64       `json:"change_measured,omitempty"` // the same as measured
	PFaster     *float64       `json:"p_faster,omitempty"`        // probability that the row takes at least 1 % less than its reference
	Confidence  string         `json:"confidence,omitempty"`
	Why         string         `json:"confidence_why"`
	of          score.Check
}

type validateSkip struct {
	Set string `json:"set,omitempty"`
	ID  string `json:"id"`
	Why string `json:"why"`
}

// validate predicts the rows of a file, or those of a dataset, whose accuracy tables it writes; it prints the rows of
// a dataset if a format is given.
func (a *app) validate(ctx context.Context, o validateOptions, formatted bool) error {
	isDataset := cli.IsFile(filepath.Join(o.path, dataset.IndexFile))
	open := dataset.OpenRows
	switch {
	case isDataset && o.traces != "":
		return cli.Errorf("--traces needs a file of rows (see overlapse validate --help)")
	case isDataset:
		open = dataset.Open
	case o.output != "":
		return cli.Errorf("--output needs a dataset, a folder with an " + dataset.IndexFile + " (see overlapse validate --help)")
	}
	if o.output != "" { // before the minutes that the rows take
		if _, err := os.Stat(filepath.Dir(o.output)); err != nil {
			return fmt.Errorf("%s: %w (make its folder first)", o.output, cli.WithoutPath(err))
		}
	}
	d, err := open(o.path)
	if err != nil {
		return err
	}
	found, err := a.predictMeasured(ctx, o, d)
	if err != nil {
		return err
	}
	if isDataset {
		if err := a.writeAccuracy(o, found, !formatted); err != nil {
			return err
		}
	}
	v := summarize(found)
	if formatted || !isDataset {
		if write := validatedForms().named(o.format).write; write == nil {
			v.print(a)
		} else if err := write(a.Out, v); err != nil {
			return err
		}
	}
	if len(v.Rows) == 0 && len(v.Skipped) > 0 {
		return fmt.Errorf("%s: none of %d rows could be predicted, the first because: %s", o.path, len(v.Skipped), v.Skipped[0].Why)
	}
	if all := v.Strategies["all"]; o.above > 0 && all.Median > o.above {
		return cli.Exit(cli.Threshold, "median error %.1f %% over %d rows is above %.1f %%", 100*all.Median, all.N, 100*o.above)
	}
	return nil
}

func validatedForms() forms[*validated] {
	return forms[*validated]{{name: "table"}, {name: "json", write: asJSON[*validated]}, {name: "csv", write: writeValidatedCSV}}
}

// predictMeasured predicts the rows of a dataset. Each machine is loaded once.
func (a *app) predictMeasured(ctx context.Context, o validateOptions, d *dataset.Dataset) ([]score.SetResult, error) {
	d.Dir = cmp.Or(o.traces, d.Dir)
	var rows []dataset.Row
	for i := range d.Sets {
		if score.Predictable(&d.Sets[i]) {
			rows = append(rows, d.Sets[i].Rows...)
		}
	}
	machines, world := map[string]machine.Machine{}, 0
	if o.machine != "" {
		for i := range rows {
			world = max(world, rows[i].World)
		}
	}
	for i := range rows {
		name := cmp.Or(o.machine, rows[i].Machine)
		if _, ok := machines[name]; ok {
			continue
		}
		m, err := a.MachineNamed(name, world)
		switch {
		case err != nil && o.machine == "":
			return nil, cli.Exit(cli.Failed, "row %s: %w", rows[i].ID, err) // not of the command line
		case err != nil:
			return nil, err
		}
		machines[name] = m
	}
	bar := a.Progress(len(rows), "predicting")
	defer bar.Finish()
	return a.scored(ctx, d, func(row dataset.Row) (machine.Machine, error) {
		return machines[cmp.Or(o.machine, row.Machine)], nil
	}, func() { bar.Add(1) })
}

// scored predicts the rows of a dataset for machines; done is called after each.
func (a *app) scored(ctx context.Context, d *dataset.Dataset, machines func(dataset.Row) (machine.Machine, error), done func()) (
	[]score.SetResult, error,
) {
	read := func(path string) (*trace.Run, error) { return format.Open(path, a.Reading()) }
	return score.Dataset(d, read, score.Inputs{Machine: machines, Stop: ctx.Err, Done: done})
}

// writeAccuracy writes the accuracy tables to the file that --output names; without one it may print them.
func (a *app) writeAccuracy(o validateOptions, found []score.SetResult, mayPrint bool) error {
	command := "overlapse validate " + filepath.ToSlash(o.path)
	if o.output != "" {
		command += " -o " + filepath.ToSlash(o.output)
		return a.files.WriteBytes(o.output, []byte(score.AccuracyPage(command, found)))
	}
	if mayPrint {
		for line := range strings.Lines(score.AccuracyPage(command, found)) {
			fmt.Fprintln(a.Out, guard.Line(strings.TrimSuffix(line, "\n")))
		}
	}
	return nil
}

func summarize(found []score.SetResult) *validated {
	v := &validated{Schema: results.Version, Strategies: map[string]score.Score{}}
	for _, r := range found {
		v.checks = append(v.checks, r.Checks...)
		for _, c := range r.Checks {
			if c.Why != "" {
				v.Skipped = append(v.Skipped, validateSkip{r.Set.Name, c.Row.ID, c.Why})
				continue
			}
			row := validatedRow{
				Set: r.Set.Name, ID: c.Row.ID, Strategy: c.Row.Strategy, Params: c.Row.Params, PredictedUs: c.Predicted,
				MeasuredUs: c.Row.Us, Error: c.Error(),
				Clock: c.Clock.String(), Confidence: string(c.Confidence.Level), Why: c.Confidence.Why, of: c,
			}
			if c.Compared {
				row.Change, row.Measured, row.PFaster = &c.Change, &c.Measured, &c.Confidence.Chance.PFaster
			}
			v.Rows = append(v.Rows, row)
		}
	}
	for _, s := range score.Scores(v.checks) {
		v.Strategies[s.Strategy] = s
	}
	_, v.Regret = score.Choices(v.checks)
	v.Changes = score.ChangesOf(v.checks, "all")
	return v
}

func (v *validated) print(a *app) {
	t := cli.Table{Columns: []string{"row", "workload", "collective", "strategy", "predicted", "measured", "error", "confidence"}}
	for _, r := range v.Rows {
		k := r.of.Row.Workload
		t.Add(r.ID, cmp.Or(k.Name, k.Kind), k.Collective, score.RowName(r.of.Row), fmt.Sprintf("%.1f µs", r.PredictedUs),
			fmt.Sprintf("%.1f µs", r.MeasuredUs), fmt.Sprintf("%+.1f %%", 100*r.Error), r.Confidence)
	}
	a.Show(&t)
	t = cli.Table{
		Title:   "regret: measured time of the predicted fastest strategy over that of the measured fastest",
		Columns: []string{"workload", "measured fastest", "predicted fastest", "regret"},
	}
	choices, _ := score.Choices(v.checks)
	for _, c := range choices {
		t.Add(c.Workload, c.Best, c.Predicted, magnitude(c.Regret))
	}
	a.Show(&t)
	t = cli.Table{
		Title:   "error by strategy: |predicted / measured − 1|",
		Columns: []string{"strategy", "rows", "median", "90th percentile"},
	}
	for _, s := range score.Scores(v.checks) {
		t.Add(s.Strategy, s.N, magnitude(s.Median), magnitude(s.P90))
	}
	a.Show(&t)
	fmt.Fprintf(a.Out, "\nregret: mean %.1f %%; predicted fastest is measured fastest on %d of %d workloads; %d rows not predicted\n",
		100*v.Regret.Mean, v.Regret.Top1, v.Regret.Workloads, len(v.Skipped))
	if c := v.Changes; c.N > 0 {
		fmt.Fprintf(a.Out, "changes against the captured variant of a step, else against bulk: off by %.1f points in the median and %.1f at the 90th percentile, over %d rows; %d of %d changes over 2 %% have the right sign\n", 100*c.Median, 100*c.P90, c.N, c.Right, c.Over)
	}
	for why, n := range score.Refusals(v.checks) {
		fmt.Fprintf(a.Out, "  %d: %s\n", n, guard.Line(why))
	}
}

// writeValidatedCSV writes every row. The columns from change to untested are what p_faster is fitted to.
func writeValidatedCSV(w io.Writer, v *validated) error {
	fraction := func(x *float64) any {
		if x == nil {
			return nil
		}
		return fmt.Sprintf("%.6f", *x)
	}
	columns := []any{
		"set", "id", "strategy", "predicted_us", "measured_us", "error", "change", "change_measured", "other_kernels", "rest",
		"spread", "poor", "untested", "p_faster", "confidence", "confidence_why",
	}
	from := 1 // without sets
	if len(v.Rows) > 0 && v.Rows[0].Set != "" {
		from = 0
	}
	lines := [][]any{columns[from:]}
	for _, r := range v.Rows {
		e := r.of.Evidence
		lines = append(lines, []any{
			r.Set, r.ID, score.RowName(r.of.Row), fmt.Sprintf("%.2f", r.PredictedUs), fmt.Sprintf("%.2f", r.MeasuredUs),
			fmt.Sprintf("%.4f", r.Error), fraction(r.Change), fraction(r.Measured),
			e.OtherKernels, fmt.Sprintf("%.4f", e.Rest), fmt.Sprintf("%.4f", e.Spread), e.Poor, e.Untested,
			fraction(r.PFaster), r.Confidence, r.Why,
		}[from:])
	}
	return results.WriteCSV(w, slices.Values(lines))
}
