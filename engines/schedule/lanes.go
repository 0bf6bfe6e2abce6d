package schedule

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

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
