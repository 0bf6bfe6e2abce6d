package onesided

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// pipeline writes a pair as copies, or a communication kernel, beside one GEMM.
func (t *operator) pipeline(r *plan.Rank, p *plan.Pair) {
	compute, _ := r.Split(p)
	s := r.Stream(compute.Queue)
	gap := r.Start(p, s)
	if p.Direction == workload.CollectiveThenCompute {
		t.gather(r, p, s, gap)
	} else {
		t.scatter(r, p, s, gap)
	}
	r.EndReplaced(p, s, s)
}

// gather writes an all-gather, or an all-to-all, and the GEMM behind it
// (rules O1 and O4).
func (t *operator) gather(r *plan.Rank, p *plan.Pair, s *plan.Stream, gap trace.Time) {
	compute, comm := r.Split(p)
	b := t.stateOf(p)
	me, n := plan.Place(b.ranks, r.ID), len(b.ranks)
	shard := float64(p.Coll.Bytes) / float64(n)
	mine := t.pl.Program.NewFlag(fmt.Sprintf("rank %d's shard may move", r.ID))
	staged := shard
	if b.impl == "pull" && p.Coll.Op == trace.AllToAll {
		staged *= float64(n) // peers read their parts here
	}
	stage := t.staging(comm, staged)
	s.Post(b.free[me], 1)
	if b.impl == "pull" { // peers read from a buffer that must hold the shard first (rule O1)
		s.Launch(gap, stage)
		r.Barrier(s, b.there, n)
		s.Post(mine, 1)
	} else {
		s.Post(mine, 1)
		s.Launch(gap, stage)
	}
	gap = plan.Duration(t.pl.Machine.Launch.Gap.Value)

	seq := t.sequence(b, me, true, compute, t.spares(p, b))
	launch := func() { t.gathered(r, p, s, b, seq, gap) }
	switch {
	case b.across:
		c, _ := t.pl.Cluster(b.ranks, me)
		t.launchCommKernel(r, p, s, mine, func(placed program.Flag) *program.Kernel { return t.gatherNodes(r, p, b, c, placed) }, launch)
	case b.impl == "ring":
		t.forwardShard(r, p, b, mine, shard)
		launch()
	default:
		for range b.cuts {
			for i := 1; i < n; i++ {
				lane := t.lane(r, compute, comm, i)
				lane.Wait(mine, 1, "shard")
				from, to := (me+i)%n, me
				if b.impl == "push" {
					from, to = me, (me+i)%n
					lane.Wait(b.free[to], 1, "buffer")
				}
				t.move(r, lane, comm, b.ranks[from], b.ranks[to], shard/float64(b.cuts), b.arrived[to][from])
			}
		}
		launch()
	}
}

// staging copies a rank's data to where peers can read them.
func (t *operator) staging(comm *workload.Op, bytes float64) program.Command {
	return plan.Standing(comm, t.pl.Sweep("copy to symmetric memory", bytes, bytes))
}

// forwardShard writes the copies of a ring push: a rank's own shard to the next rank,
// then whatever has come from the one before.
func (t *operator) forwardShard(r *plan.Rank, p *plan.Pair, b *state, mine program.Flag, shard float64) {
	compute, comm := r.Split(p)
	me, n := plan.Place(b.ranks, r.ID), len(b.ranks)
	to := (me + 1) % n
	s := t.lane(r, compute, comm, 1)
	s.Wait(mine, 1, "shard")
	for _, which := range t.arrival(b, me)[:n-1] {
		if which != me {
			s.Wait(b.arrived[me][which], 1, "shard")
		}
		s.Wait(b.free[to], 1, "buffer")
		t.move(r, s, comm, b.ranks[me], b.ranks[to], shard/float64(b.cuts), b.arrived[to][which])
	}
}

// gathered writes the GEMM: one kernel whose tiles wait for the shards that
// their rows touch (rule O4).
func (t *operator) gathered(r *plan.Rank, p *plan.Pair, s *plan.Stream, b *state, seq *sequence, gap trace.Time) {
	compute, _ := r.Split(p)
	me := plan.Place(b.ranks, r.ID)
	s.Launch(r.WriteFills(s, p.FillsBefore[r.ID], gap), plan.LaunchOf(compute, seq.kernel(t.pl, func(buf []program.Phase, x *run, work program.Phase) []program.Phase {
		for _, i := range x.units {
			if u := seq.units[i]; u.shard != me {
				buf = append(buf, program.Phase{Op: program.WaitFor, Flag: b.arrived[me][u.shard], Count: int64((u.piece + 1) * b.posts)})
			}
		}
		return append(buf, work)
	})))
}

