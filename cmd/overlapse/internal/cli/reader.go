package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/guard"
)

// A Reader reads traces, workload files and machines as the flags of every command say.
type Reader struct {
	*Console
	Context context.Context     // ends reading
	Limit   int64               // MiB to read of all files; 0: the default
	SkipBad bool                // skip files of a run that cannot be read
	Inputs  map[string][]string // paths of a trace that was given as several paths, by its name
	Read    *format.Progress    // of the trace that is opened; nil: only Waiting shows it

	Kept map[string]*trace.Run // by path: read once; nil: as often as it is asked for

	OwnNotes bool // the command says itself what a workload lacks: it is no note
}

// Open reads a trace from a file, a folder of ranks, a glob, an archive or "-",
// or makes the run of a workload file on a machine; "" is the one that the file names.
func (r *Reader) Open(path, machineName string) (*trace.Run, error) {
	if IsYAML(path) {
		run, _, err := r.estimate(path, machineName)
		return run, err
	}
	if run := r.Kept[path]; run != nil {
		return run, nil
	}
	defer CollectOften()()
	o := r.Reading()
	o.Progress = cmp.Or(r.Read, new(format.Progress))
	p := o.Progress
	defer r.Waiting(func() string { return ReadingLine(p, "joining ranks") }, func() float64 {
		return float64(p.Read.Load()) / float64(max(1, p.Total.Load()))
	})()
	run, err := r.openAll(path, o)
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file or folder (give a trace, a folder with one trace per rank, or - for standard input)", path)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range run.Damage().Sentences {
		r.Notef("%s", s)
	}
	if r.Kept != nil {
		r.Kept[path] = run
	}
	return run, nil
}

// openAll opens the paths that Input gave a name, or one. A pipe that is the only path, as of
// <(zcat FILE), is read as standard input is; among others it is refused.
func (r *Reader) openAll(path string, o format.Options) (*trace.Run, error) {
	if paths := r.Inputs[path]; paths != nil {
		return format.OpenAll(paths, path, o)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		pipe, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, WithoutPath(err))
		}
		defer pipe.Close()
		o.Stdin, path = pipe, "-"
	}
	return format.Open(path, o)
}

// CollectOften makes the heap grow by less between collections until undo is called. Runs
// are large and have few pointers, so a collection takes milliseconds.
func CollectOften() (undo func()) {
	const percent = 25
	was := debug.SetGCPercent(percent)
	if was >= 0 && was < percent { // the user's GOGC
		debug.SetGCPercent(was)
	}
	return func() { debug.SetGCPercent(was) }
}

// ReadingLine says how far reading is, and what follows when all is read.
func ReadingLine(p *format.Progress, then string) string {
	line := "reading"
	if file := p.File(); file != "" {
		line += " " + Shorten(filepath.Base(file), 30)
	}
	read, total, events := p.Read.Load(), p.Total.Load(), p.Events.Load()
	switch {
	case total > 0 && read >= total:
		line = then
	case total > 0:
		line += fmt.Sprintf(", %d %% of %s", min(100, 100*read/total), trace.Bytes(total))
	case read > 0:
		line += ", " + trace.Bytes(read)
	}
	if events > 0 {
		line += fmt.Sprintf(", %d events", events)
	}
	return line
}

// Reading is the options of the readers from the flags.
func (r *Reader) Reading() format.Options {
	const most = 1 << 40 // MiB
	o := format.Options{Context: r.Context, Stdin: r.In, Limit: max(0, min(r.Limit, most)) << 20}
	if r.SkipBad {
		o.SkipBad = func(err error) { r.Notef("skipped: %v", err) }
	}
	return o
}

