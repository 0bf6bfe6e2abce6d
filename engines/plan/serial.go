package plan

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// SerialOrder orders every rank's operations for a serial schedule, in which no
// communication runs alongside compute. All ranks have the collectives in the same order,
// so they cannot deadlock (rule B4).
//
// It is a topological order of a graph over all ranks: a node is a kernel, a copy, or a
// collective with all its members; an edge is a captured dependency. Among ready nodes the
// earliest captured goes first. A collective counts from its last arrival, when its data
// is ready.
func SerialOrder(w *workload.Workload) [][]int32 {
	nodeOf := make([]int32, len(w.Ops))
	var nodes []serialNode
	collective := slices.Repeat([]int32{-1}, len(w.Collectives))
	for i := range w.Ops {
		op := &w.Ops[i]
		if c := op.Collective; c >= 0 {
			if collective[c] < 0 {
				collective[c] = int32(len(nodes))
				nodes = append(nodes, serialNode{at: w.Collectives[c].Arrive})
			}
			nodeOf[i] = collective[c]
		} else {
			nodeOf[i] = int32(len(nodes))
			nodes = append(nodes, serialNode{at: op.Start})
		}
		n := &nodes[nodeOf[i]]
		n.ops, n.at = append(n.ops, op.ID), max(n.at, op.Start)
	}
	for i := range w.Ops {
		for _, d := range w.Ops[i].After {
			from, to := nodeOf[d.Op], nodeOf[i]
			if from != to {
				nodes[from].next = append(nodes[from].next, to)
				nodes[to].waits++
			}
		}
	}
	order := make([][]int32, w.World)
	q := &serialQueue{nodes: nodes}
	for i := range nodes {
		if nodes[i].waits == 0 {
			heap.Push(q, int32(i))
		}
	}
	for done := 0; done < len(nodes); done++ {
		if q.Len() == 0 { // a cycle, because clocks of ranks disagree: break it at the earliest node
			heap.Push(q, earliestLeft(nodes))
		}
		id := heap.Pop(q).(int32)
		n := &nodes[id]
		n.waits = -1
		for _, op := range n.ops {
			rank := w.Ops[op].Rank
			order[rank] = append(order[rank], op)
		}
		for _, to := range n.next {
			if m := &nodes[to]; m.waits > 0 {
				if m.waits--; m.waits == 0 {
					heap.Push(q, to)
				}
			}
		}
	}
	return order
}

type serialNode struct {
	ops   []int32
	at    trace.Time
	next  []int32
	waits int // number of unwritten predecessors; -1: written
}

func earliestLeft(nodes []serialNode) int32 {
	best := int32(-1)
	for i := range nodes {
		if nodes[i].waits > 0 && (best < 0 || nodes[i].at < nodes[best].at) {
			best = int32(i)
		}
	}
	nodes[best].waits = 0
	return best
}

// A serialQueue holds ready nodes, the earliest captured first.
type serialQueue struct {
	nodes []serialNode
	ready []int32
}

func (q *serialQueue) Len() int { return len(q.ready) }
func (q *serialQueue) Less(i, j int) bool {
	a, b := q.ready[i], q.ready[j]
	return cmp.Or(cmp.Compare(q.nodes[a].at, q.nodes[b].at), cmp.Compare(a, b)) < 0
}
func (q *serialQueue) Swap(i, j int) { q.ready[i], q.ready[j] = q.ready[j], q.ready[i] }
func (q *serialQueue) Push(x any)    { q.ready = append(q.ready, x.(int32)) }
func (q *serialQueue) Pop() any {
	n := len(q.ready) - 1
	x := q.ready[n]
	q.ready = q.ready[:n]
	return x
}

// Communicates reports whether an operation moves bytes between ranks, as defined by
// package overlap.
func (pl *Planner) Communicates(op *workload.Op) bool {
	if op.Kind != trace.Copy {
		return op.Collective >= 0 || op.Kind == trace.Collective
	}
	c := pl.Workload.Run.Copy(pl.Workload.Run.Spans[op.Span])
	return c != nil && c.Dir == trace.PeerToPeer
}

// A separation prevents communication and compute of one rank from overlapping.
type separation struct {
	compute []int32 // kernels since the last communication
	comm    int32   // the last communication, or -1
}

