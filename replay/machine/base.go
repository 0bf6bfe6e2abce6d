package machine

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// A file that says base: NAME gives only what differs from that embedded
// profile, or from another file, whose path is relative to the first one. Its
// numbers need no source; one without is marked as assumed, with the base's
// number alongside it:
//
//	base: h200
//	gpu: {groups: [], cus: 264}
//	fabric: {egress: 785 GB/s, ingress: 785 GB/s, pair: {value: 785 GB/s, source: "data sheet"}}
//
// A file that names another GPU describes another device: what is measured of
// the base is assumed of it.

// maxBases is the largest number of files of which each names the next as its base.
const maxBases = 8

// files reads the files that machine files name as their base. The zero value reads none.
type files struct {
	open  func(path string) (io.ReadCloser, error)
	chain []string // the files that led here, cleaned, outermost first
}

// ParseFile reads a machine file, and the files that it names as its base, with open.
func ParseFile(path string, open func(path string) (io.ReadCloser, error)) (Machine, error) {
	return files{open: open}.parse(path)
}

// parse reads a file at the end of the chain.
func (f files) parse(path string) (Machine, error) {
	in, err := f.open(path)
	if err != nil {
		return Machine{}, err
	}
	defer in.Close()
	f.chain = append(slices.Clip(f.chain), filepath.Clean(path))
	return parse(in, path, f)
}

// readBase is the machine that the file differs from; the zero one where it
// names none. An error that is not one of this file's is of the base's.
func (p *profile) readBase() (m Machine, err error) {
	n, ok := p.nodes["base"]
	if !ok {
		return m, nil
	}
	p.taken["base"] = true
	name, _ := Word(n)
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		m, err = p.readBaseFile(n, name)
	} else if !slices.Contains(Names(), name) {
		p.Fail(n, "one of "+strings.Join(Names(), ", ")+", or a .yaml file", "base: %q is no profile", name)
		return m, nil
	} else {
		m, err = loadProfile(name)
	}
	if err != nil {
		return m, err
	}
	p.base, p.baseGPU = cmp.Or(m.Profile, name), m.GPU.Name
	if _, ok := p.nodes["profile"]; !ok {
		file := filepath.Base(p.File)
		m.Profile = strings.TrimSuffix(file, filepath.Ext(file))
	}
	return m, nil
}

// readBaseFile reads a base that is a file.
func (p *profile) readBaseFile(n ast.Node, name string) (m Machine, err error) {
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(filepath.Dir(p.File), name)
	}
	chain := p.files.chain
	switch i := slices.Index(chain, filepath.Clean(path)); {
	case p.files.open == nil:
		p.Fail(n, "name a profile", "base: %q is a file, and this profile cannot refer to files", name)
	case i >= 0:
		p.Fail(n, "name another file or a profile", "base: a file is its own base: %s",
			strings.Join(append(slices.Clip(chain[i:]), path), ", "))
	case len(chain) >= maxBases:
		p.Fail(n, "name a profile", "base: more than %d files, each the base of the one before", maxBases)
	default:
		m, err = p.files.parse(path)
		if errors.Is(err, fs.ErrNotExist) {
			p.Fail(n, "the path is relative to this file", "base: %q does not exist", path)
			err = nil
		}
	}
	return m, err
}

// keeps reports whether the base has what the file leaves out.
func (p *profile) keeps(key string, has bool) bool {
	_, given := p.nodes[key]
	return p.base != "" && has && !given
}

// drops reports whether the file says that a table is not known, as groups: []
// does, and leaves it so.
func (p *profile) drops(e Entry) bool {
	list, ok := p.nodes[e.Key].(*ast.SequenceNode)
	if !ok || len(list.Values) > 0 || e.Table == nil || e.part == "" && p.base == "" {
		return false
	}
	p.taken[e.Key] = true
	if e.part == "" { // no table that may be left out
		*e.Table = Table{Source: p.changed(e), Mark: Unknown}
		return true
	}
	e.Omit()
	return true
}

// changed is the source of a number that the file gives without one.
func (p *profile) changed(e Entry) string {
	source := "set in " + filepath.Base(p.File) + ", not measured"
	if !e.omitted() {
		source += "; " + p.base + " has " + e.String()
	}
	return source
}

// anotherDevice marks the base's numbers as assumed where the file is of
// another device than its base. It precedes the file's own numbers.
func (p *profile) anotherDevice(m *Machine) {
	if p.base == "" || m.GPU.Name == p.baseGPU {
		return
	}
	for _, e := range Entries(m) {
		mark, why := e.mark()
		switch {
		case mark == Unknown:
			continue
		case !strings.HasPrefix(why, "as "+p.base):
			why = "as " + p.base + ": " + why
		}
		if e.Table != nil {
			e.Table.Source, e.Table.Mark = why, Assumed
		} else {
			e.Quantity.Source, e.Quantity.Mark = why, Assumed
		}
	}
}
