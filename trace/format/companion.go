package format

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// companions are the execution traces among the files of a run. Kineto readers,
// which run in parallel, take theirs from here.
type companions struct {
	all  []*assemble.Execution
	sole bool    // there is one Kineto file
	bad  []error // of those that cannot be read

	mu   sync.Mutex
	used map[*assemble.Execution]bool
}

// takeCompanions reads the execution traces among the parts and returns the others.
func (o Options) takeCompanions(all []part) (rest []part, c *companions, err error) {
	if len(all) == 1 {
		return all, nil, nil
	}
	c = &companions{used: map[*assemble.Execution]bool{}}
	alone := 0 // execution traces that may be read without a profile
	for _, p := range all {
		x, readable, err := o.openExecution(p)
		if readable {
			alone++
		}
		switch {
		case err != nil && o.SkipBad != nil:
			c.bad = append(c.bad, err)
		case err != nil:
			return nil, nil, err
		case x != nil:
			c.all = append(c.all, x)
		default:
			rest = append(rest, p)
		}
	}
	switch {
	case len(c.all) == 0 && len(c.bad) == 0:
		return rest, nil, nil
	case len(rest) == 0 && len(c.bad) > 0:
		return nil, nil, c.bad[0]
	case len(rest) == 0 && alone == len(c.all):
		return all, nil, nil
	case len(rest) == 0:
		return nil, nil, assemble.Alone(c.all[0].File)
	}
	c.sole = len(rest) == 1
	return rest, c, nil
}

// openExecution reads the part if it is an execution trace; else it returns nil. alone reports whether
// its format may also be read without a profile.
func (o Options) openExecution(p part) (x *assemble.Execution, alone bool, err error) {
	if len(p.paths) != 1 {
		return nil, false, nil
	}
	o.Progress = nil // what is no execution trace is read again
	f, err := o.open(p.paths[0])
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	in, err := o.input(f, o.nameOf(p.paths[0]))
	if err != nil {
		return nil, false, nil // its reader says so
	}
	defer in.close()
	for _, row := range o.formats {
		if row.sniff(in.head, in.name) {
			if row.execution == nil {
				return nil, false, nil
			}
			x, err = row.execution(in.text(), in.name, o.budget.limit)
			return x, row.read != nil, err
		}
	}
	return nil, false, nil
}

// of returns the execution trace of a rank: the one whose file is named so, of
// several or none the one that is of a process of the file, and to a file that
// is alone, the only one unless it is named after another rank.
func (c *companions) of(rank int, hasProcess func(int64) bool) *assemble.Execution {
	x := c.find(rank, hasProcess)
	if x != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.used[x] = true
	}
	return x
}

func (c *companions) find(rank int, hasProcess func(int64) bool) *assemble.Execution {
	var named, of []*assemble.Execution
	for _, x := range c.all {
		if x.Rank == rank && rank != trace.None {
			named = append(named, x)
		}
		if x.Process != 0 && hasProcess(x.Process) {
			of = append(of, x)
		}
	}
	switch {
	case len(named) == 1:
		return named[0]
	case len(of) == 1:
		return of[0]
	case c.sole && len(c.all) == 1 && (rank == trace.None || trace.RankInName(c.all[0].File) == trace.None):
		return c.all[0]
	}
	return nil
}

// noteUnused adds ledger entries for execution traces that were not used or cannot be read.
func (c *companions) noteUnused(run *trace.Run, skipped func(error)) {
	if c == nil {
		return
	}
	for _, err := range c.bad {
		skipped(err)
		noteBad(run, err)
	}
	for _, x := range c.all {
		if !c.used[x] {
			run.Ledger.Add(trace.Noted, x.File, "execution trace ignored: no file is of its rank or process", "", 0)
		}
	}
}

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

// inExecutionFolder reports whether a file of an archive lies in a folder for execution traces.
func inExecutionFolder(file string) bool {
	return slices.Contains(executionFolders, path.Base(path.Dir(file)))
}

// split separates files by what they are, if there are others.
func split(files []string, is func(string) bool) (rest, those []string) {
	for _, f := range files {
		if is(f) {
			those = append(those, f)
		} else {
			rest = append(rest, f)
		}
	}
	if len(rest) == 0 {
		return files, nil
	}
	return rest, those
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

// captureFolders are where engines leave what they profiled while they captured graphs: vLLM in files
// graph_capture_rank_0.*, SGLang in files DecodeCudaGraphRunner_bs_32_lora_rank0.*, bs_32_rank0.* before it, or
// cuda_graph_capture-DecodeCudaGraphRunner-TP-0.*. Beside them are the profiles of the replays. A
// profile of the same step without a graph may be put there too.
var captureFolders = []string{"capture_traces", "graph_capture_profile"}

var captureFile = regexp.MustCompile(`^(?:cuda_)?graph_capture|(?:^|Runner_)bs_\d+_(?:\w+_)?rank\d+`)

// isCapture reports whether a file is a profile of the capture of graphs, by its name.
func isCapture(file string) bool {
	return captureFile.MatchString(filepath.Base(file)) || slices.Contains(captureFolders, filepath.Base(filepath.Dir(file)))
}

// capturesBelow lists the files of the folder of captures below.
func (o Options) capturesBelow(dir string) (files []string) {
	for _, folder := range captureFolders {
		if l, err := o.listFolder(filepath.Join(dir, folder)); err == nil && !slices.Contains(captureFolders, filepath.Base(dir)) {
			files = append(files, l.traces...)
		}
	}
	return files
}

// capturesAmong separates runs that recorded the capture of graphs from those of the same rank
// that replay them.
func capturesAmong(runs []*trace.Run) (rest, captures []*trace.Run) {
	for i, r := range runs {
		replayed := len(r.Captured) > 0 && slices.ContainsFunc(runs, func(q *trace.Run) bool {
			return q != runs[i] && len(q.Captured) == 0 && len(r.Ranks) > 0 && len(q.Ranks) > 0 && q.Ranks[0].ID == r.Ranks[0].ID
		})
		if replayed {
			captures = append(captures, r)
		} else {
			rest = append(rest, r)
		}
	}
	return rest, captures
}

// withCaptures gives the kernels of graphs what captures say of them. A capture that cannot be read is noted.
func (o Options) withCaptures(run *trace.Run, captures []*trace.Run, files []string) *trace.Run {
	o.companions = nil
	all := make([]part, len(files))
	for i, file := range files {
		all[i].paths = []string{file}
	}
	read, failed := o.readAll(all)
	for i, r := range read {
		switch {
		case failed[i] == nil:
			captures = append(captures, r)
		case !isNoTrace(failed[i]): // a list of the captures lies beside them
			run.Ledger.Add(trace.Noted, files[i], "capture of graphs ignored: "+failed[i].Error(), "", 0)
		}
	}
	if len(captures) == 0 {
		return run
	}
	return assemble.NameGraphs(run, captures)
}
