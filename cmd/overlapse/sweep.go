package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/files"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/sweep"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/words"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/retarget"
	"github.com/overlapse/overlapse/trace/regular"
	"github.com/overlapse/overlapse/viz/plain"
)

// sweepOptions are the flags of `overlapse sweep`.
type sweepOptions struct {
	plan   string
	out    string // folder
	shard  string // I/N, auto, or "": all cells
	format string
	jobs   int
	dry    bool
	merge  bool
	from   []string // folders of --merge
}

func (a *app) sweepCommand() *cobra.Command {
	var o sweepOptions
	c := &cobra.Command{
		Use:   "sweep PLAN.yaml | [PLAN.yaml] --merge FOLDER...",
		Short: "Replay many traces, machines, strategies and settings, on one machine or a cluster",
		Long: `Replays every combination of the axes of a plan file, on all processors, and writes
results.json, results.csv, results.parquet and results.html into the output folder. A plan
has inputs and strategies, and any of the other axes:

  inputs: [traces/step, workloads/*.yaml]  # traces and workload files, relative to the plan
  machines: [h200:8, h100:8, mine.yaml]    # default: that of the input
  what_if: [default, links=2, clock=0.9]
  retargets: [default, b200]               # scale captured durations to this GPU
  ranks: [default, 16, 64]
  clocks: [captured, sustained]
  strategies: [bulk, fused, "decompose:chunks=2|4|8:priority=on|off"]
  seeds: [0, 1, 2]                         # 0: the mean over dispatch orders

A cell is one replay. Its id is the hash of the content of the input, the machine, the
settings and the version of overlapse. Finished cells are never repeated, whether the
sweep was interrupted, the plan has grown, or another shard computed them. Nothing that is
half written counts.

Before the sweep starts, a few cells are replayed to estimate its cost; --dry-run ends
there. --shard I/N runs one part of N, --shard auto the part that SLURM or Kubernetes gives
this process. Shards may write into one folder, or into several that --merge joins. --merge
fails if cells are missing, or if two shards disagree.

samples/cluster has a script for SLURM and a manifest for Kubernetes that run a sweep in
parts.`,
		Example: `  overlapse sweep samples/sweeps/chunks.yaml -o out
  overlapse sweep plan.yaml -o out --dry-run
  overlapse sweep plan.yaml -o out --shard 3/16
  overlapse sweep --merge out -o merged
  sbatch --array=0-31 samples/cluster/sweep.sbatch plan.yaml /shared/out`,
		Args: func(_ *cobra.Command, args []string) error { return o.arguments(args) },
		RunE: func(c *cobra.Command, _ []string) error { return a.sweep(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVarP(&o.out, "output", "o", "", "folder for cells and results")
	f.StringVar(&o.shard, "shard", "", "run part I of N only, counted from 1 (3/16), or auto: the part that SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX names")
	cli.IntFlag(f, &o.jobs, "jobs", 0, cli.Range[int]{Most: 1 << 16}, "cells at once; 0: as many as processors")
	f.BoolVar(&o.dry, "dry-run", false, "only estimate the cost, by replaying a few cells, whose results are kept")
	f.BoolVar(&o.merge, "merge", false, "join the shards in these folders, and fail if cells are missing or differ")
	cli.ChoiceFlag(c, &o.format, "format", "table", "what to print: table (the best setting of each workload) or json", "table", "json")
	return c
}

// arguments checks the command line.
func (o *sweepOptions) arguments(args []string) error {
	for _, arg := range args {
		if input.IsYAML(arg) && o.plan == "" && len(o.from) == 0 {
			o.plan = arg
			continue
		}
		o.from = append(o.from, arg)
	}
	switch {
	case o.merge && len(o.from) == 0:
		return cli.Errorf("--merge needs the folders that sweep -o wrote")
	case o.merge && (o.shard != "" || o.dry):
		return cli.Errorf("--merge replays nothing: leave out --shard and --dry-run")
	case !o.merge && o.plan == "":
		return cli.Errorf("sweep needs a plan, a .yaml file (see overlapse sweep --help)")
	case !o.merge && len(o.from) > 0:
		return cli.Errorf("%s: one plan at a time (--merge joins folders)", o.from[0])
	case !o.merge && o.out == "":
		return cli.Errorf("sweep needs -o FOLDER for its results")
	}
	return nil
}

func (a *app) sweep(ctx context.Context, o sweepOptions) error {
	if o.merge {
		return a.mergeSweep(o)
	}
	part, parts, err := sweep.ShardOf(o.shard, os.Getenv)
	if err != nil {
		return err
	}
	axes, err := a.sweepAxes(o.plan)
	if err != nil {
		return err
	}
	for _, in := range axes.Inputs {
		if files.Within(o.out, input.Besides(o.plan, in.Name)) {
			return fmt.Errorf("-o %s: lies in the input %s of the plan, which would have other files (give another folder)", o.out, in.Name)
		}
	}
	to := sweep.Folder{Files: &a.files, Path: o.out}
	if err := sweep.SaveAxes(to, axes); err != nil {
		return err
	}
	finished := map[string]sweep.Record{}
	if err := sweep.Finished(to, finished); err != nil {
		return err
	}
	all := axes.Cells()
	mine := all
	if parts > 1 {
		mine = sweep.Shard(all, part, parts)
	}
	left := slices.DeleteFunc(slices.Clone(mine), func(c sweep.Cell) bool { _, ok := finished[c.ID]; return ok })
	if len(left) > 0 {
		if err := a.runSweep(ctx, o, to, axes, finished, mine, left); err != nil {
			return err
		}
	}
	if o.dry {
		return nil
	}
	if parts > 1 {
		a.Notef("part %d of %d: %s finished; overlapse sweep --merge %s -o RESULTS joins the parts", part+1, parts, words.Counted(len(mine), "cell"), plain.Line(o.out))
		return nil
	}
	finished = map[string]sweep.Record{}
	if err := sweep.Finished(to, finished); err != nil {
		return err
	}
	rows, err := axes.Rows(finished)
	if err != nil {
		return err
	}
	return a.sweepResults(o, to, axes, rows)
}

// sampled is the number of cells that the estimate of the cost replays; batchSeconds is how
// much work is lost at most when a process is killed.
const (
	sampled      = 8
	batchSeconds = 5
)

// runSweep replays the cells that are left: first a sample, for the estimate.
func (a *app) runSweep(ctx context.Context, o sweepOptions, to sweep.Folder, axes *sweep.Axes, finished map[string]sweep.Record, mine, left []sweep.Cell) error {
	start := time.Now()
	var bar *console.Progress
	r := sweep.Runner{
		Axes: axes, Jobs: o.jobs, Batch: batchSeconds, Stop: input.StopFunc(ctx),
		Clock: func() float64 { return time.Since(start).Seconds() },
		Load:  func(g sweep.Group) (*sweep.Subject, error) { return a.sweepSubject(ctx, o.plan, g) },
		Done:  func() { bar.Add(1) },
		Save: func(records []sweep.Record) error {
			for _, rec := range records {
				finished[rec.ID] = rec
			}
			return sweep.SaveBatch(to, records)
		},
	}
	sample := sweep.Sample(left, sampled)
	a.Notef("%s: %s of %s; %d finished before", plain.Line(o.plan), words.Counted(len(mine), "cell"), words.Counted(len(axes.Groups()), "workload"), len(mine)-len(left))
	if o.dry {
		bar = a.Progress(len(sample), "estimating")
	} else {
		bar = a.Progress(len(left), "replaying")
	}
	defer bar.Finish()
	if err := r.Run(sample); err != nil {
		return results.Stopped(ctx, err)
	}
	var seconds float64
	for _, c := range sample {
		seconds += finished[c.ID].Seconds
	}
	rest := len(left) - len(sample)
	a.Notef("the rest, %s, takes about %s of one core (%d sample cells: %.3g s each)", words.Counted(rest, "cell"),
		words.Seconds(seconds/float64(len(sample))*float64(rest)), len(sample), seconds/float64(len(sample)))
	if o.dry {
		return ctx.Err()
	}
	left = slices.DeleteFunc(left, func(c sweep.Cell) bool { _, ok := finished[c.ID]; return ok })
	if err := r.Run(left); err != nil {
		return results.Stopped(ctx, err)
	}
	if ctx.Err() != nil {
		kept := 0
		for _, c := range mine { // the folder may hold cells of other plans and shards
			if _, ok := finished[c.ID]; ok {
				kept++
			}
		}
		a.Notef("interrupted: %d of %s are finished and kept", kept, words.Counted(len(mine), "cell"))
	}
	return ctx.Err()
}

// sweepAxes reads a plan and the content of the files that it names.
func (a *app) sweepAxes(path string) (*sweep.Axes, error) {
	in, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (a plan of a sweep)", path, files.WithoutPath(err))
	}
	defer in.Close()
	p, err := sweep.Parse(in, path)
	if err != nil {
		return nil, err
	}
	return p.Resolve(programVersion(), a.readingOptions(),
		func(name string) (string, error) { return a.InputDigest(input.Besides(path, name)) },
		func(name string) (string, error) { return a.MachineDigest(input.BesidesMachine(path, name)) })
}

// readingOptions are the options that change what is read. Without --skip-bad, a larger input
// than --limit is an error, which no cell keeps.
func (a *app) readingOptions() string {
	if !a.SkipBad {
		return ""
	}
	return fmt.Sprintf("--skip-bad --limit %d", a.Limit)
}

// sweepSubject reads, lifts and replays what the cells of a group share.
func (a *app) sweepSubject(ctx context.Context, planPath string, g sweep.Group) (*sweep.Subject, error) {
	quiet := &input.Reader{Console: &console.Console{In: a.In, Out: io.Discard, Err: io.Discard, Bar: io.Discard, Quiet: true}, Limit: a.Limit, SkipBad: a.SkipBad} // notes of each group would hide the sweep's own
	f := input.Flags{Path: input.Besides(planPath, g.Input), Strategy: "captured", Clock: cmp.Or(g.Clock, "captured"), Ranks: g.Ranks}
	if g.Machine != "" {
		f.Machine = input.BesidesMachine(planPath, g.Machine)
	}
	if g.Retarget != "" {
		f.Retarget = input.BesidesMachine(planPath, g.Retarget)
	}
	_, w, m, err := input.Prepare(quiet, f, engines.ParseSelection)
	if code, _ := cli.Code(err); code == cli.Usage { // as --ranks on a workload file: a result, not a failure
		return &sweep.Subject{Why: strings.TrimSpace(err.Error())}, nil
	}
	if err != nil {
		return nil, err
	}
	if altered, err := input.ParseWhatIf(g.WhatIf); err != nil {
		return nil, err
	} else if len(altered) > 0 {
		w, m = retarget.WhatIf(w, m, altered)
		if w, err = compare.Isolate(w, m, nil); err != nil {
			return nil, err
		}
	}
	base, err := compare.Run(w, m, engines.CapturedSelection(), f.Scenario(), replay.Options{Stop: input.StopFunc(ctx)})
	if err != nil {
		return nil, results.Stopped(ctx, fmt.Errorf("%s: %w", f.Path, err))
	}
	if base.Result == nil {
		return nil, fmt.Errorf("%s: %s", f.Path, base.Why)
	}
	return &sweep.Subject{Workload: w, Machine: m, Scenario: f.Scenario(), Captured: int64(base.Time)}, nil
}

// mergeSweep joins the cells of several folders.
func (a *app) mergeSweep(o sweepOptions) error {
	var folders []sweep.Folder
	finished := map[string]sweep.Record{}
	for _, from := range o.from {
		f := sweep.Folder{Files: &a.files, Path: from}
		folders = append(folders, f)
		if err := sweep.Finished(f, finished); err != nil {
			return err
		}
	}
	var axes *sweep.Axes
	var err error
	if o.plan != "" {
		axes, err = a.sweepAxes(o.plan)
	} else {
		axes, err = sweep.StoredAxes(folders)
	}
	if err != nil {
		return err
	}
	rows, err := axes.Rows(finished)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(o.from, ", "), err)
	}
	if o.out == "" {
		o.out = o.from[0]
	}
	return a.sweepResults(o, sweep.Folder{Files: &a.files, Path: o.out}, axes, rows)
}

// sweepResults writes the files of a complete sweep, and prints the best settings.
func (a *app) sweepResults(o sweepOptions, to sweep.Folder, axes *sweep.Axes, rows []sweep.Row) error {
	found := sweep.Of(axes, rows)
	if err := found.Save(to, axes); err != nil {
		return err
	}
	said := map[string]bool{}
	for _, r := range rows {
		if r.Damage != "" && !said[r.Input] {
			said[r.Input] = true
			a.Notef("%s: %s", plain.Line(r.Input), r.Damage)
		}
	}
	a.Notef("wrote results.json, results.csv, results.parquet and results.html to %s", plain.Line(o.out))
	if o.format == "json" {
		return schema.WriteJSON(a.Out, found)
	}
	found.Print(a.Console)
	return nil
}
