package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Passing is the ring decomposition of an all-gather and a product, or of a
// product and a reduce-scatter (Wang et al., MECHANISM D1, D2, D5). Shards, or
// the partial sums that become them, go from rank to rank by copy engines; both
// sends those that are nearer that way downwards.
//
//	all-gather, rank 0 of 4     compute |own|3  |2  |1  |
//	                            copies  |0→1|3→1|2→1|
//	reduce-scatter, rank 0      compute |3  |2+ |1+ |own+|
//	                            copies      |3→1|2→1|1→1|
type passing struct {
	pl     *planner
	both   bool
	boards map[int]*passBoard // by index of pair
}

// A passBoard is what the ranks of one pair share. Flags are by place in the ring, then chunk.
type passBoard struct {
	ranks          []int32
	up, down       int // hops that chunks travel at most, each way
	arrived, ready [][]replay.Flag
}

// ringPasses says why a pair cannot become a ring of pieces, or nothing.
func (pl *planner) ringPasses(p *workload.Pair) string {
	op, compute := pl.w.Collectives[p.Collective].Op, &pl.w.Ops[p.First[0]]
	switch {
	case pl.m.Fabric.Egress.Value <= 0:
		return "machine " + pl.m.Name + " has no links between GPUs"
	case len(p.First) < 2:
		return "the collectives have one rank"
	case op == trace.AllGather && p.Direction == workload.CollectiveThenCompute:
		compute = &pl.w.Ops[p.Second[0]]
	case op == trace.ReduceScatter && p.Direction == workload.ComputeThenCollective:
	default:
		return fmt.Sprintf("variant=ring needs an all-gather before a product or a reduce-scatter behind one, not %s in a pair %s", op, p.Direction)
	}
	if compute.Shape.Kind != workload.GEMM {
		return fmt.Sprintf("variant=ring needs a matrix product, and the shape of %s is not known", shortName(compute.Name))
	}
	for k := range p.First {
		if name := pl.between(&pl.w.Ops[p.First[k]], &pl.w.Ops[p.Second[k]]); name != "" {
			return fmt.Sprintf("%s lies between compute and communication, and works on the whole", shortName(name))
		}
	}
	return ""
}

func (t *passing) board(p *pair) *passBoard {
	if b, ok := t.boards[p.index]; ok {
		return b
	}
	b := &passBoard{ranks: t.pl.destinations(p)}
	n := len(b.ranks)
	b.up = n - 1
	if t.both {
		b.up = n / 2
	}
	b.down = n - 1 - b.up
	for i := range n {
		b.arrived, b.ready = append(b.arrived, nil), append(b.ready, nil)
		for c := range n {
			b.arrived[i] = append(b.arrived[i], t.pl.p.NewFlag(fmt.Sprintf("chunk %d on rank %d", c, b.ranks[i])))
			b.ready[i] = append(b.ready[i], t.pl.p.NewFlag(fmt.Sprintf("rank %d's sum of chunk %d", b.ranks[i], c)))
		}
	}
	t.boards[p.index] = b
	return b
}

// A hop is a distance on the ring: from where a chunk comes, or to where it goes.
type hop struct{ distance, step int } // step: 1 upwards, -1 downwards

// hops lists the distances at which a rank meets the others' chunks, near ones first.
func (b *passBoard) hops() []hop {
	var all []hop
	for d := 1; d <= max(b.up, b.down); d++ {
		if d <= b.up {
			all = append(all, hop{d, 1})
		}
		if d <= b.down {
			all = append(all, hop{d, -1})
		}
	}
	return all
}

// at is the place so many steps from another.
func (b *passBoard) at(me, steps int) int {
	n := len(b.ranks)
	return ((me+steps)%n + n) % n
}

// most is how far chunks travel in a direction.
func (b *passBoard) most(step int) int {
	if step > 0 {
		return b.up
	}
	return b.down
}

func (t *passing) emit(r *rank, p *pair) {
	compute, comm := r.split(p)
	b := t.board(p)
	me := slices.Index(b.ranks, int32(r.id))
	s := r.stream(compute.Queue)
	lanes := map[int]*stream{1: r.commStream(compute, comm), -1: r.stream(-1001)}

	r.enter(p)
	before := slices.Concat(r.before(p, compute), r.before(p, comm))
	gap := r.ready(s, compute, before, r.within(p)...)
	if p.Direction == workload.CollectiveThenCompute {
		t.gather(r, p, b, me, s, lanes, gap)
	} else {
		t.reduce(r, p, b, me, s, lanes, gap)
	}
	for _, op := range r.within(p) {
		r.finished(s, op)
	}
	r.leave(p)
}

