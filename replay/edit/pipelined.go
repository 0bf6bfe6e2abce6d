package edit

import (
	"bytes"
	"regexp"
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

// A rank's operations as letters (stageOf): a gather, and a scatter.
var pipelined = regexp.MustCompile("^(?:(bhb)[fgph]*b|b[sfgbp]*r)")

// pipelinesOf finds those of one rank.
func pipelinesOf(w *workload.Workload, rank int) (all []Pipelined) {
	ids := w.Ranks[rank]
	stages := make([]byte, len(ids))
	for i, id := range ids {
		stages[i] = stageOf(w, &w.Ops[id])
	}
	for i := 0; i < len(ids); i++ {
		at := pipelined.FindSubmatchIndex(stages[i:])
		if at == nil {
			continue
		}
		op, n := trace.ReduceScatter, at[1]
		if at[2] >= 0 {
			op = trace.AllGather
		}
		if p, ok := pipelineOf(w, op, ids[i:i+n:i+n], stages[i:i+n]); ok {
			all = append(all, p)
			i += n - 1
		}
	}
	return all
}

// stageOf is the letter of what an op does in a pipelined collective: (b)arrier, copy (h)ere or
// from a (p)eer, (f)ill, (g)emm, (s)pin, sum of what was (r)eceived; 0: none.
func stageOf(w *workload.Workload, op *workload.Op) byte {
	if op.Kind == trace.Copy {
		if c := w.Run.Copy(w.Run.Spans[op.Span]); c != nil {
			return map[trace.CopyDir]byte{trace.Fill: 'f', trace.PeerToPeer: 'p', trace.DeviceToDevice: 'h'}[c.Dir]
		}
		return 0
	}
	switch {
	case strings.Contains(op.Name, "symmetric_memory::barrier_kernel"):
		return 'b'
	case op.Shape.Kind == workload.GEMM:
		return 'g'
	case strings.Contains(op.Name, "spin_kernel"):
		return 's'
	case strings.Contains(op.Name, "reduce_kernel"):
		return 'r'
	}
	return 0
}

// pipelineOf is the pipelined collective of ops with these stages, if it is one: a GEMM of the
// same sizes for each rank, and a copy for each other one.
func pipelineOf(w *workload.Workload, op trace.CollectiveOp, ids []int32, stages []byte) (p Pipelined, ok bool) {
	first := &w.Ops[ids[0]]
	if first.Collective < 0 {
		return p, false
	}
	ranks := len(w.Collectives[first.Collective].Members)
	var gemms []int32
	for i, id := range ids {
		switch o := &w.Ops[id]; {
		case i < len(ids)-1 && o.Step != first.Step || stages[i] == 'g' && len(gemms) > 0 && o.Shape != w.Ops[gemms[0]].Shape:
			return p, false
		case stages[i] == 'g':
			gemms = append(gemms, id)
		case stages[i] == 'p':
			p.Bytes = int64(ranks) * w.Run.Copy(w.Run.Spans[o.Span]).Bytes
		}
	}
	p.Op, p.Ops, p.GEMMs = op, [][]int32{ids}, [][]int32{gemms}
	return p, ranks >= 2 && len(gemms) == ranks && bytes.Count(stages, []byte("p")) == ranks-1 && p.Bytes > 0
}

// collectiveFor is the library's collective instead of a pipelined one.
func (r *recut) collectiveFor(p *Pipelined) workload.Collective {
	c := workload.Collective{
		Op: p.Op, Group: trace.None, Bytes: p.Bytes,
		Evidence: "the library's instead of copies between GEMMs of a rank's rows each",
	}
	c.In, c.Out = p.Op.Sides(p.Bytes, len(p.Ops))
	for _, ids := range p.Ops {
		c.Members = append(c.Members, ids[0])
	}
	c.Alone = max(1, nanoseconds(r.laws.Time(&c, c.Op, c.Bytes, r.channels)))
	return c
}

// inOne writes one rank's collective and GEMM instead of a pipelined one. The GEMMs of
// shards overlap at their ends, so the shortest of them tells the time.
func (r *recut) inOne(rank int, at place, add func(planned, ...int32)) {
	p := &r.pipelines[at.chain-len(r.chains)]
	ids, shards := p.Ops[rank], p.GEMMs[rank]
	shortest := slices.MinFunc(shards, func(a, b int32) int { return int(r.w.Ops[a].DurAlone() - r.w.Ops[b].DurAlone()) })
	captured := slices.Repeat([]*workload.Op{&r.w.Ops[shortest]}, len(shards))
	first := &r.w.Ops[ids[0]]
	lead, follow := place{at.chain, 0, 0, fused}, place{at.chain, 0, 1, fused}
	gemm := planned{op: r.wholeOf(captured), origin: shards[0], coll: -1}
	gemm.op.Queue = first.Queue
	comm := planned{op: *first, origin: ids[0], coll: r.first[at.chain]}
	comm.op.Kernel, comm.op.Kind, comm.op.Queue, comm.op.Alone = &workload.Kernel{Name: p.Op.String()},
		trace.Collective, r.freeQueue(rank), 0
	if p.Op == trace.AllGather {
		comm.from, comm.place = ids[0], lead
		gemm.from, gemm.place = shards[0], follow
		add(comm)
		add(gemm, ids...)
		return
	}
	gemm.from, gemm.place = ids[0], lead
	comm.from, comm.place = ids[len(ids)-1], follow
	add(gemm)
	add(comm, ids...)
}

// spreadPipelined gives a collective and a GEMM of one rank the captured times of a pipelined one. The collective gathers until all
// ranks have begun, or scatters from when the first one has ended.
func (r *recut) spreadPipelined(rank int, p *Pipelined, ops []planned) trace.Time {
	first := func(ids []int32) trace.Time { return r.w.Ops[ids[0]].Start }
	last := func(ids []int32) trace.Time { return r.w.Ops[ids[len(ids)-1]].End }
	between := first(p.Ops[0])
	for _, ids := range p.Ops {
		between = max(between, first(ids))
	}
	if p.Op == trace.ReduceScatter {
		between = last(p.Ops[0])
		for _, ids := range p.Ops {
			between = min(between, last(ids))
		}
	}
	ops[0].op.Start, ops[0].op.End, ops[1].op.Start, ops[1].op.End = first(p.Ops[rank]), between, between, max(between, last(p.Ops[rank]))
	return ops[1].op.End
}
