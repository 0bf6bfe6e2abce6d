package machine

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxProfile bounds what is read; the largest embedded profile has 44 KB.
const maxProfile = 256 << 10

// Parse reads a profile, or what differs from an embedded one (see base.go). The
// machine has as many GPUs as the profile's recorded collectives; Sized gives
// other sizes. file names the profile in errors, which are *trace.SyntaxError
// with a line and a column, all of them joined.
func Parse(r io.Reader, file string) (Machine, error) { return parse(r, file, files{}) }

func parse(r io.Reader, file string, bases files) (Machine, error) {
	d, err := read(r, file)
	if err != nil {
		return Machine{}, err
	}
	return d.machine(bases)
}

// A document is a profile as YAML, which its machines do not change.
type document struct {
	body ast.Node
	errs Errors
}

func read(r io.Reader, file string) (d document, err error) {
	d.body, d.errs, err = Read(r, file, maxProfile, "a machine profile")
	return d, err
}

func (d document) machine(bases files) (Machine, error) {
	p := profile{
		Errors: d.errs, files: bases, nodes: map[string]ast.Node{}, keys: map[string]ast.Node{}, taken: map[string]bool{},
		sections: map[string]ast.Node{},
	}
	p.flatten("", d.body)
	before := p.Len()
	m, err := p.readBase()
	if err != nil || p.Len() > before {
		return Machine{}, cmp.Or(err, p.Err()) // without its base, all that the file leaves out would count as missing
	}
	p.scale(&m)
	for _, t := range texts(&m) {
		p.text(t)
	}
	p.anotherDevice(&m)
	for _, e := range Entries(&m) {
		p.entry(e)
	}
	p.rest()
	if p.Len() == 0 {
		p.checkLimits(&m)
		p.checkGroups(&m)
		p.checkFabric(&m)
		p.checkLibrary(&m)
	}
	if err := p.Err(); err != nil {
		return Machine{}, err
	}
	m.Library.Network = m.Network
	return m.Resize(int(m.Library.Ranks.Value)), nil
}

// A profile is a file being read: its numbers by dotted key. Keys that are not
// taken in the end are unknown ones.
type profile struct {
	Errors
	files    files
	base     string // the profile that it differs from, or ""
	baseGPU  string // its gpu.name
	nodes    map[string]ast.Node
	keys     map[string]ast.Node
	taken    map[string]bool
	sections map[string]ast.Node // the headings, by dotted key
	order    []string
}

// leaf reports whether a mapping is an entry and not a section: one of its keys is a mark.
func leaf(n ast.Node) bool {
	return slices.ContainsFunc(Pairs(n), func(v *ast.MappingValueNode) bool {
		k := Key(v)
		return k == "value" || k == "rows" || slices.Contains(markKeys[:], k)
	})
}

// flatten notes every entry under its dotted key.
func (p *profile) flatten(prefix string, n ast.Node) {
	for _, v := range Pairs(n) {
		key := prefix + Key(v)
		if Pairs(v.Value) != nil && !leaf(v.Value) {
			p.sections[key] = v.Key
			p.flatten(key+".", v.Value)
			continue
		}
		p.nodes[key], p.keys[key] = v.Value, v.Key
		p.order = append(p.order, key)
	}
}

// take is the node of a key, which is then spoken for.
func (p *profile) take(key, cure string) (ast.Node, bool) {
	n, ok := p.nodes[key]
	if !ok {
		var heading ast.Node
		for at := sectionOf(key); at != "" && heading == nil; at = sectionOf(at) {
			heading = p.sections[at]
		}
		if p.base == "" {
			cure += ", or base: NAME of a profile that has what is left out"
		}
		p.Fail(heading, cure, "%s is missing", key)
		return nil, false
	}
	p.taken[key] = true
	return n, true
}

