package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/validate"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/viz/plain"
)

// A stampsReport is the JSON form of `validate --wg`. Distances are fractions of a kernel.
type stampsReport struct {
	Kernels []stampsRow    `json:"kernels"`
	Median  float64        `json:"median"` // of the distances of starts
	Skipped []validateSkip `json:"skipped"`
}

type stampsRow struct {
	Name       string  `json:"name"`
	Trace      string  `json:"trace"`
	Strategy   string  `json:"strategy"`
	Workgroups int     `json:"workgroups"`
	Measured   float64 `json:"measured_us"`
	Predicted  float64 `json:"predicted_us"`
	Starts     float64 `json:"starts"`
	Ends       float64 `json:"ends"`
	Order      float64 `json:"order"`
	Shape      float64 `json:"shape"`
}

func (a *app) validateStamps(ctx context.Context, o validateOptions) error {
	if err := choice("format", o.format, "table", "json", "csv"); err != nil {
		return err
	}
	dir := filepath.Dir(o.path)
	if o.wg == besideRows {
		o.wg = filepath.Join(dir, "wg")
	}
	if o.traces == "" {
		o.traces = dir
	}
	rows, err := readRows(o.path)
	if err != nil {
		return err
	}
	r, err := a.stamps(ctx, o, rows)
	if err != nil {
		return err
	}
	switch o.format {
	case "json":
		err = writeJSON(a.out, r)
	case "csv":
		err = r.csv(a)
	default:
		r.print(a)
	}
	if err == nil && o.above > 0 && (len(r.Kernels) == 0 || r.Median > o.above) {
		return thresholdError{fmt.Errorf("median distance of %d kernels' starts: %.1f %% is above %.1f %%", len(r.Kernels), 100*r.Median, 100*o.above)}
	}
	return err
}

// stamps compares every set of stamps in the folder, side by side on the machine's cores.
func (a *app) stamps(ctx context.Context, o validateOptions, rows []calibrate.Row) (*stampsReport, error) {
	names, err := stampNames(o.wg)
	if err != nil {
		return nil, err
	}
	found := make([]validate.Stamped, len(names))
	bar := a.progress(len(names), "predicting")
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			found[i], err = a.checkStamps(o, name, rows)
			_ = bar.Add(1)
			return err
		})
	}
	err = g.Wait()
	_ = bar.Finish()
	if err != nil {
		return nil, err
	}
	r := &stampsReport{Kernels: []stampsRow{}, Skipped: []validateSkip{}}
	var starts []float64
	for _, c := range found {
		if c.Why != "" {
			r.Skipped = append(r.Skipped, validateSkip{c.Name, c.Why})
			continue
		}
		starts = append(starts, c.Starts)
		r.Kernels = append(r.Kernels, stampsRow{c.Name, c.Trace, c.Strategy, c.Workgroups, c.Measured, c.Predicted, c.Starts, c.Ends, c.Order, c.Shape})
	}
	if n := len(starts); n > 0 {
		slices.Sort(starts)
		r.Median = (starts[(n-1)/2] + starts[n/2]) / 2
	}
	return r, nil
}

// stampNames lists the sets of stamps in a folder: what stands before _rankR_wg_trace.
func stampNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, withoutPath(err))
	}
	var names []string
	for _, e := range entries {
		if name, _, ok := strings.Cut(e.Name(), "_wg_trace"); ok {
			if i := strings.LastIndex(name, "_rank"); i > 0 {
				name = name[:i]
			}
			names = append(names, name)
		}
	}
	if slices.Sort(names); len(names) == 0 {
		return nil, fmt.Errorf("%s: no file NAME_rankR_wg_trace.csv in it", dir)
	}
	return slices.Compact(names), nil
}

func (a *app) checkStamps(o validateOptions, name string, rows []calibrate.Row) (validate.Stamped, error) {
	skip := func(why error) (validate.Stamped, error) {
		return validate.Stamped{Name: name, Why: why.Error()}, nil
	}
	stamps, err := format.Open(filepath.Join(o.wg, name+"_rank*_wg_trace*"), format.Options{Stdin: a.in})
	if err != nil {
		return skip(err)
	}
	row, err := validate.StampsRow(name, validate.Programs(stamps), rows)
	if err != nil {
		return skip(err)
	}
	run, err := format.Open(filepath.Join(o.traces, row.Trace), format.Options{Stdin: a.in})
	if err != nil {
		return skip(err)
	}
	if o.machine != "" {
		row.Machine = o.machine
	}
	m, err := a.machineNamed(row.Machine, 0)
	if err != nil {
		return validate.Stamped{}, fmt.Errorf("%s: %w", name, err)
	}
	return validate.CheckStamps(name, stamps, row, run, m), nil
}

func (r *stampsReport) print(a *app) {
	t := a.table("stamps", "strategy", "workgroups", "measured", "predicted", "starts", "ends", "order", "shape")
	for _, k := range r.Kernels {
		t.AppendRow(table.Row{
			k.Name, k.Strategy, k.Workgroups, fmt.Sprintf("%.1f µs", k.Measured), fmt.Sprintf("%.1f µs", k.Predicted),
			fmt.Sprintf("%.1f %%", 100*k.Starts), fmt.Sprintf("%.1f %%", 100*k.Ends), fmt.Sprintf("%.1f %%", 100*k.Order), fmt.Sprintf("%.1f %%", 100*k.Shape),
		})
	}
	t.Render()
	fmt.Fprintf(a.out, "\nstarts: median %.1f %% of %d kernels; %d not predicted\n", 100*r.Median, len(r.Kernels), len(r.Skipped))
	for _, s := range r.Skipped {
		fmt.Fprintf(a.out, "  %s: %s\n", plain.Line(s.ID), plain.Line(s.Why))
	}
}

func (r *stampsReport) csv(a *app) error {
	c := csv.NewWriter(a.out)
	_ = c.Write([]string{"name", "trace", "strategy", "workgroups", "measured_us", "predicted_us", "starts", "ends", "order", "shape"})
	for _, k := range r.Kernels {
		record := []string{k.Name, k.Trace, k.Strategy, fmt.Sprint(k.Workgroups)}
		for _, v := range []float64{k.Measured, k.Predicted, k.Starts, k.Ends, k.Order, k.Shape} {
			record = append(record, fmt.Sprintf("%.4f", v))
		}
		_ = c.Write(record)
	}
	c.Flush()
	return c.Error()
}
