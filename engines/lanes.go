package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A laneKey names a lane of the bound: the compute, the communication or the
// copies of one captured stream. Its operations never ran beside each other when
// captured, so no schedule of that stream's operations takes less than all of them.
type laneKey struct {
	queue int64
	kind  trace.Kind
	free  bool // outside of all iterations
}

// boundByLanes writes the bound: the operations of each lane back to back.
//
//	iteration    |0               |1
//	stream 7     |GGGGGGGGGGGGGG  |GGGGGG
//	its comm.    |CCCCCCCCCCCCCCCC|CCCCCC
func (pl *planner) boundByLanes() error {
	if len(pl.w.Collectives) == 0 && !pl.copiesToPeers() {
		return &NotApplicable{"ideal", "no communication was found"}
	}
	b := &lanes{pl: pl, of: pl.iterationOf(), ends: map[int32]replay.Flag{}, posts: map[int32]int64{}}
	b.count()
	pl.each = b.write
	return nil
}

func (pl *planner) copiesToPeers() bool {
	for i := range pl.w.Ops {
		if pl.w.Ops[i].Kind == trace.Copy && pl.communicates(&pl.w.Ops[i]) {
			return true
		}
	}
	return false
}

// iterationOf is by op the iteration that it belongs to, a collective to the
// earliest of its members'; 0 for all where there are none, -1 outside of them.
func (pl *planner) iterationOf() []int32 {
	of, n := iterations(pl.w)
	if n == 0 {
		return make([]int32, len(pl.w.Ops))
	}
	for i := range pl.w.Collectives {
		members := pl.w.Collectives[i].Members
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
	pl    *planner
	of    []int32               // by op: its iteration, or -1
	ends  map[int32]replay.Flag // by iteration: counts its operations that have ended
	posts map[int32]int64       // by iteration: how many it has
	keys  map[*stream]laneKey
	at    map[*stream]int32 // the iteration of the last operation written
}

// count makes the flags that say when iterations have ended.
func (b *lanes) count() {
	b.keys, b.at = map[*stream]laneKey{}, map[*stream]int32{}
	for _, i := range b.of {
		if i < 0 {
			continue
		}
		if _, seen := b.ends[i]; !seen {
			b.ends[i] = b.pl.p.NewFlag(fmt.Sprintf("iteration %d ended", i))
		}
		b.posts[i]++
	}
}

func (b *lanes) write(r *rank, op *workload.Op) {
	i := b.of[op.ID]
	s := b.lane(r, laneKey{op.Queue, op.Kind, i < 0}, i, op.Start)
	for before := i - 1; before >= 0; before-- {
		if n := b.posts[before]; n > 0 {
			if at, ok := b.at[s]; !ok || at != i {
				s.wait(b.ends[before], n, "iteration before")
			}
			break
		}
	}
	s.launch(0, b.pl.alone(op))
	r.finished(s, op)
	b.at[s] = i
	if i >= 0 {
		s.post(b.ends[i], 1)
	}
}

// lane is a stream for operations of the key, of which none is running at the
// captured time and none is of a later iteration.
func (b *lanes) lane(r *rank, k laneKey, iteration int32, at trace.Time) *stream {
	for _, s := range r.streams {
		if b.keys[s] == k && s.end <= at && b.at[s] <= iteration {
			return s
		}
	}
	s := &stream{Stream: replay.Stream{Name: fmt.Sprintf("stream %d: %s", k.queue, k.kind), Queue: k.queue}}
	r.streams = append(r.streams, s)
	b.keys[s] = k
	return s
}
