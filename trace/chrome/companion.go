package chrome

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// An operatorCall is a call of a framework operator with its numbers in a Kineto file.
type operatorCall struct {
	call          int32 // row of Run.Calls
	pos           int64
	record, index int64 // "Record function id", "Ev Idx"
}

// complement takes operator shapes that the file lacks from the execution trace of its
// rank. Calls are matched by number: "Record function id" is the observer's rf_id;
// older files have the number as "External id", or no number. Without numbers,
// operators of one name are matched in order if both sides have equally many. A number
// matches only calls of the same name.
func (d *reader) complement() {
	if d.o.Companion == nil || len(d.operatorCalls) == 0 {
		return
	}
	x := d.o.Companion(d.Builder.Run.Ranks[0].ID, d.hasProcess)
	if x == nil {
		return
	}
	joined := d.counterparts(x)
	d.adopt(x, joined)
	used := make([]bool, len(x.Operators))
	for i, a := range d.operatorCalls {
		call := &d.Builder.Run.Calls[a.call]
		switch at := joined[i]; {
		case at == trace.None && call.Op == trace.None:
			d.note(trace.Noted, "operator without shapes that the execution trace does not have", a.pos)
		case at == trace.None:
		default:
			used[at] = true
			if op := x.Operators[at].Operator; call.Op == trace.None && len(op.Dims) > 0 {
				call.Op = trace.Memo(d.ops, fmt.Sprintf("%q %v %q", op.Name, op.Dims, op.Types), func() int32 { return d.Builder.AddOperator(op) })
				d.note(trace.Noted, "operator's shapes taken from the execution trace "+x.File, a.pos)
			}
		}
	}
	for i, r := range x.Operators {
		if !used[i] && len(r.Operator.Dims) > 0 {
			d.Builder.Note(trace.Noted, x.File, "operator with shapes that the Kineto file does not have", "node", r.ID)
		}
	}
}

// hasProcess reports whether the file has rows of the process.
func (d *reader) hasProcess(pid int64) bool {
	return slices.ContainsFunc(d.tracks, func(t track) bool {
		n, ok := lex.Integer([]byte(t.pid))
		return ok && n == pid && t.place == onHost
	})
}

// counterparts returns, by index of d.operatorCalls, the index in x.Operators or None.
func (d *reader) counterparts(x *assemble.Execution) []int32 {
	at := map[int64]int32{}
	for i, r := range x.Operators {
		if _, twice := at[r.Record]; twice {
			at[r.Record] = trace.None
		} else {
			at[r.Record] = int32(i)
		}
	}
	delete(at, 0)
	for _, number := range [...]func(operatorCall) int64{
		func(a operatorCall) int64 { return a.record },
		func(a operatorCall) int64 { return d.Builder.Run.Calls[a.call].External },
		func(a operatorCall) int64 { return a.index },
	} {
		if joined, ok := d.byNumber(x, at, number); ok {
			return joined
		}
	}
	return d.byOrder(x)
}

// byNumber matches calls by number; ok is false if few numbers match, or if names show
// that the numbers have another meaning.
func (d *reader) byNumber(x *assemble.Execution, at map[int64]int32, number func(operatorCall) int64) (joined []int32, ok bool) {
	joined = make([]int32, len(d.operatorCalls))
	same, other := 0, 0
	for i, a := range d.operatorCalls {
		joined[i] = trace.None
		r, found := at[number(a)]
		switch {
		case !found || r == trace.None:
		case x.Operators[r].Operator.Name == d.nameOfCall(a.call):
			joined[i] = r
			same++
		default:
			other++
		}
	}
	const mostOthers = 10 // percent
	return joined, same > 0 && other*100 <= mostOthers*(same+other)
}

// byOrder matches the calls of a name in order of start, if both sides have equally
// many.
func (d *reader) byOrder(x *assemble.Execution) []int32 {
	theirs := map[string][]int32{}
	for i, r := range x.Operators {
		theirs[r.Operator.Name] = append(theirs[r.Operator.Name], int32(i))
	}
	ours := map[string][]int32{}
	joined := make([]int32, len(d.operatorCalls))
	for _, i := range d.callsByStart() {
		joined[i] = trace.None
		name := d.nameOfCall(d.operatorCalls[i].call)
		ours[name] = append(ours[name], i)
	}
	for name, calls := range ours {
		if len(calls) != len(theirs[name]) {
			continue
		}
		for n, i := range calls {
			joined[i] = theirs[name][n]
		}
	}
	return joined
}

// callsByStart returns the indices of d.operatorCalls in order of their calls' starts.
func (d *reader) callsByStart() []int32 {
	order := make([]int32, len(d.operatorCalls))
	for i := range order {
		order[i] = int32(i)
	}
	start := func(i int32) trace.Time { return d.Builder.Span(d.calls[d.operatorCalls[i].call]).Start }
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(start(i), start(j)) })
	return order
}

// ReadExecution reads PyTorch's execution trace in uncompressed JSON: the schema with
// attributes, and the earlier one whose nodes have input_shapes and rf_id as members.
func ReadExecution(r io.Reader, file string, limit int64) (*assemble.Execution, error) {
	x, s := assemble.NewExecution(file), lex.NewScanner(r, file, limit)
	s.Members(map[string]any{"pid": &x.Process, "nodes": func() { s.Each(func() { executionNode(x, s.Value()) }) }})
	if s.Err != nil {
		return nil, s.Err
	}
	x.Finish()
	return x, nil
}

