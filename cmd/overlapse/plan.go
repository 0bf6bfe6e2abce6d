package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
)

// Plans of sweeps
//
// A plan file names a product of inputs, machines, strategies and settings, which is divided into shards.

// A wordList is a list of words in a plan.
type wordList int

// The axes.
const (
	planInputs    wordList = iota // traces and workload files, relative to the plan
	planMachines                  // as --machine
	planWhatIf                    // as --what-if
	planClocks                    // as --clock
	planRanks                     // as --ranks
	planRetargets                 // as --retarget
)

// axes are the keys of a plan with the check of a value; nil: later.
var axes = [...]struct {
	key   string
	check func(string) error
}{
	planInputs: {key: "inputs"}, planMachines: {key: "machines"}, planRanks: {key: "ranks"}, planRetargets: {key: "retargets"},
	planWhatIf: {"what_if", func(s string) error { _, err := machine.ParseWhatIf(s); return err }},
	planClocks: {"clocks", knownClock},
}

// A planFile is a plan of a sweep: the values of each axis, as written. An axis that the file leaves
// out has one value, "", which is the default.
type planFile struct {
	Values     [len(axes)][]string
	Strategies []plan.Selection // one for each combination of settings
}

// maxCells is the largest number of cells that a plan may have.
const maxCells = 1_000_000

const (
	maxFile     = 1 << 20 // bytes of a plan
	maxSettings = 100_000 // combinations of settings of all strategies
)

// parsePlan reads a plan file. path names it in errors, which are *trace.SyntaxError with line and
// column, all of them joined.
func parsePlan(r io.Reader, path string) (*planFile, error) {
	body, errs, err := machine.Read(r, path, maxFile, "a plan of a sweep")
	if err != nil {
		return nil, err
	}
	p := reader{Errors: errs, plan: &planFile{}}
	p.read(body)
	if p.Len() == 0 && p.plan.count() > maxCells {
		p.Fail(nil, "run several plans", "more than %d cells", maxCells)
	}
	return p.plan, p.Err()
}

// count is the number of cells; above maxCells it is maxCells+1.
func (p *planFile) count() int {
	n := len(p.Strategies)
	for _, values := range p.Values {
		n = min(n*len(values), maxCells+1)
	}
	return n
}

type reader struct {
	machine.Errors
	plan *planFile
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
	for axis := planMachines; int(axis) < len(axes); axis++ {
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
		if text == "default" && axis != planInputs {
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

// shardsVariable is the number of parts, which Kubernetes does not tell a pod.
const shardsVariable = "OVERLAPSE_SHARDS"

// shardOf reads --shard: the part, from 0, of how many.
func shardOf(s string, env func(string) string) (part, parts int, err error) {
	if s == "" {
		return 0, 1, nil
	}
	first := 1 // the number of the first part: 1, or what the cluster counts from
	from := "--shard " + s
	i, n, ok := strings.Cut(s, "/")
	if s == "auto" {
		switch {
		case env("SLURM_ARRAY_TASK_ID") != "":
			from, i, n, ok = "SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT", env("SLURM_ARRAY_TASK_ID"),
				env("SLURM_ARRAY_TASK_COUNT"), true
			if first, err = strconv.Atoi(cmp.Or(env("SLURM_ARRAY_TASK_MIN"), "0")); err != nil {
				return 0, 0, cli.Errorf("SLURM_ARRAY_TASK_MIN: %q is no number", env("SLURM_ARRAY_TASK_MIN"))
			}
		case env("JOB_COMPLETION_INDEX") != "":
			from, i, n, ok, first = "JOB_COMPLETION_INDEX and "+shardsVariable, env("JOB_COMPLETION_INDEX"), env(shardsVariable), true, 0
		default:
			return 0, 0, cli.Errorf("--shard auto: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set (give --shard I/N)")
		}
	}
	part, err1 := strconv.Atoi(i)
	parts, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || parts < 1 || part < first || part >= first+parts {
		return 0, 0, cli.Errorf("%s: part %q of %q (give I/N with I from 1 to N)", from, i, n)
	}
	return part - first, parts, nil
}

// A sweepInput is an input as its cells replay it: on a machine, with what changes either. It has a value of each axis.
type sweepInput [len(axes)]string

// A sweepCell is one replay.
type sweepCell struct {
	sweepInput
	Strategy plan.Selection
}

// shard is the i-th of n shards, counted from 0: its cells by workload, and their number. Shards have
// equally many cells of each workload, so that they take about equally long.
func (p *planFile) shard(i, n int) (parts [][]sweepCell, cells int) {
	list := []sweepInput{{}}
	for axis, values := range p.Values {
		var next []sweepInput
		for _, w := range list {
			for _, w[axis] = range values {
				next = append(next, w)
			}
		}
		list = next
	}
	position := 0
	for _, w := range list {
		var part []sweepCell
		for _, s := range p.Strategies {
			if position%n == i {
				part = append(part, sweepCell{w, s})
			}
			position++
		}
		if part != nil {
			parts, cells = append(parts, part), cells+len(part)
		}
	}
	return parts, cells
}

// digest is the hash of what the results depend on: the plan, the version of the program, the options
// that change what is read of the inputs, and the content of inputs and machines. input and machine return
// the hash of a named file; machine is not asked for "".
func (p *planFile) digest(version, reading string, input, machine func(name string) (string, error)) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", version, reading, p.Values, p.Strategies)
	for axis, of := range []func(string) (string, error){planInputs: input, planMachines: machine, planRetargets: machine} {
		for _, name := range p.Values[axis] {
			if of == nil || name == "" {
				continue
			}
			sum, err := of(name)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