// omits reports whether the profile has no key of a part that may be left out.
func (p *profile) omits(part string) bool {
	return part != "" && !slices.ContainsFunc(p.order, func(key string) bool { return strings.HasPrefix(key, part) })
}

// renamed are keys that profiles had.
var renamed = map[string]string{"matmul.crowd": "it is matmul.idle_gain now", "launch.race_keeps": "nothing reads it any more: remove it"}

// rest reports keys that no profile has.
func (p *profile) rest() {
	known := []string{"base"}
	for _, f := range factors {
		known = append(known, "scale."+f.Name)
	}
	var m Machine
	for _, t := range texts(&m) {
		known = append(known, t.key)
	}
	for _, e := range Entries(&m) {
		known = append(known, e.Key)
	}
	for _, key := range p.order {
		switch {
		case p.taken[key]:
		case slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(k, key+".") }):
			p.Fail(p.nodes[key], "write "+key+": {KEY: ..., ...}", "%s is a section, and this is none", key)
		default:
			near, _ := nearest(key, known)
			p.Fail(p.keys[key], cmp.Or(renamed[key], "did you mean "+near+"?"), "unknown key %s", key)
		}
	}
}

func (p *profile) text(t text) {
	if p.omits(t.part) || p.keeps(t.key, *t.at != "") {
		return
	}
	n, ok := p.take(t.key, "add "+t.key+": TEXT")
	if !ok {
		return
	}
	if *t.at, ok = Word(n); !ok {
		p.Fail(n, "write one word or a quoted text", "%s is no text", t.key)
		return
	}
	if t.choices != nil && !slices.Contains(t.choices, *t.at) {
		p.Fail(n, "one of "+strings.Join(t.choices, ", "), "%s: %q is unknown", t.key, *t.at)
	}
}

func (p *profile) entry(e Entry) {
	if p.keeps(e.Key, !e.omitted()) {
		return
	}
	if p.omits(e.part) {
		e.Omit()
		return
	}
	if p.drops(e) {
		return
	}
	n, ok := p.take(e.Key, "add "+e.Key+": "+e.form())
	if !ok {
		return
	}
	body, source, mark := p.split(e, n)
	switch {
	case source == "": // reported
	case mark == Unknown && body != nil:
		p.Fail(n, "mark it assumed, or leave the number out", "%s has a number and is marked unknown", e.Key)
	case mark == Unknown && e.needed:
		p.Fail(n, "give a number marked assumed", "%s is unknown, but nothing can be replayed without it", e.Key)
	case mark != Unknown && body == nil:
		p.Fail(n, "write "+e.form()+", or mark it unknown: WHAT WAS LOOKED FOR", "%s has no %s", e.Key, e.body())
	case e.Table != nil:
		*e.Table = Table{Rows: p.rows(e, body), Source: source, Mark: mark}
	default:
		*e.Quantity = p.quantity(e, body)
		e.Quantity.Source, e.Quantity.Mark = source, mark
	}
}

// split is the number or rows of an entry and who says so; source is "" where
// that is missing, which it reports. A file with a base may give bare numbers.
func (p *profile) split(e Entry, n ast.Node) (body ast.Node, source string, mark Mark) {
	if !leaf(n) {
		if p.base == "" {
			p.Fail(n, "write "+e.form(), "%s has no source", e.Key)
			return nil, "", Sourced
		}
		return n, p.changed(e), Assumed
	}
	marks := 0
	for _, v := range Pairs(n) {
		k := Key(v)
		i := slices.Index(markKeys[:], k)
		switch {
		case i >= 0:
			source, mark = v.Value.GetToken().Value, Mark(i)
			marks++
			if _, scalar := v.Value.(ast.ScalarNode); !scalar || source == "" {
				p.Fail(v.Value, "say who measured or states it", "%s: %s is empty", e.Key, k)
			}
		case k == e.body():
			body = v.Value
		default:
			p.Fail(v.Value, "write "+e.form(), "%s: unknown key %s", e.Key, k)
		}
	}
	switch {
	case marks == 0 && p.base != "":
		return body, p.changed(e), Assumed
	case marks == 0:
		p.Fail(n, "add source: WHERE IT COMES FROM, or assumed: WHAT IT WAS TAKEN FROM", "%s has no source", e.Key)
	case marks > 1:
		p.Fail(n, "keep one", "%s has more than one of source, assumed and unknown", e.Key)
		return nil, "", Sourced
	}
	return body, source, mark
}

