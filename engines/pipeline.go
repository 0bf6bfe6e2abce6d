package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// gather writes an all-gather, or an all-to-all, and the product behind it
// (MECHANISM 6.1).
func (t *transfers) gather(r *rank, p *pair) {
	compute, comm := r.split(p)
	b := t.board(p)
	me, n := b.place(r), len(b.ranks)
	s, l := r.stream(compute.Queue), t.pl.m.Launch
	shard := float64(p.coll.Bytes) / float64(n)

	r.enter(p)
	gap := r.ready(s, compute, slices.Concat(r.before(p, comm), r.before(p, compute)), r.within(p)...)
	mine := t.pl.p.NewFlag(fmt.Sprintf("rank %d's shard may move", r.id))
	staged := shard
	if b.impl == "pull" && p.coll.Op == trace.AllToAll {
		staged *= float64(n) // peers read their parts here
	}
	stage := replay.Command{Op: replay.Launch, Name: "copy to symmetric memory", Origin: comm.ID, Kernel: t.pl.sweep("copy to symmetric memory", staged, staged)}
	s.post(b.free[me], 1)
	if b.impl == "pull" { // peers read from a buffer that must hold the shard first (A1)
		s.launch(gap, stage)
		r.barrier(s, b.there, n)
		s.post(mine, 1)
	} else {
		s.post(mine, 1)
		s.launch(gap, stage)
	}
	gap = duration(l.Gap.Value)

	seq := t.sequence(b, me, true, t.products(r, p), t.spares(p, b))
	launch := func() { t.gathered(r, p, s, b, seq, gap) }
	switch {
	case b.across:
		c, _ := t.pl.cluster(b.ranks, me)
		t.carry(r, p, s, mine, func(placed replay.Flag) *replay.Kernel { return t.gatherNodes(r, p, b, c, placed) }, launch)
	case t.kernel:
		t.carry(r, p, s, mine, func(placed replay.Flag) *replay.Kernel { return t.carrier(p, comm, b, seq, me, placed) }, launch)
	case b.impl == "ring":
		t.handOn(r, p, b, mine, shard)
		launch()
	default:
		for range b.cuts {
			for i := 1; i < n; i++ {
				lane := t.lane(r, compute, comm, i)
				lane.wait(mine, 1, "shard")
				from, to := (me+i)%n, me
				if b.impl == "push" {
					from, to = me, (me+i)%n
					lane.wait(b.free[to], 1, "buffer")
				}
				t.move(r, lane, comm, b.ranks[from], b.ranks[to], shard/float64(b.cuts), b.arrived[to][from])
			}
		}
		launch()
	}
	for _, op := range r.within(p) {
		r.finished(s, op)
	}
	r.leave(p)
}

// handOn writes the copies of a ring push: a rank's own shard to the next rank,
// then whatever has come from the one before. In a ring cut into parts a shard
// crosses to the rank's counterpart in the next part once, and goes round there.
func (t *transfers) handOn(r *rank, p *pair, b *board, mine replay.Flag, shard float64) {
	compute, comm := r.split(p)
	me, n := b.place(r), len(b.ranks)
	g := n / t.numa
	next, across := me/g*g+(me+1)%g, (me+g)%n
	s := t.lane(r, compute, comm, 1)
	s.wait(mine, 1, "shard")
	send := func(which, to int) {
		if which != me {
			s.wait(b.arrived[me][which], 1, "shard")
		}
		s.wait(b.free[to], 1, "buffer")
		t.move(r, s, comm, b.ranks[me], b.ranks[to], shard/float64(b.cuts), b.arrived[to][which])
	}
	order := t.arrival(b, me)
	for part := range t.numa {
		for _, which := range order[part*g : part*g+g-1] {
			send(which, next)
		}
		if part+1 < t.numa {
			send(order[part*g], across)
		}
	}
}

