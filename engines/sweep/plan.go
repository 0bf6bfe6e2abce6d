package sweep

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// A Plan is a plan file: the values of each axis, as written. An axis that the file leaves
// out has one value, the default.
type Plan struct {
	Path       string
	Inputs     []string         // traces and workload files, relative to the plan
	Machines   []string         // as --machine; "": that of the input
	WhatIf     []string         // as --what-if; "": none
	Clocks     []string         // as --clock; "": as captured
	Ranks      []string         // as --ranks; "": as captured
	Retargets  []string         // as --retarget; "": none
	Strategies []plan.Selection // one for each combination of settings
	Seeds      []int64          // 0: the mean over dispatch orders, as `overlapse replay`
}

// MaxCells is the largest number of cells that a plan may have.
const MaxCells = 10_000_000

const (
	maxFile = 1 << 20   // bytes of a plan
	maxSeed = 1<<31 - 1 // of a cell
)

// Parse reads a plan file. path names it in errors, which are *trace.SyntaxError with line and
// column, all of them joined.
func Parse(r io.Reader, path string) (*Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, &trace.SyntaxError{File: path, Msg: fmt.Sprintf("larger than %d KiB", maxFile>>10), Cure: "is it a plan of a sweep?"}
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		var ye yaml.Error
		if !errors.As(err, &ye) || ye.GetToken() == nil {
			return nil, &trace.SyntaxError{File: path, Msg: "no YAML", Err: err}
		}
		at := ye.GetToken().Position
		return nil, &trace.SyntaxError{File: path, Pos: int64(at.Line), Unit: "line", Col: int64(at.Column), Msg: ye.GetMessage()}
	}
	p := reader{plan: &Plan{Path: path}}
	if len(tree.Docs) > 0 {
		p.read(tree.Docs[0].Body)
	}
	if len(p.errs) == 0 && p.plan.Count() > MaxCells {
		p.fail(nil, "run several plans", "%d cells, more than %d", p.plan.Count(), MaxCells)
	}
	return p.plan, errors.Join(p.errs...)
}

// Count is the number of cells.
func (p *Plan) Count() int {
	n := 1
	for _, k := range []int{len(p.Inputs), len(p.Machines), len(p.WhatIf), len(p.Clocks), len(p.Ranks), len(p.Retargets), len(p.Strategies), len(p.Seeds)} {
		if n *= k; n > MaxCells {
			return MaxCells + 1
		}
	}
	return n
}

type reader struct {
	plan *Plan
	errs []error
}

func (p *reader) fail(n ast.Node, cure, format string, args ...any) {
	e := &trace.SyntaxError{File: p.plan.Path, Msg: fmt.Sprintf(format, args...), Cure: cure}
	if n != nil {
		at := n.GetToken().Position
		e.Pos, e.Unit, e.Col = int64(at.Line), "line", int64(at.Column)
	}
	p.errs = append(p.errs, e)
}

func (p *reader) read(body ast.Node) {
	const cure = "write inputs: and strategies:, a list each, and what else `overlapse sweep --help` shows"
	var entries []*ast.MappingValueNode
	switch n := body.(type) {
	case *ast.MappingNode:
		entries = n.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{n}
	default:
		p.fail(body, cure, "no list of keys and values")
		return
	}
	axes := map[string]func(ast.Node){
		"inputs":     p.words(&p.plan.Inputs, nil),
		"machines":   p.words(&p.plan.Machines, nil),
		"what_if":    p.words(&p.plan.WhatIf, func(s string) error { _, err := machine.ParseWhatIf(s); return err }),
		"clocks":     p.words(&p.plan.Clocks, knownClock),
		"ranks":      p.words(&p.plan.Ranks, nil),
		"retargets":  p.words(&p.plan.Retargets, nil),
		"strategies": p.strategies,
		"seeds":      p.seeds,
	}
	given := map[string]bool{}
	for _, e := range entries {
		key := e.Key.GetToken().Value
		read := axes[key]
		switch {
		case read == nil:
			p.fail(e.Key, "keys are "+strings.Join(slices.Sorted(maps.Keys(axes)), ", "), "unknown key %q", key)
		case given[key]:
			p.fail(e.Key, "write one list", "%s is there twice", key)
		default:
			given[key] = true
			read(e.Value)
		}
	}
	for _, key := range []string{"inputs", "strategies"} {
		if !given[key] {
			p.fail(body, cure, "no %s", key)
		}
	}
	for _, axis := range []*[]string{&p.plan.Machines, &p.plan.WhatIf, &p.plan.Clocks, &p.plan.Ranks, &p.plan.Retargets} {
		if len(*axis) == 0 {
			*axis = []string{""}
		}
	}
	if len(p.plan.Seeds) == 0 {
		p.plan.Seeds = []int64{0}
	}
}

