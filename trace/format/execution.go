package format

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// executionFolders are the names of a folder, beside the profiles of a run, with the
// profile and the execution trace of another step of the same program.
var executionFolders = []string{"et", "execution", "execution_trace", "execution_traces"}

// executionBelow lists the execution traces in folders below.
func (o Options) executionBelow(dir string) (below []listing) {
	for _, name := range executionFolders {
		if l, err := o.listFolder(filepath.Join(dir, name)); err == nil && len(l.traces) > 0 {
			below = append(below, l)
		}
	}
	return below
}

// withExecution gives a run the storages that an execution trace in a folder below
// recorded, and those of one rank to ranks without an execution trace. It returns the
// folders that it read. An execution trace that cannot be read is noted.
func (r *reading) withExecution(run *trace.Run, o Options) (with *trace.Run, read []string) {
	for _, l := range r.execution {
		if lacksUses(run) {
			read = append(read, l.path)
			run = o.withStorages(run, l.traces, l.path)
		}
	}
	return run, read
}

// withStorages gives a run the storages that the execution traces among some files
// recorded.
func (o Options) withStorages(run *trace.Run, files []string, name string) *trace.Run {
	ignore := func(err error) {
		run.Ledger.Add(trace.Noted, name, "execution trace ignored: "+err.Error(), "", 0)
	}
	o.SkipBad = ignore
	other, err := openFiles(files, name, o)
	if err != nil {
		ignore(err)
		return run
	}
	return assemble.Transfer(run, other, name)
}

// splitExecution separates the files of an archive that lie in a folder for execution
// traces, if there are others.
func splitExecution(paths []string) (rest, execution []string) {
	for _, p := range paths {
		if slices.Contains(executionFolders, path.Base(path.Dir(p))) {
			execution = append(execution, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(rest) == 0 {
		return paths, nil
	}
	return rest, execution
}

// lacksUses reports whether a rank has no storages.
func lacksUses(run *trace.Run) bool {
	known := make([]bool, len(run.Ranks))
	for _, s := range run.Spans {
		if run.UsesOf(s) != 0 {
			known[run.RankOf(s)] = true
		}
	}
	return slices.Contains(known, false)
}

// besideFile lists a profile and its execution trace, rank0.json.gz and rank0.et.json.gz,
// if there is one.
func besideFile(file string) []string {
	stem, ok := strings.CutSuffix(strings.TrimSuffix(file, ".gz"), ".json")
	if !ok || strings.HasSuffix(stem, ".et") {
		return []string{file}
	}
	for _, end := range []string{".et.json", ".et.json.gz"} {
		if isFile(stem + end) {
			return []string{file, stem + end}
		}
	}
	return []string{file}
}
