package schedule

import (
	"fmt"
	"slices"

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
	Plainly: "perfect overlap",
	Params: []plan.Param{
		{Name: "variant", Default: "whole", Choices: []string{"whole", "gemm-rs", "rs-nmc"}, Doc: "what runs alongside compute: the whole communication, or of each pair its reduce-scatter, or that with near-memory sums"},
	},
	Kind: plan.Bound,
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
	channels, of := pl.Laws().Channels(c), &pl.Machine.Library.ReduceScatter
	whole := pl.Laws().Time(c, trace.ReduceScatter, c.Bytes, channels)
	if whole <= 0 || of.Receive.Value <= 0 {
		return 0
	}
	together := float64(channels) * of.Receive.Value
	if of.Sum.Value > 0 {
		together = min(together, of.Sum.Value)
	}
	step := float64(c.Bytes) / float64(len(c.Members)) / together
	return trace.Time(float64(reduce) * min(1, step/whole))
}

// A laneKey names the lanes of a rank for the compute, the communication or the copies of one captured stream. What is on one lane
// never ran alongside each other when captured, so no schedule of that stream's operations takes less than all of them.
type laneKey struct {
	queue int64
	kind  trace.Kind
	free  bool // outside of all iterations
}

// A lane is a stream of the bound.
type lane struct {
	*plan.Stream
	iteration int32 // of the last operation written; -2: none is
}

// lanes are those of a rank.
type lanes map[laneKey][]*lane

// of is a lane for operations of the key, of which none is running at the captured time and none is of a later iteration.
func (l lanes) of(r *plan.Rank, k laneKey, iteration int32, at trace.Time) *lane {
	for _, s := range l[k] {
		if s.End <= at && s.iteration <= iteration {
			return s
		}
	}
	s := &plan.Stream{Stream: program.Stream{Name: fmt.Sprintf("stream %d: %s", k.queue, k.kind), Queue: k.queue}}
	l[k], r.Streams = append(l[k], &lane{s, -2}), append(r.Streams, s)
	return l[k][len(l[k])-1]
}

// boundByLanes writes the bound: the operations of each lane back to back (rule B2).
//
//	iteration    |0               |1
//	stream 7     |GGGGGGGGGGGGGG  |GGGGGG
//	its comm.    |CCCCCCCCCCCCCCCC|CCCCCC
func boundByLanes(pl *plan.Planner) (why string) {
	if len(pl.Workload.Collectives) == 0 && !copiesToPeers(pl) {
		return "no communication was found"
	}
	of := iterationOf(pl)
	ends, posts := map[int32]program.Flag{}, map[int32]int64{} // by iteration: counts its operations that have ended; their number
	for _, i := range of {
		if posts[i]++; i >= 0 && posts[i] == 1 {
			ends[i] = pl.Program.NewFlag(fmt.Sprintf("iteration %d ended", i))
		}
	}
	pl.WriteRank = func(r *plan.Rank) {
		lanes := lanes{}
		for _, id := range pl.Workload.Ranks[r.ID] {
			op, i := &pl.Workload.Ops[id], of[id]
			s, before := lanes.of(r, laneKey{op.Queue, op.Kind, i < 0}, i, op.Start), i-1
			for before > 0 && posts[before] == 0 {
				before--
			}
			if before >= 0 && posts[before] > 0 && s.iteration != i {
				s.Wait(ends[before], posts[before], "iteration before")
			}
			s.Launch(0, alone(pl, op))
			r.Written(s.Stream, op)
			if s.iteration = i; i >= 0 {
				s.Post(ends[i], 1)
			}
		}
	}
	return ""
}

func copiesToPeers(pl *plan.Planner) bool {
	return slices.ContainsFunc(pl.Workload.Ops, func(op workload.Op) bool { return op.Kind == trace.Copy && communicates(pl, &op) })
}

// iterationOf is by op the iteration that it belongs to, a collective to the
// earliest of its members'; 0 for all where there are none, -1 outside of them.
func iterationOf(pl *plan.Planner) []int32 {
	of, n := workload.IterationsOf(pl.Workload)
	if n == 0 {
		return make([]int32, len(pl.Workload.Ops))
	}
	for i := range pl.Workload.Collectives {
		members := pl.Workload.Collectives[i].Members
		for _, id := range members {
			of[members[0]] = min(of[members[0]], of[id])
		}
		for _, id := range members {
			of[id] = of[members[0]]
		}
	}
	return of
}
