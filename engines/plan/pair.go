package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// ops returns the pair's two operations on this rank.
func (r *Rank) ops(p *Pair) (first, second *workload.Op) {
	for k, id := range p.First {
		if op := &r.Planner.Workload.Ops[id]; op.Rank == r.ID {
			return op, &r.Planner.Workload.Ops[p.Second[k]]
		}
	}
	panic("engines: a pair was emitted on a rank that has no part in it")
}

// Split returns the compute and the communication of a pair, whichever runs first.
func (r *Rank) Split(p *Pair) (compute, comm *workload.Op) {
	first, second := r.ops(p)
	if p.Direction == workload.CollectiveThenCompute {
		return second, first
	}
	return first, second
}

// BeginPair must be called before a pair is written on the rank.
func (r *Rank) BeginPair(p *Pair) {
	r.from, r.to = math.MaxInt, -1
	r.unseen = p.Coll
}

// EndPair must be called after a pair is written on the rank.
func (r *Rank) EndPair() {
	if r.to > r.from && r.pairs != nil {
		r.pairs[r.from] = max(r.pairs[r.from], r.to)
	}
}

// WriteFills writes the library's fills before a compute operation and returns the gap
// after them. The first fill waits for the operation's dependencies (rule S2).
func (r *Rank) WriteFills(s *Stream, fills []int32, gap trace.Time) trace.Time {
	for _, id := range fills {
		op := &r.Planner.Workload.Ops[id]
		if r.Planner.hostOrder != nil {
			r.callOf(op)
		}
		s.Launch(gap, r.Planner.CopyOf(op))
		r.Written(s, op)
		gap = Duration(r.Planner.Machine.Launch.Gap.Value)
	}
	return gap
}

// waitFor makes a stream wait for predecessors on other streams. It reports whether the
// last predecessor to end is one of them.
func (r *Rank) waitFor(s *Stream, after []workload.Dep, except ...*workload.Op) bool {
	event, latest := false, s.End
	for _, d := range after {
		dep := &r.Planner.Workload.Ops[d.Op]
		if slices.Contains(except, dep) || r.Planner.where[d.Op].On == s {
			continue
		}
		s.Wait(r.Planner.Done[d.Op], 1, dep.Name)
		if dep.End > latest {
			event, latest = true, dep.End
		}
	}
	return event
}

// Dependencies lists what an operation of a pair that is written as one waits for, with the fills before it. The operations
// between the pair's two become part of it: the second one waits for what they waited for.
func (r *Rank) Dependencies(p *Pair, op *workload.Op) []workload.Dep {
	after := slices.Clone(op.After)
	if compute, _ := r.Split(p); op == compute {
		for _, id := range p.FillsBefore[r.ID] {
			after = append(after, r.Planner.Workload.Ops[id].After...)
		}
		after = slices.DeleteFunc(after, func(d workload.Dep) bool { return slices.Contains(p.FillsBefore[r.ID], d.Op) })
	}
	if _, second := r.ops(p); op == second {
		for _, id := range p.Between[r.ID] {
			after = append(after, r.Planner.Workload.Ops[id].After...)
		}
	}
	return after
}

// ReplacedOps lists the ops that a pair replaces on this rank. The pair's own operations
// do not wait for them.
func (r *Rank) ReplacedOps(p *Pair) []*workload.Op {
	first, second := r.ops(p)
	ops := []*workload.Op{first}
	for _, id := range slices.Concat(p.OpsBefore[r.ID], p.FillsBefore[r.ID], p.Between[r.ID]) {
		ops = append(ops, &r.Planner.Workload.Ops[id])
	}
	ops = append(ops, second)
	for _, id := range p.Dropped[r.ID] {
		ops = append(ops, &r.Planner.Workload.Ops[id])
	}
	return ops
}

// CommStream returns the stream for a pair's communication: the captured one, or an added
// one if compute was captured on the same stream.
func (r *Rank) CommStream(compute, comm *workload.Op) *Stream {
	if comm.Queue != compute.Queue {
		return r.Stream(comm.Queue)
	}
	return r.Added(fmt.Sprintf("communication of stream %d", comm.Queue))
}

