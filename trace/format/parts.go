package format

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// A part is what becomes one run: a file, or all files that a profiler wrote
// for one process.
type part struct {
	paths []string
	twice []string // other files that say the same
}

// parts groups files by process, in order of their first path. Of what
// rocprof wrote in several formats, the one that says most is taken: a
// database before JSON, JSON before CSV, CSV before Perfetto's.
func parts(paths []string) []part {
	var all []part
	byStem, given := map[string]int{}, map[string]bool{}
	for _, p := range paths {
		given[p] = true
	}
	for _, p := range paths {
		stem, ok := rocprof.Stem(filepath.ToSlash(p))
		if bare := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(p, ".gz"), ".json"), ".rpd"); given[bare+".rpd"] {
			stem, ok = bare, true // rocmProfileData's database, or the JSON made from it
		}
		at, seen := byStem[stem]
		switch {
		case !ok:
			all = append(all, part{paths: []string{p}})
		case seen:
			all[at].paths = append(all[at].paths, p)
		default:
			byStem[stem] = len(all)
			all = append(all, part{paths: []string{p}})
		}
	}
	for i := range all {
		all[i].choose()
	}
	return all
}

// choose keeps the files of one format.
func (p *part) choose() {
	best := slices.MinFunc(p.paths, func(a, b string) int { return cmp.Compare(preference(a), preference(b)) })
	for _, path := range p.paths {
		if preference(path) != preference(best) {
			p.twice = append(p.twice, path)
		}
	}
	p.paths = slices.DeleteFunc(p.paths, func(path string) bool { return preference(path) != preference(best) })
}

func preference(path string) int {
	path = strings.TrimSuffix(strings.ToLower(path), ".gz")
	return slices.Index([]string{".db", ".rpd", ".json", ".csv", ".pftrace"}, filepath.Ext(path))
}

// open reads the part and notes what it ignores.
func (p part) open(o Options) (*trace.Run, error) {
	run, err := p.read(o)
	if err == nil {
		err = trace.Check(run)
	}
	if err != nil {
		return nil, err
	}
	if len(run.Captured) > 0 {
		run = assemble.NameGraphs(run, []*trace.Run{run})
	}
	for _, path := range p.twice {
		run.Ledger.Add(trace.Noted, path, "ignored: the same as "+filepath.Base(p.paths[0]), "", 0)
	}
	return run, nil
}

func (p part) read(o Options) (*trace.Run, error) {
	if len(p.paths) == 1 {
		return o.openFile(p.paths[0], o.nameOf(p.paths[0]))
	}
	if filepath.Ext(strings.TrimSuffix(p.paths[0], ".gz")) != ".csv" {
		return nil, &trace.SyntaxError{
			File: p.paths[0], Msg: fmt.Sprintf("there are %d files like it for one process", len(p.paths)),
			Cure: "keep the one to read",
		}
	}
	files := make([]rocprof.File, 0, len(p.paths))
	for _, path := range p.paths {
		f, err := o.open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in, err := o.input(f, o.nameOf(path))
		if err != nil {
			return nil, err
		}
		defer in.close()
		files = append(files, rocprof.File{Name: in.name, R: in.text()})
	}
	stem, _ := rocprof.Stem(filepath.ToSlash(p.paths[0]))
	return rocprof.ReadCSV(stem, files...)
}
