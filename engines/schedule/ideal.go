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

// A laneKey names a lane of the bound: the compute, the communication or the
// copies of one captured stream. Its operations never ran alongside each other when
// captured, so no schedule of that stream's operations takes less than all of them.
type laneKey struct {
	rank  int
	queue int64
	kind  trace.Kind
	free  bool // outside of all iterations
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
	b := &lanes{pl: pl, of: iterationOf(pl), ends: map[int32]program.Flag{}, posts: map[int32]int64{}}
	b.count()
	pl.WriteRank = func(r *plan.Rank) {
		for _, id := range pl.Workload.Ranks[r.ID] {
			b.write(r, &pl.Workload.Ops[id])
		}
	}
	return ""
}

func copiesToPeers(pl *plan.Planner) bool {
	return slices.ContainsFunc(pl.Workload.Ops, func(op workload.Op) bool { return op.Kind == trace.Copy && pl.Communicates(&op) })
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

type lanes struct {
	pl    *plan.Planner
	of    []int32                // by op: its iteration, or -1
	ends  map[int32]program.Flag // by iteration: counts its operations that have ended
	posts map[int32]int64        // by iteration: how many it has
	lanes map[laneKey][]*plan.Stream
	at    map[*plan.Stream]int32 // the iteration of the last operation written
}

// count makes the flags that say when iterations have ended.
func (b *lanes) count() {
	b.lanes, b.at = map[laneKey][]*plan.Stream{}, map[*plan.Stream]int32{}
	for _, i := range b.of {
		if i < 0 {
			continue
		}
		if _, seen := b.ends[i]; !seen {
			b.ends[i] = b.pl.Program.NewFlag(fmt.Sprintf("iteration %d ended", i))
		}
		b.posts[i]++
	}
}

func (b *lanes) write(r *plan.Rank, op *workload.Op) {
	i := b.of[op.ID]
	s := b.lane(r, laneKey{r.ID, op.Queue, op.Kind, i < 0}, i, op.Start)
	for before := i - 1; before >= 0; before-- {
		if n := b.posts[before]; n > 0 {
			if at, ok := b.at[s]; !ok || at != i {
				s.Wait(b.ends[before], n, "iteration before")
			}
			break
		}
	}
	s.Launch(0, alone(b.pl, op))
	r.Written(s, op)
	b.at[s] = i
	if i >= 0 {
		s.Post(b.ends[i], 1)
	}
}

// lane is a stream for operations of the key, of which none is running at the
// captured time and none is of a later iteration.
func (b *lanes) lane(r *plan.Rank, k laneKey, iteration int32, at trace.Time) *plan.Stream {
	for _, s := range b.lanes[k] {
		if s.End <= at && b.at[s] <= iteration {
			return s
		}
	}
	s := &plan.Stream{Stream: program.Stream{Name: fmt.Sprintf("stream %d: %s", k.queue, k.kind), Queue: k.queue}}
	r.Streams = append(r.Streams, s)
	b.lanes[k] = append(b.lanes[k], s)
	return s
}
