package format

import (
	"os" // opening what the user names is what this package is for
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

// withExecution gives a run the storages that an execution trace in a folder below
// recorded, and those of one rank to ranks without an execution trace. It returns the
// folders that it read. An execution trace that cannot be read is noted.
func withExecution(run *trace.Run, dir string, folders []string, o Options) (*trace.Run, []string) {
	var read []string
	for _, name := range folders {
		if o.Head > 0 || !slices.Contains(executionFolders, name) || !lacksUses(run) {
			continue
		}
		below := filepath.Join(dir, name)
		l, err := o.listFolder(below)
		if err != nil || len(l.traces) == 0 {
			continue
		}
		read = append(read, name)
		run = o.withStorages(run, l.traces, below)
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
		if info, err := os.Stat(stem + end); err == nil && info.Mode().IsRegular() {
			return []string{file, stem + end}
		}
	}
	return []string{file}
}
