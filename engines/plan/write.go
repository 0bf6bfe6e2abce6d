package plan

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// WithCollective selects the pairs of compute and communication.
func WithCollective(p *workload.Pair) bool { return p.Collective >= 0 }

// communication is the kernel of a collective that keeps its place: beside the compute that ran beside it (rule L5).
func (pl *Planner) communication(op *workload.Op) *program.Kernel {
	var runners []workload.CoRun
	if iso, row := pl.Workload.Isolation, int(op.Collective); iso != nil && row < len(iso.CoRunners) {
		runners = iso.CoRunners[row]
	}
	return pl.Regrouped(op, &pl.Workload.Collectives[op.Collective], 0, runners)
}

// replaces reports whether a kernel of the strategy's replaces that of a collective.
func (pl *Planner) replaces(op *workload.Op) bool {
	return op.Collective >= 0 && !pl.Measured && pl.CollectiveKernel != nil && pl.CollectiveKernel(op) != nil
}

// WriteTail writes the kernel that a strategy puts behind a collective, if any.
func (r *Rank) WriteTail(s *Stream, op *workload.Op) {
	pl := r.Planner
	if op.Collective < 0 || pl.Measured || pl.CollectiveTail == nil {
		return
	}
	k := pl.CollectiveTail(op)
	if k == nil {
		return
	}
	gap := Duration(pl.Machine.Launch.Gap.Value)
	switch {
	case op.Graph:
		gap = pl.graphGap()
	case !pl.Graph:
		r.IssueOne(s, pl.Machine.Launch.Host.Value, k.Name)
	}
	s.Launch(gap, Standing(op, k))
}

// graphLaunch is the gap before an operation that a captured graph launches behind another
// one (rule S2).
func (pl *Planner) graphLaunch(op *workload.Op) trace.Time {
	l := &pl.Machine.Launch
	gap := l.GraphGap.Or(l.Graph.Or(l.Gap.Value))
	if op.Collective >= 0 && !pl.replaces(op) {
		gap = l.GraphComm.Or(gap)
	}
	return Duration(gap)
}

// graphGap is the median captured gap between kernels of a graph, without collectives of
// the library, whose launch takes longer. Kernels that replace them start as the others do
// (rule S2).
func (pl *Planner) graphGap() trace.Time {
	if pl.inGraph == nil {
		var gaps []trace.Time
		for i := range pl.Workload.Ops {
			op := &pl.Workload.Ops[i]
			if before := pl.lastBefore(op); op.Graph && op.Kind == trace.Compute && before != nil && before.Kind == trace.Compute {
				gaps = append(gaps, pl.withoutRecords(op, before, op.Gap))
			}
		}
		gap := Duration(pl.Machine.Launch.Gap.Value)
		if len(gaps) > 0 {
			gap = max(0, overlap.UpperMedian(gaps))
		}
		pl.inGraph = &gap
	}
	return *pl.inGraph
}

// lastBefore is the last of the operations that one waits for; nil: none.
func (pl *Planner) lastBefore(op *workload.Op) *workload.Op {
	if n := len(op.After); n > 0 {
		return &pl.Workload.Ops[op.After[n-1].Op]
	}
	return nil
}

// WaitUntilReady makes a stream wait for the host and for an operation's predecessors. It
// returns the gap before the operation starts (rule S2).
func (r *Rank) WaitUntilReady(s *Stream, op *workload.Op, after []workload.Dep, except ...*workload.Op) trace.Time {
	if !r.Planner.Graph {
		var n int64
		if r.Planner.hostOrder != nil {
			r.beginAhead(s, op)
			if r.Planner.called[op.ID] == 0 {
				n = r.callOf(op)
			}
		}
		if n == 0 {
			n = r.issue(r.Planner.launchCost(op), op.Name)
		}
		s.Wait(r.HostIssued, n, "host")
	} else if r.Planner.oneGraph && r.Planner.called[op.ID] == 0 { // its host pauses
		if n := r.callOf(op); n > 0 {
			s.Wait(r.HostIssued, n, "host")
		}
	}
	gap := r.Planner.deviceGap(op, r.waitFor(s, after, except...))
	r.AwaitUnseen(s, op, r.unseen) // of the pair that begins
	r.unseen = nil
	if op.Graph {
		gap = min(gap, r.Planner.gapHere(r.Planner.withoutRecords(op, r.Planner.lastBefore(op), max(0, op.Gap))))
	}
	return gap
}

// Fence holds a workgroup until its stores and flags to peers have been acknowledged: a
// flag must not overtake the data that it announces (rule F4).
func (pl *Planner) Fence() program.Phase {
	return program.Phase{Op: program.Sleep, Time: Duration(pl.Machine.Fabric.Fence.Value)}
}
