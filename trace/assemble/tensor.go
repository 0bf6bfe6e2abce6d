package assemble

import (
	"math"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A tensor is an argument or a result of an operator, with the bytes of its storage
// that it covers.
type tensor struct {
	trace.Access
	Object int32 // number of the tensor object: views of one storage are different objects
}

// maxTensorNesting is how deep lists of tensors nest in arguments.
const maxTensorNesting = 4

// A Values is lists of an operator's arguments or results in JSON, as the observer
// writes them.
type Values struct{ Values, Shapes, Types, Strides []byte }

// tensors returns the tensors among the values. access is what the operator does with
// the argument of an index.
func (v Values) tensors(access func(arg int) (read, write bool)) []tensor {
	var list []tensor
	shapes, strides := lex.Elements(v.Shapes), lex.Elements(v.Strides)
	for i, b := range lex.Elements(v.Values) {
		first := len(list)
		list = appendTensors(list, b, at(shapes, i), at(strides, i), 0)
		for k := first; k < len(list); k++ {
			list[k].Read, list[k].Write = access(i)
		}
	}
	return list
}

func at(list [][]byte, i int) []byte {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// appendTensors appends the tensor that a value is, or the tensors of a list.
func appendTensors(list []tensor, value, shape, strides []byte, depth int) []tensor {
	if len(value) == 0 || value[0] != '[' || depth > maxTensorNesting {
		return list
	}
	parts := lex.Elements(value)
	if t, ok := tensorOf(parts, shape, strides); ok {
		if t.To > t.From {
			list = append(list, t)
		}
		return list
	}
	shapes, all := lex.Elements(shape), lex.Elements(strides)
	for i, p := range parts {
		list = appendTensors(list, p, at(shapes, i), at(all, i), depth+1)
	}
	return list
}

// tensorOf reads [tensor id, storage id, offset, elements, element size, device]. Both
// ids stand for addresses: of the tensor object and of the first byte of its storage.
func tensorOf(parts [][]byte, shape, strides []byte) (t tensor, ok bool) {
	const members = 6
	if len(parts) != members || len(parts[members-1]) == 0 || parts[members-1][0] != '"' {
		return t, false
	}
	var n [members - 1]int64
	for i := range n {
		if n[i], ok = lex.Integer(parts[i]); !ok {
			return t, false
		}
	}
	object, storage, offset, count, size := n[0], n[1], n[2], n[3], n[4]
	t.Object, t.Storage = Narrow(object), Narrow(storage)
	if storage == 0 || t.Storage == 0 || string(parts[members-1]) == `"meta"` {
		return t, true
	}
	count = extent(count, shape, strides)
	const most = math.MaxInt64 / 4
	if size <= 0 || offset < 0 || count <= 0 || offset > most/size || count > most/size {
		return t, true
	}
	t.From, t.To = offset*size, (offset+count)*size
	return t, true
}

// extent is the number of elements from the first to the last one of a tensor.
func extent(count int64, shape, strides []byte) int64 {
	sizes, steps := lex.Elements(shape), lex.Elements(strides)
	if len(sizes) != len(steps) || len(sizes) == 0 {
		return count
	}
	last := int64(0)
	for i := range sizes {
		n, ok := lex.Integer(sizes[i])
		step, isStep := lex.Integer(steps[i])
		if !ok || !isStep || n <= 0 || step < 0 || step > math.MaxInt32 || n > math.MaxInt32 || last > math.MaxInt64/2 {
			return count
		}
		last += (n - 1) * step
	}
	return last + 1
}

// A schema is what an operator's declaration says of its arguments.
type schema struct {
	written []bool // by argument
	out     []bool // by argument: results are written to it, and it is not read
}

// parseSchema reads a declaration such as
// "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)":
// an argument with an exclamation mark is written.
func parseSchema(name, text string) schema {
	_, rest, ok := strings.Cut(text, "(")
	var s schema
	if !ok && strings.HasPrefix(name, "aten::") && strings.HasSuffix(name, "_") {
		rest = "Tensor(a!) self)" // earlier traces have no declarations; the name says that it works in place
	}
	for _, arg := range arguments(rest) {
		if arg == "*" {
			continue
		}
		kind, word, _ := strings.Cut(arg, " ")
		written := strings.Contains(kind, "!")
		// of others, out may be a sum
		result := strings.HasPrefix(word, "out") && (strings.HasPrefix(name, "aten::") || strings.HasPrefix(name, "fsdp::"))
		s.written = append(s.written, written)
		s.out = append(s.out, written && (result || overwrites[name]))
	}
	return s
}

// overwrites are the in-place operators that do not read what they write. All others
// may.
var overwrites = map[string]bool{
	"aten::copy_": true, "aten::fill_": true, "aten::zero_": true, "aten::_foreach_copy_": true, "aten::_foreach_zero_": true,
	"aten::normal_": true, "aten::uniform_": true, "aten::random_": true, "aten::bernoulli_": true, "aten::exponential_": true,
}

// arguments splits the arguments of a declaration up to the closing bracket.
func arguments(s string) []string {
	var list []string
	depth, first := 0, 0
	for i, c := range s {
		switch {
		case c == '(' || c == '[':
			depth++
		case (c == ')' || c == ']') && depth > 0:
			depth--
		case c == ')' || c == ',' && depth == 0:
			if arg := strings.TrimSpace(s[first:i]); arg != "" {
				list = append(list, arg)
			}
			if c == ')' {
				return list
			}
			first = i + 1
		}
	}
	return list
}

// access is what the operator does with an argument.
func (s schema) access(arg int) (read, write bool) {
	if arg >= len(s.written) {
		return true, false
	}
	return !s.out[arg], s.written[arg]
}
