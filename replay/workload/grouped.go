package workload

import "github.com/overlapse/overlapse/trace"

// GroupedGEMMs are the GEMMs next to a collective operation on the queue of the
// nearest one, in order, and the fills between them. They are launched one behind
// another, as those of a mixture's experts, and together they read what the
// collective brought, or write what it sends; else there are none.
func GroupedGEMMs(w *Workload, comm int32, c *Collective, d Direction) (fills, gemms []int32) {
	step, want := int32(1), c.Bytes
	if d == ComputeThenCollective {
		step = -1
	}
	if c.Op != trace.AllToAll && (c.Op == trace.AllGather) != (step > 0) {
		return nil, nil
	}
	rank := w.Ops[comm].Rank
	for id := comm + step; id >= 0 && int(id) < len(w.Ops) && want > 0; id += step {
		op := &w.Ops[id]
		switch s := op.Shape; {
		case op.Rank != rank || op.Collective >= 0:
			return nil, nil
		case w.IsFill(op):
			fills = append(fills, id)
			continue
		case s.Kind != GEMM || len(gemms) > 0 && op.Queue != w.Ops[gemms[0]].Queue:
			return nil, nil
		case step > 0:
			want -= s.M * s.K * int64(s.ElemSize)
		default:
			want -= s.M * s.N * int64(s.ElemSize)
		}
		if step > 0 {
			gemms = append(gemms, id)
		} else {
			gemms = append([]int32{id}, gemms...)
		}
	}
	if want != 0 {
		return nil, nil
	}
	return fills, gemms
}

// IsFill reports whether an operation fills memory, as a memset does.
func (w *Workload) IsFill(op *Op) bool {
	c := w.Run.Copy(w.Run.Spans[op.Span])
	return c != nil && c.Dir == trace.Fill
}
