package operator

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/overlapse/overlapse/replay/machine"
)

const (
	maxFile = 64 << 10 // maximum file size in bytes
	maxSize = 1 << 31  // of one dimension, exclusive
)

// Parse reads a workload file, with other values of the keys in set, such as "shape.m" or "kernel.tile". path
// names it in errors, which are *trace.SyntaxError with a line, all of them joined.
func Parse(r io.Reader, path string, set map[string]string) (*File, error) {
	body, errs, err := machine.Read(r, path, maxFile, "a workload file")
	if err != nil {
		return nil, err
	}
	p := reader{
		Errors: errs, file: &File{Path: path, shape: map[string]int64{}, groups: map[string]int{}, lines: map[string]int{}},
		nodes: map[string]ast.Node{}, named: map[string]bool{}, set: set,
	}
	if body != nil {
		p.flatten("", body)
	}
	p.override()
	p.read()
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p.file, nil
}

// A reader has the values of a file by key; keys below a heading are written as
// "shape.m". Keys that remain after reading are unknown.
type reader struct {
	machine.Errors
	file  *File
	nodes map[string]ast.Node
	order []string
	named map[string]bool   // operators of a graph so far
	set   map[string]string // values that replace those of the file
}

// override makes the keys of set known where the file lacks them.
func (p *reader) override() {
	for _, key := range slices.Sorted(maps.Keys(p.set)) {
		if p.nodes[key] == nil {
			p.nodes[key] = nil
			p.order = append(p.order, key)
		}
	}
}

// fail notes an error at the line of a key, or of the whole file.
func (p *reader) fail(key, cure, format string, args ...any) {
	p.FailLine(p.file.lines[key], cure, format, args...)
}

func (p *reader) flatten(prefix string, n ast.Node) {
	values := machine.Pairs(n)
	if values == nil {
		p.file.lines[prefix] = n.GetToken().Position.Line
		p.fail(prefix, "write operator: NAME and what else samples/workloads shows", "no list of keys and values")
		return
	}
	for _, v := range values {
		key := machine.Key(v)
		if prefix != "" {
			key = prefix + "." + key
		}
		p.file.lines[key] = v.Key.GetToken().Position.Line
		if key == "shape" || key == "kernel" {
			p.flatten(key, v.Value)
			continue
		}
		p.nodes[key] = v.Value
		p.order = append(p.order, key)
	}
}

// take removes a key and returns its text; ok is false if the key is absent or not a scalar.
func (p *reader) take(key string) (text string, ok bool) {
	n, ok := p.nodes[key]
	if !ok {
		return "", false
	}
	delete(p.nodes, key)
	if text, ok := p.set[key]; ok {
		return text, true
	}
	if text, ok = machine.Word(n); !ok || text == "" {
		p.fail(key, "write one word or number", "%s has no value", key)
		return "", false
	}
	return text, true
}

// read fills in the file.
func (p *reader) read() {
	f := p.file
	var op operation
	if _, isGraph := p.nodes["graph"]; isGraph {
		op = p.readGraph()
	} else {
		op = p.operation()
	}
	f.Operator = op.name
	f.Machine, _ = p.take("machine")
	if f.Machine == "" {
		p.fail("machine", "add machine: h200:4, or another profile or its file", "machine is missing")
	}
	f.Ranks = int(p.count("ranks", 0))
	f.Iterations = int(p.count("iterations", 1))
	f.Channels = int(p.count("channels", 0))
	f.Type, _ = p.take("type")
	if op.name != "" && !slices.Contains(op.types, f.Type) {
		p.fail("type", "one of "+strings.Join(op.types, ", "), "%s: type %q", op.name, f.Type)
	}
	for _, key := range op.sizes {
		if _, ok := p.nodes["shape."+key]; !ok {
			p.fail("shape", fmt.Sprintf("add %s: NUMBER; %s has %s", key, op.name,
				strings.Join(op.sizes, ", ")), "shape.%s is missing", key)
			continue
		}
		f.shape[key] = p.count("shape."+key, 1)
		f.lines[key] = f.lines["shape."+key]
	}
	if op.graph != "" && p.Len() == 0 {
		f.graph = p.graphOfOperator(op)
	}
	p.kernel(op)
	p.times()
	if op.name != "" { // without an operator all sizes would be reported as unknown
		p.rest(op)
	}
	if f.Iterations > maxIterations {
		p.fail("iterations", fmt.Sprintf("at most %d", maxIterations), "%d iterations", f.Iterations)
	}
}

