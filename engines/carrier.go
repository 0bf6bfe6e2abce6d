package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// carry launches a communication kernel beside a pair's product, before or after
// it, once ready is posted, and returns the flag of its end. Launched before, the product waits until
// all its workgroups are placed; launched after, they get the slots that the
// product leaves, and if it waits for them and leaves none, there is no way on
// (MECHANISM 6, R0.7).
func (t *transfers) carry(r *rank, p *pair, s *stream, ready replay.Flag, kernel func(placed replay.Flag) *replay.Kernel, product func()) (end replay.Flag) {
	compute, comm := r.split(p)
	lane, l := r.commStream(compute, comm), t.pl.m.Launch
	placed := t.pl.p.NewFlag(fmt.Sprintf("communication kernel of rank %d resident", r.id))
	end = t.pl.p.NewFlag(fmt.Sprintf("communication kernel of rank %d finished", r.id))
	k := kernel(placed)
	launch := func() {
		t.issue(r, lane, "communication kernel")
		lane.wait(ready, 1, "inputs")
		lane.launch(duration(l.Event.Value), launchOf(comm, k))
		lane.post(end, 1)
	}
	if t.after { // an event later than the product, whose launch gap is shorter
		ready = t.pl.p.NewFlag(fmt.Sprintf("product of rank %d launched", r.id))
		s.post(ready, 1)
		product()
		launch()
		return end
	}
	launch()
	s.wait(placed, int64(k.WGs), "communication kernel resident")
	product()
	return end
}

// carrier is the communication kernel: its workgroups store every piece to every
// peer together, or, with the swizzle for a mesh, each begins with another peer.
// Pieces of a scattered product are waited for.
func (t *transfers) carrier(p *pair, comm *workload.Op, b *board, seq *sequence, me int, placed replay.Flag) *replay.Kernel {
	n := len(b.ranks)
	gather := p.Direction == workload.CollectiveThenCompute
	bytes := float64(p.coll.Bytes) / float64(n*b.cuts*t.blocks)
	k := &replay.Kernel{
		Name: comm.Name, Kind: trace.Collective, WGs: t.blocks, Footprint: sweepFootprint,
		Recipe: func(wg int, buf []replay.Phase) []replay.Phase {
			buf = append(buf, replay.Phase{Op: replay.PostTo, Flag: placed, Count: 1})
			computed := func(shard, piece int) {
				if !gather {
					buf = append(buf, replay.Phase{Op: replay.WaitFor, Flag: b.done[me][shard*b.cuts+piece], Count: seq.count(shard, piece)})
				}
			}
			for c := range b.cuts {
				for i := range n - 1 {
					if t.swizzle == "mesh" {
						i = (i + wg) % (n - 1)
					}
					to := (me + 1 + i) % n
					computed(to, c)
					buf = t.storeTo(b, to, bytes, b.arrived[to][me], buf)
				}
			}
			for c := range b.cuts {
				if gather {
					break
				}
				computed(me, c)
				buf = append(buf, replay.Phase{Op: replay.Store, Peer: b.ranks[me], Bytes: bytes, Read: bytes})
			}
			return buf
		},
	}
	t.pl.describe(k, comm, part{coll: p.coll, of: 1})
	k.Attr.Grid = [3]int32{int32(t.blocks), 1, 1}
	return k
}

// storeTo writes bytes into a peer's buffer once that is free, and signals behind a fence.
func (t *transfers) storeTo(b *board, to int, bytes float64, done replay.Flag, buf []replay.Phase) []replay.Phase {
	return append(buf,
		replay.Phase{Op: replay.WaitFor, Flag: b.free[to], Count: 1},
		replay.Phase{Op: replay.Store, Peer: b.ranks[to], Bytes: bytes * t.pl.m.Fabric.StoreCost(t.pattern()), Read: bytes, Time: t.storeTime(bytes)},
		t.pl.fence(),
		replay.Phase{Op: replay.PostTo, Flag: done, Count: 1})
}