// separatedFrom lists the additional dependencies that keep an operation from running
// alongside communication or, if it communicates, alongside anything: then the last kernel
// of each stream.
func (r *Rank) separatedFrom(op *workload.Op) []workload.Dep {
	const why = workload.Planned
	b := &r.Separation
	var after []workload.Dep
	if b.comm >= 0 && (op.Kind != trace.Copy || r.Planner.Communicates(op)) {
		after = append(after, workload.Dep{Op: b.comm, Why: why})
	}
	if !r.Planner.Communicates(op) {
		return after
	}
	first, seen := len(after), map[*Stream]bool{}
	for _, id := range slices.Backward(b.compute) {
		if s := r.where[id]; !seen[s] {
			seen[s] = true
			after = append(after, workload.Dep{Op: id, Why: why})
		}
	}
	slices.Reverse(after[first:])
	return after
}

// Wrote records that an operation was written.
func (b *separation) Wrote(r *Rank, op *workload.Op) {
	switch {
	case r.Planner.Communicates(op):
		b.comm, b.compute = op.ID, b.compute[:0]
	case op.Kind == trace.Compute:
		b.compute = append(b.compute, op.ID)
	}
}

// WriteSerial writes an operation of no pair in a serial schedule. It starts after its
// dependencies, the operations that had ended on the rank when it started, and those that
// the schedule separates from it, plus the part of its captured gap in which the rank was
// idle.
func (r *Rank) WriteSerial(op *workload.Op) {
	s := r.free(op.Queue, op.Start)
	from := s.End
	ahead := r.Planner.HostOrder != nil // the host's part is written
	switch {
	case r.Planner.Graph: // the host launches all operations at once
	case ahead:
		r.BeginAhead(s, op)
		r.WaitIssued(s, op)
	default:
		n, issued := r.issueAsCaptured(op)
		if n > 0 {
			s.Wait(r.HostIssued, n, "host")
			from = max(from, issued)
		}
	}
	after := slices.Concat(op.After, r.separatedFrom(op))
	if before := r.Planner.EndedBefore[op.ID]; before >= 0 {
		after = append(after, workload.Dep{Op: before})
	}
	event := false // waits for an operation that ran alongside it in the capture
	for _, d := range after {
		dep := &r.Planner.Workload.Ops[d.Op]
		if r.where[d.Op] == nil || r.where[d.Op] == s {
			event = event || dep.End > op.Start
			continue
		}
		s.Wait(r.Planner.Done[d.Op], 1, dep.Name)
		if dep.End <= op.Start {
			from = max(from, dep.End)
		} else {
			event = true
		}
	}
	gap := r.Planner.gapHere(max(0, op.Start-from))
	late := ahead && op.Issued != trace.Infinity && op.Issued+r.latency > from // the host, in the capture
	switch {
	case r.Planner.Graph || late:
		gap = r.Planner.deviceGap(op, event)
	case event || r.Planner.BusyAt[op.ID]:
		gap = min(gap, Duration(r.Planner.Machine.Launch.Event.Value))
	}
	s.Launch(gap, r.Planner.CommandOf(op))
	r.Written(s, op)
}

// TimeOrder finds, by op, the last operation of its rank that had ended when it started
// (-1: none), and whether another one was running then.
func TimeOrder(w *workload.Workload) (endedBefore []int32, busy []bool) {
	endedBefore, busy = slices.Repeat([]int32{-1}, len(w.Ops)), make([]bool, len(w.Ops))
	for _, ids := range w.Ranks {
		byEnd := slices.Clone(ids)
		slices.SortStableFunc(byEnd, func(a, b int32) int { return cmp.Compare(w.Ops[a].End, w.Ops[b].End) })
		last, next, latest := int32(-1), 0, trace.Time(0)
		for _, id := range ids {
			op := &w.Ops[id]
			for next < len(byEnd) && w.Ops[byEnd[next]].End <= op.Start {
				last = byEnd[next]
				next++
			}
			if last != id {
				endedBefore[id] = last
			}
			busy[id] = latest > op.Start
			latest = max(latest, op.End)
		}
	}
	return endedBefore, busy
}
