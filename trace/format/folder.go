package format

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os" // opening what the user names is what this package is for
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// maxNesting is how deep rocprofv3's folders go: output/host/process.
const maxNesting = 3

// A listing is what lies in a folder.
type listing struct {
	path         string
	traces       []string // files that may be traces by their names
	folders      []string // names
	others       []string // names
	isThread     bool     // it is a thread trace
	threadTraces []string // folders below that are
	unlike       bool     // there are traces below that are not nested as those of one run
}

// listFolder looks at a folder.
func (o Options) listFolder(path string) (l listing, err error) {
	l.path = path
	entries, err := os.ReadDir(path)
	if err != nil {
		return l, &trace.SyntaxError{File: path, Msg: "cannot read the folder", Err: err}
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."):
		case name == occupancyFile && !e.IsDir():
			l.isThread = true
		case e.IsDir():
			l.folders = append(l.folders, name)
		case o.mayBeTrace(name):
			l.traces = append(l.traces, filepath.Join(path, name))
		default:
			l.others = append(l.others, name)
		}
	}
	l.traces = slices.DeleteFunc(l.traces, func(file string) bool { // JAX's profiler writes both, and has the programs in one
		stem, ok := strings.CutSuffix(strings.TrimSuffix(file, ".gz"), ".trace.json")
		return ok && slices.Contains(l.traces, stem+".xplane.pb")
	})
	return l, nil
}

// latestProfile is the folder of the last profile in a folder that JAX's profiler was given; or the given folder.
func latestProfile(path string) string {
	all := filepath.Join(path, "plugins", "profile")
	entries, _ := os.ReadDir(all) // named after the time
	for _, e := range slices.Backward(entries) {
		if e.IsDir() {
			return filepath.Join(all, e.Name())
		}
	}
	return path
}

// A reading is what opening a path reads.
type reading struct {
	folder    bool // the path is a folder
	listing        // of it; files in folders below it are read where the files are no traces
	thread    string
	files     []string  // of the run, with execution traces beside them
	execution []listing // folders with execution traces of another step
}