// gathered writes the product: one kernel whose tiles wait for the shards that
// their rows touch (A3).
func (t *transfers) gathered(r *rank, p *pair, s *stream, b *board, seq *sequence, gap trace.Time) {
	compute, _ := r.split(p)
	me := b.place(r)
	s.launch(r.refill(s, p.pre[r.id], gap), launchOf(compute, seq.kernel(t.pl, func(buf []replay.Phase, x *run, work replay.Phase) []replay.Phase {
		for _, i := range x.units {
			if u := seq.units[i]; u.shard != me {
				buf = append(buf, replay.Phase{Op: replay.WaitFor, Flag: b.arrived[me][u.shard], Count: int64((u.piece + 1) * b.posts)})
			}
		}
		return append(buf, work)
	})))
}

// scatter writes a product and the reduce-scatter, or the all-to-all, behind it
// (MECHANISM 6.2).
func (t *transfers) scatter(r *rank, p *pair) {
	compute, comm := r.split(p)
	b := t.board(p)
	me, s := b.place(r), r.stream(compute.Queue)

	r.enter(p)
	gap := r.ready(s, compute, slices.Concat(r.before(p, compute), comm.After), r.within(p)...)
	s.post(b.free[me], 1)
	seq := t.sequence(b, me, false, t.products(r, p), t.spares(p, b))
	launch := func() { t.scattered(r, p, s, b, seq, gap) }
	switch {
	case b.across:
		launch()
		c, _ := t.pl.cluster(b.ranks, me)
		t.scatterNodes(r, p, b, c, s, seq)
	case b.impl == "store":
		launch()
	case t.kernel:
		inputs := t.pl.p.NewFlag(fmt.Sprintf("inputs of rank %d ready", r.id))
		s.post(inputs, 1)
		kernel := func(placed replay.Flag) *replay.Kernel { return t.carrier(p, comm, b, seq, me, placed) }
		s.wait(t.carry(r, p, s, inputs, kernel, launch), 1, "communication kernel")
	default:
		launch()
		t.copyOut(r, p, s, b, seq)
	}
	if !b.across {
		r.barrier(s, b.over, len(b.ranks))
		if p.coll.Op == trace.ReduceScatter {
			t.add(r, p, s)
		}
	}
	for _, op := range r.within(p) {
		r.finished(s, op)
	}
	r.leave(p)
}

// add writes the sum of what all ranks have brought; that of PyTorch's pipelines
// is PyTorch's.
func (t *transfers) add(r *rank, p *pair, s *stream) {
	_, comm := r.split(p)
	n := len(p.coll.Members)
	name := fmt.Sprintf("sum of %d partial results", n)
	read, write, least := float64(p.coll.Bytes), float64(p.coll.Bytes)/float64(n), 0.0
	if rate := t.pl.m.GPU.SumAt(n); t.chunks && rate > 0 {
		least = write / rate
	}
	t.issue(r, s, name)
	s.launch(duration(t.pl.m.Launch.Hop.Value), replay.Command{
		Op: replay.Launch, Name: name, Origin: comm.ID, Kernel: t.pl.sweepOn(name, t.pl.sweepers(read, write), read, write, least),
	})
}

// copyOut writes the copies of a scattered product, each behind the signal of the
// tiles that it moves. Those of the next rank go first and the own shard last:
// nothing is left to hide it but it does not cross a link (S1).
func (t *transfers) copyOut(r *rank, p *pair, s *stream, b *board, seq *sequence) {
	compute, comm := r.split(p)
	me, n := b.place(r), len(b.ranks)
	piece := float64(p.coll.Bytes) / float64(n*b.cuts)
	for c := range b.cuts {
		for i := 1; i < n; i++ {
			lane := t.lane(r, compute, comm, i)
			from, to := (me-i+n)%n, me
			if b.impl == "push" {
				from, to = me, (me+i)%n
				lane.wait(b.free[to], 1, "buffer")
			}
			lane.wait(b.done[from][to*b.cuts+c], seq.count(to, c), "computed")
			t.move(r, lane, comm, b.ranks[from], b.ranks[to], piece, b.arrived[to][from], b.sent[me])
		}
	}
	lane := t.lane(r, compute, comm, n)
	for c := range b.cuts {
		lane.wait(b.done[me][me*b.cuts+c], seq.count(me, c), "computed")
		t.move(r, lane, comm, b.ranks[me], b.ranks[me], piece, b.sent[me])
	}
	s.wait(b.sent[me], int64(n*b.cuts), "copies")
}

