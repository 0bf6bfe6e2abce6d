package schedule

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Ideal is the bound that T3 compares with (section 5.3), for whole runs: compute
// and communication side by side, each as fast as alone.
var Ideal = plan.Strategy{
	Name:    "ideal",
	From:    "T3",
	Summary: "max(compute, communication) of an iteration: no schedule of the same operations takes less",
	Params: []plan.Param{
		{Name: "variant", Default: "whole", Choices: []string{"whole", "gemm-rs", "rs-nmc"}, Doc: "what runs alongside compute: the whole communication, or of each pair its reduce-scatter, or that with near-memory sums", Work: "a bound: no schedule that runs"},
	},
	Bound: true,
	Plan: func(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
		variant := v["variant"]
		if variant == "whole" {
			return nil, boundByLanes(pl)
		}
		why = pl.Serve("no kernel followed by a reduce-scatter or an all-reduce was found (variant=whole bounds any run)", func(p *workload.Pair) (bool, string) {
			return p.Collective >= 0 && reduced(pl.Workload, p), ""
		})
		gathers := cost.Memo[int, *workload.Collective]{} // by index of pair
		return func(r *plan.Rank, p *plan.Pair) {
			gather := gathers.Of(p.Index, func() *workload.Collective {
				half := *p.Coll
				half.Op = trace.AllGather
				return &half
			})
			reductionOverlap(r, p, gather, variant == "rs-nmc")
		}, why
	},
}

// reduced reports whether a pair is a kernel and the sum of its output over ranks.
func reduced(w *workload.Workload, p *workload.Pair) bool {
	op := w.Collectives[p.Collective].Op
	return p.Direction == workload.ComputeThenCollective && (op == trace.AllReduce || op == trace.ReduceScatter)
}

// alone is an operation that takes its own time and holds nothing.
func alone(pl *plan.Planner, op *workload.Op) program.Command {
	switch {
	case op.Kind == trace.Copy:
		return pl.CopyOf(op)
	case op.Collective >= 0:
		c := &pl.Workload.Collectives[op.Collective]
		return plan.LaunchOf(op, pl.GangFor(op, c, pl.Chunks(c, 1, 0, nil).DurAlone))
	}
	return plan.LaunchOf(op, pl.MeasuredKernel(op, pl.Paced(op, op.DurAlone())))
}

// reductionOverlap writes a kernel and the reduce-scatter of its output side by
// side, and behind both, where they were an all-reduce, its all-gather (rule B2).
func reductionOverlap(r *plan.Rank, p *plan.Pair, gather *workload.Collective, nmc bool) {
	x := r.SideOf(p)
	lane := x.CommStream(x.Compute, x.Comm)
	reduce, rest := r.Planner.Laws().Halves(p.Coll)
	if nmc {
		reduce -= lastSum(r.Planner, p.Coll, reduce)
	}
	begun := r.Planner.Program.NewFlag(x.Compute.Name + " next on its stream")
	x.On.Delay(x.Gap, program.LaunchGap, x.Compute.Name)
	x.On.Post(begun, 1)
	for _, op := range r.ReplacedOps(p) {
		if op != x.Comm {
			x.On.Launch(0, alone(r.Planner, op))
			r.Written(x.On, op)
		}
	}
	lane.Wait(begun, 1, x.Compute.Name)
	lane.Launch(0, plan.LaunchOf(x.Comm, r.Planner.GangFor(x.Comm, p.Coll, reduce)))
	if rest > 0 {
		lane.Wait(r.Planner.Done[x.Compute.ID], 1, x.Compute.Name)
		lane.Launch(0, plan.LaunchOf(x.Comm, r.Planner.GangFor(x.Comm, gather, rest)))
	}
	r.Written(lane, x.Comm)
	r.EndPair()
}

// lastSum is the part of a reduce-scatter's time in which nothing is sent: its
// last step adds the last chunk that came in to the rank's own.
func lastSum(pl *plan.Planner, c *workload.Collective, reduce trace.Time) trace.Time {
	channels, receive := pl.Laws().Channels(c), pl.Machine.Library.ReduceScatter.Receive.Value
	whole := pl.Laws().Time(c, trace.ReduceScatter, c.Bytes, channels)
	step := float64(c.Bytes) / float64(len(c.Members)*channels) / receive
	if whole <= 0 || receive <= 0 {
		return 0
	}
	return trace.Time(float64(reduce) * min(1, step/whole))
}
