package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/validate"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/viz/plain"
)

// validateOptions are the flags of `overlapse validate`.
type validateOptions struct {
	path    string
	traces  string
	machine string
	format  string
	above   float64
	seeds   int
	wg      string // folder of workgroup stamps
}

// besideRows stands for the folder wg beside the file of rows.
const besideRows = "wg beside the rows"

func (a *app) validateCommand() *cobra.Command {
	var o validateOptions
	c := &cobra.Command{
		Use:   "validate FILE.jsonl",
		Short: "Compare predictions with measured times, row by row",
		Long: `Replays, for every row of measurements, the row's trace under its strategy and
settings, and prints predicted and measured time; the median and 90th percentile of
the absolute error by strategy; and what choosing by prediction would cost: the
measured time of the chosen strategy over that of the best. Chosen is the least
predicted time; it says so where bulk is within the 2 % by which two runs of one
program differ.

A row is predicted at the clock that it was measured at: at full clock (params cool),
where iterations settle under the power limit (sustained), or whichever of the two its
thirteen iterations, rest_us between them, came to after those of the rows before it
that start from the same trace.

A row that cannot be predicted is listed with the reason. Exit code 3 if the median
error over all rows is above --fail-above.

With --wg the start and end of every workgroup are compared instead, with the stamps
in a folder: files NAME_rankR_wg_trace.csv, whose NAME says which row's workload and
strategy they are of (gemm_moe_down_fused_aware, mlp_b512_row_producer). The distance
is the earth mover's, in percent of the measured kernel's duration: how far start (or
end) times have to move, on average, to become the measured ones. order: the same of
one workgroup's start, so that who runs when counts too. shape: that of starts when
the prediction is stretched to the measured length, which leaves out the clock.
--fail-above is then for the median distance of starts.`,
		Example: `  overlapse validate validate.jsonl --machine h200x4 --fail-above 0.1
  overlapse validate validate.jsonl --wg
  overlapse validate validate.jsonl --wg=samples/moe-down-fused-wg`,
		Args: onePath,
		RunE: func(c *cobra.Command, args []string) error {
			o.path = args[0]
			if c.Flags().Changed("wg") {
				return a.validateStamps(c.Context(), o)
			}
			return a.validate(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.traces, "traces", "", "folder that the rows' traces are relative to; default: the file's own")
	f.StringVar(&o.machine, "machine", "", "machine to predict for; default: each row's")
	f.StringVar(&o.format, "format", "table", "table, json or csv")
	f.Float64Var(&o.above, "fail-above", 0, "exit with 3 if the median error is above this fraction; 0: never")
	f.IntVar(&o.seeds, "seeds", 0, "predict each row by the median of so many replays with other luck, and print the fastest and slowest; 0: the median case")
	f.StringVar(&o.wg, "wg", "", "compare workgroups with the stamps in this folder; without a value: "+besideRows)
	f.Lookup("wg").NoOptDefVal = besideRows
	return c
}

// A validated is the JSON form. Errors and regrets are fractions.
type validated struct {
	Rows       []validatedRow           `json:"rows"`
	Strategies map[string]validateScore `json:"strategies"`
	Confidence map[string]validateScore `json:"confidence"` // by level
	Regret     validateRegret           `json:"regret"`
	Skipped    []validateSkip           `json:"skipped"`
	choices    []validate.Choice
	scores     []validate.Score
	classes    []validate.ClassScore
}

type validatedRow struct {
	ID          string           `json:"id"`
	Strategy    string           `json:"strategy"`
	Params      calibrate.Params `json:"params"`
	PredictedUs float64          `json:"predicted_us"`
	MeasuredUs  float64          `json:"measured_us"`
	Error       float64          `json:"error"`
	Confidence  string           `json:"confidence"`
	Why         string           `json:"confidence_why"`
	FastestUs   float64          `json:"fastest_us,omitempty"` // with --seeds
	SlowestUs   float64          `json:"slowest_us,omitempty"`
	row         calibrate.Row
}

type validateScore struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

type validateRegret struct {
	Workloads int     `json:"workloads"`
	Top1      int     `json:"top1"` // the predicted best is the measured best
	Mean      float64 `json:"mean"`
}

type validateSkip struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

func (a *app) validate(ctx context.Context, o validateOptions) error {
	if err := choice("format", o.format, "table", "json", "csv"); err != nil {
		return err
	}
	if err := seedsInRange(o.seeds); err != nil {
		return err
	}
	checks, err := a.checks(ctx, o)
	if err != nil {
		return err
	}
	v := summarize(checks)
	switch o.format {
	case "json":
		err = writeJSON(a.out, v)
	case "csv":
		err = v.csv(a)
	default:
		v.print(a)
	}
	if err != nil {
		return err
	}
	if all := v.Strategies["all"]; o.above > 0 && (all.N == 0 || all.Median > o.above) {
		return thresholdError{fmt.Errorf("median error %.1f %% over %d rows is above %.1f %%", 100*all.Median, all.N, 100*o.above)}
	}
	return nil
}

func readRows(path string) ([]calibrate.Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (give measured rows, one JSON object a line; samples/capture makes them)", path, withoutPath(err))
	}
	defer f.Close()
	return calibrate.ReadRows(f, path)
}

// checks predicts every row, side by side on the machine's cores.
func (a *app) checks(ctx context.Context, o validateOptions) ([]validate.Check, error) {
	rows, err := readRows(o.path)
	if err != nil {
		return nil, err
	}
	if o.traces == "" {
		o.traces = filepath.Dir(o.path)
	}
	runs := a.tracesOf(rows, o.traces)
	machines, err := a.machinesOf(rows, o.machine)
	if err != nil {
		return nil, err
	}
	checks := make([]validate.Check, len(rows))
	bar := a.progress(len(rows), "predicting")
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, same := range validate.InTurn(rows) {
		g.Go(func() error {
			warm := 0.0
			for _, i := range same {
				if err := ctx.Err(); err != nil {
					return err
				}
				row := rows[i]
				checks[i] = validate.Check{Row: row}
				if t := runs[row.Trace]; t.err != nil {
					checks[i].Why = t.err.Error()
				} else {
					checks[i] = validate.CheckRow(row, t.run, machines[cmp.Or(o.machine, row.Machine)], o.seeds, warm)
					warm = checks[i].Warm
				}
				_ = bar.Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	_ = bar.Finish()
	return checks, err
}

// machinesOf loads, once each, the machines that the rows were measured on, or the one to predict for.
func (a *app) machinesOf(rows []calibrate.Row, name string) (map[string]machine.Machine, error) {
	machines := map[string]machine.Machine{}
	if name != "" {
		world := 0
		for _, row := range rows {
			world = max(world, row.World)
		}
		m, err := a.machineNamed(name, world)
		machines[name] = m
		return machines, err
	}
	for _, row := range rows {
		name := row.Machine
		if _, ok := machines[name]; ok {
			continue
		}
		m, err := a.machineNamed(name, 0)
		if err != nil {
			return nil, fmt.Errorf("row %s: %s", row.ID, err.Error()) // a row's mistake is not the command line's
		}
		machines[name] = m
	}
	return machines, nil
}

type openedTrace struct {
	run *trace.Run
	err error
}

// tracesOf opens every trace that the rows name once.
func (a *app) tracesOf(rows []calibrate.Row, dir string) map[string]openedTrace {
	runs := map[string]openedTrace{"": {err: fmt.Errorf("the row names no trace to start from")}}
	for _, row := range rows {
		if _, ok := runs[row.Trace]; !ok {
			run, err := format.Open(filepath.Join(dir, row.Trace), a.reading())
			runs[row.Trace] = openedTrace{run, err}
		}
	}
	return runs
}

func summarize(checks []validate.Check) *validated {
	v := &validated{Strategies: map[string]validateScore{}, Confidence: map[string]validateScore{}, scores: validate.Scores(checks), classes: validate.ByConfidence(checks), choices: validate.Choices(checks)}
	for _, c := range checks {
		if c.Why != "" {
			v.Skipped = append(v.Skipped, validateSkip{c.Row.ID, c.Why})
			continue
		}
		v.Rows = append(v.Rows, validatedRow{
			c.Row.ID, c.Row.Strategy, c.Row.Params, c.Predicted, c.Row.Us, c.Error(),
			string(c.Confidence.Level), c.Confidence.Why, c.Fastest, c.Slowest, c.Row,
		})
	}
	for _, s := range v.scores {
		v.Strategies[s.Strategy] = validateScore{s.N, s.Median, s.P90}
	}
	for _, s := range v.classes {
		v.Confidence[string(s.Level)] = validateScore{s.N, s.Median, s.P90}
	}
	for _, c := range v.choices {
		v.Regret.Workloads++
		v.Regret.Mean += c.Regret
		if c.Regret == 0 {
			v.Regret.Top1++
		}
	}
	v.Regret.Mean /= float64(max(1, v.Regret.Workloads))
	return v
}

func (v *validated) print(a *app) {
	t := a.table("row", "workload", "collective", "strategy", "predicted", "measured", "error", "confidence")
	for _, r := range v.Rows {
		k := r.row.Workload
		name := k.Name
		if name == "" {
			name = k.Kind
		}
		t.AppendRow(table.Row{r.ID, name, k.Collective, validate.RowName(r.row), r.predicted(), fmt.Sprintf("%.1f µs", r.MeasuredUs), fmt.Sprintf("%+.1f %%", 100*r.Error), r.Confidence})
	}
	t.Render()
	t = a.section("what choosing by prediction costs", "workload", "measured best", "chosen", "regret")
	for _, c := range v.choices {
		chosen := c.Predicted
		if c.Plain != "" {
			chosen += " (no clear difference from " + c.Plain + ")"
		}
		t.AppendRow(table.Row{c.Workload, c.Best, chosen, fmt.Sprintf("%.1f %%", 100*c.Regret)})
	}
	t.Render()
	t = a.section("|predicted / measured − 1|", "strategy", "rows", "median", "90th percentile")
	for _, s := range v.scores {
		t.AppendRow(table.Row{s.Strategy, s.N, fmt.Sprintf("%.1f %%", 100*s.Median), fmt.Sprintf("%.1f %%", 100*s.P90)})
	}
	t.Render()
	t = a.section("by confidence", "confidence", "rows", "median", "90th percentile")
	for _, s := range v.classes {
		t.AppendRow(table.Row{s.Level, s.N, fmt.Sprintf("%.1f %%", 100*s.Median), fmt.Sprintf("%.1f %%", 100*s.P90)})
	}
	t.Render()
	fmt.Fprintf(a.out, "\nregret: mean %.1f %%, the best chosen on %d of %d workloads; %d rows not predicted\n", 100*v.Regret.Mean, v.Regret.Top1, v.Regret.Workloads, len(v.Skipped))
	why := map[string]int{}
	var order []string
	for _, s := range v.Skipped {
		if why[s.Why] == 0 {
			order = append(order, s.Why)
		}
		why[s.Why]++
	}
	for _, w := range order {
		fmt.Fprintf(a.out, "  %d: %s\n", why[w], plain.Line(w))
	}
}

// predicted is the prediction with, if there were seeds, its range.
func (r *validatedRow) predicted() string {
	s := fmt.Sprintf("%.1f µs", r.PredictedUs)
	if r.SlowestUs > 0 {
		s += fmt.Sprintf(" (%.1f to %.1f)", r.FastestUs, r.SlowestUs)
	}
	return s
}

func (v *validated) csv(a *app) error {
	c := csv.NewWriter(a.out)
	_ = c.Write([]string{"id", "strategy", "predicted_us", "measured_us", "error", "confidence", "confidence_why"})
	for _, r := range v.Rows {
		_ = c.Write([]string{r.ID, validate.RowName(r.row), fmt.Sprintf("%.2f", r.PredictedUs), fmt.Sprintf("%.2f", r.MeasuredUs), fmt.Sprintf("%.4f", r.Error), r.Confidence, r.Why})
	}
	c.Flush()
	return c.Error()
}
