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
with the rows it was read from and its residual. Parameters whose rows are missing
keep the base profile's value and are named. Rows of the base profile's own machine
add to what it has recorded; rows of another machine replace that.

With --plan nothing is fitted: it prints the isolated benchmarks that would narrow the
predictions for a trace, products and collectives of just the sizes and channels that
the strategies would run, one JSON object a line, for capture.py --plan.`,
		Example: `  overlapse calibrate calibrate.jsonl --base h200 -o mine.yaml
  overlapse calibrate --plan samples/moe-ep4 --strategy decompose:chunks=8 -o plan.jsonl
  torchrun --nproc-per-node 4 samples/capture/capture.py --plan plan.jsonl --out more
  overlapse calibrate more/calibrate.jsonl -o mine.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.plan.path != "" && len(args) > 0:
				return usageError{errors.New("calibrate takes rows, or a trace after --plan, not both (see overlapse calibrate --help)")}
			case o.plan.path != "":
				return nil
			case o.plan.strategy != "all" || o.plan.machine != "":
				return usageError{errors.New("--strategy and --machine are for --plan (see overlapse calibrate --help)")}
			}
			if len(args) == 0 {
				return usageError{errors.New("calibrate takes at least one file of rows (see overlapse calibrate --help)")}
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
	f.StringVar(&o.base, "base", "h200", "profile, or a YAML file, that gives what rows cannot: device limits, topology")
	f.StringVarP(&o.output, "output", "o", "", "write the profile here, as YAML; with --plan: the requests, as JSON lines")
	f.StringVar(&o.plan.path, "plan", "", "trace for which to list the benchmarks that would narrow its predictions")
	f.StringVar(&o.plan.machine, "machine", "", "with --plan: machine to replay on; default: the trace's own")
	f.StringVar(&o.plan.strategy, "strategy", "all", "with --plan: strategies, with settings behind colons")
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

// plan prints, or writes to a file, the benchmarks that would narrow the
// predictions for a trace.
func (a *app) plan(o replayFlags, output string) error {
	sel, w, m, err := prepare(a, o, engines.ParseSelection)
	if err != nil {
		return err
	}
	requests, err := validate.Benchmarks(w, m, sel)
	if err != nil {
		return fmt.Errorf("%s: %w", o.path, err)
	}
	var guesses int
	for _, x := range profile.Assumptions(m) {
		if !x.Absent {
			guesses++
		}
	}
	a.notef("%d benchmarks for %s on %s; %d numbers of the profile are assumed (overlapse machines %s; capture.py without --plan measures them)", len(requests), o.path, m.Name, guesses, m.Name)
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
