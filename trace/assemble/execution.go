package assemble

import (
	"cmp"
	"encoding/json"
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An Execution is an execution trace of one process, as PyTorch's observer
// writes it, or as Chakra converts that: operators with the shapes of their
// inputs, without times. A Kineto file without record_shapes lacks these shapes.
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

// NewExecution returns an empty execution trace of the rank that the file is named after.
func NewExecution(file string) *Execution {
	return &Execution{File: file, Rank: executionRank(file)}
}

var numberInName = regexp.MustCompile(`(?:^|\D)(\d{1,6})\D*$`)

// executionRank reads the rank from a name such as rank0_et.json, et_0.json or model.0.et.
func executionRank(file string) int {
	if n := trace.RankInName(file); n != trace.None {
		return n
	}
	m := numberInName.FindStringSubmatch(path.Base(strings.ReplaceAll(file, `\`, "/")))
	if m == nil {
		return trace.None
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return trace.None
	}
	return n
}

// Add adds the call of an operator whose shapes and types are lists in JSON.
func (x *Execution) Add(id, record int64, name string, shapesJSON, typesJSON []byte) {
	n := Recorded{ID: id, Record: record, Operator: trace.Operator{Name: name, Dims: Shapes(shapesJSON)}}
	if json.Unmarshal(typesJSON, &n.Operator.Types) != nil {
		n.Operator.Types = nil
	}
	for i, t := range n.Operator.Types {
		n.Operator.Types[i] = elementType(t)
	}
	x.Operators = append(x.Operators, n)
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

// Shapes reads "Input Dims": a list with one shape an input. A list of one
// tensor is that tensor; longer lists and what is no tensor have no shape.
func Shapes(b []byte) [][]int64 {
	var inputs []json.RawMessage
	if json.Unmarshal(b, &inputs) != nil {
		return nil
	}
	dims := make([][]int64, len(inputs))
	for i, in := range inputs {
		var shape []int64
		var list [][]int64
		switch {
		case json.Unmarshal(in, &shape) == nil && len(shape) > 0:
			dims[i] = shape
		case json.Unmarshal(in, &list) == nil && len(list) == 1:
			dims[i] = list[0]
		}
	}
	return dims
}

// ErrNoTimes is the cause of an error about an execution trace that stands alone.
var ErrNoTimes = errors.New("it has shapes but no times")

// Alone is the error about an execution trace without its Kineto file.
func Alone(file string) error {
	return &trace.SyntaxError{
		File: file,
		Msg:  "this is an execution trace",
		Cure: "give it with the Kineto trace of the same rank, as a folder or a pattern with both",
		Err:  ErrNoTimes,
	}
}
