package assemble

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An Execution is an execution trace of one process, as written by PyTorch's observer
// or converted by Chakra: operators with the shapes and storages of their tensors, without
// times. A Kineto file has no storages, and without record_shapes no shapes.
type Execution struct {
	File      string
	Rank      int        // from the file's name, or trace.None
	Process   int64      // the operating system's process id; 0 if unknown
	Operators []Recorded // in order of their ids, which is call order

	calls tree
}

// A Recorded is one call of an operator.
type Recorded struct {
	ID       int64 // node id in the file
	Record   int64 // Kineto's "Record function id" of the call; 0 if unknown
	Operator trace.Operator

	caller          int64 // node id
	inputs, outputs []tensor
	triton          bool // a kernel of Inductor
	declared        bool // its declaration says which arguments it changes
	way             way
}

// A Node is one operator's record in an execution trace, with lists as JSON.
type Node struct {
	ID, Record, Caller int64
	Name, Schema       string // Schema: the operator's declaration, or ""
	Triton             bool
	Inputs, Outputs    Values
}

// NewExecution returns an empty execution trace of the rank in the file's name.
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

// Add adds the call of an operator.
func (x *Execution) Add(n Node) {
	r := Recorded{
		ID: n.ID, Record: n.Record, caller: n.Caller, triton: n.Triton,
		declared: n.Schema != "" || strings.HasPrefix(n.Name, "aten::"),
	}
	r.Operator = OperatorOf(n.Name, n.Inputs.Shapes, n.Inputs.Types, n.Inputs.Strides)
	for i, t := range r.Operator.Types {
		r.Operator.Types[i] = elementType(t)
	}
	r.inputs = n.Inputs.tensors(parseSchema(n.Name, n.Schema).access)
	r.outputs = n.Outputs.tensors(func(int) (read, write bool) { return false, true })
	if r.isComm() {
		r.way = wayOf(n.Inputs.Values)
	}
	x.Operators = append(x.Operators, r)
}

// elementType returns a type in Kineto's spelling: float for Tensor(float), and for a
// list of such tensors.
func elementType(t string) string {
	t = strings.TrimSuffix(strings.TrimPrefix(t, "GenericList["), "]")
	t, _, _ = strings.Cut(t, ",")
	if inner, ok := strings.CutPrefix(t, "Tensor("); ok {
		return strings.TrimSuffix(inner, ")")
	}
	return t
}

// Finish sorts the operators by id and resolves their storages.
func (x *Execution) Finish() {
	slices.SortStableFunc(x.Operators, func(a, b Recorded) int { return cmp.Compare(a.ID, b.ID) })
	x.resolve()
}

// OperatorOf reads the inputs of an operator: lists in JSON. Without strides inputs count as contiguous.
func OperatorOf(name string, dims, types, strides []byte) trace.Operator {
	op := trace.Operator{Name: name}
	op.Dims, op.Lists = shapes(dims)
	op.Strides = uncommon(op.Dims, strides)
	if json.Unmarshal(types, &op.Types) != nil {
		op.Types = nil
	}
	return op
}

// uncommon reads "Input Strides", and keeps those of inputs that are not contiguous.
func uncommon(dims [][]int64, b []byte) [][]int64 {
	if b == nil {
		return nil
	}
	strides, _ := shapes(b)
	if len(strides) != len(dims) {
		return nil
	}
	for i, s := range strides {
		if len(s) != len(dims[i]) || contiguous(dims[i], s) {
			strides[i] = nil
		}
	}
	if !slices.ContainsFunc(strides, func(s []int64) bool { return s != nil }) {
		return nil
	}
	return strides
}

// contiguous reports whether the last axis is the innermost in memory, and so on, without gaps. An axis of size 1 counts too: its
// stride tells where it would be if it were longer.
func contiguous(dims, strides []int64) bool {
	next := int64(1)
	for i, size := range slices.Backward(dims) {
		if strides[i] != next {
			return false
		}
		next *= size
	}
	return true
}

// Causal reports whether an operator is attention in which a query sees the keys up to its own place, by the
// values of its inputs: in all schemas of ATen's attention but the backward of memory-efficient attention,
// is_causal stands behind dropout_p, the first fraction.
func Causal(name, values []byte) bool {
	var list []string
	if !bytes.Contains(name, []byte("attention")) || json.Unmarshal(values, &list) != nil {
		return false
	}
	dropout := slices.IndexFunc(list, func(v string) bool { return strings.Contains(v, ".") })
	return dropout >= 0 && dropout+1 < len(list) && (list[dropout+1] == "True" || list[dropout+1] == "1") // 1: a mask's type
}

// shapes reads "Input Dims": a list with one shape per input. A list of one tensor has
// that tensor's shape; longer ones are in lists, other values have none.
func shapes(b []byte) (dims [][]int64, lists [][][]int64) {
	var inputs []json.RawMessage
	if json.Unmarshal(b, &inputs) != nil {
		return nil, nil
	}
	dims = make([][]int64, len(inputs))
	for i, in := range inputs {
		var shape []int64
		var list [][]int64
		switch {
		case json.Unmarshal(in, &shape) == nil && len(shape) > 0:
			dims[i] = shape
		case json.Unmarshal(in, &list) != nil:
		case len(list) == 1:
			dims[i] = list[0]
		case len(list) > 1:
			lists = append(lists, list)
		}
	}
	return dims, lists
}

// Alone returns the error for an execution trace without its Kineto file.
func Alone(file string) error {
	return &trace.SyntaxError{
		File: file,
		Msg:  "this is an execution trace",
		Cure: "give it with the Kineto trace of the same rank, as a folder or a pattern with both",
		Err:  trace.NoTrace("it has shapes but no times"),
	}
}