// Files lists the files that Open reads at a path, and files that it reads only if
// others turn out to be no traces. It is nil for -.
func Files(path string, o Options) ([]string, error) {
	if path == "-" {
		return nil, nil
	}
	r, err := o.begin().find(path)
	if err != nil {
		return nil, err
	}
	files := slices.Clone(r.files)
	if r.thread == "" && len(r.folders) > 0 {
		nested, err := r.nested(path, maxNesting, o.begin())
		if err != nil && len(files) == 0 {
			return nil, err
		}
		files = append(files, nested...)
	}
	for _, l := range r.execution {
		files = append(files, l.traces...)
	}
	for _, f := range files {
		for _, end := range [...]string{"-wal", "-journal"} { // SQLite reads them
			if isFile(f + end) {
				files = append(files, f+end)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// find looks for the files at a path. It does not open them.
func (o Options) find(path string) (*reading, error) {
	info, err := os.Stat(path)
	r := &reading{folder: err == nil && info.IsDir()}
	switch {
	case !r.folder && err == nil && filepath.Base(path) == occupancyFile:
		r.thread = filepath.Dir(path)
	case !r.folder:
		if r.files, err = o.filesAt(path); err != nil {
			return nil, err
		}
		dir := filepath.Dir(r.files[0])
		if len(r.files) == 1 {
			r.files = besideFile(r.files[0])
		}
		if !slices.ContainsFunc(r.files, func(f string) bool { return filepath.Dir(f) != dir }) {
			r.execution = o.executionBelow(dir)
			r.files = append(r.files, o.capturesBelow(dir)...)
		}
		return r, nil
	default:
		path = latestProfile(path)
		if r.listing, err = o.listFolder(path); err != nil {
			return nil, err
		}
		if r.isThread {
			r.thread = path
		}
	}
	if r.thread != "" {
		r.files = []string{filepath.Join(r.thread, occupancyFile)}
		if clock := filepath.Join(r.thread, realtimeFile); isFile(clock) {
			r.files = append(r.files, clock)
		}
		return r, nil
	}
	r.files = r.traces
	if len(r.files) > 0 {
		r.execution = o.executionBelow(path)
		r.files = append(r.files, o.capturesBelow(path)...)
	}
	return r, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// openFolder reads the files of a folder that may be traces by their names. If
// there are none, or only such as have no times, those are read that lie in
// folders below as rocprofv3 or a job with a folder a rank leaves them.
func (r *reading) openFolder(o Options) (*trace.Run, error) {
	if len(r.files) > 0 {
		run, err := openFiles(r.files, r.path, o)
		if err == nil {
			var execution []string
			run, execution = r.withExecution(run, o)
			for _, name := range r.folders {
				below := filepath.Join(r.path, name)
				if slices.Contains(execution, below) || slices.Contains(captureFolders, name) {
					continue
				}
				run.Ledger.Add(trace.Noted, below, "folder ignored: open it separately", "", 0)
			}
		}
		if err == nil || !isNoTrace(err) || len(r.folders) == 0 {
			return run, err
		}
	}
	nested, err := r.nested(r.path, maxNesting, o)
	switch {
	case err != nil:
		return nil, err
	case len(nested) > 0 && !r.unlike:
		o.root = r.path
		return r.openNested(append(r.traces, nested...), r.path, o)
	case len(r.files) > 0:
		return openFiles(r.files, r.path, o)
	}
	failed := &trace.SyntaxError{File: r.path, Msg: "the folder is empty", Cure: o.supported()}
	switch {
	case len(r.folders) > 0:
		failed.Msg = "no trace in this folder, but folders: " + list(r.folders)
		failed.Cure = "give one of them"
	case len(r.others) > 0:
		failed.Msg = "no trace in this folder, only " + list(r.others)
	}
	return nil, failed
}

func (l *listing) openNested(paths []string, path string, o Options) (*trace.Run, error) {
	run, err := openFiles(paths, path, o)
	if err != nil {
		return nil, err
	}
	for _, t := range l.threadTraces {
		run.Ledger.Add(trace.Noted, t, "thread trace ignored: open its folder separately", "", 0)
	}
	return run, nil
}

// nested finds traces in the folders below: what rocprofv3 names, in folders of
// any name, and any trace in folders that are named after a rank.
func (l *listing) nested(path string, depth int, o Options) (paths []string, err error) {
	for _, name := range l.folders {
		below := filepath.Join(path, name)
		sub, err := o.listFolder(below)
		if err != nil {
			return nil, err
		}
		if sub.isThread {
			l.threadTraces = append(l.threadTraces, below)
			continue
		}
		ofRank := trace.RankOfFolder(name) != trace.None
		for _, p := range sub.traces {
			stem, ok := rocprof.Stem(filepath.ToSlash(p))
			if ofRank || ok && !strings.HasSuffix(stem, "/") {
				paths = append(paths, p)
			} else {
				l.unlike = true
			}
		}
		if depth > 1 {
			deeper, err := sub.nested(below, depth-1, o)
			if err != nil {
				return nil, err
			}
			paths = append(paths, deeper...)
			l.threadTraces = append(l.threadTraces, sub.threadTraces...)
			l.unlike = l.unlike || sub.unlike
		}
	}
	if len(paths) > maxFiles {
		return nil, &trace.SyntaxError{
			File: path, Msg: fmt.Sprintf("over %d traces in the folders below", maxFiles),
			Cure: "give the folder of one run",
		}
	}
	return paths, nil
}

// maxFiles is more than a run has.
const maxFiles = 1 << 16

// nameHosts sets the host of runs whose clock counts from boot: rocprofv3 names
// the folder after the host.
func (o Options) nameHosts(runs []*trace.Run) {
	if o.root == "" {
		return
	}
	for _, r := range runs {
		for i := range r.Ranks {
			k := &r.Ranks[i]
			below, err := filepath.Rel(o.root, k.Source)
			host, _, nested := strings.Cut(filepath.ToSlash(below), "/")
			if err == nil && nested && k.Host == "" && r.Clock != 0 && strings.Trim(host, "0123456789") != "" &&
				trace.RankOfFolder(host) == trace.None {
				k.Host = host
			}
		}
	}
}

// The files of a thread trace of rocprofv3 (folder ui_output_*) with the
// residency of waves and its clock.
const (
	occupancyFile = "occupancy.json"
	realtimeFile  = "realtime.json"
)

var (
	// occupancyList is how occupancyFile begins: a shader engine's list of waves.
	occupancyList = regexp.MustCompile(`^\s*\{\s*"\d+"\s*:\s*\[\s*(\[|\])`)
	// threadTraceKeys are the first keys of the other files in the folder.
	threadTraceKeys = regexp.MustCompile(`^\s*\{\s*("(code|wave_filenames|counter_names)"\s*:|"SE\d+"\s*:\s*\[|"name"\s*:\s*"[^"]*",\s*"state"\s*:|"duration"\s*:\s*\d+,\s*"name")`)
)

// readOccupancy reads an occupancyFile. The realtimeFile
// in the same folder converts its cycles to time; without it times are cycles.
func readOccupancy(in *input) (*trace.Run, error) {
	var realtime io.Reader
	if in.disk != nil {
		switch f, err := guard.Open(filepath.Join(filepath.Dir(in.disk.Name()), realtimeFile)); {
		case err == nil:
			defer f.Close()
			realtime = in.bounded(f)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, &trace.SyntaxError{File: in.name, Msg: "cannot open", Err: err}
		}
	}
	return rocprof.ReadOccupancy(in.text(), realtime, in.name)
}

// openThreadTrace reads a folder with an occupancyFile.
func (o Options) openThreadTrace(folder string) (*trace.Run, error) {
	run, err := o.openFile(filepath.Join(folder, occupancyFile), folder)
	if err != nil {
		return nil, err
	}
	return alone(run, folder)
}