// scatter writes a GEMM and the reduce-scatter, or the all-to-all, behind it
// (rule O5).
func (t *operator) scatter(r *plan.Rank, p *plan.Pair, s *plan.Stream, gap trace.Time) {
	compute, comm := r.Split(p)
	b := t.stateOf(p)
	me := plan.Place(b.ranks, r.ID)
	s.Post(b.free[me], 1)
	seq := t.sequence(b, me, false, compute, t.spares(p, b))
	launch := func() { t.scattered(r, p, s, b, seq, gap) }
	switch {
	case b.across:
		launch()
		c, _ := t.pl.Cluster(b.ranks, me)
		t.scatterNodes(r, p, b, c, s, seq)
	case b.impl == "store":
		launch()
		s.Wait(b.sent[me], seq.away(me), "stores")
	case addsRows(p.Pair):
		inputs := t.pl.Program.NewFlag(fmt.Sprintf("inputs of rank %d ready", r.ID))
		s.Post(inputs, 1)
		kernel := func(placed program.Flag) *program.Kernel { return t.commKernel(p, comm, b, seq, me, placed) }
		s.Wait(t.launchCommKernel(r, p, s, inputs, kernel, launch), 1, "communication kernel")
	default:
		launch()
		t.copyOut(r, p, s, b, seq)
	}
	if !b.across {
		r.Barrier(s, b.over, len(b.ranks))
		if p.Coll.Op == trace.ReduceScatter {
			t.add(r, p, s)
		}
	}
}

// add writes the sum of what all ranks have brought; that of PyTorch's pipelines
// is PyTorch's.
func (t *operator) add(r *plan.Rank, p *plan.Pair, s *plan.Stream) {
	_, comm := r.Split(p)
	n := len(p.Coll.Members)
	name := fmt.Sprintf("sum of %d partial results", n)
	read, write, least := float64(p.Coll.Bytes), float64(p.Coll.Bytes)/float64(n), 0.0
	if t.inChunks(p) {
		least = t.pl.Laws().Sum(write, n)
	}
	t.issue(r, s, name)
	s.Launch(plan.Duration(t.pl.Machine.Launch.Hop.Value), plan.Standing(comm, t.pl.SweepOn(name, t.pl.Sweepers(read, write), read, write, least)))
}

// copyOut writes the copies of a scattered GEMM, each behind the signal of the
// tiles that it moves. Those of the next rank go first and the own shard last:
// nothing is left to hide it but it does not cross a link (rule O5).
func (t *operator) copyOut(r *plan.Rank, p *plan.Pair, s *plan.Stream, b *state, seq *sequence) {
	compute, comm := r.Split(p)
	me, n := plan.Place(b.ranks, r.ID), len(b.ranks)
	piece := float64(p.Coll.Bytes) / float64(n*b.cuts)
	for c := range b.cuts {
		for i := 1; i < n; i++ {
			lane := t.lane(r, compute, comm, i)
			from, to := (me-i+n)%n, me
			if b.impl == "push" {
				from, to = me, (me+i)%n
				lane.Wait(b.free[to], 1, "buffer")
			}
			t.waitComputed(lane, b.done[from][to*b.cuts+c], seq.count(to, c))
			t.move(r, lane, comm, b.ranks[from], b.ranks[to], piece, b.arrived[to][from], b.sent[me])
		}
	}
	lane := t.lane(r, compute, comm, n)
	for c := range b.cuts {
		t.waitComputed(lane, b.done[me][me*b.cuts+c], seq.count(me, c))
		t.move(r, lane, comm, b.ranks[me], b.ranks[me], piece, b.sent[me])
	}
	s.Wait(b.sent[me], int64(n*b.cuts), "copies")
}

// scattered writes the GEMM: one kernel whose tiles count towards the shards
// that they complete (rule O5) or store themselves to their owners (rule O5).
func (t *operator) scattered(r *plan.Rank, p *plan.Pair, s *plan.Stream, b *state, seq *sequence, gap trace.Time) {
	compute, _ := r.Split(p)
	me := plan.Place(b.ranks, r.ID)
	k := seq.kernel(t.pl, func(buf []program.Phase, x *run, work program.Phase) []program.Phase {
		buf = append(buf, work)
		for _, i := range x.units {
			u := seq.units[i]
			buf = append(buf, program.Phase{Op: program.PostTo, Flag: b.done[me][u.shard*b.cuts+u.piece], Count: 1, Mark: "signal"})
		}
		return buf
	})
	if b.impl == "store" {
		k = t.storing(p, b, seq, me)
	}
	s.Launch(r.WriteFills(s, p.FillsBefore[r.ID], gap), plan.LaunchOf(compute, k))
}

// storing is a GEMM whose tiles store themselves into their owners' buffers: no signals, a barrier
// follows the kernel. Stores are posted: a workgroup goes on while they wait for the link, and the
// kernel's end waits for all of them (rule O5).
func (t *operator) storing(p *plan.Pair, b *state, seq *sequence, me int) *program.Kernel {
	payload := float64(p.Coll.Bytes) / float64(seq.gemm.tiles)
	k := seq.kernel(t.pl, func(buf []program.Phase, x *run, work program.Phase) []program.Phase {
		work.Write = 0
		buf = append(buf, work)
		for _, i := range x.units {
			to := seq.units[i].shard
			bytes := payload / float64(len(x.units))
			store := program.Phase{Op: program.Store, Peer: b.ranks[to], Bytes: bytes}
			if to != me {
				store = t.pl.StoreTo(b.ranks[to], bytes, t.pattern())
				store.Op, store.Held, store.Flag, store.Count = program.Put, true, b.sent[me], 1
			}
			buf = append(buf, store)
		}
		return buf
	})
	k.Name = fmt.Sprintf("%s + %s", k.Name, p.Coll.Op)
	return k
}

// pattern is which peers the stores of all GPUs go to at one time.
func (t *operator) pattern() machine.Pattern {
	if t.swizzle == "mesh" {
		return machine.ToAll
	}
	return machine.ToNext
}