func knownClock(s string) error {
	if known := []string{"", "captured", "cool", "sustained"}; !slices.Contains(known, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(known[1:], ", "))
	}
	return nil
}

// values calls f for each value of a list, or for a single one.
func (p *reader) values(n ast.Node, f func(n ast.Node, text string)) {
	list := []ast.Node{n}
	if s, ok := n.(*ast.SequenceNode); ok {
		list = s.Values
	}
	if len(list) == 0 {
		p.fail(n, "write one value at least, or leave the key out", "an empty list")
	}
	for _, n := range list {
		if s, ok := n.(ast.ScalarNode); ok {
			f(n, s.GetToken().Value)
			continue
		}
		p.fail(n, "write one word or number", "no single value")
	}
}

// words reads an axis of words. "default" is the value of an axis that is left out.
func (p *reader) words(into *[]string, check func(string) error) func(ast.Node) {
	return func(n ast.Node) {
		p.values(n, func(n ast.Node, text string) {
			if text == "default" && into != &p.plan.Inputs {
				text = ""
			}
			if check != nil && text != "" {
				if err := check(text); err != nil {
					p.fail(n, "", "%v", err)
				}
			}
			if slices.Contains(*into, text) {
				p.fail(n, "", "%q is there twice", text)
			}
			*into = append(*into, text)
		})
	}
}

func (p *reader) seeds(n ast.Node) {
	p.values(n, func(n ast.Node, text string) {
		var seed int64
		if _, err := fmt.Sscanf(text+"\n", "%d\n", &seed); err != nil || seed < 0 || seed > maxSeed {
			p.fail(n, "", "seed %q: write a number from 0 to %d", text, maxSeed)
		}
		if slices.Contains(p.plan.Seeds, seed) {
			p.fail(n, "", "seed %d is there twice", seed)
		}
		p.plan.Seeds = append(p.plan.Seeds, seed)
	})
}

// strategies reads selections. Alternatives of a setting are separated by |:
// decompose:chunks=2|4:priority=on|off stands for four.
func (p *reader) strategies(n ast.Node) {
	known := map[string]bool{}
	p.values(n, func(n ast.Node, text string) {
		for _, one := range alternatives(text) {
			sel, err := engines.ParseSelection(one)
			if err != nil {
				p.fail(n, "", "%v", err)
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

// alternatives lists the selections that a text with | stands for, at most MaxCells.
func alternatives(text string) []string {
	list := []string{""}
	for i, word := range strings.Split(text, ":") {
		name, values, set := strings.Cut(word, "=")
		var words []string
		for _, v := range strings.Split(values, "|") {
			if w := name; set {
				words = append(words, w+"="+v)
			} else {
				words = append(words, w)
			}
		}
		var longer []string
		for _, have := range list {
			for _, w := range words {
				if i > 0 {
					w = ":" + w
				}
				if longer = append(longer, have+w); len(longer) > MaxCells {
					return longer
				}
			}
		}
		list = longer
	}
	return list
}
