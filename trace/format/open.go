package format

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os" // opening what the user names is what this package is for
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/guard"
)

// Open reads the run at a path: a file, a folder with a file a rank, a pattern
// such as traces/rank*.json.gz, a zip or tar archive, or - for o.Stdin. Files of
// a run are read side by side; the result does not depend on that. An error is
// a *trace.SyntaxError.
func Open(path string, o Options) (*trace.Run, error) { return openPath(path, o.begin()) }

// OpenAll reads the files at several paths, which are those of one run, and
// gives the run a name.
func OpenAll(paths []string, name string, o Options) (*trace.Run, error) {
	o = o.begin()
	var files []string
	for _, path := range paths {
		some, err := o.filesAt(path)
		if err != nil {
			return nil, err
		}
		files = append(files, some...)
	}
	slices.Sort(files)
	return openFiles(slices.Compact(files), name, o)
}

func openPath(path string, o Options) (*trace.Run, error) {
	if path == "-" {
		o.alone = true
		run, err := o.readFile(io.MultiReader(o.Stdin), "standard input") // a stream, even if it is a file
		if err != nil {
			return nil, err
		}
		return alone(run, "standard input")
	}
	r, err := o.find(path)
	switch {
	case err != nil:
		return nil, err
	case r.thread != "":
		return o.openThreadTrace(r.thread)
	case r.folder:
		return r.openFolder(o)
	}
	run, err := openFiles(r.files, path, o)
	if err != nil {
		return nil, err
	}
	run, _ = r.withExecution(run, o)
	return run, nil
}

// filesAt lists the files at one path: itself, what matches the pattern, or the
// traces of a folder.
func (o Options) filesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		l, err := o.listFolder(path)
		if err == nil && len(l.traces) == 0 {
			err = &trace.SyntaxError{File: path, Msg: "no trace in this folder", Cure: "open it separately, or give the files of one run"}
		}
		return l.traces, err
	case err == nil:
		return []string{path}, nil
	case strings.ContainsAny(path, "*?[") && errors.Is(err, fs.ErrNotExist):
		return matching(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, &trace.SyntaxError{
			File: path, Msg: "cannot open",
			Cure: "give a trace, a folder with one file per rank, a pattern, or - for standard input", Err: fs.ErrNotExist,
		}
	}
	return nil, &trace.SyntaxError{File: path, Msg: "cannot open", Err: err}
}

func matching(pattern string) ([]string, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, &trace.SyntaxError{File: pattern, Msg: "not a valid pattern", Cure: "* matches any characters, ? matches one", Err: err}
	}
	if len(paths) == 0 {
		return nil, &trace.SyntaxError{File: pattern, Msg: "no file matches the pattern", Cure: "check the path"}
	}
	return paths, nil
}

// list names the first few.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// errUnknown is the cause of an error about a file of no known format.
const errUnknown = trace.NoTrace("unrecognized format")

// manySpans is where memory counts more than the milliseconds of a collection.
const manySpans = 1 << 17

// openFiles reads files of one run side by side and joins them. Among several,
// a file that is no trace (a result beside a trace) is ignored and noted.
func openFiles(paths []string, name string, o Options) (*trace.Run, error) {
	paths, captureFiles := split(paths, isCapture)
	all := parts(paths)
	for _, p := range all {
		o.expect(p.paths)
	}
	o.expect(captureFiles)
	all, companions, err := o.takeCompanions(all)
	if err != nil {
		return nil, err
	}
	o.alone, o.companions = len(all) == 1, companions
	read, failed := o.readAll(all)
	if err := o.budget.Err(); err != nil {
		return nil, err
	}
	found, err := o.sortOut(read, failed, len(all) > 1)
	if err != nil {
		return nil, err
	}
	clear(read)
	var captures []*trace.Run
	found.runs, captures = capturesAmong(found.runs)
	o.nameHosts(found.runs)
	run, err := join(found.runs, name)
	if err != nil {
		return nil, err
	}
	if len(captures)+len(captureFiles) > 0 {
		run = o.withCaptures(run, captures, captureFiles)
	}
	companions.noteUnused(run, o.SkipBad)
	for _, err := range found.bad {
		o.SkipBad(err)
		noteBad(run, err)
	}
	for _, i := range found.others {
		run.Ledger.Add(trace.Noted, all[i].paths[0], "ignored: not a trace", "", 0)
	}
	if companions != nil && len(run.Uses) > 0 {
		run = assemble.Transfer(run, run, name)
	}
	return run, nil
}

