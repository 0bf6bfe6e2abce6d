package plan

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// chunkOf is the k-th of n parts of a compute operation, cut along its rows (rule G12). Copies of a rank
// share it.
func (pl *Planner) chunkOf(op *workload.Op, k, n int) *program.Kernel {
	return pl.shared(op.Span, partOf(op, k, n), func() *program.Kernel {
		e := pl.Laws().Kernel([]*workload.Op{op}, cost.Part{K: k, Of: n, Weights: true})
		return pl.whole(&e.Op)
	})
}

// sumsExperts is the reason why tiles of a pair's GEMM cannot be sent as they are computed: each
// row that is sent is the sum of the rows of a token, which lie in tiles of different experts
// (rule V23); "" if they can.
func (pl *Planner) sumsExperts(p *workload.Pair) string {
	if p.Experts <= 1 || p.Direction != workload.ComputeThenCollective {
		return ""
	}
	return fmt.Sprintf("what is sent are sums of %d rows each of %s, which lie in different tiles", p.Experts, trace.Short(pl.Workload.Ops[p.First[0]].Name))
}

// TooFewRows is the reason why a pair cannot be cut into n parts; "" if it can. Every part
// needs at least one row.
func (pl *Planner) TooFewRows(p *workload.Pair, n int) string {
	for _, id := range append(p.First[:1:1], p.Second[:1]...) {
		if op := &pl.Workload.Ops[id]; op.Shape.Kind == workload.GEMM && op.Shape.M > 0 && op.Shape.M < int64(n) {
			return fmt.Sprintf("chunks=%d: %s has %d rows", n, trace.Short(op.Name), op.Shape.M)
		} else if k := int64(max(1, p.Experts)); k > 1 && op.Shape.Kind == workload.GEMM && op.Shape.M/k < int64(n) {
			return fmt.Sprintf("chunks=%d: %s has rows of %d tokens", n, trace.Short(op.Name), op.Shape.M/k)
		}
	}
	return ""
}

// MidPart is the k-th of n parts of an operation between the two of a pair.
func (pl *Planner) MidPart(op *workload.Op, k, n int) program.Command {
	if op.Kind == trace.Copy {
		c := pl.CopyOf(op)
		c.Copy.Time = pl.Laws().Kernel([]*workload.Op{op}, cost.Part{K: k, Of: n}).Op.Alone
		return c
	}
	return LaunchOf(op, pl.chunkOf(op, k, n))
}

// WriteChunk launches the k-th of n parts of a GEMM after gap ns.
func (r *Rank) WriteChunk(p *Pair, s *Stream, op *workload.Op, k, n int, gap trace.Time) {
	kernel := r.Planner.chunkOf(op, k, n)
	if kernel.Owned > 0 {
		gap = r.WriteFills(s, p.FillsBefore[r.ID], gap)
	}
	s.Launch(gap, LaunchOf(op, kernel))
}
