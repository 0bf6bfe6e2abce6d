package recut

import (
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Pipelined is an all-gather and the GEMM behind it, or a GEMM and the reduce-scatter
// behind it, that a program runs as one GEMM a rank's rows with copies between (async
// tensor parallelism: torch/distributed/_symmetric_memory, functions _pipelined_*):
//
//	gather   |barrier|copy in|barrier|GEMM own  |        |barrier|
//	                                 |copy|    GEMM next |
//	scatter  |barrier|spin|GEMM next|barrier|copy|barrier|barrier|sum|
//	                      |GEMM own ...................|
type Pipelined struct {
	Op    trace.CollectiveOp // AllGather or ReduceScatter
	Bytes int64              // larger of one rank's input and output
	Ops   [][]int32          // by rank: all of its ops, in order of start
	GEMMs [][]int32          // by rank: those of them that multiply, one a rank
}

// Pipelines finds the pipelined collectives of a workload in order (rule V22). Every rank
// has to show the same ones.
func Pipelines(w *workload.Workload) []Pipelined {
	var all []Pipelined
	for rank := range w.Ranks {
		found := pipelinesOf(w, rank)
		if rank == 0 {
			all = found
			continue
		}
		if len(found) != len(all) {
			return nil
		}
		for i := range found {
			if found[i].Op != all[i].Op || found[i].Bytes != all[i].Bytes {
				return nil
			}
			all[i].Ops, all[i].GEMMs = append(all[i].Ops, found[i].Ops[0]), append(all[i].GEMMs, found[i].GEMMs[0])
		}
	}
	return all
}

// pipelinesOf finds those of one rank.
func pipelinesOf(w *workload.Workload, rank int) (all []Pipelined) {
	ids := w.Ranks[rank]
	for i := 0; i < len(ids); {
		p, n := pipelineAt(w, ids[i:])
		if n == 0 {
			i++
			continue
		}
		all = append(all, p)
		i += n
	}
	return all
}

// A stage is what an op does in a pipelined collective.
type stage uint8

const (
	unrelated stage = iota
	barrierStage
	copyHere
	copyPeer
	fillStage
	gemmStage
	spinStage
	sumStage
)

func stageOf(w *workload.Workload, op *workload.Op) stage {
	if op.Kind == trace.Copy {
		switch c := w.Run.Copy(w.Run.Spans[op.Span]); {
		case c == nil:
			return unrelated
		case c.Dir == trace.Fill:
			return fillStage
		case c.Dir == trace.PeerToPeer:
			return copyPeer
		case c.Dir == trace.DeviceToDevice:
			return copyHere
		}
		return unrelated
	}
	switch {
	case strings.Contains(op.Name, "symmetric_memory::barrier_kernel"):
		return barrierStage
	case op.Shape.Kind == workload.GEMM:
		return gemmStage
	case strings.Contains(op.Name, "spin_kernel"):
		return spinStage
	case strings.Contains(op.Name, "reduce_kernel"):
		return sumStage
	}
	return unrelated
}

// pipelineAt is the pipelined collective that begins with the first of the ops, and how
// many of them it has; 0 if none begins there.
func pipelineAt(w *workload.Workload, ids []int32) (p Pipelined, n int) {
	at := func(i int) stage {
		if i >= len(ids) {
			return unrelated
		}
		return stageOf(w, &w.Ops[ids[i]])
	}
	if at(0) != barrierStage || w.Ops[ids[0]].Collective < 0 {
		return p, 0
	}
	ranks := len(w.Collectives[w.Ops[ids[0]].Collective].Members)
	inner, last := []stage{spinStage, fillStage, gemmStage, barrierStage, copyPeer}, sumStage
	p.Op, n = trace.ReduceScatter, 1
	if at(1) == copyHere && at(2) == barrierStage {
		inner, last = []stage{fillStage, gemmStage, copyPeer, copyHere}, barrierStage
		p.Op, n = trace.AllGather, 3
	}
	var gemms []int32
	copies := 0
	for ; at(n) != last; n++ {
		op := &w.Ops[ids[min(n, len(ids)-1)]]
		switch s := at(n); {
		case !slices.Contains(inner, s), op.Step != w.Ops[ids[0]].Step:
			return p, 0
		case s == gemmStage:
			if len(gemms) > 0 && op.Shape != w.Ops[gemms[0]].Shape {
				return p, 0
			}
			gemms = append(gemms, op.ID)
		case s == copyPeer:
			copies++
			p.Bytes = int64(ranks) * w.Run.Copy(w.Run.Spans[op.Span]).Bytes
		}
	}
	if n++; ranks < 2 || len(gemms) != ranks || copies != ranks-1 || p.Bytes <= 0 {
		return p, 0
	}
	p.Ops, p.GEMMs = [][]int32{ids[:n:n]}, [][]int32{gemms}
	return p, n
}

// collectiveFor is the library's collective instead of a pipelined one.
func (r *recut) collectiveFor(p *Pipelined) workload.Collective {
	c := workload.Collective{Op: p.Op, Group: trace.None, Bytes: p.Bytes, In: p.Bytes, Out: p.Bytes, Evidence: "the library's instead of copies between GEMMs of a rank's rows each"}
	each := p.Bytes / int64(len(p.Ops))
	if p.Op == trace.AllGather {
		c.In = each
	} else {
		c.Out = each
	}
	for _, ids := range p.Ops {
		c.Members = append(c.Members, ids[0])
	}
	c.Alone = max(1, r.c.Alone(&c))
	return c
}

// whole writes one rank's collective and GEMM instead of a pipelined one. The GEMMs of
// shards overlap at their ends, so the shortest of them tells the time.
func (r *recut) whole(rank int, at place, add func(planned, ...int32)) {
	p := &r.pipelines[at.chain-len(r.chains)]
	ids, shards := p.Ops[rank], p.GEMMs[rank]
	shortest := slices.MinFunc(shards, func(a, b int32) int { return int(r.w.Ops[a].DurAlone() - r.w.Ops[b].DurAlone()) })
	captured := slices.Repeat([]*workload.Op{&r.w.Ops[shortest]}, len(shards))
	first := &r.w.Ops[ids[0]]
	lead, follow := place{at.chain, 0, 0, fused}, place{at.chain, 0, 1, fused}
	gemm := planned{op: r.c.Part(captured, 0, 1), origin: shards[0], coll: -1}
	gemm.op.Queue = first.Queue
	comm := planned{op: *first, origin: ids[0], coll: r.firstOf(at.chain)}
	comm.op.Kernel, comm.op.Kind, comm.op.Queue, comm.op.Alone = &workload.Kernel{Name: p.Op.String()}, trace.Collective, r.freeQueue(rank), 0
	if p.Op == trace.AllGather {
		comm.from, comm.place, comm.delay = ids[0], lead, r.delayOf(first)
		gemm.from, gemm.place, gemm.delay = shards[0], follow, r.c.Event
		add(comm)
		add(gemm, ids...)
		return
	}
	gemm.from, gemm.place, gemm.delay = ids[0], lead, r.delayOf(first)
	comm.from, comm.place, comm.delay = ids[len(ids)-1], follow, r.c.Event
	add(gemm)
	add(comm, ids...)
}
