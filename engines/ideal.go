package engines

import (
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// ideal is the bound that T3 compares with (section 5.3): compute and
// communication of a pair side by side from the start, each as fast as alone.
var ideal = Engine{
	Name:    "ideal",
	From:    "T3",
	Summary: "max(compute, communication) of each pair: no strategy can do better by overlapping alone",
	Detail: "Both operations of a pair start together and take the time they take alone; neither holds slots, " +
		"bandwidth or waits for the other's data. Strategies that remove work, such as intermediate stores, can " +
		"in principle be faster than this.",
	Plan: func(w *workload.Workload, m machine.Machine, _ Values) (*replay.Program, error) {
		pl, err := newPlanner(w, m)
		if err != nil {
			return nil, err
		}
		pl.take(withCollective)
		if len(pl.pairs) == 0 {
			return nil, &NotApplicable{"ideal", "no pair of compute and communication was found"}
		}
		return pl.plan(func(r *rank, p *pair) { r.sideBySide(p) })
	},
}

func (r *rank) sideBySide(p *pair) {
	first, _ := r.ops(p)
	compute, comm := r.split(p)
	r.enter(p)
	before := r.stream(first.Queue).last
	for _, op := range r.within(p) {
		s := r.stream(op.Queue)
		if op == comm {
			s = r.commStream(compute, comm)
		}
		if before != nil { // stream order, which the operations on other streams would lose
			s.wait(r.pl.done[before.ID], 1, before.Name)
		}
		s.launch(r.ready(s, op, r.before(p, first), r.within(p)...), r.pl.alone(op))
		r.finished(s, op)
	}
	r.leave(p)
}

// alone is an operation that takes its own time and holds nothing.
func (pl *planner) alone(op *workload.Op) replay.Command {
	switch {
	case op.Kind == trace.Copy:
		return pl.copyOf(op)
	case op.Collective >= 0:
		c := &pl.w.Collectives[op.Collective]
		return launchOf(op, pl.gangFor(op, c, c.Transfer()))
	}
	return launchOf(op, measuredKernel(op))
}
