package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/replay/machine"
)

// calibrateOptions are the flags of `overlapse calibrate`.
type calibrateOptions struct {
	files  []string
	base   string
	output string
}

func (a *app) calibrateCommand() *cobra.Command {
	var o calibrateOptions
	c := &cobra.Command{
		Use:   "calibrate FILE.jsonl...",
		Short: "Fit a machine profile to micro-benchmark rows",
		Long: `Reads rows of isolated measurements (samples/capture makes them on your machine),
fits every parameter of a machine profile by its documented rule, and prints each
with the rows it was read from and its residual. Parameters whose rows are missing
keep the base profile's value and are named.`,
		Example: "  overlapse calibrate calibrate.jsonl --base h200 -o mine.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("calibrate takes at least one file of rows (see overlapse calibrate --help)")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.files = args
			return a.calibrate(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.base, "base", "h200", "profile that gives what rows cannot: device limits, topology")
	f.StringVarP(&o.output, "output", "o", "", "write the profile here, as YAML")
	return c
}

func (a *app) calibrate(o calibrateOptions) error {
	base, err := machine.Load(o.base)
	var unknown *machine.UnknownError
	if errors.As(err, &unknown) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	var rows []machine.Row
	for _, name := range o.files {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, withoutPath(err))
		}
		more, err := machine.ReadRows(f, name)
		f.Close()
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	m, fits, err := machine.Calibrate(rows, base)
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
		t.AppendRow(table.Row{f.Key, f.Value, len(f.Rows), residual, oneLine(rule)})
	}
	t.Render()
	if o.output == "" {
		return nil
	}
	return writeFile(o.output, func(w io.Writer) error { return m.WriteYAML(w) })
}
