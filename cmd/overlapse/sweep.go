package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/guard"
)

// sweepOptions are the flags of `overlapse sweep`.
type sweepOptions struct {
	plan  string
	out   string // folder
	shard string // I/N, auto, or "": all cells
	jobs  int
}

func (a *app) sweepCommand() *cobra.Command {
	var o sweepOptions
	c := &cobra.Command{
		Use:   "sweep PLAN.yaml",
		Short: "Replay many traces, machines, strategies and settings, on one machine or a cluster",
		Long: `Replays every combination of the axes of a plan file, on all processors, and writes a CSV
file into the output folder, a row per combination. A plan has inputs and strategies, and
any of the other axes:

  inputs: [traces/step, workloads/*.yaml]  # traces and workload files, relative to the plan
  machines: [h200:8, h100:8, mine.yaml]    # default: that of the input
  what_if: [default, links=2, clock=0.9]
  retargets: [default, b200]               # scale captured durations to this GPU
  ranks: [default, 16, 64]
  clocks: [captured, sustained]
  strategies: [bulk, fused, "decompose:chunks=2|4|8:priority=on|off"]

The columns are those of replay --format csv, and the plan's axes. --shard I/N replays one
shard of N and writes shard-I-of-N.csv; --shard auto takes the shard that SLURM or Kubernetes
gives this process. A file is written whole or not at all. It is kept, and nothing is
replayed, while its plan, inputs, machines and version of overlapse are as they were: the
column sweep has their hash. To put the files of all shards together:

  awk 'NR == 1 || FNR > 1' out/*.csv > results.csv

samples/cluster has a script for SLURM and a manifest for Kubernetes that run a sweep in
shards.`,
		Example: `  overlapse sweep samples/sweeps/chunks.yaml -o out
  overlapse sweep plan.yaml -o out --shard 3/16
  sbatch --array=0-31 samples/cluster/sweep.sbatch plan.yaml /shared/out`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 1 || !cli.IsYAML(args[0]):
				return cli.Errorf("sweep needs one plan, a .yaml file (see overlapse sweep --help)")
			case o.out == "":
				return cli.Errorf("sweep needs -o FOLDER for its results")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.plan = args[0]
			return a.sweep(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVarP(&o.out, "output", "o", "", "folder for the CSV file")
	f.StringVar(&o.shard, "shard", "", "run shard I of N only, counted from 1 (3/16), or auto: the shard that SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX names")
	cli.IntFlag(f, &o.jobs, "jobs", 0, cli.Range[int]{Most: 1 << 16}, "processors to use; 0: all")
	return c
}

// sweepLines are the lines of CSV of what was replayed for cells, the head first: a row of each phase. A shard has some rows of an input,
// so that none is recommended. What is damaged in the input and the digest of the sweep (planFile.digest) are the last columns.
func sweepLines(r *results.Replayed, cells []sweepCell, damage, digest string) (lines [][]any) {
	for line := range r.CSV("recommended") {
		more := []any{"what_if", "clock", "retarget", "damage", "sweep"}
		if len(lines) > 0 {
			of := cells[r.Rows[len(lines)-1].At]
			at := of.sweepInput
			more = []any{at[planWhatIf], at[planClocks], guard.Line(at[planRetargets]), damage, digest}
		}
		lines = append(lines, append(line, more...))
	}
	return lines
}

func (a *app) sweep(ctx context.Context, o sweepOptions) error {
	shard, shards, err := shardOf(o.shard, os.Getenv)
	if err != nil {
		return err
	}
	p, digest, err := a.sweepPlan(o.plan)
	if err != nil {
		return err
	}
	for _, in := range p.Values[planInputs] {
		if cli.Within(o.out, cli.Besides(o.plan, in)) {
			return fmt.Errorf("-o %s: lies in the input %s of the plan, which would have other files (give another folder)", o.out, in)
		}
	}
	file := filepath.Join(o.out, fmt.Sprintf("shard-%0*d-of-%d.csv", len(fmt.Sprint(shards)), shard+1, shards))
	parts, cells := p.shard(shard, shards)
	if sweepDone(file, digest, cells) {
		a.Notef("kept %s: the plan, its files and this version are those that it was made with", guard.Line(file))
		return nil
	}
	if o.jobs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.jobs))
	}
	a.Notef("%s: %s of %s", guard.Line(o.plan), cli.Counted(cells, "cell"), cli.Counted(len(parts), "workload"))
	bar := a.Progress(cells, "replaying")
	defer bar.Finish()
	found := make([]*results.Replayed, len(parts))
	damages := make([]string, len(parts))
	// As many workloads at a time as have a cell for each processor: each takes memory.
	atOnce := (runtime.GOMAXPROCS(0)*len(parts) + cells - 1) / max(1, cells)
	if err := guard.AtMost(atOnce, len(parts), func(i int) (err error) {
		found[i], damages[i], err = a.sweepPart(ctx, o.plan, parts[i], func() { bar.Add(1) })
		return err
	}); err != nil {
		return err
	}
	lines := sweepLines(&results.Replayed{}, nil, "", "")
	said := map[string]bool{"": true}
	for i, r := range found {
		lines = append(lines, sweepLines(r, parts[i], damages[i], digest)[1:]...)
		if !said[damages[i]] {
			said[damages[i]] = true
			a.Notef("%s: %s", r.Path, damages[i])
		}
	}
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return err
	}
	if err := a.files.Write(file, func(w io.Writer) error {
		return results.WriteCSV(cli.WhileRunning(ctx, w), slices.Values(lines))
	}); err != nil {
		return err
	}
	a.Notef("wrote %s to %s", cli.Counted(len(lines)-1, "row"), guard.Line(file))
	return nil
}

