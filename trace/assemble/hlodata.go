package assemble

import (
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// An hloBuffer is an array among the results of an instruction.
type hloBuffer struct {
	storage  int32
	from, to int64
}

// An hloValue is a buffer or a tuple of values.
type hloValue struct {
	hloBuffer
	parts []*hloValue
	size  int // itself and all parts
}

// operator is an instruction as an operator with the shapes of what it reads. The operands of a product of matrices are
// [batch, M, K] and [batch, K, N], whatever the order of their dimensions.
func (m *hloModule) operator(i *hloInstruction) trace.Operator {
	o := trace.Operator{Name: i.path}
	if o.Name == "" {
		o.Name = i.name
	}
	if a, b, dot := m.factors(i); dot != nil {
		if !strings.HasSuffix(o.Name, "/dot_general") { // JAX's word, which the lift looks for
			o.Name += "/dot_general"
		}
		c := &dot.contracts
		o.Dims = [][]int64{matrix(a.dims, c[2], c[0], false), matrix(b.dims, c[3], c[1], true)}
		o.Types = []string{a.dtype, b.dtype}
		return o
	}
	for k := range i.operands {
		if of := m.part(i, k); of != nil {
			for _, a := range of.arrays(nil) {
				o.Dims, o.Types = append(o.Dims, a.dims), append(o.Types, a.dtype)
			}
		}
	}
	return o
}

// part is the shape of what an instruction reads of an operand: of a table or a stack of layers, of which a fusion takes slices
// alone, the slices, and of a buffer in which it replaces a slice, that.
func (m *hloModule) part(i *hloInstruction, k int) *hloShape {
	of := m.at(i.operands, k)
	if of == nil {
		return nil
	}
	var parameter *hloInstruction
	if i.opcode == "fusion" && len(i.called) == 1 && m.computations[i.called[0]] != nil {
		all := m.computations[i.called[0]].all
		if at := slices.IndexFunc(all, func(p *hloInstruction) bool { return p.opcode == "parameter" && p.index == int64(k) }); at >= 0 {
			parameter = all[at]
		}
	}
	if parameter == nil {
		return of.shape
	}
	var part *hloShape
	for _, user := range parameter.of.all {
		switch first := m.at(user.operands, 0); {
		case !slices.ContainsFunc(user.operands, func(id int64) bool { return m.byID[id] == parameter }):
		case first == parameter && (user.opcode == "gather" || user.opcode == "slice" || user.opcode == "dynamic-slice"):
			part = user.shape
		case first == parameter && user.opcode == "dynamic-update-slice" && m.at(user.operands, 1) != nil:
			part = m.at(user.operands, 1).shape
		default:
			return of.shape
		}
	}
	if part == nil {
		return of.shape
	}
	return part
}

// factors are the two sides of the product of matrices that an instruction is or holds, and the instruction with its
// dimensions; nil if there is none, or several.
func (m *hloModule) factors(i *hloInstruction) (a, b *hloShape, dot *hloInstruction) {
	dot = i
	if i.opcode == "fusion" && len(i.called) == 1 && m.computations[i.called[0]] != nil {
		dot = nil
		for _, x := range m.computations[i.called[0]].all {
			if x.opcode == "dot" && dot != nil {
				return nil, nil, nil
			}
			if x.opcode == "dot" {
				dot = x
			}
		}
	}
	if dot == nil || len(dot.contracts[0]) == 0 {
		return nil, nil, nil
	}
	left, right := m.at(dot.operands, 0), m.at(dot.operands, 1)
	if left == nil || right == nil {
		return nil, nil, nil
	}
	return left.shape, right.shape, dot
}

// matrix orders the dimensions of one side of a product: batch, then rows and columns, of which the contracted ones are
// the rows of the right side.
func matrix(dims, batch, contracted []int64, right bool) []int64 {
	size := func(of []int64) []int64 {
		var list []int64
		for _, d := range of {
			if d >= 0 && d < int64(len(dims)) {
				list = append(list, dims[d])
			}
		}
		return list
	}
	var free []int64
	for d := range dims {
		if !slices.Contains(batch, int64(d)) && !slices.Contains(contracted, int64(d)) {
			free = append(free, int64(d))
		}
	}
	rows, columns := extentOf(size(free), MaxBytes), extentOf(size(contracted), MaxBytes)
	if right {
		rows, columns = columns, rows
	}
	if len(batch) == 0 {
		return []int64{rows, columns}
	}
	return []int64{extentOf(size(batch), MaxBytes), rows, columns}
}

// result is a new value of a shape: its arrays one behind the other in a storage.
func (m *hloModule) result(s *hloShape) *hloValue {
	m.storages++
	at := int64(0)
	var of func(s *hloShape) *hloValue
	of = func(s *hloShape) *hloValue {
		v := &hloValue{}
		if s.dtype != "" {
			n := min(s.bytes(), MaxBytes-at)
			v.hloBuffer, at = hloBuffer{m.storages, at, at + n}, at+n
		}
		for _, p := range s.parts {
			v.join(of(p))
		}
		return v
	}
	return of(s)
}

// valueOf is where the result of an instruction is: in buffers of its own, or in those of others.
func (m *hloModule) valueOf(i *hloInstruction, depth int) *hloValue {
	if i == nil || depth > maxNesting*maxNesting {
		return &hloValue{}
	}
	if v := m.values[i]; v != nil {
		return v
	}
	m.values[i] = &hloValue{} // of a program that depends on itself
	operand := func(k int) *hloValue {
		if k < 0 || k >= len(i.operands) {
			return &hloValue{}
		}
		return m.valueOf(m.byID[i.operands[k]], depth+1)
	}
	part := func(v *hloValue, k int64) *hloValue {
		if k < 0 || k >= int64(len(v.parts)) {
			return &hloValue{}
		}
		return v.parts[k]
	}
	root := func() *hloValue {
		if len(i.called) == 0 || m.computations[i.called[0]] == nil {
			return &hloValue{}
		}
		return m.valueOf(m.computations[i.called[0]].root, depth+1)
	}
	var v *hloValue
	switch i.opcode {
	case "parameter":
		switch caller := i.of.caller; {
		case caller == nil || caller.opcode == "fusion":
			v = m.result(i.shape)
		case caller.opcode == "while":
			v = m.valueOf(caller, depth+1)
		case caller.opcode == "conditional":
			v = m.valueOf(m.at(caller.operands, i.of.branch+1), depth+1)
		default:
			v = m.valueOf(m.at(caller.operands, int(i.index)), depth+1)
		}
	case "tuple":
		v = &hloValue{}
		for k := range i.operands {
			v.join(operand(k))
		}
	case "get-tuple-element":
		v = part(operand(0), i.index)
	case "bitcast", "opt-barrier", "domain", "add-dependency", "async-update", "all-reduce-done":
		v = operand(0)
	case "call":
		v = root()
	case "async-start":
		v = &hloValue{parts: []*hloValue{{}}}
		v.join(root())
	case "async-done", "all-gather-done", "collective-permute-done":
		v = part(operand(0), 1)
	case "copy-done":
		v = part(operand(0), 0)
	default:
		v = m.result(i.shape)
	}
	m.values[i] = v
	return v
}

// join appends a part, unless a tuple holds it so often that no program has it.
func (v *hloValue) join(part *hloValue) {
	const most = 1 << 16
	if v.size += part.size + 1; v.size > most {
		part = &hloValue{}
	}
	v.parts = append(v.parts, part)
}

// carry finds to where values go on: what the body of a loop returns to the next iteration, what a branch returns, and what
// the entry returns in the place of its parameters to the next run.
func (m *hloModule) carry(entry *hloComputation, alias []byte) {
	ids := make([]int64, 0, len(m.byID))
	for id := range m.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids) // the order gives the storages their numbers
	for _, id := range ids {
		i := m.byID[id]
		if i.opcode != "while" && i.opcode != "conditional" {
			continue
		}
		to := m.valueOf(i, 0)
		for _, b := range to.buffers(nil) {
			m.persists[b.storage] = true
		}
		if i.opcode == "while" {
			m.goesOn(m.valueOf(m.at(i.operands, 0), 0), to)
		}
		for _, id := range i.called {
			if c := m.computations[id]; c != nil {
				m.goesOn(m.valueOf(c.root, 0), to)
			}
		}
	}
	parameters := map[int64]*hloInstruction{}
	for _, i := range entry.all {
		if i.opcode == "parameter" {
			parameters[i.index] = i
			for _, b := range m.valueOf(i, 0).buffers(nil) {
				m.persists[b.storage] = true
			}
		}
	}
	for f := (lex.Field{Rest: alias}); f.Next(); { // entries: output_shape_index, parameter_number, parameter_shape_index
		if p := parameters[int64(lex.Last(f.Bytes, 2).Number)]; p != nil {
			m.goesOn(m.valueOf(entry.root, 0).element(signed(f.Bytes, 1)), m.valueOf(p, 0).element(signed(f.Bytes, 3)))
		}
	}
}

