package schedule

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A Load is a loop of GEMMs of 4096 tiles of 64×64, 32 KiB of shared memory
// each, and collectives of 128 MiB: the experiment of resource-aware overlap.
type Load struct {
	Op   trace.CollectiveOp
	Gemm float64 // time of the GEMM in that of the collective
}

const rounds = 10

// Build makes the workload.
func (l Load) Build(t testing.TB, m machine.Machine) *workload.Workload {
	t.Helper()
	const bytes = 128 << 20
	comm := trace.Time(m.Library.Time(l.Op, bytes, 4, 0)*1e9 + 0.5)
	s := plantest.Spec{
		Ranks: 4, Steps: rounds, Op: l.Op, Bytes: bytes, Comm: comm, Gemm: trace.Time(l.Gemm * float64(comm)),
		Channels: m.Library.ChannelsFor(l.Op, bytes),
	}
	w := s.Build(t)
	lib := m.Library
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Collective >= 0 {
			op.Footprint = program.Footprint{Threads: int(lib.Threads.Value), Registers: int(lib.Registers.Value), Shared: int(lib.Shared.Value)}
			continue
		}
		op.Shape = workload.Shape{Kind: workload.GEMM, M: 4096, N: 4096, K: 8192, ElemSize: 2}
		op.Tiling = workload.Tiling{TileM: 64, TileN: 64, Tiles: 4096, WGs: 4096}
		op.Footprint = program.Footprint{Threads: 128, Registers: 64, Shared: 32 << 10}
	}
	return w
}
