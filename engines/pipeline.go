package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// gather writes an all-gather and the product behind it (MECHANISM 6.1).
func (t *transfers) gather(r *rank, p *pair) {
	compute, comm := r.split(p)
	b := t.board(p)
	me, n := b.place(r), len(b.ranks)
	s, l := r.stream(compute.Queue), t.pl.m.Launch
	shard := float64(p.coll.Bytes) / float64(n)

	r.enter(p)
	gap := r.ready(s, compute, slices.Concat(r.before(p, comm), r.before(p, compute)), r.within(p)...)
	if !t.push { // peers read from a buffer that must hold the shard first (A1)
		s.launch(gap, replay.Command{Op: replay.Launch, Name: "copy to symmetric memory", Origin: comm.ID, Kernel: t.pl.sweep("copy to symmetric memory", shard, shard)})
		r.barrier(s, b.there, n)
		gap = duration(l.Gap.Value)
	}
	mine := t.pl.p.NewFlag(fmt.Sprintf("rank %d's shard may move", r.id))
	s.post(mine, 1)
	for range b.cuts {
		for i := 1; i < n; i++ {
			lane := t.lane(r, compute, comm, i)
			lane.wait(r.issued, r.issue(l.Host.Value, "copy"), "host")
			lane.wait(mine, 1, "shard")
			from, to := (me+i)%n, me
			if t.push { // so that shards arrive in the order in which the product reads them
				from, to = me, (me-i+n)%n
			}
			t.move(lane, comm, b.ranks[from], b.ranks[to], shard/float64(b.cuts), b.arrived[to][from])
		}
	}

	units := b.units(me, true)
	if t.chunks {
		for _, u := range units {
			if u.shard != me {
				s.wait(r.issued, r.issue(l.Host.Value, compute.Name), "host")
				s.wait(b.arrived[me][u.shard], 1, "shard")
			}
			r.chunk(p, s, compute, n, gap)
			gap = duration(l.Gap.Value)
		}
	} else {
		s.launch(r.fills(p, s, gap), launchOf(compute, t.waiting(compute, units, b.arrived[me], me)))
	}
	for _, op := range r.within(p) {
		r.finished(s, op)
	}
	r.leave(p)
}

// waiting is the product whose tiles wait for the shards that they read.
func (t *transfers) waiting(op *workload.Op, units []unit, arrived []replay.Flag, me int) *replay.Kernel {
	g := t.pl.gridOf(op, op.Dur())
	tiles := max(g.tiles, g.wgs)
	k := t.pl.kernelOf(op, g)
	k.Recipe = func(i int, buf []replay.Phase) []replay.Phase {
		first, last := span(i, tiles, len(units))
		for _, u := range units[first : last+1] {
			if u.shard != me {
				buf = append(buf, replay.Phase{Op: replay.WaitFor, Flag: arrived[u.shard], Count: int64(u.piece + 1)})
			}
		}
		return append(buf, replay.Phase{Op: replay.Work, Time: g.time, Read: g.read, Write: g.write})
	}
	return k
}

