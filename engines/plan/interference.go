package plan

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// coRunKind is the kind of compute alongside a collective if that compute is cut into
// parts: GEMMs of the matrix library, other GEMMs, or memory-bound kernels, which includes
// GEMMs of few rows (rule I5).
func (pl *Planner) coRunKind(op *workload.Op, parts int) machine.CoRunKind {
	sh := op.Shape
	switch {
	case sh.Kind != workload.GEMM, parts > 1 && pl.Machine.Tiling(rowsOf(op, 0, parts), sh.N, sh.K).InMemory:
		return machine.CoRunMemory
	case op.Tiling.Persistent:
		return machine.CoRunLibrary
	}
	return machine.CoRunTiles
}

// coRunnerOf is the compute operation that ran alongside a collective's transfer in the
// capture, or nil (rule L5).
func (pl *Planner) coRunnerOf(row int32) *workload.Op {
	if i := pl.Workload.Isolation; i != nil && int(row) < len(i.CoRunners) && i.CoRunners[row] >= 0 {
		return &pl.Workload.Ops[i.CoRunners[row]]
	}
	return nil
}