// body is the key that holds an entry's number or numbers.
func (e Entry) body() string {
	if e.Table != nil {
		return "rows"
	}
	return "value"
}

// form shows how an entry is written.
func (e Entry) form() string {
	if e.Table != nil {
		return "{source: TEXT, rows: [[...], ...]}"
	}
	return "{value: NUMBER" + map[bool]string{true: " UNIT"}[e.Dims[0] != Count && e.Dims[0] != Ratio] + ", source: TEXT}"
}

func (p *profile) quantity(e Entry, n ast.Node) Quantity {
	if n == nil {
		return Quantity{}
	}
	q, err := parseQuantity(n.GetToken().Value, e.Dims[0])
	switch {
	case err != nil:
		p.Fail(n, "write "+e.form(), "%s: %v", e.Key, err)
	case q.Value == 0 && e.divides():
		p.Fail(n, "give a number above 0", "%s is 0", e.Key)
	}
	return q
}

// rows reads a table. A cell is written like a quantity.
func (p *profile) rows(e Entry, n ast.Node) [][]float64 {
	if n == nil {
		return nil
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		p.Fail(n, "write "+e.form(), "%s: rows is no list", e.Key)
		return nil
	}
	if len(list.Values) == 0 {
		p.Fail(n, "mark it unknown: WHAT WAS LOOKED FOR", "%s: rows is empty", e.Key)
	}
	var out [][]float64
	for _, r := range list.Values {
		cells, ok := r.(*ast.SequenceNode)
		if !ok || len(cells.Values) != len(e.Dims) {
			p.Fail(r, fmt.Sprintf("a row has %d cells", len(e.Dims)), "%s: row of another length", e.Key)
			continue
		}
		row := make([]float64, len(e.Dims))
		for i, c := range cells.Values {
			q, err := parseQuantity(c.GetToken().Value, e.Dims[i])
			if err != nil {
				p.Fail(c, fmt.Sprintf("cell %d of a row is %v", i+1, e.Dims[i]), "%s: %v", e.Key, err)
			}
			if err == nil && q.Value == 0 {
				p.Fail(c, "curves are drawn over logarithms", "%s: cell %d is 0", e.Key, i+1)
			}
			row[i] = q.Value
		}
		if len(out) > 0 && slices.Compare(out[len(out)-1], row) >= 0 {
			p.Fail(r, "sort the rows; each may stand once", "%s: rows are not in ascending order", e.Key)
		}
		out = append(out, row)
	}
	return out
}

// Suggestion is ": did you mean WORD?" with the known word that differs least from the typed one;
// "" if all differ by more than a third of its letters.
func Suggestion(typed string, known []string) string {
	best, edits := nearest(typed, known)
	if typed == "" || edits > max(1, len([]rune(typed))/3) {
		return ""
	}
	return ": did you mean " + best + "?"
}

// nearest is the known word with the fewest edits to get from a word to it, the first of equals.
func nearest(word string, known []string) (best string, least int) {
	least = math.MaxInt
	for _, k := range known {
		if d := edits([]rune(word), []rune(k)); d < least {
			best, least = k, d
		}
	}
	return best, least
}

// edits is the number of letters to insert, delete, replace or swap with their
// neighbour to get from one word to the other (optimal string alignment).
func edits(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			n := last[j]
			if a[i] != b[j] {
				n++
			}
			n = min(n, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, before[j-1]+1)
			}
			row[j+1] = n
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
