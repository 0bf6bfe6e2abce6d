package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/viz/layout"
)

// open reads a trace from a file, a folder of ranks, a glob, an archive or "-",
// or makes the run of a workload file on a machine; "" is the one that the file names.
func (a *app) open(path, machineName string) (*trace.Run, error) {
	if isYAML(path) {
		run, _, err := a.estimate(path, machineName)
		return run, err
	}
	defer collectOften()()
	o := a.reading()
	o.Progress = cmp.Or(a.read, new(format.Progress))
	defer a.waiting(func() string { return readingLine(o.Progress, "joining ranks") })()
	run, err := a.openAll(path, o)
	var p *fs.PathError
	if errors.As(err, &p) && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file or folder (give a trace, a folder with one trace per rank, or - for standard input)", path)
	}
	return run, err
}

// openAll opens the paths that input gave a name, or one.
func (a *app) openAll(path string, o format.Options) (*trace.Run, error) {
	if paths := a.inputs[path]; paths != nil {
		return format.OpenAll(paths, path, o)
	}
	return format.Open(path, o)
}

// collectOften makes the heap grow by less between collections until undo is called. Runs
// are large and have few pointers, so a collection takes milliseconds.
func collectOften() (undo func()) {
	const percent = 25
	was := debug.SetGCPercent(percent)
	if was >= 0 && was < percent { // the user's GOGC
		debug.SetGCPercent(was)
	}
	return func() { debug.SetGCPercent(was) }
}

// readingLine says how far reading is, and what follows when all is read.
func readingLine(p *format.Progress, then string) string {
	line := "reading"
	if file := p.File(); file != "" {
		line += " " + shorten(filepath.Base(file), 30)
	}
	read, total, events := p.Read.Load(), p.Total.Load(), p.Events.Load()
	switch {
	case total > 0 && read >= total:
		line = then
	case total > 0:
		line += fmt.Sprintf(", %d %% of %s", min(100, 100*read/total), layout.Bytes(total))
	case read > 0:
		line += ", " + layout.Bytes(read)
	}
	if events > 0 {
		line += fmt.Sprintf(", %d events", events)
	}
	return line
}

// input is the name under which open finds a trace given as one path or several.
func (a *app) input(paths []string) string {
	if len(paths) == 1 {
		return paths[0]
	}
	name := fmt.Sprintf("%s and %d more", paths[0], len(paths)-1)
	a.inputs = map[string][]string{name: paths}
	return name
}

// reading is the options of the readers from the flags.
func (a *app) reading() format.Options {
	const most = 1 << 40 // MiB
	o := format.Options{Stdin: a.in, Limit: max(0, min(a.limit, most)) << 20}
	if a.skipBad {
		o.SkipBad = func(err error) { a.notef("skipped: %v", err) }
	}
	return o
}

// one reads a trace that holds one run, as open does.
func (a *app) one(path, machineName string) (*trace.Run, error) {
	run, err := a.open(path, machineName)
	if err != nil {
		return nil, err
	}
	if runs := trace.Split(run); len(runs) > 1 {
		var names []string
		for _, r := range runs {
			names = append(names, r.Name)
		}
		return nil, fmt.Errorf("%s: contains %d runs side by side: %s (overlapse view shows them; give the trace that they were predicted from)", path, len(runs), strings.Join(names, ", "))
	}
	if a.outside == "" {
		return run, nil
	}
	outside, err := a.open(a.outside, "")
	if err != nil {
		return nil, err
	}
	named, n, of := trace.NameGraphs(run, outside)
	a.notef("%d of %d kernels of captured graphs take operators and sizes from %s", n, of, a.outside)
	return named, nil
}

// outsideFlag adds the flag for a capture without graphs.
func (a *app) outsideFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.outside, "outside-graph", "", "capture of the same step launched without a graph: kernels of captured graphs take operators and sizes from it")
}

// subject loads the workload that a command replays and its machine. The workload
// is a trace, or a workload file, whose durations come from the machine.
func (a *app) subject(path, machineName string, o workload.Options) (*workload.Workload, machine.Machine, error) {
	if isYAML(path) {
		run, m, err := a.estimate(path, machineName)
		if err != nil {
			return nil, m, err
		}
		w, err := a.workload(run, path, o)
		return w, m, err
	}
	w, err := a.lift(path, o)
	if err != nil {
		return nil, machine.Machine{}, err
	}
	m, err := a.machineFor(machineName, w)
	if err == nil {
		if note := workload.GuessSizes(w, &m); note != "" {
			w.Notes = append(w.Notes, note)
			a.notef("%s", note)
		}
	}
	return w, m, err
}

// isYAML reports whether a path is a workload file or a machine file.
func isYAML(path string) bool {
	return strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml")
}

// estimate makes the run of a workload file on the named machine, or on the one
// that the file names.
func (a *app) estimate(path, machineName string) (*trace.Run, machine.Machine, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, machine.Machine{}, err
	}
	defer in.Close()
	f, err := operator.Parse(in, path)
	if err != nil {
		return nil, machine.Machine{}, err
	}
	if file, _, _ := profile.CutCount(f.Machine); isYAML(file) && !filepath.IsAbs(file) {
		f.Machine = filepath.Join(filepath.Dir(path), f.Machine)
	}
	m, err := a.machineNamed(cmp.Or(machineName, f.Machine), f.Ranks)
	switch {
	case err != nil && machineName != "":
		return nil, m, err
	case err != nil:
		return nil, m, fmt.Errorf("%s: %s", path, err.Error()) // an error of the file, not of the command line
	}
	run, err := f.Run(m)
	return run, m, err
}

// lift reads a trace with device work and turns it into a workload.
func (a *app) lift(path string, o workload.Options) (*workload.Workload, error) {
	run, err := a.one(path, "")
	if err != nil {
		return nil, err
	}
	return a.workload(run, path, o)
}

// workload turns a run with device work into the workload that strategies change.
func (a *app) workload(run *trace.Run, path string, o workload.Options) (*workload.Workload, error) {
	w, err := workload.Lift(run, o)
	if err != nil {
		return nil, liftError(path, err)
	}
	if len(w.Ops) == 0 {
		return nil, fmt.Errorf("%s: no GPU kernel or copy among its %d events (record GPU activity too: ProfilerActivity.CUDA, or rocprofv3 --kernel-trace)", path, len(run.Spans))
	}
	for _, n := range w.Notes {
		a.notef("%s", n)
	}
	return w, nil
}
