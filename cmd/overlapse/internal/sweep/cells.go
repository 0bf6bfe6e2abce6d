package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
)

// A Source is a file that results depend on: how the plan names it, and the hash of its
// content.
type Source struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// A Setting is a strategy with its settings.
type Setting struct {
	Strategy string      `json:"strategy"`
	Settings string      `json:"settings"` // those that differ from the defaults, as users type them
	Values   plan.Values `json:"values"`
}

// Axes are a plan with the hashes of its files. Every shard of a sweep has the same.
type Axes struct {
	Version    string    `json:"version"`           // of the program: another version may predict other times
	Reading    string    `json:"reading,omitempty"` // the options that change what is read of the inputs, as users type them
	Inputs     []Source  `json:"inputs"`
	Machines   []Source  `json:"machines"`
	WhatIf     []string  `json:"what_if"`
	Clocks     []string  `json:"clocks"`
	Ranks      []string  `json:"ranks"`
	Retargets  []Source  `json:"retargets"`
	Strategies []Setting `json:"strategies"`
	Seeds      []int64   `json:"seeds"`
}

// A Group is the cells of one workload on one machine: they share what is read and lifted.
type Group struct {
	Input    string `json:"input"`
	Machine  string `json:"machine"`
	WhatIf   string `json:"what_if"`
	Clock    string `json:"clock"`
	Ranks    string `json:"ranks"`
	Retarget string `json:"retarget"`
}

// A Cell is one replay.
type Cell struct {
	ID       string
	Group    int // index of Axes.Group
	Setting  int // index of Axes.Strategies
	Seed     int64
	Position int // in the plan
}

// Resolve adds hashes to a plan, and the options of reading. input and machine return the hash
// of a named file; machine is not asked for "".
func (p *Plan) Resolve(version, reading string, input, machine func(name string) (string, error)) (*Axes, error) {
	a := &Axes{Version: version, Reading: reading, WhatIf: p.WhatIf, Clocks: p.Clocks, Ranks: p.Ranks, Seeds: p.Seeds}
	for _, axis := range []struct {
		names  []string
		into   *[]Source
		digest func(string) (string, error)
	}{{p.Inputs, &a.Inputs, input}, {p.Machines, &a.Machines, machine}, {p.Retargets, &a.Retargets, machine}} {
		for _, name := range axis.names {
			s := Source{Name: name}
			if name != "" {
				var err error
				if s.Digest, err = axis.digest(name); err != nil {
					return nil, err
				}
			}
			*axis.into = append(*axis.into, s)
		}
	}
	for _, s := range p.Strategies {
		a.Strategies = append(a.Strategies, Setting{s.Strategy.Name, s.Strategy.String(s.Values), s.Values})
	}
	return a, nil
}

// Digest is the hash of the axes, names of files included.
func (a *Axes) Digest() string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return digest(text)
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Selection is a setting as compare.Run takes it.
func (s Setting) Selection() (plan.Selection, error) {
	for _, e := range engines.All() {
		if e.Name == s.Strategy {
			v, err := e.Values(s.Values)
			return plan.Selection{Strategy: e, Values: v}, err
		}
	}
	return plan.Selection{}, fmt.Errorf("no strategy %q (the sweep was planned by another version)", s.Strategy)
}

// groups calls f for every group in the order of the plan, with the part of the id that its
// cells share.
func (a *Axes) groups(f func(g Group, key string)) {
	for _, in := range a.Inputs {
		for _, m := range a.Machines {
			for _, x := range a.WhatIf {
				for _, clock := range a.Clocks {
					for _, ranks := range a.Ranks {
						for _, to := range a.Retargets {
							key := fmt.Sprintf("%q", []string{a.Version, a.Reading, in.Digest, m.Digest, x, clock, ranks, to.Digest})
							f(Group{in.Name, m.Name, x, clock, ranks, to.Name}, key)
						}
					}
				}
			}
		}
	}
}

// Groups lists the groups in the order of the plan.
func (a *Axes) Groups() []Group {
	var list []Group
	a.groups(func(g Group, _ string) { list = append(list, g) })
	return list
}

// Cells lists the cells in the order of the plan: those of a group follow each other.
func (a *Axes) Cells() []Cell {
	values := make([]string, len(a.Strategies))
	for i, s := range a.Strategies {
		text, err := json.Marshal(s.Values) // sorted by name; defaults are in it
		if err != nil {
			panic(err) // strings only
		}
		values[i] = s.Strategy + string(text)
	}
	var cells []Cell
	group := 0
	a.groups(func(_ Group, key string) {
		for i := range a.Strategies {
			for _, seed := range a.Seeds {
				id := digest(fmt.Appendf(nil, "%s %q %d", key, values[i], seed))
				cells = append(cells, Cell{id, group, i, seed, len(cells)})
			}
		}
		group++
	})
	return cells
}

// Shard is the i-th of n parts of the cells, counted from 0. The parts have equally many
// cells of each group, so that they take about equally long.
func Shard(cells []Cell, i, n int) []Cell {
	var part []Cell
	for j, c := range cells {
		if j%n == i {
			part = append(part, c)
		}
	}
	return part
}
