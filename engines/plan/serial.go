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
	g := serialGraph{at: make([]trace.Time, len(w.Ops)), waits: make([]int32, len(w.Ops))}
	first := make([]int32, len(w.Ops)) // by op: the node that it belongs to
	collective := slices.Repeat([]int32{-1}, len(w.Collectives))
	for i := range w.Ops {
		op := &w.Ops[i]
		first[i] = op.ID
		if c := op.Collective; c >= 0 {
			if collective[c] < 0 {
				collective[c], g.at[i] = op.ID, w.Collectives[c].Arrive
			}
			first[i] = collective[c]
		}
		n := first[i]
		g.at[n] = max(g.at[n], op.Start)
	}
	edges := func(edge func(from, to int32)) {
		for i := range w.Ops {
			for _, d := range w.Ops[i].After {
				if from, to := first[d.Op], first[i]; from != to {
					edge(from, to)
				}
			}
		}
	}
	ends := make([]int32, len(w.Ops)+1) // by node: end of its successors in next
	edges(func(from, to int32) { ends[from+1]++; g.waits[to]++ })
	for i := range w.Ops {
		ends[i+1] += ends[i]
	}
	next := make([]int32, ends[len(w.Ops)])
	edges(func(from, to int32) { next[ends[from]] = to; ends[from]++ })
	nodes := 0
	for i := range w.Ops {
		if first[i] != int32(i) {
			continue
		}
		nodes++
		if g.waits[i] == 0 {
			g.ready = append(g.ready, int32(i))
		}
	}
	heap.Init(&g)
	order := make([][]int32, w.World)
	for ; nodes > 0; nodes-- {
		if g.Len() == 0 { // a cycle, because clocks of ranks disagree: break it at the earliest node
			g.ready = append(g.ready, g.earliestLeft())
		}
		id := heap.Pop(&g).(int32)
		g.waits[id] = -1
		members := []int32{id}
		if c := w.Ops[id].Collective; c >= 0 {
			members = w.Collectives[c].Members
		}
		for _, op := range members {
			rank := w.Ops[op].Rank
			order[rank] = append(order[rank], op)
		}
		from := int32(0)
		if id > 0 {
			from = ends[id-1]
		}
		for _, to := range next[from:ends[id]] {
			if g.waits[to] > 0 {
				if g.waits[to]--; g.waits[to] == 0 {
					heap.Push(&g, to)
				}
			}
		}
	}
	return order
}

// A serialGraph is the graph of SerialOrder: a node has the number of its first op. As a
// heap it holds the ready nodes, the earliest captured first.
type serialGraph struct {
	at    []trace.Time // by node
	waits []int32      // by node: number of unwritten predecessors; -1: written
	ready []int32
}

func (g *serialGraph) earliestLeft() int32 {
	best := int32(-1)
	for i, waits := range g.waits {
		if waits > 0 && (best < 0 || g.at[i] < g.at[best]) {
			best = int32(i)
		}
	}
	g.waits[best] = 0
	return best
}

func (g *serialGraph) Len() int { return len(g.ready) }
func (g *serialGraph) Less(i, j int) bool {
	a, b := g.ready[i], g.ready[j]
	return cmp.Or(cmp.Compare(g.at[a], g.at[b]), cmp.Compare(a, b)) < 0
}
func (g *serialGraph) Swap(i, j int) { g.ready[i], g.ready[j] = g.ready[j], g.ready[i] }
func (g *serialGraph) Push(x any)    { g.ready = append(g.ready, x.(int32)) }
func (g *serialGraph) Pop() any {
	n := len(g.ready) - 1
	x := g.ready[n]
	g.ready = g.ready[:n]
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

// Before is the last operation of the rank that had ended when an operation started in the capture
// (-1: none), and whether another one was running then.
func (pl *Planner) Before(op *workload.Op) (ended int32, busy bool) {
	if pl.endedBefore == nil {
		pl.endedBefore, pl.busy = TimeOrder(pl.Workload)
	}
	return pl.endedBefore[op.ID], pl.busy[op.ID]
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
