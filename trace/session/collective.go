package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A commUnit is what one kernel of the collective library does: one call, or
// all calls between ncclGroupStart and ncclGroupEnd.
type commUnit struct {
	process    int32
	thread     trace.LaneID
	op         trace.CollectiveOp
	start, end trace.Time
}

// collectives says of every kernel of the collective library what it does, and
// numbers them by rank row. RCCL's kernels do not name their operation. It is
// that of the RCCL call during which the kernel was launched; where the file
// has no launches but as many RCCL operations as kernels, they are matched in order.
func (s *Session) collectives() {
	kernels := slices.DeleteFunc(s.kernels, func(k processSpan) bool { return s.Builder.Span(k.span).Kind != trace.Collective })
	if len(kernels) == 0 {
		return
	}
	slices.SortFunc(kernels, func(a, b processSpan) int {
		x, y := s.Builder.Span(a.span), s.Builder.Span(b.span)
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.End, y.End), cmp.Compare(x.Lane, y.Lane), cmp.Compare(a.span, b.span))
	})
	ops := s.operations(kernels)
	seqs := map[int32]int64{} // by rank row
	for i, k := range kernels {
		span := s.Builder.Span(k.span)
		row := s.Builder.LaneOf(span.Lane).Rank
		s.Builder.Kernel(span.Attr).Comm = s.Builder.AddComm(trace.Comm{Op: ops[i], Group: trace.None, Seq: seqs[row], Peer: trace.None})
		seqs[row]++
	}
}

// operations returns the operation of each kernel.
func (s *Session) operations(kernels []processSpan) []trace.CollectiveOp {
	ops := make([]trace.CollectiveOp, len(kernels))
	units := s.commUnits()
	launched := false
	for i, k := range kernels {
		ops[i] = trace.CollectiveOpIn(s.Builder.NameOf(s.Builder.Span(k.span).Name))
		launch := s.Builder.Kernel(s.Builder.Span(k.span).Attr).Launch
		if ops[i] != trace.UnknownOp || launch == trace.None {
			continue
		}
		if u := unitAt(units, s.Builder.Span(launch)); u != nil {
			ops[i] = u.op
			launched = true
		}
	}
	if !launched {
		s.matchInOrder(kernels, ops, units)
	}
	return ops
}

// unitAt returns the unit of the call's thread that was under way when the call started, or nil.
func unitAt(units []commUnit, call *trace.Span) *commUnit {
	i, _ := slices.BinarySearchFunc(units, call.Start+1, func(u commUnit, start trace.Time) int {
		return cmp.Or(cmp.Compare(u.thread, call.Lane), cmp.Compare(u.start, start))
	})
	if i == 0 {
		return nil
	}
	if u := &units[i-1]; u.thread == call.Lane && u.end >= call.Start {
		return u
	}
	return nil
}

// matchInOrder gives the operations of the RCCL calls of a process to its
// kernels, where there are as many.
func (s *Session) matchInOrder(kernels []processSpan, ops []trace.CollectiveOp, units []commUnit) {
	slices.SortFunc(units, func(a, b commUnit) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.start, b.start), cmp.Compare(a.thread, b.thread))
	})
	of := make([][]int, len(s.Processes)) // kernels by process
	for i, k := range kernels {
		of[k.process] = append(of[k.process], i)
	}
	for process, of := range of {
		n := 0
		for n < len(units) && units[n].process == int32(process) {
			n++
		}
		byTime := units[:n]
		units = units[n:]
		if len(of) == 0 || len(of) != len(byTime) {
			continue
		}
		matched := 0
		for i, k := range of {
			if ops[k] == trace.UnknownOp {
				ops[k] = byTime[i].op
				matched++
			}
		}
		if matched > 0 {
			s.Builder.Note(trace.Noted, s.Processes[process].Source, fmt.Sprintf("%d collective kernels have their operation from the order of RCCL calls", matched), "", 0)
		}
	}
}

// commUnits returns the operations that were asked of RCCL, by process,
// thread and time.
func (s *Session) commUnits() []commUnit {
	calls := s.commCalls
	slices.SortFunc(calls, func(a, b processSpan) int {
		x, y := s.Builder.Span(a.span), s.Builder.Span(b.span)
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Start, y.Start), cmp.Compare(a.span, b.span))
	})
	var units []commUnit
	depth, asked := 0, 0 // of open groups, and operations in them
	var group commUnit
	for i, c := range calls {
		span := s.Builder.Span(c.span)
		if i > 0 && span.Lane != s.Builder.Span(calls[i-1].span).Lane {
			depth = 0
		}
		u := commUnit{c.process, span.Lane, communicationCall(s.Builder.NameOf(span.Name)), span.Start, span.End}
		switch name := s.Builder.NameOf(span.Name); {
		case name == "ncclGroupStart":
			if depth == 0 {
				group, asked = u, 0
			}
			depth++
		case name == "ncclGroupEnd" && depth > 0:
			if depth--; depth == 0 && asked > 0 {
				group.end = span.End
				units = append(units, group)
			}
		case u.op == trace.UnknownOp:
		case depth == 0:
			units = append(units, u)
		default:
			if asked++; asked == 1 {
				group.op = u.op
			} else if group.op != u.op {
				group.op = trace.UnknownOp
			}
		}
	}
	return units
}

// communicationCall is the operation that a call of RCCL asks for, or UnknownOp.
func communicationCall(name string) trace.CollectiveOp {
	if !strings.HasPrefix(name, "nccl") {
		return trace.UnknownOp
	}
	for _, w := range [...]string{"RedOp", "Comm", "Group", "MemAlloc", "MemFree", "GetVersion", "GetUniqueId"} {
		if strings.Contains(name, w) {
			return trace.UnknownOp
		}
	}
	if name == "ncclBcast" {
		return trace.Broadcast
	}
	return trace.CollectiveOpIn(name)
}
