package profile

import (
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/overlapse/overlapse/replay/machine"
)

// A file that says base: NAME gives only what differs from that embedded
// profile. Its numbers need no source; one without is marked as assumed, with
// the base's number alongside it:
//
//	base: h200
//	gpu: {groups: [], cus: 264}
//	fabric: {egress: 785 GB/s, ingress: 785 GB/s, pair: {value: 785 GB/s, source: "data sheet"}}
//
// A file that names another GPU describes another device: what is measured of
// the base is assumed of it.

// readBase is the machine that the file differs from; the zero one where it
// names none.
func (p *profile) readBase() machine.Machine {
	n, ok := p.nodes["base"]
	if !ok {
		return machine.Machine{}
	}
	p.taken["base"] = true
	name := ""
	if s, ok := n.(ast.ScalarNode); ok {
		name = s.GetToken().Value
	}
	m, err := loadProfile(name)
	if err != nil {
		p.fail(n, "one of "+strings.Join(Names(), ", "), "base: %q is no profile", name)
		return machine.Machine{}
	}
	p.base, p.baseGPU = name, m.GPU.Name
	if _, ok := p.nodes["profile"]; !ok {
		file := filepath.Base(p.file)
		m.Profile = strings.TrimSuffix(file, filepath.Ext(file))
	}
	return m
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
		*e.Table = machine.Table{Source: p.changed(e), Mark: machine.Unknown}
		return true
	}
	e.Omit()
	return true
}

// changed is the source of a number that the file gives without one.
func (p *profile) changed(e Entry) string {
	source := "set in " + filepath.Base(p.file) + ", not measured"
	if !e.omitted() {
		source += "; " + p.base + " has " + e.String()
	}
	return source
}

// anotherDevice marks the base's numbers as assumed where the file is of
// another device than its base. It precedes the file's own numbers.
func (p *profile) anotherDevice(m *machine.Machine) {
	if p.base == "" || m.GPU.Name == p.baseGPU {
		return
	}
	for _, e := range Entries(m) {
		mark, why := e.mark()
		switch {
		case mark == machine.Unknown:
			continue
		case !strings.HasPrefix(why, "as "+p.base):
			why = "as " + p.base + ": " + why
		}
		if e.Table != nil {
			e.Table.Source, e.Table.Mark = why, machine.Assumed
		} else {
			e.Quantity.Source, e.Quantity.Mark = why, machine.Assumed
		}
	}
}
