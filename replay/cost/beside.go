package cost

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Slowdown is how compute alongside slows a collective: a factor on its time while compute uses all CUs that the
// collective leaves, the share of the added time that the first workgroup causes, and latency that is added once.
type Slowdown struct {
	Factor, Onset float64
	Late          trace.Time
}

// Beside is the slowdown of a collective with so many bytes and channels alongside a compute operation that is cut into
// parts (rule I1).
func (l *Laws) Beside(c *workload.Collective, bytes int64, channels int, op *workload.Op, parts int) Slowdown {
	lib, with := l.LibraryOf(c), l.CoRunner(op, parts)
	return l.slowdowns.Of(slowdownKey{lib.Nodes, c.Op, bytes, len(c.Members), channels, with}, func() Slowdown {
		factor, onset, latency := lib.CoRun(c.Op, bytes, len(c.Members), channels, with)
		return Slowdown{factor, onset, trace.Time(latency*1e9 + 0.5)}
	})
}

type slowdownKey struct {
	nodes           int
	op              trace.CollectiveOp
	bytes           int64
	ranks, channels int
	with            machine.CoRunner
}

// CoRunner is a compute operation alongside a collective if that compute is cut into parts: a GEMM of the matrix library,
// another kernel of matrix instructions, or a memory-bound kernel, which includes GEMMs of few rows (rule I1).
func (l *Laws) CoRunner(op *workload.Op, parts int) machine.CoRunner {
	switch {
	case op.Shape.Kind == workload.GEMM && parts > 1 && l.partInMemory(op, parts):
		return machine.CoRunner{Kind: machine.CoRunMemory, Load: 1}
	case op.Shape.Kind == workload.GEMM && op.Tiling.Persistent:
		return machine.CoRunner{Kind: machine.CoRunLibrary}
	case op.Matrix():
		return machine.CoRunner{Kind: machine.CoRunTiles}
	}
	return machine.CoRunner{Kind: machine.CoRunMemory, Load: l.MemoryLoad(op)}
}

func (l *Laws) partInMemory(op *workload.Op, parts int) bool {
	part := workload.Op{Kernel: l.parts.Of(partKey{op.Kernel, 1, 0, parts, op.Step}, func() *workload.Kernel { return l.partOf([]*workload.Op{op}, 0, parts) })}
	return l.Tiling(&part).InMemory
}
