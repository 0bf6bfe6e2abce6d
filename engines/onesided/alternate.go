package onesided

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The pipelines of PyTorch's symmetric memory (torch/distributed/_symmetric_memory,
// functions _pipelined_*) launch a GEMM a shard, on two streams one after another, so
// that the last wave of one fills up with the next. Copies are the peers' to
// wait for: barriers of all ranks, on the stream itself, take the place of signals (rule O10).
//
//	gather   stream 0 |b|mv|b|own     |cp 2|GEMM 2 |
//	         stream 1         |cp 1|GEMM 1|cp 3|GEMM 3|cp own|
//	scatter  stream 0 |b|GEMM 2|b|cp 2|b|own      |
//	         stream 1   |GEMM 1|b|cp 1|b|GEMM 3|b|cp 3|b|

// alternate is the two streams of a pair on one rank.
type alternate struct {
	t        *operator
	r        *plan.Rank
	p        *plan.Pair
	b        *state
	streams  [2]*plan.Stream
	barriers int // barriers so far
}

func (t *operator) alternate(r *plan.Rank, p *plan.Pair, s *plan.Stream) *alternate {
	compute, comm := r.Split(p)
	return &alternate{t: t, r: r, p: p, b: t.stateOf(p), streams: [2]*plan.Stream{s, r.CommStream(compute, comm)}}
}

// join makes one stream wait for all that has been written to another.
func (a *alternate) join(s, other *plan.Stream) {
	f := a.t.pl.Program.NewFlag(fmt.Sprintf("streams of rank %d joined", a.r.ID))
	other.Post(f, 1)
	s.Wait(f, 1, "other stream")
}

// barrier is the next one of all ranks; every rank has them in the same order.
func (a *alternate) barrier(s *plan.Stream) {
	if a.barriers == len(a.b.barriers) {
		a.b.barriers = append(a.b.barriers, a.t.pl.CommonFlag(a.b.ranks, fmt.Sprintf("all ranks at barrier %d", a.barriers)))
	}
	a.r.Barrier(s, a.b.barriers[a.barriers], len(a.b.ranks))
	a.barriers++
}

// copy brings a shard from a rank's buffer.
func (a *alternate) copy(s *plan.Stream, from int) {
	_, comm := a.r.Split(a.p)
	n, me := len(a.b.ranks), plan.Place(a.b.ranks, a.r.ID)
	s.Launch(0, plan.CopyTo(comm, "copy", a.b.ranks[from], a.b.ranks[me], float64(a.p.Coll.Bytes)/float64(n)))
}

// issue has the host enqueue what is next: a shard's commands, or those before all shards.
func (a *alternate) issue(s *plan.Stream, cost machine.Quantity, name string) {
	if !a.t.pl.Graph {
		a.r.IssueOne(s, cost.Or(a.t.pl.Machine.Launch.Host.Value), name)
	}
}

// gemm computes a rank's shard of the rows.
func (a *alternate) gemm(s *plan.Stream, shard int) {
	compute, _ := a.r.Split(a.p)
	a.r.WriteChunk(a.p, s, compute, shard, len(a.b.ranks), plan.Duration(a.t.pl.Machine.Launch.Gap.Value))
}

// sleep is a kernel of 100 cycles before the first GEMM on a stream, so that
// the other stream's, which is for another rank, goes first.
func (a *alternate) sleep(s *plan.Stream) {
	s.Delay(plan.Duration(a.t.pl.Machine.Launch.Gap.Value), program.LaunchGap, "sleep")
}

// alternating writes a pair: an all-gather and the GEMM behind it, or a GEMM and the reduce-scatter,
// or all-to-all, behind it.
func (t *operator) alternating(r *plan.Rank, p *plan.Pair) {
	compute, comm := r.Split(p)
	s := r.Stream(compute.Queue)
	a := t.alternate(r, p, s)
	me, n := plan.Place(a.b.ranks, r.ID), len(a.b.ranks)
	s.Delay(r.Start(p, s), program.LaunchGap, "")
	launch := &t.pl.Machine.Launch
	a.issue(s, launch.Pipelined, "pipelined operator")
	a.barrier(s)
	if p.Direction == workload.CollectiveThenCompute {
		bytes := float64(p.Coll.Bytes)
		if p.Coll.Op == trace.AllGather {
			bytes /= float64(n)
		}
		s.Launch(0, t.staging(comm, bytes))
		a.barrier(s)
		a.join(a.streams[1], s)
		a.issue(s, launch.PipelinedShard, "own shard")
		a.gemm(s, me)
		for step := 1; step < n; step++ {
			on := a.streams[step%2]
			a.issue(on, launch.PipelinedShard, "shard")
			a.copy(on, (me+step)%n)
			a.gemm(on, (me+step)%n)
		}
		a.copy(a.streams[n%2], me)
	} else {
		a.join(a.streams[1], s)
		for step := 1; step < n; step++ {
			on := a.streams[step%2]
			a.issue(on, launch.PipelinedShard, "shard")
			if step == 2 {
				a.sleep(s)
			}
			a.gemm(on, (me+step)%n)
			a.barrier(on)
			a.copy(on, (me-step+n)%n)
			a.barrier(on)
		}
		a.issue(s, launch.PipelinedShard, "own shard")
		if n == 2 {
			a.sleep(s)
		}
		a.gemm(s, me)
	}
	a.join(s, a.streams[1])
	a.barrier(s)
	if p.Coll.Op == trace.ReduceScatter {
		t.add(r, p, s)
	}
	r.EndReplaced(p, s, s)
}
