package chrome

import (
	"io"

	"github.com/overlapse/overlapse/trace/assemble"
)

// ReadExecution reads PyTorch's execution trace in uncompressed JSON: the schema with
// attributes, and the earlier one whose nodes have input_shapes and rf_id as members.
func ReadExecution(r io.Reader, file string, limit int64) (*assemble.Execution, error) {
	x := assemble.NewExecution(file)
	w := window{r: r, limit: limit, file: file}
	if c, ok := w.peek(); !ok || c != '{' {
		return nil, w.ended("no execution trace")
	}
	w.pos++
	for {
		key, err := w.key()
		if err != nil {
			return nil, err
		}
		if key == nil {
			x.Finish()
			return x, nil
		}
		if string(key) == `"nodes"` {
			err = executionNodes(x, &w)
		} else {
			isProcess := string(key) == `"pid"` // the window may move and overwrite the key
			var v []byte
			if v, err = w.value(); err == nil && isProcess {
				x.Process = number(v)
			}
		}
		if err != nil {
			return nil, err
		}
		if c, ok := w.peek(); ok && c == ',' {
			w.pos++
		}
	}
}

// executionNodes reads the list of nodes, which is next.
func executionNodes(x *assemble.Execution, w *window) error {
	if c, ok := w.peek(); !ok || c != '[' {
		return w.syntax(w.pos, "nodes is not a list", "give the execution trace as PyTorch wrote it", nil)
	}
	w.pos++
	for {
		switch c, ok := w.peek(); {
		case !ok:
			return w.ended("the file ends inside the nodes")
		case c == ']':
			w.pos++
			return nil
		case c == ',':
			w.pos++
		case c != '{':
			return w.unexpected(w.pos)
		default:
			v, err := w.value()
			if err != nil {
				return err
			}
			executionNode(x, v)
		}
	}
}

// executionNode adds the operator of a node.
func executionNode(x *assemble.Execution, v []byte) {
	var n assemble.Node
	var buf []byte
	members(v, func(key, v []byte) {
		switch string(key) {
		case `"id"`:
			n.ID = number(v)
		case `"name"`:
			n.Name = validUTF8(text(v, &buf))
		case `"ctrl_deps"`, `"parent"`:
			n.Caller = number(v)
		case `"rf_id"`:
			n.Record = number(v)
		case `"op_schema"`:
			n.Schema = string(text(v, &buf))
		case `"input_shapes"`:
			n.Inputs.Shapes = v
		case `"input_types"`:
			n.Inputs.Types = v
		case `"inputs"`:
			operands(&n.Inputs, v)
		case `"outputs"`:
			operands(&n.Outputs, v)
		case `"attrs"`:
			attributes(v, func(name, value []byte) {
				switch string(name) {
				case `"rf_id"`:
					n.Record = number(value)
				case `"op_schema"`:
					n.Schema = string(text(value, &buf))
				case `"kernel_backend"`:
					n.Triton = string(value) == `"triton"`
				}
			})
		}
	})
	x.Add(n)
}

// operands reads the inputs or outputs of a node: an object of lists, or in the earlier
// schema the values alone.
func operands(to *assemble.Values, v []byte) {
	if len(v) > 0 && v[0] == '[' {
		to.Values = v
	}
	members(v, func(key, v []byte) {
		switch string(key) {
		case `"values"`:
			to.Values = v
		case `"shapes"`:
			to.Shapes = v
		case `"types"`:
			to.Types = v
		case `"strides"`:
			to.Strides = v
		}
	})
}

// members calls f for every member of an object, and not at all for other values.
func members(b []byte, f func(key, v []byte)) {
	if len(b) == 0 || b[0] != '{' {
		return
	}
	for i := 1; ; {
		key, j := nextKey(b, i)
		if key == nil {
			return
		}
		end := skipValue(b, j, 0)
		if end < 0 {
			return
		}
		f(key, b[j:end])
		if i = skipComma(b, end); i < 0 {
			return
		}
	}
}

// attributes calls f for every item of a list of {"name":…,"value":…}.
func attributes(b []byte, f func(name, value []byte)) {
	for i := 1; i < len(b); i++ {
		if i = skipSpace(b, i); i >= len(b) || b[i] != '{' {
			return
		}
		end := skipValue(b, i, 0)
		if end < 0 {
			return
		}
		var name, value []byte
		members(b[i:end], func(key, v []byte) {
			switch string(key) {
			case `"name"`:
				name = v
			case `"value"`:
				value = v
			}
		})
		f(name, value)
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			return
		}
	}
}