// Written records that an operation was written to a stream.
func (r *Rank) Written(s *Stream, op *workload.Op) {
	s.Post(r.Planner.Done[op.ID], 1)
	s.End = max(s.End, op.End)
	r.Planner.where[op.ID] = Point{s, len(s.Commands)}
}

// members fills in the operations around a pair on every rank and returns all its ops.
func (pl *Planner) members(p *Pair) []int32 {
	var all []int32
	for k := range p.First {
		a, b := p.First[k], p.Second[k]
		rank, queue := pl.Workload.Ops[a].Rank, pl.Workload.Ops[a].Queue
		compute := a
		if p.Direction == workload.CollectiveThenCompute {
			compute = b
		}
		p.FillsBefore[rank] = pl.fillsBefore(compute)
		from := a + 1
		if p.Experts > 1 && compute == b { // kernels that change the number of rows, on the stream of compute
			from, queue = pl.firstReader(a, b), pl.Workload.Ops[b].Queue
		}
		for id := from; id < b; id++ {
			if op := &pl.Workload.Ops[id]; op.Queue == queue && op.Collective < 0 && !slices.Contains(p.FillsBefore[rank], id) {
				p.Between[rank] = append(p.Between[rank], id)
			}
		}
		all = append(append(append(all, a, b), p.FillsBefore[rank]...), p.Between[rank]...)
	}
	return all
}

// firstReader is the first operation up to b that waits for a.
func (pl *Planner) firstReader(a, b int32) int32 {
	for id := a + 1; id < b; id++ {
		if slices.ContainsFunc(pl.Workload.Ops[id].After, func(d workload.Dep) bool { return d.Op == a }) {
			return id
		}
	}
	return b
}

// fillsBefore are the memsets directly before an operation on its queue. Libraries use
// them to reset tile counters.
func (pl *Planner) fillsBefore(id int32) []int32 {
	var fills []int32
	op := &pl.Workload.Ops[id]
	ids := pl.Workload.Ranks[op.Rank]
	i, _ := slices.BinarySearchFunc(ids, id, func(a, b int32) int { return int(a - b) })
	for i--; i >= 0; i-- {
		before := &pl.Workload.Ops[ids[i]]
		if before.Queue != op.Queue {
			continue
		}
		if !pl.Workload.IsFill(before) {
			break
		}
		fills = append([]int32{before.ID}, fills...)
	}
	return fills
}

// AwaitUnseen holds a stream for as long as a captured collective waited for ranks that nobody
// captured. These run the same kernels, so their hosts are taken to be late: less so without the
// profiler, by as much as the captured hosts, and not at all where captured graphs launch the
// kernels. What such a host launches after the collective is as late, so that the streams that the
// collective depends on are held too, if nothing ran beside it in the capture (rule C27).
func (r *Rank) AwaitUnseen(s *Stream, op *workload.Op, c *workload.Collective) {
	pl := r.Planner
	if c == nil || c.Late == 0 || pl.Graph {
		return
	}
	late := trace.Time(float64(c.Late) * pl.hostsWithout())
	s.Delay(late, program.Unseen, "ranks that were not captured")
	for _, d := range op.After {
		if on := pl.Workload.Ops[d.Op].Queue; c.Serial && on != op.Queue {
			r.Stream(on).Delay(late, program.Unseen, "ranks that were not captured")
		}
	}
}

// hostsWithout is the time that the hosts take without the profiler over the time that they took in
// the capture (rule H7); 1 if the run is predicted with it.
func (pl *Planner) hostsWithout() float64 {
	if pl.without == 0 {
		var without, with trace.Time
		for rank, h := range pl.Workload.Hosts {
			for i, cost := range pl.IssueCosts(rank) {
				without, with = without+cost, with+h.Issues[i].Work
			}
		}
		if pl.without = 1; with > 0 {
			pl.without = float64(without) / float64(with)
		}
	}
	return pl.without
}