// readGraph reads the operators of a graph, and as shape the names that their sizes use.
func (p *reader) readGraph() operation {
	n := p.nodes["graph"]
	delete(p.nodes, "graph")
	op := operation{name: "graph", types: floats}
	if _, ok := p.nodes["operator"]; ok {
		p.fail("operator", "write one of the two", "operator and graph in one file")
		delete(p.nodes, "operator")
	}
	for _, key := range p.order {
		if name, ok := strings.CutPrefix(key, "shape."); ok {
			p.file.shape[name] = p.count(key, 1)
		}
	}
	p.groupSizes()
	p.file.graph = p.graphOf(n)
	if p.Len() == 0 && p.file.graph.count() > maxSteps {
		p.Fail(n, "repeat fewer layers: equal layers change no ratio", "more than %d operators", maxSteps)
	}
	return op
}

// maxIterations is more than any pipeline needs to reach its steady state.
const maxIterations = 1000

func (p *reader) operation() operation {
	name, ok := p.take("operator")
	op, known := operationNamed(name)
	cure := "one of " + strings.Join(operationNames(), ", ")
	switch {
	case !ok:
		p.fail("operator", cure, "operator is missing")
	case !known:
		p.fail("operator", cure, "unknown operator %q", name)
	}
	return op
}

// count reads a whole number; absent is the default of an optional key.
func (p *reader) count(key string, absent int64) int64 {
	text, ok := p.take(key)
	if !ok {
		return absent
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 1 || v >= maxSize {
		p.fail(key, "write a whole number from 1, without a unit", "%s: %q", key, text)
		return max(1, absent)
	}
	return v
}

func (p *reader) kernel(op operation) {
	k := &p.file.Kernel
	if text, ok := p.take("kernel.tile"); ok {
		for word := range strings.FieldsSeq(text) {
			t, ok := tileOf(word)
			if !ok {
				p.fail("kernel.tile", "write rows x columns, as in 128x256, or with the depth along K, as in 128x256x32, one for all GEMMs or one for each", "kernel.tile: %q", text)
				break
			}
			k.Tiles = append(k.Tiles, t)
		}
	}
	k.Splits = p.list("kernel.split", maxSplit, "parts along K")
	if k.Splits != nil && k.Tiles == nil {
		p.fail("kernel.split", "add kernel.tile", "kernel.split without compiled tiles")
	}
	k.Shared = p.list("kernel.shared", maxSize-1, "bytes")
	k.Threads = int(p.count("kernel.threads", 0))
	k.Registers = int(p.count("kernel.registers", 0))
	if strings.HasPrefix(op.name, "embedding") {
		k.Launches = int(p.count("kernel.launches", 0))
	}
}

// tileOf reads rows x columns, or rows x columns x depth.
func tileOf(word string) (t tile, ok bool) {
	sides := strings.Split(word, "x")
	if len(sides) < 2 || len(sides) > 3 {
		return t, false
	}
	for i, side := range []*int{&t.M, &t.N, &t.Depth}[:len(sides)] {
		n, err := strconv.Atoi(sides[i])
		if err != nil || n < 1 || n > maxTile {
			return tile{}, false
		}
		*side = n
	}
	return t, true
}

const (
	maxTile  = 4096 // more than the side of any tile
	maxSplit = 64   // more than the parts along K of any tile
)

// list reads one whole number for all GEMMs, or one for each.
func (p *reader) list(key string, most int, what string) (list []int) {
	text, ok := p.take(key)
	if !ok {
		return nil
	}
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > most {
			p.fail(key, fmt.Sprintf("write %s, 1 to %d, one number for all GEMMs or one for each", what, most), "%s: %q", key, text)
			return nil
		}
		list = append(list, n)
	}
	return list
}

// times reads the kernels' times in µs, and who waits for them.
func (p *reader) times() {
	if text, ok := p.take("times"); ok {
		for word := range strings.FieldsSeq(text) {
			us, err := strconv.ParseFloat(word, 64)
			if err != nil || !(us > 0 && us < mostSeconds*1e6) {
				p.fail("times", "write µs of each compute kernel, in order", "times: %q", text)
				break
			}
			p.file.Times = append(p.file.Times, us/1e6)
		}
	}
	if text, ok := p.take("sync"); ok {
		switch s := sync(text); s {
		case syncEvent, syncHost, syncClear:
			p.file.Sync = s
		case "stream":
		default:
			p.fail("sync", "stream; event: times are from event to event; host: each kernel is launched when the one before has ended; clear: as host, with a fill before kernels in parts", "sync: %q", text)
		}
	}
}

// rest reports the unknown keys.
func (p *reader) rest(op operation) {
	known := []string{
		"operator", "machine", "ranks", "iterations", "channels", "type", "times", "sync",
		"kernel.tile", "kernel.split", "kernel.threads", "kernel.registers", "kernel.shared", "graph", "groups",
	}
	for _, key := range op.sizes {
		known = append(known, "shape."+key)
	}
	for _, key := range p.order {
		if _, left := p.nodes[key]; left {
			p.fail(key, "known are "+strings.Join(known, ", "), "unknown key %s", key)
		}
	}
}
