package format

import (
	"fmt"
	"os" // opening what the user names is what this package is for
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// maxNesting is how deep rocprofv3's folders go: output/host/process.
const maxNesting = 3

// A listing is what lies in a folder.
type listing struct {
	traces       []string // files that may be traces by their names
	folders      []string // names
	others       []string // names
	isThread     bool     // it is a thread trace
	threadTraces []string // folders below that are
	unlike       bool     // there are traces below that are not nested as those of one run
}

// listFolder looks at a folder.
func (o Options) listFolder(path string) (l listing, err error) {
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
	return l, nil
}

// openFolder reads the files of a folder that may be traces by their names. If
// there are none, or only such as have no times, those are read that lie in
// folders below as rocprofv3 or a job with a folder a rank leaves them.
func openFolder(path string, o Options) (*trace.Run, error) {
	l, err := o.listFolder(path)
	if err != nil {
		return nil, err
	}
	if l.isThread {
		return o.openThreadTrace(path)
	}
	if len(l.traces) > 0 {
		run, err := openFiles(l.traces, path, o)
		if err == nil {
			var execution []string
			run, execution = withExecution(run, path, l.folders, o)
			for _, name := range l.folders {
				if slices.Contains(execution, name) {
					continue
				}
				run.Ledger.Add(trace.Noted, filepath.Join(path, name), "folder ignored: open it separately", "", 0)
			}
		}
		if err == nil || !o.isNoTrace(err) || len(l.folders) == 0 {
			return run, err
		}
	}
	nested, err := l.nested(path, maxNesting, o)
	switch {
	case err != nil:
		return nil, err
	case len(nested) > 0 && !l.unlike:
		o.root = path
		return l.openNested(append(l.traces, nested...), path, o)
	case len(l.traces) > 0:
		return openFiles(l.traces, path, o)
	}
	failed := &trace.SyntaxError{File: path, Msg: "the folder is empty", Cure: o.supported()}
	switch {
	case len(l.folders) > 0:
		failed.Msg = "no trace in this folder, but folders: " + list(l.folders)
		failed.Cure = "give one of them"
	case len(l.others) > 0:
		failed.Msg = "no trace in this folder, only " + list(l.others)
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
		return nil, &trace.SyntaxError{File: path, Msg: fmt.Sprintf("over %d traces in the folders below", maxFiles), Cure: "give the folder of one run"}
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
			if err == nil && nested && k.Host == "" && r.Clock != 0 && strings.Trim(host, "0123456789") != "" && trace.RankOfFolder(host) == trace.None {
				k.Host = host
			}
		}
	}
}
