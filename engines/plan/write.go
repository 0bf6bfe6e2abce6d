package plan

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// WithCollective selects the pairs of compute and communication.
func WithCollective(p *workload.Pair) bool { return p.Collective >= 0 }

// WriteInSequence writes a pair as two operations with an event between them.
func (r *Rank) WriteInSequence(p *Pair, channels, programs int) {
	first, second := r.Ops(p)
	r.BeginPair(p)
	r.WriteOp(p, first, channels, programs)
	for _, id := range p.Between[r.ID] {
		r.WriteOp(p, &r.Planner.Workload.Ops[id], channels, programs)
	}
	r.WriteOp(p, second, channels, programs)
	r.EndPair(p)
}

// WriteOp writes one operation of a pair without cutting it.
func (r *Rank) WriteOp(p *Pair, op *workload.Op, channels, programs int) {
	s := r.Stream(op.Queue)
	after := r.Dependencies(p, op)
	if r.Planner.Serial {
		after = append(after, r.separatedFrom(op)...)
	}
	gap := r.WaitUntilReady(s, op, after)
	c := r.Planner.commandOf(op)
	if compute, comm := r.Split(p); op == comm {
		c = LaunchOf(op, r.Planner.communication(op, channels))
	} else if op == compute {
		gap = r.WriteFills(s, p.FillsBefore[r.ID], gap)
		if programs > 0 && op.Tiling.Persistent {
			c = LaunchOf(op, r.Planner.AsLaunched(op, r.Planner.WithPrograms(op, r.Planner.GridOf(op, op.DurAlone()), programs)))
		}
	}
	s.Launch(gap, c)
	r.Written(s, op)
}

// communication is the kernel of a collective: the library's, or the strategy's
// replacement.
func (pl *Planner) communication(op *workload.Op, channels int) *program.Kernel {
	if pl.CollectiveKernel != nil {
		if k := pl.CollectiveKernel(op); k != nil {
			return k
		}
	}
	p := pl.Chunks(&pl.Workload.Collectives[op.Collective], 1, channels, nil)
	pl.slowAsCaptured(&p, op.Collective)
	return pl.Collective(op, p)
}

// WaitUntilReady makes a stream wait for the host and for an operation's predecessors. It
// returns the gap before the operation starts (rules S3 and S4).
func (r *Rank) WaitUntilReady(s *Stream, op *workload.Op, after []workload.Dep, except ...*workload.Op) trace.Time {
	l := r.Planner.Machine.Launch
	cost := l.Host
	switch {
	case op.Collective >= 0 && r.Planner.CollectiveKernel == nil:
		cost = l.HostCollective
	case op.Own:
		cost = l.Compiled
	}
	if r.Planner.Graph {
		r.waitFor(s, after, except...)
		return Duration(l.Graph.Or(l.Gap.Value))
	}
	r.notBefore(op)
	s.Wait(r.HostIssued, r.Issue(cost.Value, op.Name), "host")
	if r.waitFor(s, after, except...) {
		return Duration(l.Event.Value)
	}
	return Duration(l.Gap.Value)
}

// Fence holds a workgroup until its stores and flags to peers have been acknowledged: a
// flag must not overtake the data that it announces (rule F4).
func (pl *Planner) Fence() program.Phase {
	return program.Phase{Op: program.Sleep, Time: Duration(pl.Machine.Fabric.Fence.Value)}
}

// OpBetween is the name of the first kernel or copy, other than a fill, between two
// operations on the stream of either.
func (pl *Planner) OpBetween(a, b *workload.Op) string {
	for id := a.ID + 1; id < b.ID; id++ {
		op := &pl.Workload.Ops[id]
		if (op.Queue == a.Queue || op.Queue == b.Queue) && op.Collective < 0 && !pl.Workload.IsFill(op) {
			return op.Name
		}
	}
	return ""
}
