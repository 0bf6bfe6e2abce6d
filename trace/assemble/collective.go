package assemble

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A commUnit is the work of one kernel of the collective library: one call, or all
// calls between ncclGroupStart and ncclGroupEnd.
type commUnit struct {
	process      int32
	thread       trace.LaneID
	comm         trace.Comm // without Group
	communicator string     // of the process; "" where unknown
	start, end   trace.Time
}

// collectives finds the operation, group and bytes of every kernel of the collective
// library. RCCL's kernels do not name their operation, and no kernel has its group or
// bytes: they come from the call during which the kernel was launched. Without
// launches, calls and kernels are matched in order if there are equally many.
func (s *Session) collectives() {
	kernels := slices.DeleteFunc(s.kernels, func(k processSpan) bool { return s.Builder.Span(k.span).Kind != trace.Collective })
	if len(kernels) == 0 {
		return
	}
	slices.SortFunc(kernels, func(a, b processSpan) int {
		x, y := s.Builder.Span(a.span), s.Builder.Span(b.span)
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.End, y.End), cmp.Compare(x.Lane, y.Lane), cmp.Compare(a.span, b.span))
	})
	all := make([]CollectiveKernel, len(kernels))
	for i, u := range s.operations(kernels) {
		span := s.Builder.Span(kernels[i].span)
		all[i] = CollectiveKernel{
			Row: span.Attr, Span: kernels[i].span, Seq: trace.None, Same: trace.None,
			Comm: trace.Comm{Group: trace.None, Peer: trace.None},
		}
		if c, ok := s.stated[kernels[i].span]; ok {
			all[i].Comm = c
			continue
		}
		if u == nil {
			continue
		}
		all[i].Comm = u.comm
		if u.communicator != "" {
			all[i].Comm.Group = s.group(kernels[i].process, u.communicator)
		}
	}
	AddCollectives(&s.Builder, all)
}

// group returns the row of the group of a communicator. A pointer to a communicator
// differs between processes: it is named by order of first use.
func (s *Session) group(process int32, name string) int32 {
	key := communicator{process, name}
	if strings.HasPrefix(name, "0x") {
		n := trace.Memo(s.pointers, key, func() int {
			s.used[process]++
			return s.used[process] - 1
		})
		name = fmt.Sprintf("communicator %d", n)
	}
	return s.Builder.AddGroup(trace.Group{Name: name, Size: s.sizes[key]})
}

// operations returns the operation of each kernel, nil if unknown.
func (s *Session) operations(kernels []processSpan) []*commUnit {
	ops := make([]*commUnit, len(kernels))
	units := s.commUnits()
	launched := false
	for i, k := range kernels {
		span := s.Builder.Span(k.span)
		var call trace.Span
		if c, ok := s.captured[k.span]; ok {
			call = trace.Span{Start: c.at, Lane: s.laneOf[c.track]}
		} else if launch := s.Builder.Run.Kernels[span.Attr].Launch; launch != trace.None {
			call = *s.Builder.Span(launch)
		} else {
			continue
		}
		u := unitAt(units, &call)
		if u == nil {
			continue
		}
		if op := trace.CollectiveOpIn(s.Builder.NameOf(span.Name)); op == trace.UnknownOp || op == u.comm.Op ||
			op == trace.SendRecv && u.comm.Op == trace.AllToAll {
			ops[i] = u
			launched = launched || op == trace.UnknownOp
		}
	}
	if !launched {
		s.matchInOrder(kernels, ops, units)
	}
	return ops
}

// unitAt returns the unit in progress on the call's thread when the call started, or
// nil.
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

// matchInOrder assigns the operations of a process's RCCL calls to its kernels if there
// are equally many.
func (s *Session) matchInOrder(kernels []processSpan, ops []*commUnit, units []commUnit) {
	byTime := make([]*commUnit, len(units))
	for i := range units {
		byTime[i] = &units[i]
	}
	slices.SortFunc(byTime, func(a, b *commUnit) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.start, b.start), cmp.Compare(a.thread, b.thread))
	})
	of := make([][]int, len(s.Processes)) // kernels by process
	for i, k := range kernels {
		of[k.process] = append(of[k.process], i)
	}
	for process, of := range of {
		n := 0
		for n < len(byTime) && byTime[n].process == int32(process) {
			n++
		}
		units := byTime[:n]
		byTime = byTime[n:]
		if len(of) == 0 || len(of) != len(units) {
			continue
		}
		matched := 0
		for i, k := range of {
			if trace.CollectiveOpIn(s.Builder.NameOf(s.Builder.Span(kernels[k].span).Name)) == trace.UnknownOp {
				ops[k] = units[i]
				matched++
			}
		}
		if matched > 0 {
			s.Builder.Note(trace.Noted, s.Processes[process].Source,
				fmt.Sprintf("%d collective kernels have their operation from the order of RCCL calls", matched), "", 0)
		}
	}
}

// commUnits returns the operations of the library's calls, by thread and time.
func (s *Session) commUnits() []commUnit {
	calls := slices.DeleteFunc(s.commCalls, func(c commCall) bool { return s.Builder.Span(c.span).Dropped() })
	slices.SortFunc(calls, func(a, b commCall) int {
		x, y := s.Builder.Span(a.span), s.Builder.Span(b.span)
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Start, y.Start), cmp.Compare(a.span, b.span))
	})
	var units []commUnit
	depth, count := 0, 0 // of open groups, and operations in them
	var group commUnit
	for i, c := range calls {
		span := s.Builder.Span(c.span)
		if i > 0 && span.Lane != s.Builder.Span(calls[i-1].span).Lane {
			depth = 0
		}
		name := s.Builder.NameOf(span.Name)
		u := commUnit{c.process, span.Lane, c.comm(communicationCall(name)), c.Communicator, span.Start, span.End}
		switch {
		case name == "ncclGroupStart":
			if depth == 0 {
				group, count = u, 0
			}
			depth++
		case name == "ncclGroupEnd" && depth > 0:
			if depth--; depth == 0 && count > 0 {
				group.end = span.End
				if n := len(units); n > 0 && units[n-1].thread == group.thread {
					group.within(&units[n-1])
				}
				units = append(units, group)
			}
		case u.comm.Op == trace.UnknownOp:
		case depth == 0:
			units = append(units, u)
		default:
			count++
			group.join(&u, count)
		}
	}
	return units
}

// within tells what sends and receives of a group are if a call or range around them says: an
// all-to-all, each byte of which is sent and received.
func (g *commUnit) within(around *commUnit) {
	if g.comm.Op == trace.SendRecv && around.comm.Op == trace.AllToAll && around.end >= g.end {
		g.comm.Op, g.comm.In, g.comm.Out, g.comm.Peer = trace.AllToAll, g.comm.In/2, g.comm.Out/2, trace.None
	}
}

// join adds the count-th operation of a group, which one kernel executes together.
func (g *commUnit) join(u *commUnit, count int) {
	switch {
	case count == 1:
		g.comm, g.communicator = u.comm, u.communicator
	case g.comm.Op != u.comm.Op || g.communicator != u.communicator:
		g.comm, g.communicator = trace.Comm{Group: trace.None, Peer: trace.None}, ""
	default:
		g.comm.In += u.comm.In
		g.comm.Out += u.comm.Out
		if g.comm.Peer != u.comm.Peer {
			g.comm.Peer = trace.None
		}
	}
}

// communicationCall returns the operation of a call of NCCL or RCCL, or UnknownOp.
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
