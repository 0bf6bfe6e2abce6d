package chrome

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An Execution is an execution trace of one process, as PyTorch's observer
// writes it, or as Chakra converts that: operators with the shapes of their
// inputs, without times. It says more than a Kineto file without record_shapes.
type Execution struct {
	File      string
	Rank      int        // as the file's name says, or trace.None
	Process   int64      // the operating system's number of it; 0 where unknown
	Operators []Recorded // in order of their ids, which is that of their calls
}

// A Recorded is one call of an operator.
type Recorded struct {
	ID       int64 // of the node in its file
	Record   int64 // of the call, as Kineto's "Record function id"; 0 where unknown
	Operator trace.Operator
}

// ReadExecution reads PyTorch's execution trace in JSON, uncompressed: of the
// schema that has attributes, and of the one before, whose nodes have
// input_shapes and rf_id themselves.
func ReadExecution(r io.Reader, file string, limit int64) (*Execution, error) {
	x := NewExecution(file)
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
			err = x.nodes(&w)
		} else {
			isProcess := string(key) == `"pid"` // the key moves with the window
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

// NewExecution returns an empty execution trace of the rank that the file is named after.
func NewExecution(file string) *Execution {
	return &Execution{File: file, Rank: executionRank(file)}
}

var lastNumber = regexp.MustCompile(`(?:^|\D)(\d{1,6})\D*$`)

// executionRank reads the rank from a name such as rank0_et.json, et_0.json or model.0.et.
func executionRank(file string) int {
	if n := trace.RankInName(file); n != trace.None {
		return n
	}
	m := lastNumber.FindStringSubmatch(path.Base(strings.ReplaceAll(file, `\`, "/")))
	if m == nil {
		return trace.None
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return trace.None
	}
	return n
}

// nodes reads the list of nodes, which is next.
func (x *Execution) nodes(w *window) error {
	if c, ok := w.peek(); !ok || c != '[' {
		return w.syntax(w.pos, "nodes is no list", "give the execution trace as PyTorch wrote it", nil)
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
			x.node(v)
		}
	}
}

// node adds what one node tells.
func (x *Execution) node(v []byte) {
	var n Recorded
	var name string
	var shapes, types, buf []byte
	members(v, func(key, v []byte) {
		switch string(key) {
		case `"id"`:
			n.ID = number(v)
		case `"name"`:
			name = validUTF8(text(v, &buf))
		case `"rf_id"`:
			n.Record = number(v)
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
				n.Record = number(r)
			}
		}
	})
	x.Add(n.ID, n.Record, name, shapes, types)
}

// Add adds the call of an operator whose shapes and types are lists in JSON.
func (x *Execution) Add(id, record int64, name string, shapesJSON, typesJSON []byte) {
	n := Recorded{ID: id, Record: record, Operator: trace.Operator{Name: name, Dims: shapes(shapesJSON)}}
	if json.Unmarshal(typesJSON, &n.Operator.Types) != nil {
		n.Operator.Types = nil
	}
	for i, t := range n.Operator.Types {
		n.Operator.Types[i] = elementType(t)
	}
	x.Operators = push(x.Operators, n)
}

// elementType is a type as Kineto writes it: float for Tensor(float), as for a list of such.
func elementType(t string) string {
	t = strings.TrimSuffix(strings.TrimPrefix(t, "GenericList["), "]")
	t, _, _ = strings.Cut(t, ",")
	if inner, ok := strings.CutPrefix(t, "Tensor("); ok {
		return strings.TrimSuffix(inner, ")")
	}
	return t
}

// Sort puts the operators in order of their ids.
func (x *Execution) Sort() {
	slices.SortStableFunc(x.Operators, func(a, b Recorded) int { return cmp.Compare(a.ID, b.ID) })
}

// members calls f for every member of an object; of anything else there is none.
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

// ErrNoTimes is the cause of an error about an execution trace that stands alone.
var ErrNoTimes = errors.New("it has shapes but no times")

// Alone is the error about an execution trace without its Kineto file.
func Alone(file string) error {
	return &trace.SyntaxError{
		File: file,
		Msg:  "this is an execution trace",
		Cure: "give it beside the Kineto trace of the same rank, as a folder or a pattern with both",
		Err:  ErrNoTimes,
	}
}
