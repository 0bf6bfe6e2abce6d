package engines

import (
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// ops returns the pair's two operations on this rank.
func (r *rank) ops(p *pair) (first, second *workload.Op) {
	for k, id := range p.First {
		if op := &r.pl.w.Ops[id]; op.Rank == r.id {
			return op, &r.pl.w.Ops[p.Second[k]]
		}
	}
	panic("engines: a pair was emitted on a rank that has no part in it")
}

// compute and communication of a pair, whichever runs first.
func (r *rank) split(p *pair) (compute, comm *workload.Op) {
	first, second := r.ops(p)
	if p.Direction == workload.CollectiveThenCompute {
		return second, first
	}
	return first, second
}

func (r *rank) enter(p *pair) {
	first, _ := r.ops(p)
	r.reach(first)
	r.stream(first.Queue).delay(r.pl.late(r.id, p), replay.PeerSkew, "arrives later")
}

func (r *rank) leave(p *pair) {
	_, second := r.ops(p)
	r.passed(second)
}

// refill writes the library's fills before a compute operation, the first of
// which waits for what the operation waits for, and returns the gap behind them.
func (r *rank) refill(s *stream, fills []int32, gap trace.Time) trace.Time {
	for _, id := range fills {
		op := &r.pl.w.Ops[id]
		s.launch(gap, r.pl.copyOf(op))
		r.finished(s, op)
		gap = duration(r.pl.m.Launch.Gap.Value)
	}
	return gap
}

// waitFor makes a stream wait for predecessors that were written to other
// streams, and reports whether the last of them to end is one of those.
func (r *rank) waitFor(s *stream, after []workload.Dep, except ...*workload.Op) bool {
	event, latest := false, s.end
next:
	for _, d := range after {
		dep := &r.pl.w.Ops[d.Op]
		for _, x := range except {
			if x.ID == d.Op {
				continue next
			}
		}
		if r.where[d.Op] == s {
			continue
		}
		s.wait(r.pl.done[d.Op], 1, dep.Name)
		if dep.End > latest {
			event, latest = true, dep.End
		}
	}
	return event
}

// before lists what an operation of the pair waits for, and what the fills before it do.
func (r *rank) before(p *pair, op *workload.Op) []workload.Dep {
	after := slices.Clone(op.After)
	if compute, _ := r.split(p); op == compute {
		for _, id := range p.pre[r.id] {
			after = append(after, r.pl.w.Ops[id].After...)
		}
		after = slices.DeleteFunc(after, func(d workload.Dep) bool { return slices.Contains(p.pre[r.id], d.Op) })
	}
	return after
}

// within lists what a pair replaces on this rank, which its own operations need not wait for.
func (r *rank) within(p *pair) []*workload.Op {
	first, second := r.ops(p)
	ops := []*workload.Op{first}
	for _, id := range slices.Concat(p.link[r.id], p.pre[r.id], p.mid[r.id]) {
		ops = append(ops, &r.pl.w.Ops[id])
	}
	ops = append(ops, second)
	for _, id := range p.post[r.id] {
		ops = append(ops, &r.pl.w.Ops[id])
	}
	return ops
}

// beside returns the stream on which a pair's communication runs beside its
// compute: the one it was captured on, or one more where both shared a stream.
func (r *rank) commStream(compute, comm *workload.Op) *stream {
	if comm.Queue != compute.Queue {
		return r.stream(comm.Queue)
	}
	return r.stream(-2 - comm.Queue)
}

// finished marks an operation as written to a stream.
func (r *rank) finished(s *stream, op *workload.Op) {
	s.post(r.pl.done[op.ID], 1)
	s.end, s.last = max(s.end, op.End), op
	r.where[op.ID] = s
}

// share is the k-th of n parts of a time, such that they add up to it.
func share(t trace.Time, k, n int) trace.Time {
	return t*trace.Time(k+1)/trace.Time(n) - t*trace.Time(k)/trace.Time(n)
}

// shortName is a kernel's name without its template and call arguments.
func shortName(name string) string {
	name = strings.TrimPrefix(name, "void ")
	if i := strings.IndexAny(name, "<("); i > 0 {
		name = name[:i]
	}
	return name
}
