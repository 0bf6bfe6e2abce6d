package pairs

import (
	"slices"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// GroupedGEMMs are the GEMMs next to a collective operation on the queue of the
// nearest one, in order, and the fills between them. They are launched one behind
// another, as those of a mixture's experts, and together they read what the
// collective brought, or write what it sends; else there are none.
func GroupedGEMMs(w *workload.Workload, comm int32, c *workload.Collective, d workload.Direction) (fills, gemms []int32) {
	step, want := int32(1), c.Bytes
	if d == workload.ComputeThenCollective {
		step = -1
	}
	if c.Op != trace.AllToAll && (c.Op == trace.AllGather) != (step > 0) {
		return nil, nil
	}
	f := &finder{Workload: w, classes: map[*workload.Kernel]kernel.Class{}}
	to := func(id int32) int32 {
		if id += step; id < 0 || int(id) >= len(w.Ops) || w.Ops[id].Rank != w.Ops[comm].Rank {
			return -1
		}
		return id
	}
	f.walk(to(comm), &w.Ops[comm], len(w.Ops), to, func(op *workload.Op, r opRole) bool {
		switch s := op.Shape; {
		case r == ignored:
			fills = append(fills, op.ID)
		case s.Kind != workload.GEMM || len(gemms) > 0 && op.Queue != w.Ops[gemms[0]].Queue:
			return false
		case step > 0:
			want -= s.M * s.K * int64(s.ElemSize)
			gemms = append(gemms, op.ID)
		default:
			want -= s.M * s.N * int64(s.ElemSize)
			gemms = slices.Insert(gemms, 0, op.ID)
		}
		return want > 0
	})
	if want != 0 {
		return nil, nil
	}
	return fills, gemms
}