// sweepDone reports whether a file has so many rows, all of the sweep of a digest, which is the last column.
func sweepDone(file, digest string, rows int) bool {
	text, err := os.ReadFile(file)
	n := bytes.Count(text, []byte("\n")) - 1
	return err == nil && n >= rows && bytes.Count(text, []byte(","+digest+"\n")) == n // a cell has a row of each phase
}

// sweepPlan reads a plan, and the hash of what its results depend on.
func (a *app) sweepPlan(path string) (*planFile, string, error) {
	in, err := guard.Open(path)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w (a plan of a sweep)", path, cli.WithoutPath(err))
	}
	defer in.Close()
	p, err := parsePlan(in, path)
	if err != nil {
		return nil, "", err
	}
	reading := "" // without --skip-bad, a larger input than --limit is an error, which has no result
	if a.SkipBad {
		reading = fmt.Sprintf("--skip-bad --limit %d", a.Limit)
	}
	digest, err := p.digest(programVersion(), reading,
		func(name string) (string, error) { return a.InputDigest(cli.Besides(path, name)) },
		func(name string) (string, error) { return a.MachineDigest(cli.BesidesMachine(path, name)) })
	return p, digest, err
}

// sweepPart reads and lifts a workload, and replays its cells. It says what is damaged in it.
func (a *app) sweepPart(ctx context.Context, planPath string, cells []sweepCell, done func()) (
	r *results.Replayed, damage string, err error,
) {
	of := cells[0].sweepInput
	altered, err := parseWhatIf(of[planWhatIf])
	if err != nil {
		return nil, "", err
	}
	// notes of each workload would hide the sweep's own
	quiet := &cli.Reader{
		Console: &cli.Console{In: a.In, Out: io.Discard, Err: io.Discard, Bar: io.Discard, Quiet: true},
		Limit:   a.Limit, SkipBad: a.SkipBad,
	}
	f := cli.Flags{
		Path: cli.Besides(planPath, of[planInputs]), Machine: cli.BesidesMachine(planPath, of[planMachines]), Strategy: "captured",
		Clock: cmp.Or(of[planClocks], "captured"), Ranks: of[planRanks], Retarget: cli.BesidesMachine(planPath, of[planRetargets]),
		WhatIf: altered,
	}
	_, w, m, err := cli.Prepare(quiet, f, engines.ParseSelection)
	if code, _ := cli.Code(err); code == cli.Usage { // as --ranks on a workload file: a result, not a failure
		why := guard.Line(strings.TrimSpace(err.Error()))
		r = &results.Replayed{}
		r.Path, r.Machine = of[planInputs], of[planMachines]
		for i, c := range cells {
			row := results.Row{Why: why, At: i}
			row.Strategy, row.Settings = c.Strategy.Strategy.Name, c.Strategy.Strategy.String(c.Strategy.Values)
			r.Rows = append(r.Rows, row)
			done()
		}
		return r, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	opts := replay.Options{Like: true, Stop: stopFunc(ctx)}
	r, err = results.Of(ctx, quiet.Console, f.Path, w, m, nil, f.Scenario(), opts, false, false)
	if err != nil {
		return nil, "", err
	}
	selected := make([]plan.Selection, len(cells))
	for i := range cells {
		selected[i] = cells[i].Strategy
	}
	if err := r.Beside(ctx, m, selected, opts, done); err != nil {
		return nil, "", err
	}
	if err := engines.Defect(r.Outcomes...); err != nil {
		return nil, "", fmt.Errorf("%s: %w", f.Path, err)
	}
	r.Path, r.Machine, r.Control = of[planInputs], cmp.Or(of[planMachines], r.Machine), nil
	return r, guard.Line(strings.Join(w.Damage.Sentences, "; ")), nil
}