// One reads a trace that holds one run, as open does.
func (r *Reader) One(path, machineName string) (*trace.Run, error) {
	run, err := r.Open(path, machineName)
	if err != nil {
		return nil, err
	}
	if runs := assemble.Split(run); len(runs) > 1 {
		var names []string
		for _, r := range runs {
			names = append(names, r.Name)
		}
		return nil, fmt.Errorf("%s: contains %d runs side by side: %s (overlapse view shows them; give the trace that they were predicted from)", path, len(runs), strings.Join(names, ", "))
	}
	return run, nil
}

// subject loads the workload that a command replays and its machine. The workload
// is a trace, or a workload file, whose durations come from the machine.
func (r *Reader) subject(path, machineName string, o lift.Options) (*workload.Workload, machine.Machine, error) {
	if IsYAML(path) {
		run, m, err := r.estimate(path, machineName)
		if err != nil {
			return nil, m, err
		}
		w, err := r.Workload(run, path, o)
		return w, m, err
	}
	w, err := r.lift(path, o)
	if err != nil {
		return nil, machine.Machine{}, err
	}
	m, err := r.MachineFor(machineName, w)
	if err == nil {
		if note := lift.GuessSizes(w, &m); note != "" {
			w.Notes = append(w.Notes, note)
			r.Notef("%s", note)
		}
	}
	return w, m, err
}

// IsYAML reports whether a path is a workload file or a machine file.
func IsYAML(path string) bool {
	return strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml")
}

// estimate makes the run of a workload file on the named machine, or on the one
// that the file names.
func (r *Reader) estimate(path, machineName string) (*trace.Run, machine.Machine, error) {
	in, err := guard.Open(path)
	if err != nil {
		return nil, machine.Machine{}, err
	}
	defer in.Close()
	f, err := operator.Parse(in, path, nil)
	if err != nil {
		return nil, machine.Machine{}, err
	}
	if file, _, _ := machine.CutCount(f.Machine); IsYAML(file) && !filepath.IsAbs(file) {
		f.Machine = filepath.Join(filepath.Dir(path), f.Machine)
	}
	m, err := r.MachineNamed(cmp.Or(machineName, f.Machine), f.Ranks)
	switch {
	case err != nil && machineName != "":
		return nil, m, err
	case err != nil:
		return nil, m, Exit(Failed, "%s: %w", path, err) // not of the command line
	}
	run, err := f.Run(m)
	return run, m, err
}

// lift reads a trace with device work and turns it into a workload.
func (r *Reader) lift(path string, o lift.Options) (*workload.Workload, error) {
	run, err := r.One(path, "")
	if err != nil {
		return nil, err
	}
	return r.Workload(run, path, o)
}

// Workload turns a run with device work into the workload that strategies change.
func (r *Reader) Workload(run *trace.Run, path string, o lift.Options) (*workload.Workload, error) {
	done := r.Waiting(func() string { return "finding operations and what they wait for" }, nil)
	w, err := lift.Workload(run, o)
	done()
	if err != nil {
		return nil, LiftError(path, err)
	}
	if len(w.Ops) == 0 {
		return nil, fmt.Errorf("%s: no GPU kernel or copy among its %d events (record GPU activity too: ProfilerActivity.CUDA, or rocprofv3 --kernel-trace)", path, len(run.Spans))
	}
	if !r.OwnNotes {
		for _, n := range w.Notes {
			r.Notef("%s", n)
		}
	}
	return w, nil
}

// DataflowFlag adds the flag for a file of corrections.
func DataflowFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "dataflow", "", "YAML file with what the trace does not say: what operations read, and shapes of GEMMs (trace/FORMATS.md)")
}

// ReadCorrections reads the file of the flag; none for "".
func ReadCorrections(path string) ([]lift.Correction, error) {
	if path == "" {
		return nil, nil
	}
	in, err := guard.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return lift.ParseCorrections(in, path)
}

// LiftError is the error of lifting the run of a path. One about a file of corrections
// names that file.
func LiftError(path string, err error) error {
	var syntax *trace.SyntaxError
	if errors.As(err, &syntax) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// IsFile reports whether a path is a regular file.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
