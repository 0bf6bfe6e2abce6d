package cost

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Beside is how a compute operation that is cut into parts slows a collective with so many bytes and channels: a factor on
// its time while compute uses all CUs that the collective leaves, the share of the added time that the first workgroup
// causes, and latency that is added once (rule I1).
func (l *Laws) Beside(c *workload.Collective, bytes int64, channels int, op *workload.Op, parts int) (
	factor, onset float64, late trace.Time,
) {
	lib, with := l.libraryOf(c), l.coRunner(op, parts)
	s := l.slowdowns.Of(slowdownKey{lib.Nodes, l.inPlace(c), c.Op, bytes, len(c.Members), channels, with}, func() (s slowdown) {
		s.factor, s.onset, s.late = lib.CoRun(c.Op, bytes, len(c.Members), channels, with)
		return s
	})
	return s.factor, s.onset, trace.Time(s.late*1e9 + 0.5)
}

type slowdown struct{ factor, onset, late float64 }

type slowdownKey struct {
	nodes           int
	inPlace         bool
	op              trace.CollectiveOp
	bytes           int64
	ranks, channels int
	with            machine.CoRunner
}

// coRunner is a compute operation alongside a collective if that compute is cut into parts: a GEMM of the matrix library,
// another kernel of matrix instructions, or a memory-bound kernel, which includes GEMMs of few rows (rule I1): the memory's
// queue does not know whose requests are in front.
func (l *Laws) coRunner(op *workload.Op, parts int) machine.CoRunner {
	inMemory := func() bool {
		return l.Tiling(&workload.Op{Kernel: l.partKernel([]*workload.Op{op}, Part{Of: parts})}).InMemory
	}
	load := l.MemoryLoad(op)
	switch {
	case op.Shape.Kind == workload.GEMM && parts > 1 && inMemory():
		return machine.CoRunner{Kind: machine.CoRunMemory, Load: 1}
	case op.Shape.Kind == workload.GEMM && parts <= 1 && machine.Exposed(load) < 1:
		return machine.CoRunner{Kind: machine.CoRunMemory, Load: load}
	case op.Shape.Kind == workload.GEMM && op.Tiling.Persistent:
		return machine.CoRunner{Kind: machine.CoRunLibrary}
	case op.Matrix():
		return machine.CoRunner{Kind: machine.CoRunTiles}
	}
	return machine.CoRunner{Kind: machine.CoRunMemory, Load: load}
}
