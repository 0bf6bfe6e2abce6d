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
			x.Sort()
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
	var id, record int64
	var name string
	var shapes, types, buf []byte
	members(v, func(key, v []byte) {
		switch string(key) {
		case `"id"`:
			id = number(v)
		case `"name"`:
			name = validUTF8(text(v, &buf))
		case `"rf_id"`:
			record = number(v)
		case `"input_shapes"`:
			shapes = v
		case `"input_types"`:
			types = v
		case `"inputs"`:
			members(v, func(key, v []byte) {
				switch string(key) {
				case `"shapes"`:
					shapes = v
				case `"types"`:
					types = v
				}
			})
		case `"attrs"`:
			if r, ok := attribute(v, `"rf_id"`); ok {
				record = number(r)
			}
		}
	})
	x.Add(id, record, name, shapes, types)
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

// attribute finds the value of a named attribute in a list of {"name":…,"value":…}.
func attribute(b []byte, name string) (value []byte, ok bool) {
	for i := 1; i < len(b); i++ {
		if i = skipSpace(b, i); i >= len(b) || b[i] != '{' {
			return nil, false
		}
		end := skipValue(b, i, 0)
		if end < 0 {
			return nil, false
		}
		found := false
		members(b[i:end], func(key, v []byte) {
			switch string(key) {
			case `"name"`:
				found = string(v) == name
			case `"value"`:
				value = v
			}
		})
		if found {
			return value, true
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			return nil, false
		}
	}
	return nil, false
}