// executionNode adds the operator of a node.
func executionNode(x *assemble.Execution, v []byte) {
	var buf []byte
	m := objectOf(v)
	n := assemble.Node{
		ID: number(m["id"]), Record: number(m["rf_id"]), Caller: cmp.Or(number(m["ctrl_deps"]), number(m["parent"])),
		Name: lex.ValidUTF8(lex.Text(m["name"], &buf)), Schema: string(lex.Text(m["op_schema"], &buf)),
		Inputs: operands(m["inputs"]), Outputs: operands(m["outputs"]),
	}
	if shapes, ok := m["input_shapes"]; ok { // of the earlier schema
		n.Inputs.Shapes, n.Inputs.Types = shapes, m["input_types"]
	}
	for _, item := range lex.Elements(m["attrs"]) {
		var name, value []byte
		membersOf(item, func(key, v []byte) {
			switch string(key) {
			case `"name"`:
				name = v
			case `"value"`:
				value = v
			}
		})
		switch string(name) {
		case `"rf_id"`:
			n.Record = number(value)
		case `"op_schema"`:
			n.Schema = string(lex.Text(value, &buf))
		case `"kernel_backend"`:
			n.Triton = string(value) == `"triton"`
		}
	}
	x.Add(n)
}

// objectOf returns the members of an object by name.
func objectOf(b []byte) map[string][]byte {
	m := map[string][]byte{}
	membersOf(b, func(key, v []byte) { m[string(lex.Unquote(key))] = v })
	return m
}

// operands reads the inputs or outputs of a node: an object of lists, or in the earlier
// schema the values alone.
func operands(v []byte) assemble.Values {
	if len(v) > 0 && v[0] == '[' {
		return assemble.Values{Values: v}
	}
	m := objectOf(v)
	return assemble.Values{Values: m["values"], Shapes: m["shapes"], Types: m["types"], Strides: m["strides"]}
}

// A captureCall is what a call does while graphs are captured.
type captureCall uint8

const (
	otherCall captureCall = iota
	beginCapture
	endCapture
	launchKernel
)

func captureCallOf(name string) captureCall {
	switch {
	case !strings.HasPrefix(name, "cu") && !strings.HasPrefix(name, "hip"):
	case strings.Contains(name, "StreamBeginCapture"):
		return beginCapture
	case strings.Contains(name, "StreamEndCapture"):
		return endCapture
	case strings.Contains(name, "Launch") && strings.Contains(name, "Kernel"):
		return launchKernel
	}
	return otherCall
}

// captureSize finds the size of the batch in the name of a range around a capture: capture_32_FULL or
// graph_capture: batch=32 of vLLM.
var captureSize = regexp.MustCompile(`^(?:capture_|graph_capture: batch=)(\d{1,6})(?:\D|$)`)

// captures lists the launches between the begin and the end of a capture that launched no kernel.
func (d *reader) captures(find func(deviceInfo) (param, bool), groups func(int32) int32) {
	run := &d.Builder.Run
	what := make([]captureCall, len(run.Names))
	for i, name := range run.Names {
		what[i] = captureCallOf(name)
	}
	if !slices.Contains(what, beginCapture) {
		return
	}
	var calls []int32 // rows
	for row, span := range d.calls {
		if s := d.Builder.Span(span); !s.Dropped() && what[s.Name] != otherCall {
			calls = append(calls, int32(row))
		}
	}
	slices.SortStableFunc(calls, func(a, b int32) int {
		x, y := d.Builder.Span(d.calls[a]), d.Builder.Span(d.calls[b])
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End))
	})
	described := map[int32]*launchInfo{}
	for i := range d.launches {
		described[d.launches[i].call] = &d.launches[i]
	}
	operators := d.operators()
	graph, size, open := int32(-1), int32(0), false
	for _, row := range calls {
		id := d.calls[row]
		s := d.Builder.Span(id)
		switch what[s.Name] {
		case beginCapture:
			graph, size, open = graph+1, d.sizeAround(id), true
		case endCapture:
			open = false
		case launchKernel:
			if !open || s.Kind == trace.Launch || s.Parent != trace.None && what[d.Builder.Span(s.Parent).Name] == launchKernel {
				continue
			}
			info := deviceInfo{span: id, external: run.Calls[row].External, param: trace.None}
			d.setIssuer(&info, id, run.Calls[row].Correlation, operators)
			k := trace.Captured{Rank: d.rankOf(id), Graph: graph, Size: size}
			k.Kernel = trace.Kernel{Launch: id, Comm: trace.None, Op: d.shaped(info.issuer), Origin: trace.None}
			if l := described[row]; l != nil {
				k.Name, k.As = l.kernel, d.geometry(trace.Setup{}, d.Builder.NameOf(s.Name), 0, l)
			}
			k.Launch = trace.None
			if p, ok := find(info); ok {
				c := p.comm
				if c.Group != trace.None {
					c.Group = groups(c.Group)
				}
				k.Comm = d.Builder.AddComm(c)
			}
			run.Captured = append(run.Captured, k)
		}
	}
}

// sizeAround reads the size of the batch from the ranges around a call; 0 if they do not say.
func (d *reader) sizeAround(id trace.SpanID) int32 {
	for p := d.Builder.Span(id).Parent; p != trace.None; p = d.Builder.Span(p).Parent {
		if m := captureSize.FindStringSubmatch(d.Builder.NameOf(d.Builder.Span(p).Name)); m != nil {
			n, _ := strconv.Atoi(m[1])
			return int32(n)
		}
	}
	return 0
}

// membersOf calls f for every member of an object, and not at all for other values.
func membersOf(b []byte, f func(key, v []byte)) {
	if len(b) == 0 || b[0] != '{' {
		return
	}
	for i := 1; ; {
		key, j := lex.NextKey(b, i)
		if key == nil {
			return
		}
		end := lex.SkipValue(b, j, 0)
		if end < 0 {
			return
		}
		f(key, b[j:end])
		if i = lex.SkipComma(b, end); i < 0 {
			return
		}
	}
}