// gather multiplies with the shard at hand while copies pass it on.
func (t *passing) gather(r *rank, p *pair, b *passBoard, me int, s *stream, lanes map[int]*stream, gap trace.Time) {
	compute, comm := r.split(p)
	shard := float64(p.coll.Bytes) / float64(len(b.ranks))
	s.post(b.arrived[me][me], 1)
	for d := range b.up { // the shard that has come d hops goes one on
		for _, step := range []int{1, -1} {
			if d < b.most(step) {
				c := b.at(me, -d*step)
				t.pass(r, lanes[step], comm, b, me, b.at(me, step), c, shard, b.arrived[me][c])
			}
		}
	}
	out := compute.Write / float64(len(b.ranks)) // its part of the product, put in its place
	product := func(c int, gap trace.Time) {
		r.chunk(p, s, compute, c, len(p.First), gap)
		t.combine(r, compute, s, "place in the whole", out, out)
	}
	product(me, gap)
	for _, h := range b.hops() {
		c := b.at(me, -h.distance*h.step)
		s.wait(b.arrived[me][c], 1, "shard")
		s.wait(r.issued, r.issue(t.pl.m.Launch.Host.Value, compute.Name), "host")
		product(c, duration(t.pl.m.Launch.Hop.Value))
	}
}

// reduce computes far chunks first, adds what has arrived of each, and passes the sum on.
func (t *passing) reduce(r *rank, p *pair, b *passBoard, me int, s *stream, lanes map[int]*stream, gap trace.Time) {
	compute, comm := r.split(p)
	chunk := float64(p.coll.Bytes) / float64(len(b.ranks))
	l := t.pl.m.Launch
	product := func(c int, arrivals int64) { // sums that come in are waited for behind the product
		r.chunk(p, s, compute, c, len(p.First), gap)
		if arrivals > 0 {
			s.wait(b.arrived[me][c], arrivals, "partial sums")
			t.combine(r, compute, s, "add partial sums", float64(arrivals+1)*chunk, chunk)
		}
		gap = duration(l.Gap.Value)
	}
	hops := b.hops()
	slices.Reverse(hops)
	for i, h := range hops {
		if i > 0 {
			s.wait(r.issued, r.issue(l.Host.Value, compute.Name), "host")
		}
		c := b.at(me, h.distance*h.step)
		arrivals := int64(0)
		if h.distance < b.most(h.step) {
			arrivals = 1
		}
		product(c, arrivals)
		s.post(b.ready[me][c], 1)
		t.pass(r, lanes[h.step], comm, b, me, b.at(me, h.step), c, chunk, b.ready[me][c])
	}
	s.wait(r.issued, r.issue(l.Host.Value, compute.Name), "host")
	arrivals := int64(min(1, b.up) + min(1, b.down))
	product(me, arrivals)
}

// combine launches the small kernel behind a piece's product.
func (t *passing) combine(r *rank, compute *workload.Op, s *stream, name string, read, write float64) {
	l := t.pl.m.Launch
	s.wait(r.issued, r.issue(l.Host.Value, name), "host")
	s.launch(duration(l.Gap.Value), replay.Command{Op: replay.Launch, Name: name, Origin: compute.ID, Kernel: t.pl.sweep(name, read, write)})
}

// pass copies a chunk to a neighbour when it is there.
func (t *passing) pass(r *rank, lane *stream, comm *workload.Op, b *passBoard, me, to, chunk int, bytes float64, there replay.Flag) {
	lane.wait(r.issued, r.issue(t.pl.m.Launch.Host.Value, "copy"), "host")
	lane.wait(there, 1, "chunk")
	lane.launch(0, replay.Command{Op: replay.Start, Name: comm.Name, Origin: comm.ID, Copy: &replay.Copy{
		Name: fmt.Sprintf("copy %d→%d", b.ranks[me], b.ranks[to]), From: b.ranks[me], Peer: b.ranks[to], Bytes: bytes,
	}})
	lane.post(b.arrived[to][chunk], 1)
}
