package chrome

import (
	"cmp"
	"fmt"
	"slices"

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
	for i := range d.tracks {
		if n, ok := lex.Integer([]byte(d.tracks[i].pid)); ok && n == pid && d.tracks[i].place == onHost {
			return true
		}
	}
	return false
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