// scatter writes a product and the reduce-scatter behind it (MECHANISM 6.2).
func (t *transfers) scatter(r *rank, p *pair) {
	compute, comm := r.split(p)
	b := t.board(p)
	me, n := b.place(r), len(b.ranks)
	s, l := r.stream(compute.Queue), t.pl.m.Launch
	shard := float64(p.coll.Bytes) / float64(n)
	units := b.units(me, false)

	r.enter(p)
	gap := r.ready(s, compute, slices.Concat(r.before(p, compute), comm.After), r.within(p)...)
	counts := make([]int64, len(units)) // posts that complete a unit
	if t.chunks {
		for i, u := range units {
			if i > 0 {
				s.wait(r.issued, r.issue(l.Host.Value, compute.Name), "host")
			}
			r.chunk(p, s, compute, n, gap)
			s.post(b.done[me][u.shard], 1)
			gap, counts[i] = duration(l.Gap.Value), 1
		}
	} else {
		s.launch(r.fills(p, s, gap), launchOf(compute, t.posting(compute, units, b, me, counts)))
	}
	for piece := range b.cuts {
		for i := 1; i < n; i++ {
			lane := t.lane(r, compute, comm, i)
			from, to := (me-i+n)%n, me
			if t.push {
				from, to = me, (me+i)%n
			}
			lane.wait(r.issued, r.issue(l.Host.Value, "copy"), "host")
			lane.wait(b.done[from][to*b.cuts+piece], counts[piece*(n-1)+i-1], "computed")
			t.move(lane, comm, b.ranks[from], b.ranks[to], shard/float64(b.cuts), b.arrived[to][from])
		}
	}
	for i := range n {
		if i != me {
			s.wait(b.arrived[me][i], int64(b.cuts), "shards")
		}
	}
	name := fmt.Sprintf("sum of %d partial results", n)
	s.wait(r.issued, r.issue(l.Host.Value, name), "host")
	s.launch(duration(l.Hop.Value), replay.Command{Op: replay.Launch, Name: name, Origin: comm.ID, Kernel: t.pl.sweep(name, float64(p.coll.Bytes), shard)})
	for _, op := range r.within(p) {
		r.finished(s, op)
	}
	r.leave(p)
}

// posting is the product whose tiles post what they completed; it fills in how
// many posts complete each unit.
func (t *transfers) posting(op *workload.Op, units []unit, b *board, me int, counts []int64) *replay.Kernel {
	g := t.pl.gridOf(op, op.Dur())
	tiles := max(g.tiles, g.wgs)
	for i := range tiles {
		first, last := span(i, tiles, len(units))
		for u := first; u <= last; u++ {
			counts[u]++
		}
	}
	k := t.pl.kernelOf(op, g)
	k.Recipe = func(i int, buf []replay.Phase) []replay.Phase {
		buf = append(buf, replay.Phase{Op: replay.Work, Time: g.time, Read: g.read, Write: g.write})
		first, last := span(i, tiles, len(units))
		for _, u := range units[first : last+1] {
			buf = append(buf, replay.Phase{Op: replay.PostTo, Flag: b.done[me][u.shard*b.cuts+u.piece], Count: 1})
		}
		return buf
	}
	return k
}

// chunk launches one of n parts of a product.
func (r *rank) chunk(p *pair, s *stream, op *workload.Op, n int, gap trace.Time) {
	k := r.pl.chunkOf(op, n)
	if k.Owned > 0 {
		gap = r.fills(p, s, gap)
	}
	s.launch(gap, launchOf(op, k))
}

// barrier makes a stream wait until those of all n ranks have come to it.
func (r *rank) barrier(s *stream, all replay.Flag, n int) {
	s.post(all, 1)
	s.wait(all, int64(n), "barrier")
	s.delay(duration(r.pl.m.Launch.Barrier.Value), replay.PeerSkew, "barrier")
}

// sweepGrain is the bytes that a workgroup of a memory-bound kernel handles at
// least: 512 threads of 16 bytes.
const sweepGrain = 8 << 10

// sweep is a kernel that does nothing but read and write memory.
func (pl *planner) sweep(name string, read, write float64) *replay.Kernel {
	foot := replay.Footprint{Threads: 512, Registers: 32}
	slots := min(4, pl.residents(foot)) * int(pl.m.GPU.CUs.Value) // all resident: some wait for each other
	wgs := min(slots, max(1, int(max(read, write)/sweepGrain)))
	time := pl.m.Launch.Graph.Value
	if rate := pl.m.GPU.StreamAt(wgs); rate > 0 {
		time = max(time, (read+write)/rate)
	}
	n := float64(wgs)
	return &replay.Kernel{
		Name: name, Kind: trace.Compute, WGs: wgs, Footprint: foot,
		Recipe: func(_ int, buf []replay.Phase) []replay.Phase {
			return append(buf, replay.Phase{Op: replay.Work, Time: duration(time), Read: read / n, Write: write / n})
		},
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None, Block: [3]int32{512, 1, 1}},
	}
}
