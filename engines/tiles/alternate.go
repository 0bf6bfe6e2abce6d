package tiles

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
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
	*side
	streams [2]*plan.Stream
}

// join makes one stream wait for all that has been written to another.
func (a *alternate) join(s, other *plan.Stream) {
	f := a.pl.Program.NewFlag(fmt.Sprintf("streams of rank %d joined", a.ID))
	other.Post(f, 1)
	s.Wait(f, 1, "other stream")
}

// bring copies a shard from a rank's buffer.
func (a *alternate) bring(s *plan.Stream, from int) { a.Copy(s, "copy", from, a.Me, a.shard) }

// multiply computes a rank's shard of the rows.
func (a *alternate) multiply(s *plan.Stream, shard int) {
	a.WriteChunk(a.Pair, s, a.Compute, shard, a.n, plan.Duration(a.pl.Machine.Launch.Gap.Value))
}

// sleep is a kernel of 100 cycles before the first GEMM on a stream, so that
// the other stream's, which is for another rank, goes first.
func (a *alternate) sleep(s *plan.Stream) {
	s.Delay(plan.Duration(a.pl.Machine.Launch.Gap.Value), program.LaunchGap, "sleep")
}

// alternating writes a pair: an all-gather and the GEMM behind it, or a GEMM and the reduce-scatter,
// or all-to-all, behind it.
func (t *operator) alternating(r *plan.Rank, p *plan.Pair) {
	a := &alternate{side: t.side(r, p)}
	s, me, n, launch := a.On, a.Me, a.n, &t.pl.Machine.Launch
	a.streams = [2]*plan.Stream{s, a.lane(1)}
	s.Delay(a.Gap, program.LaunchGap, "")
	a.issue(s, launch.Pipelined, "pipelined operator")
	a.barrier(s)
	if a.gathers() {
		bytes := a.shard
		if p.Coll.Op != trace.AllGather {
			bytes = float64(p.Coll.Bytes)
		}
		a.stage(0, bytes)
		a.barrier(s)
		a.join(a.streams[1], s)
		a.issue(s, launch.PipelinedShard, "own shard")
		a.multiply(s, me)
		for step := 1; step < n; step++ {
			on := a.streams[step%2]
			a.issue(on, launch.PipelinedShard, "shard")
			a.bring(on, (me+step)%n)
			a.multiply(on, (me+step)%n)
		}
		a.bring(a.streams[n%2], me)
	} else {
		a.join(a.streams[1], s)
		for step := 1; step < n; step++ {
			on := a.streams[step%2]
			a.issue(on, launch.PipelinedShard, "shard")
			if step == 2 {
				a.sleep(s)
			}
			a.multiply(on, (me+step)%n)
			a.barrier(on)
			a.bring(on, (me-step+n)%n)
			a.barrier(on)
		}
		a.issue(s, launch.PipelinedShard, "own shard")
		if n == 2 {
			a.sleep(s)
		}
		a.multiply(s, me)
	}
	a.join(s, a.streams[1])
	a.barrier(s)
	a.add()
	a.End(s)
}
