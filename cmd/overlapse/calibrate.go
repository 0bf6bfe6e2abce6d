package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines/score"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace/guard"
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
		Use:   "calibrate FOLDER|FILE.jsonl...",
		Short: "Fit a machine profile to micro-benchmark rows",
		Long: `Reads what samples/capture/capture.py measured on your machine, a folder or files of
rows, and fits the parameters of a machine profile by their documented rules.

Parameters that are read together (the time of a GEMM, the clock, collectives alongside
compute) replace those of the base only if a fit predicts left-out rows better than the
base does; a table lists both errors. Parameters without rows keep the base's value and
are listed as missing. Rows of the machine of the base profile are added to its tables;
rows of another machine replace them.

capture.py also measures some strategies on sizes that no benchmark has (rows.jsonl).
Nothing is fitted to them: they are predicted with the new profile and with the base, and
the first lines of the output give the errors by strategy.`,
		Example: `  overlapse calibrate mymachine -o mine.yaml
  overlapse calibrate calibrate.jsonl more/calibrate.jsonl --base h200 -o mine.yaml`,
		Args: needs("at least one file of rows"),
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return a.calibrate(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.base, "base", "", "base profile or YAML file for unmeasured values: device limits, topology; default: the profile of the rows' machine, else h200")
	f.StringVarP(&o.output, "output", "o", "", "file for the profile, as YAML")
	return c
}

func (a *app) calibrate(ctx context.Context, o calibrateOptions) error {
	var rows []dataset.Row
	var check []string // files of rows of strategies
	gpu := ""
	for _, name := range o.files {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if file := filepath.Join(name, "rows.jsonl"); cli.IsFile(file) {
				check = append(check, file)
			}
			if gpu, err = gpuOf(filepath.Join(name, "machine.json")); err != nil {
				return err
			}
			name = filepath.Join(name, "calibrate.jsonl")
		}
		d, err := dataset.OpenRows(name)
		if err != nil {
			return err
		}
		rows = append(rows, d.Sets[0].Rows...)
	}
	base, err := a.MachineNamed(cmp.Or(o.base, baseOf(rows)), 0)
	if err != nil {
		return err
	}
	res, err := dataset.CalibrateMachine(rows, base)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%d of %d rows read; base %s\n", res.Rows, len(rows), base.Profile)
	for _, file := range check {
		if err := a.checkProfile(ctx, file, base, res.Machine); err != nil {
			return err
		}
	}
	a.printCalibration(res)
	a.printInherited(rows, base, &res.Machine, o.output)
	if o.output == "" {
		return nil
	}
	file := filepath.Base(o.output)
	res.Machine.Profile = strings.TrimSuffix(file, filepath.Ext(file))
	res.Machine.GPU.Name = cmp.Or(gpu, res.Machine.GPU.Name)
	var text bytes.Buffer
	if err := machine.WriteYAML(res.Machine, &text); err != nil {
		return err
	}
	if _, err := machine.Parse(bytes.NewReader(text.Bytes()), file); err != nil {
		// not unwrapped: its positions are of what was not written
		return fmt.Errorf("nothing written: the rows contradict each other or the base %s: %s", base.Profile, err.Error())
	}
	return a.files.WriteBytes(o.output, text.Bytes())
}

// gpuOf is the name of the GPU that capture.py wrote into machine.json; "" without the file.
func gpuOf(file string) (string, error) {
	text, err := guard.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	var m struct {
		GPU string `json:"gpu"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return "", fmt.Errorf("%s: %w (capture.py writes it; remove it to keep the base's name of the GPU)", file, err)
	}
	return guard.Line(m.GPU), nil
}

// baseOf is the shipped profile that the rows' machine names, else h200.
func baseOf(rows []dataset.Row) string {
	for i := range rows {
		if name := machine.Named(rows[i].Machine); name != "" {
			return name
		}
	}
	return "h200"
}

// checkProfile predicts measured strategies with the base and with the calibrated profile.
func (a *app) checkProfile(ctx context.Context, file string, base, calibrated machine.Machine) error {
	d, err := dataset.OpenRows(file)
	if err != nil {
		return err
	}
	var scores [2][]score.Score
	for i, m := range []machine.Machine{base, calibrated} {
		found, err := a.scored(ctx, d, func(row dataset.Row) (machine.Machine, error) { return m.Sized(row.World) }, nil)
		if err != nil {
			return results.Stopped(ctx, err)
		}
		scores[i] = score.Scores(found[0].Checks)
	}
	t := cli.Table{
		Title:   "error of predicted times over " + file + ", to which nothing was fitted: median, 90th percentile",
		Columns: []string{"strategy", "rows", "base", "", "calibrated", ""},
	}
	addScores(&t, scores[0], scores[1])
	a.Show(&t)
	return nil
}

// addScores adds a row for each strategy that the calibrated profile predicts. Of those that the base cannot, its cells are empty.
func addScores(t *cli.Table, base, calibrated []score.Score) {
	for _, s := range calibrated {
		row := []any{s.Strategy, s.N, "", ""}
		for _, b := range base {
			if b.Strategy == s.Strategy {
				row = append(row[:2], magnitude(b.Median), magnitude(b.P90))
			}
		}
		t.Add(append(row, magnitude(s.Median), magnitude(s.P90))...)
	}
}

// magnitude prints a fraction as percent, without a sign.
func magnitude(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func (a *app) printCalibration(res dataset.Calibrated) {
	t := cli.Table{
		Title:   "parameters that are read together: mean error over left-out rows",
		Columns: []string{"law", "rows", "base", "fit", "read as"},
	}
	for _, c := range res.Choices {
		t.Add(c.Law, c.Rows, magnitude(c.Base), magnitude(c.Err), cmp.Or(c.How, "the base stays: no fit predicts left-out rows better"))
	}
	a.Show(&t)
	t = cli.Table{Title: "parameters", Columns: []string{"parameter", "value", "rows", "error", "rule"}}
	for _, f := range res.Fits {
		residual, rule := magnitude(f.Residual), f.Rule
		switch {
		case f.Missing != "":
			residual, rule = "", "missing: "+f.Missing
		case f.Kept != "":
			residual, rule = "", "kept: "+f.Kept
		}
		t.Add(f.Key, f.Value, len(f.Rows), residual, rule)
	}
	a.Show(&t)
}

// printInherited marks what stays of the profile of another machine as assumed, and says how much that is.
func (a *app) printInherited(rows []dataset.Row, base machine.Machine, m *machine.Machine, output string) {
	several := false
	for i := range rows {
		if len(machine.Readings(rows[i].Machine, []string{base.Profile})) > 0 {
			return
		}
		several = several || rows[i].World > 1
	}
	n := machine.Inherit(m, base)
	if n == 0 {
		return
	}
	what := fmt.Sprintf("%d numbers and tables stay those of %s, another machine, and count as assumed", n, base.Profile)
	if !several {
		what += "; no row is of several GPUs, so that links, copies between GPUs and collectives are among them"
	}
	fmt.Fprintf(a.Out, "\n%s (overlapse machines %s lists them)\n", what, cmp.Or(output, "FILE.yaml"))
}
