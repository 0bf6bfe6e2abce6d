package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
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
		words, of := strings.Split(text, ":"), 1
		names, alternatives := make([]string, len(words)), make([][]string, len(words))
		for i, word := range words {
			values := word
			if name, after, set := strings.Cut(word, "="); set {
				names[i], values = name+"=", after
			}
			alternatives[i] = strings.Split(values, "|")
			of = min(of*len(alternatives[i]), maxSettings+1)
		}
		if total += of; total > maxSettings {
			p.Fail(n, "run several plans", "more than %d combinations of settings", maxSettings)
			return
		}
		for at := range of {
			for i, digit := range digits(at, alternatives) {
				words[i] = names[i] + alternatives[i][digit]
			}
			sel, err := engines.ParseSelection(strings.Join(words, ":"))
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

// digits are the values, by their index in each list, of one combination of a value of each: the last list changes first.
func digits(at int, lists [][]string) []int {
	list := make([]int, len(lists))
	for i, values := range slices.Backward(lists) {
		list[i], at = at%len(values), at/len(values)
	}
	return list
}

// shardsVariable is the number of parts, which Kubernetes does not tell a pod.
const shardsVariable = "OVERLAPSE_SHARDS"

// shardOf reads --shard: the part, from 0, of how many.
func shardOf(s string, env func(string) string) (part, parts int, err error) {
	const slurm, kubernetes = "SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"
	from, first := "--shard "+s, "1" // first: what parts are counted from
	i, n, _ := strings.Cut(cmp.Or(s, "1/1"), "/")
	switch {
	case s != "auto":
	case env(slurm) != "":
		from, i, n, first = slurm, env(slurm), env("SLURM_ARRAY_TASK_COUNT"), cmp.Or(env("SLURM_ARRAY_TASK_MIN"), "0")
	case env(kubernetes) != "":
		from, i, n, first = kubernetes+" and "+shardsVariable, env(kubernetes), env(shardsVariable), "0"
	default:
		return 0, 0, cli.Errorf("--shard auto: neither %s nor %s is set (give --shard I/N)", slurm, kubernetes)
	}
	part, err1 := strconv.Atoi(i)
	parts, err2 := strconv.Atoi(n)
	least, err3 := strconv.Atoi(first)
	if part -= least; cmp.Or(err1, err2, err3) != nil || part < 0 || part >= parts {
		return 0, 0, cli.Errorf("%s: part %q of %q, counted from %s (give I/N with I from 1 to N)", from, i, n, first)
	}
	return part, parts, nil
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
	before := -1
	for at := i; at < p.count(); at += n {
		workload := at / len(p.Strategies)
		if workload != before {
			parts, before = append(parts, nil), workload
		}
		cell := sweepCell{Strategy: p.Strategies[at%len(p.Strategies)]}
		for axis, digit := range digits(workload, p.Values[:]) {
			cell.sweepInput[axis] = p.Values[axis][digit]
		}
		last := &parts[len(parts)-1]
		*last = append(*last, cell)
		cells++
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
