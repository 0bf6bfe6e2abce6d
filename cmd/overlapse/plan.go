package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
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

// The axes.
const (
	planInputs     = iota // traces and workload files, relative to the plan
	planMachines          // as --machine
	planWhatIf            // as --what-if
	planClocks            // as --clock
	planRanks             // as --ranks
	planRetargets         // as --retarget
	planStrategies        // as --strategy, one for each combination of settings
)

// axes are the keys of a plan with the check of a value; nil: later.
var axes = [...]struct {
	key   string
	check func(string) error
}{
	planInputs: {key: "inputs"}, planMachines: {key: "machines"}, planRanks: {key: "ranks"}, planRetargets: {key: "retargets"},
	planWhatIf: {"what_if", func(s string) error { _, err := machine.ParseWhatIf(s); return err }},
	planClocks: {"clocks", knownClock}, planStrategies: {key: "strategies"},
}

// A planFile is a plan of a sweep: the values of each axis. An axis that the file leaves out has one value, "", which is
// the default.
type planFile struct {
	Values     [len(axes)][]string
	Strategies []plan.Selection // as the values of their axis

	known map[axisValue]bool
	asked int // combinations of settings of all strategies
}

// An axisValue is a value that an axis has already.
type axisValue struct {
	axis int
	text string
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
	p := &planFile{known: map[axisValue]bool{}}
	p.read(body, &errs)
	if errs.Len() == 0 && p.count() > maxCells {
		errs.Fail(nil, "run several plans", "more than %d cells", maxCells)
	}
	return p, errs.Err()
}

// count is the number of cells; above maxCells it is maxCells+1.
func (p *planFile) count() int {
	n := 1
	for _, values := range p.Values {
		n = min(n*len(values), maxCells+1)
	}
	return n
}

func (p *planFile) read(body ast.Node, errs *machine.Errors) {
	const cure = "write inputs: and strategies:, a list each, and what else `overlapse sweep --help` shows"
	if len(machine.Pairs(body)) == 0 {
		errs.Fail(body, cure, "no list of keys and values")
		return
	}
	var keys []string
	for _, of := range axes {
		keys = append(keys, of.key)
	}
	for _, e := range machine.Pairs(body) {
		axis := slices.Index(keys, machine.Key(e))
		if axis < 0 {
			errs.Fail(e.Key, "keys are "+strings.Join(slices.Sorted(slices.Values(keys)), ", "), "unknown key %q", machine.Key(e))
			continue
		}
		list := []ast.Node{e.Value}
		if s, ok := e.Value.(*ast.SequenceNode); ok {
			list = s.Values
		}
		if p.Values[axis] = []string{}; len(list) == 0 {
			errs.Fail(e.Value, "write one value at least, or leave the key out", "an empty list")
		}
		for _, n := range list {
			if text, ok := machine.Word(n); !ok {
				errs.Fail(n, "write one word or number", "no single value")
			} else if err := p.add(axis, text); err != nil {
				errs.Fail(n, "", "%v", err)
			}
		}
	}
	for axis, key := range keys {
		switch {
		case p.Values[axis] != nil:
		case axis == planInputs || axis == planStrategies:
			errs.Fail(body, cure, "no %s", key)
		default:
			p.Values[axis] = []string{""}
		}
	}
}

func knownClock(s string) error {
	if known := []string{"captured", "cool", "sustained"}; !slices.Contains(known, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(known, ", "))
	}
	return nil
}

// add adds a value to an axis. "default" is the value of an axis that is left out.
func (p *planFile) add(axis int, text string) error {
	switch {
	case axis == planStrategies:
		return p.addStrategies(text)
	case text == "default" && axis != planInputs:
		text = ""
	case axes[axis].check != nil:
		if err := axes[axis].check(text); err != nil {
			return err
		}
	}
	if p.known[axisValue{axis, text}] {
		return fmt.Errorf("%q is there twice", text)
	}
	p.known[axisValue{axis, text}] = true
	p.Values[axis] = append(p.Values[axis], text)
	return nil
}

// addStrategies adds selections. Alternatives of a setting are separated by |:
// decompose:chunks=2|4:priority=on|off stands for four.
func (p *planFile) addStrategies(text string) error {
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
	if p.asked += of; p.asked > maxSettings {
		return fmt.Errorf("more than %d combinations of settings (run several plans)", maxSettings)
	}
	for at := range of {
		for i, digit := range digits(at, alternatives) {
			words[i] = names[i] + alternatives[i][digit]
		}
		sel, err := engines.ParseSelection(strings.Join(words, ":"))
		if err != nil {
			return err
		}
		for _, s := range sel {
			if of := (axisValue{planStrategies, s.String()}); !p.known[of] { // one setting may leave another without meaning
				p.known[of] = true
				p.Strategies, p.Values[planStrategies] = append(p.Strategies, s), append(p.Values[planStrategies], of.text)
			}
		}
	}
	return nil
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

// A sweepInput is an input as its cells replay it: on a machine, with what changes either. It has a value of each axis but
// the strategies.
type sweepInput [len(axes)]string

// A sweepCell is one replay.
type sweepCell struct {
	sweepInput
	Strategy plan.Selection
}

// shard is the i-th of n shards, counted from 0: its cells by workload, and their number. Shards have
// equally many cells of each workload, so that they take about equally long.
func (p *planFile) shard(i, n int) (parts [][]sweepCell, cells int) {
	for ; i < p.count(); i += n {
		var of sweepCell
		for axis, digit := range digits(i, p.Values[:]) {
			if of.sweepInput[axis] = p.Values[axis][digit]; axis == planStrategies {
				of.sweepInput[axis], of.Strategy = "", p.Strategies[digit]
			}
		}
		last := len(parts) - 1
		if last < 0 || parts[last][0].sweepInput != of.sweepInput {
			parts, last = append(parts, nil), last+1
		}
		parts[last] = append(parts[last], of)
		cells++
	}
	return parts, cells
}

// digest is the hash of what the results depend on: the plan, the version of the program, the options
// that change what is read of the inputs, and the content of inputs and machines. input and machine return
// the hash of a named file; machine is not asked for "".
func (p *planFile) digest(version, reading string, input, machine func(name string) (string, error)) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", version, reading, p.Values)
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
