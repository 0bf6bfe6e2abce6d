package main

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
)

// Plans of sweeps
//
// A plan file names a product of inputs, machines, strategies and settings, which is divided into shards.

// A wordList is a list of words in a plan.
type wordList int

// The axes. Those before seeds make a workload.
const (
	Inputs    wordList = iota // traces and workload files, relative to the plan
	Machines                  // as --machine
	WhatIf                    // as --what-if
	Clocks                    // as --clock
	Ranks                     // as --ranks
	Retargets                 // as --retarget
	seeds                     // 0: the mean over dispatch orders, as `overlapse replay`
)

// axes are the keys of a plan with the check of a value; nil: later.
var axes = [...]struct {
	key   string
	check func(string) error
}{
	Inputs: {key: "inputs"}, Machines: {key: "machines"}, Ranks: {key: "ranks"}, Retargets: {key: "retargets"},
	WhatIf: {"what_if", func(s string) error { _, err := machine.ParseWhatIf(s); return err }},
	Clocks: {"clocks", knownClock},
	seeds:  {"seeds", func(s string) error { _, err := seedOf(s); return err }},
}

// A Plan is a plan file: the values of each axis, as written. An axis that the file leaves
// out has one value, "", which is the default.
type Plan struct {
	Values     [len(axes)][]string
	Strategies []plan.Selection // one for each combination of settings
}

// maxCells is the largest number of cells that a plan may have.
const maxCells = 1_000_000

const (
	maxFile     = 1 << 20   // bytes of a plan
	maxSeed     = 1<<31 - 1 // of a cell
	maxSettings = 100_000   // combinations of settings of all strategies
)

// Parse reads a plan file. path names it in errors, which are *trace.SyntaxError with line and
// column, all of them joined.
func Parse(r io.Reader, path string) (*Plan, error) {
	body, errs, err := machine.Read(r, path, maxFile, "a plan of a sweep")
	if err != nil {
		return nil, err
	}
	p := reader{Errors: errs, plan: &Plan{}}
	p.read(body)
	if p.Len() == 0 && p.plan.count() > maxCells {
		p.Fail(nil, "run several plans", "more than %d cells", maxCells)
	}
	return p.plan, p.Err()
}

// count is the number of cells; above maxCells it is maxCells+1.
func (p *Plan) count() int {
	n := len(p.Strategies)
	for _, values := range p.Values {
		n = min(n*len(values), maxCells+1)
	}
	return n
}

type reader struct {
	machine.Errors
	plan *Plan
}

func (p *reader) read(body ast.Node) {
	const cure = "write inputs: and strategies:, a list each, and what else `overlapse sweep --help` shows"
	if len(machine.Pairs(body)) == 0 {
		p.Fail(body, cure, "no list of keys and values")
		return
	}
	known := map[string]func(ast.Node){"strategies": p.strategies}
	for axis := range axes {
		known[axes[axis].key] = func(n ast.Node) { p.words(wordList(axis), n) }
	}
	given := map[string]bool{}
	for _, e := range machine.Pairs(body) {
		key := machine.Key(e)
		read := known[key]
		if read == nil {
			p.Fail(e.Key, "keys are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "), "unknown key %q", key)
			continue
		}
		given[key] = true
		read(e.Value)
	}
	for _, key := range []string{"inputs", "strategies"} {
		if !given[key] {
			p.Fail(body, cure, "no %s", key)
		}
	}
	for axis := Machines; axis <= seeds; axis++ {
		if len(p.plan.Values[axis]) == 0 {
			p.plan.Values[axis] = []string{""}
		}
	}
}

func knownClock(s string) error {
	if known := []string{"captured", "cool", "sustained"}; !slices.Contains(known, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(known, ", "))
	}
	return nil
}

func seedOf(s string) (int64, error) {
	seed, err := strconv.ParseInt(cmp.Or(s, "0"), 10, 64)
	if err != nil || seed < 0 || seed > maxSeed {
		return 0, fmt.Errorf("seed %q: write a number from 0 to %d", s, maxSeed)
	}
	return seed, nil
}

// values calls f for each value of a list, or for a single one.
func (p *reader) values(n ast.Node, f func(n ast.Node, text string)) {
	list := []ast.Node{n}
	if s, ok := n.(*ast.SequenceNode); ok {
		list = s.Values
	}
	if len(list) == 0 {
		p.Fail(n, "write one value at least, or leave the key out", "an empty list")
	}
	for _, n := range list {
		if text, ok := machine.Word(n); ok {
			f(n, text)
			continue
		}
		p.Fail(n, "write one word or number", "no single value")
	}
}

// words reads an axis. "default" is the value of an axis that is left out.
func (p *reader) words(axis wordList, n ast.Node) {
	known := map[string]bool{}
	p.values(n, func(n ast.Node, text string) {
		if text == "default" && axis != Inputs {
			text = ""
		}
		if check := axes[axis].check; check != nil && text != "" {
			if err := check(text); err != nil {
				p.Fail(n, "", "%v", err)
			}
		}
		if known[text] {
			p.Fail(n, "", "%q is there twice", text)
		}
		known[text] = true
		p.plan.Values[axis] = append(p.plan.Values[axis], text)
	})
}

// strategies reads selections. Alternatives of a setting are separated by |:
// decompose:chunks=2|4:priority=on|off stands for four.
func (p *reader) strategies(n ast.Node) {
	known := map[string]bool{}
	total := 0
	p.values(n, func(n ast.Node, text string) {
		several := func(word string) int { return strings.Count(word, "|") + 1 }
		words, of := strings.Split(text, ":"), 1
		for _, word := range words {
			of = min(of*several(word), maxSettings+1)
		}
		if total += of; total > maxSettings {
			p.Fail(n, "run several plans", "more than %d combinations of settings", maxSettings)
			return
		}
		for one := range alternatives(words) {
			sel, err := engines.ParseSelection(one)
			if err != nil {
				p.Fail(n, "", "%v", err)
				return
			}
			for _, s := range sel {
				if key := s.String(); !known[key] { // one setting may leave another without meaning
					known[key] = true
					p.plan.Strategies = append(p.plan.Strategies, s)
				}
			}
		}
	})
}

// alternatives are the selections that words with | stand for.
func alternatives(words []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		name, values, set := strings.Cut(words[0], "=")
		if set {
			name += "="
		} else {
			name, values = "", words[0]
		}
		for v := range strings.SplitSeq(values, "|") {
			if len(words) == 1 {
				if !yield(name + v) {
					return
				}
				continue
			}
			for rest := range alternatives(words[1:]) {
				if !yield(name + v + ":" + rest) {
					return
				}
			}
		}
	}
}