// scattered writes the product: one kernel whose tiles count towards the shards
// that they complete (S1) or store themselves to their owners (S2).
func (t *transfers) scattered(r *rank, p *pair, s *stream, b *board, seq *sequence, gap trace.Time) {
	compute, _ := r.split(p)
	me := b.place(r)
	k := seq.kernel(t.pl, func(buf []replay.Phase, x *run, work replay.Phase) []replay.Phase {
		buf = append(buf, work)
		for _, i := range x.units {
			u := seq.units[i]
			buf = append(buf, replay.Phase{Op: replay.PostTo, Flag: b.done[me][u.shard*b.cuts+u.piece], Count: 1})
		}
		return buf
	})
	if b.impl == "store" {
		k = t.storing(p, b, seq, me)
	}
	s.launch(r.refill(s, p.pre[r.id], gap), launchOf(compute, k))
}

// storing is a product whose tiles store themselves into their owners' buffers:
// no signals, a barrier follows the kernel.
func (t *transfers) storing(p *pair, b *board, seq *sequence, me int) *replay.Kernel {
	payload := seq.payload(float64(p.coll.Bytes))
	cost := t.pl.m.Fabric.StoreCost(t.pattern())
	k := seq.kernel(t.pl, func(buf []replay.Phase, x *run, work replay.Phase) []replay.Phase {
		work.Write = 0
		buf = append(buf, work)
		for _, i := range x.units {
			to := seq.units[i].shard
			bytes := payload[x.part] / float64(len(x.units))
			store := replay.Phase{Op: replay.Store, Peer: b.ranks[to], Bytes: bytes}
			if to != me {
				store.Time = t.storeTime(bytes)
				store.Bytes *= cost
			}
			buf = append(buf, store)
		}
		return buf
	})
	k.Name = fmt.Sprintf("%s + %s", k.Name, p.coll.Op)
	return k
}

// payload is the bytes that a tile of each product sends of all of them.
func (s *sequence) payload(bytes float64) []float64 {
	whole := 0.0
	each := make([]float64, len(s.parts))
	for i := range s.parts {
		each[i] = float64(s.parts[i].op.Shape.M * s.parts[i].op.Shape.N)
		whole += each[i]
	}
	for i := range each {
		share := 1 / float64(len(each))
		if whole > 0 {
			share = each[i] / whole
		}
		each[i] = bytes * share / float64(s.parts[i].tiles)
	}
	return each
}

// pattern is which peers the stores of all GPUs go to at one time.
func (t *transfers) pattern() machine.Pattern {
	switch t.swizzle {
	case "mesh":
		return machine.ToAll
	case "index":
		return machine.ToOne
	}
	return machine.ToNext
}

// storeTime is how long a workgroup takes to store to a peer.
func (t *transfers) storeTime(bytes float64) trace.Time {
	return duration(bytes / t.pl.m.Fabric.StoreCU.Or(t.pl.m.Fabric.Egress.Value))
}

// chunk launches the k-th of n parts of a product.
func (r *rank) chunk(p *pair, s *stream, op *workload.Op, k, n int, gap trace.Time) {
	kernel := r.pl.chunkOf(op, k, n)
	if kernel.Owned > 0 {
		gap = r.refill(s, p.pre[r.id], gap)
	}
	s.launch(gap, launchOf(op, kernel))
}
