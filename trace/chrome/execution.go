package chrome

import (
	"io"

	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// ReadExecution reads PyTorch's execution trace in uncompressed JSON: the schema with
// attributes, and the earlier one whose nodes have input_shapes and rf_id as lex.Members.
func ReadExecution(r io.Reader, file string, limit int64) (*assemble.Execution, error) {
	x, s := assemble.NewExecution(file), lex.NewScanner(r, file, limit)
	for s.Object(); s.More(); {
		switch string(s.Key()) {
		case "pid":
			x.Process = s.Number()
		case "nodes":
			for s.Array(); s.More(); {
				executionNode(x, s.Value())
			}
		default:
			s.Skip()
		}
	}
	if s.Err != nil {
		return nil, s.Err
	}
	x.Finish()
	return x, nil
}

// executionNode adds the operator of a node.
func executionNode(x *assemble.Execution, v []byte) {
	var n assemble.Node
	var buf []byte
	lex.Members(v, func(key, v []byte) {
		switch string(key) {
		case `"id"`:
			n.ID = number(v)
		case `"name"`:
			n.Name = lex.ValidUTF8(lex.Text(v, &buf))
		case `"ctrl_deps"`, `"parent"`:
			n.Caller = number(v)
		case `"rf_id"`:
			n.Record = number(v)
		case `"op_schema"`:
			n.Schema = string(lex.Text(v, &buf))
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
					n.Schema = string(lex.Text(value, &buf))
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
	lex.Members(v, func(key, v []byte) {
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

// attributes calls f for every item of a list of {"name":…,"value":…}.
func attributes(b []byte, f func(name, value []byte)) {
	for _, item := range lex.Elements(b) {
		var name, value []byte
		lex.Members(item, func(key, v []byte) {
			switch string(key) {
			case `"name"`:
				name = v
			case `"value"`:
				value = v
			}
		})
		f(name, value)
	}
}
