package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/validate"
	"github.com/overlapse/overlapse/replay/dataset"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/viz/plain"
)

// calibrateOptions are the flags of `overlapse calibrate`.
type calibrateOptions struct {
	files  []string
	base   string
	output string
	plan   replayFlags
}

func (a *app) calibrateCommand() *cobra.Command {
	var o calibrateOptions
	c := &cobra.Command{
		Use:   "calibrate FILE.jsonl... | --plan TRACE",
		Short: "Fit a machine profile to micro-benchmark rows",
		Long: `Reads rows of isolated measurements (samples/capture makes them on your machine),
fits every parameter of a machine profile by its documented rule, and prints each
parameter with the number of rows and the residual of the fit. Parameters without rows
keep the value of the base profile and are listed as missing. Rows of the machine of the
base profile are added to its tables; rows of another machine replace them.

--plan fits nothing. It prints the isolated benchmarks that would make the predictions
for a trace more certain: GEMMs and collectives of the sizes and channels that the
strategies run, as one JSON object per line, for capture.py --plan.`,
		Example: `  overlapse calibrate calibrate.jsonl --base h200 -o mine.yaml
  overlapse calibrate --plan samples/moe-ep4 --strategy decompose:chunks=8 -o plan.jsonl
  torchrun --nproc-per-node 4 samples/capture/capture.py --plan plan.jsonl --out more
  overlapse calibrate more/calibrate.jsonl -o mine.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.plan.path != "" && len(args) > 0:
				return usageError{errors.New("calibrate takes files of rows or --plan TRACE, not both (see overlapse calibrate --help)")}
			case o.plan.path != "":
				return nil
			case o.plan.strategy != "all" || o.plan.machine != "":
				return usageError{errors.New("--strategy and --machine need --plan (see overlapse calibrate --help)")}
			}
			if len(args) == 0 {
				return usageError{errors.New("calibrate needs at least one file of rows (see overlapse calibrate --help)")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if o.plan.path != "" {
				return a.plan(o.plan, o.output)
			}
			o.files = args
			return a.calibrate(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.base, "base", "h200", "base profile or YAML file for unmeasured values: device limits, topology")
	f.StringVarP(&o.output, "output", "o", "", "file for the profile, as YAML; with --plan: for the requests, as JSON lines")
	f.StringVar(&o.plan.path, "plan", "", "list the benchmarks that would make predictions for this trace more certain")
	f.StringVar(&o.plan.machine, "machine", "", "with --plan: machine to replay on; default: that of the trace")
	f.StringVar(&o.plan.strategy, "strategy", "all", "with --plan: strategies, with settings after colons")
	return c
}

func (a *app) calibrate(o calibrateOptions) error {
	base, err := a.machineNamed(o.base, 0)
	if err != nil {
		return err
	}
	var rows []dataset.Row
	for _, name := range o.files {
		more, err := readRows(name)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	m, fits, err := calibrate.Calibrate(rows, base)
	if err != nil {
		return err
	}
	t := a.table("parameter", "value", "rows", "residual", "rule")
	for _, f := range fits {
		residual := ""
		if f.Missing == "" {
			residual = fmt.Sprintf("%.1f %%", 100*f.Residual)
		}
		rule := f.Rule
		if f.Missing != "" {
			rule = "missing: " + f.Missing
		}
		t.AppendRow(table.Row{f.Key, f.Value, len(f.Rows), residual, rule})
	}
	t.Render()
	if o.output == "" {
		return nil
	}
	return a.writeFile(o.output, func(w io.Writer) error { return profile.WriteYAML(m, w) })
}

// plan prints, or writes to a file, the benchmarks that would make the predictions
// for a trace more certain.
func (a *app) plan(o replayFlags, output string) error {
	sel, w, m, err := prepare(a, o, engines.ParseSelection)
	if err != nil {
		return err
	}
	requests, err := validate.Benchmarks(w, m, sel)
	if err != nil {
		return fmt.Errorf("%s: %w", o.path, err)
	}
	var assumed int
	for _, x := range profile.Assumptions(m) {
		if !x.Absent {
			assumed++
		}
	}
	a.notef("%d benchmarks for %s on %s; %d values of the profile are assumed (overlapse machines %s lists them; capture.py without --plan measures them)", len(requests), o.path, m.Name, assumed, m.Name)
	write := func(w io.Writer) error { return writeRequests(w, requests) }
	if output != "" {
		return a.writeFile(output, write)
	}
	return write(a.out)
}

func writeRequests(w io.Writer, requests []calibrate.Request) error {
	e := json.NewEncoder(plain.JSON(w))
	for _, r := range requests {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