// element is what of a tuple has an index of each level.
func (v *hloValue) element(index []int64) *hloValue {
	for _, k := range index {
		if k < 0 || k >= int64(len(v.parts)) {
			return &hloValue{}
		}
		v = v.parts[k]
	}
	return v
}

// goesOn notes that what is written to one value is in another one then.
func (m *hloModule) goesOn(from, to *hloValue) {
	if a, b := from.hloBuffer, to.hloBuffer; a.storage != 0 && b.storage != 0 && a != b {
		m.flowsTo[a] = append(m.flowsTo[a], b)
	}
	for k := range min(len(from.parts), len(to.parts)) {
		m.goesOn(from.parts[k], to.parts[k])
	}
}

// buffers appends the buffers of a value.
func (v *hloValue) buffers(list []hloBuffer) []hloBuffer {
	if v.storage != 0 && v.to > v.from {
		list = append(list, v.hloBuffer)
	}
	for _, p := range v.parts {
		list = p.buffers(list)
	}
	return list
}

// accesses are what an instruction reads and writes.
func (m *hloModule) accesses(i *hloInstruction) (list []trace.Access) {
	access := func(b hloBuffer) trace.Access {
		a := trace.Access{Storage: b.storage, From: b.from, To: b.to}
		if !m.persists[b.storage] {
			a.Life = 1
		}
		return a
	}
	for _, id := range i.operands {
		for _, b := range m.valueOf(m.byID[id], 0).buffers(nil) {
			a := access(b)
			a.Read = true
			list = append(list, a)
		}
	}
	writes := m.valueOf(i, 0).buffers(nil)
	for k := 0; k < len(writes); k++ {
		b := writes[k]
		a := access(b)
		a.Write = true
		list = append(list, a)
		for _, next := range m.flowsTo[b] {
			if !slices.Contains(writes, next) {
				writes = append(writes, next)
			}
		}
	}
	return unique(list)
}