// readAll reads parts side by side. Errors are listed, so that the first by name is returned.
func (o Options) readAll(all []part) (read []*trace.Run, failed []error) {
	read, failed = make([]*trace.Run, len(all)), make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range all {
		group.Go(guard.Func(func() error {
			read[i], failed[i] = p.open(o)
			if r := read[i]; r != nil && len(r.Spans) > manySpans && !o.alone {
				runtime.GC() // what its reader needed beside it
			}
			return nil
		}))
	}
	if broken := group.Wait(); broken != nil {
		panic(broken) // a defect, which is no bad file to skip
	}
	return read, failed
}

// A finding sorts the files of one run.
type finding struct {
	runs   []*trace.Run
	bad    []error // of files that are left out
	others []int   // parts that are no traces
}

// sortOut separates runs, files that cannot be read and files that are no traces.
// A file that cannot be read is an error unless SkipBad is set; no run at all is
// an error.
func (o Options) sortOut(read []*trace.Run, failed []error, several bool) (f finding, err error) {
	for i, err := range failed {
		switch {
		case err == nil:
			f.runs = append(f.runs, read[i])
		case isNoTrace(err):
			f.others = append(f.others, i)
		case several && o.SkipBad != nil:
			f.bad = append(f.bad, err)
		default:
			return f, err
		}
	}
	switch {
	case len(f.runs) > 0:
		return f, nil
	case len(f.bad) > 0:
		return f, f.bad[0]
	}
	return f, failed[f.others[0]]
}

func noteBad(run *trace.Run, err error) {
	run.Ledger.Add(trace.Skipped, fileOf(err), "skipped, it cannot be read: "+err.Error(), "", 0)
}

// fileOf is the file that an error is about.
func fileOf(err error) string {
	var syntax *trace.SyntaxError
	if errors.As(err, &syntax) {
		return syntax.File
	}
	return ""
}

// join merges runs and drops them. The merged run takes as much memory as all of
// them: garbage is collected before, when the readers are done, and after. Runs
// have few pointers, so a collection takes milliseconds. The memory goes back to the
// system: the tables of the merged run need it in large pieces.
func join(runs []*trace.Run, name string) (*trace.Run, error) {
	if len(runs) > 1 {
		spans := 0
		for _, r := range runs {
			spans += len(r.Spans)
		}
		if spans > manySpans {
			debug.FreeOSMemory()
			defer debug.FreeOSMemory()
		}
	}
	all := slices.Clone(runs)
	clear(runs) // which this frame and its callers' hold to their end
	return assemble.Join(all, name)
}

// alone finishes the only run of an input.
func alone(run *trace.Run, name string) (*trace.Run, error) {
	if err := trace.Check(run); err != nil {
		return nil, err
	}
	return assemble.Join([]*trace.Run{run}, name)
}

// openFile reads a file of the file system or of an archive.
func (o Options) openFile(path, name string) (*trace.Run, error) {
	f, err := o.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return o.readFile(f, name)
}

func (o Options) readFile(r io.Reader, name string) (*trace.Run, error) {
	in, err := o.input(r, name)
	if err != nil {
		return nil, err
	}
	defer in.close()
	return in.read()
}

// broken is the error for a compressed file that cannot be read.
func broken(file string, err error) error {
	e := &trace.SyntaxError{File: file, Msg: "not a valid gzip file", Cure: "copy it again", Err: err}
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		e.Msg, e.Cure = "the compressed file is truncated", "copy it again, or let the job finish writing it"
	}
	return e
}

// A Progress says how far Open is; it may be asked at any time.
type Progress struct {
	Total  atomic.Int64 // bytes of the files as they are stored; 0 where that is unknown, as of a stream
	Read   atomic.Int64 // of these
	Events atomic.Int64 // that were read, of formats whose readers count them while they read

	file atomic.Pointer[string]
}

// File is the name of the file that was opened last, "" before the first.
func (p *Progress) File() string {
	if name := p.file.Load(); name != nil {
		return *name
	}
	return ""
}

// expect adds the sizes of files of the file system. A missing one is an error later.
func (o Options) expect(paths []string) {
	if o.Progress == nil || o.archive != nil {
		return
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			o.Progress.Total.Add(info.Size())
		}
	}
}

// counting returns a reader of a file that reports to the progress.
func (o Options) counting(r io.Reader, name string) io.Reader {
	if o.Progress == nil {
		return r
	}
	o.Progress.file.Store(&name)
	return &counted{r, &o.Progress.Read}
}
