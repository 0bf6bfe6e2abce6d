package cost_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Beside chunks whose operands the memory takes longer to read than their tiles
// compute, a collective is slowed as alongside any kernel that saturates the memory.
func TestNeighbourOfFewRows(t *testing.T) {
	l := lawsOf(plantest.H200(t, 2))
	l.Workload.Ops = make([]workload.Op, 2)
	c := &workload.Collective{Op: trace.AllReduce, Bytes: 64 << 20, Channels: 8, Members: []int32{0, 1}}
	op := &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM, M: 2048, N: 16384, K: 8192, ElemSize: 2}, Tiling: workload.Tiling{TileM: 128, TileN: 256, Persistent: true}}}
	slowed := func(by machine.CoRunner) float64 {
		factor, _, _ := l.Machine.Library.CoRun(c.Op, c.Bytes, 2, c.Channels, by)
		return factor
	}
	few, _, _ := l.Beside(c, c.Bytes, c.Channels, op, 16)
	many, _, _ := l.Beside(c, c.Bytes, c.Channels, op, 4)
	memory, library := slowed(machine.CoRunner{Kind: machine.CoRunMemory, Load: 1}), slowed(machine.CoRunner{Kind: machine.CoRunLibrary})
	if few != memory || many != library || few == many {
		t.Errorf("chunks of 128 rows slow by %.3f, of 512 rows by %.3f, want %.3f and %.3f", few, many, memory, library)
	}
}

// Two GPUs of a mesh have one link between them: nothing that they exchange takes less than that link carries, though the
// library's law is of eight with seven links each. A size that is guessed from a time is the inverse.
func TestNothingIsFasterThanItsLinks(t *testing.T) {
	m := machinetest.Load(t, "mi300xx2")
	l := lawsOf(m)
	l.Workload.Ops = []workload.Op{{Kernel: &workload.Kernel{}}, {Kernel: &workload.Kernel{}, Rank: 1}}
	c := &workload.Collective{Op: trace.AllGather, Bytes: 256 << 20, Members: []int32{0, 1}}
	least := float64(c.Op.WireBytes(c.Bytes, 2)) / m.LinkRate(2)
	took := l.Captured(c)
	if took < least || m.Library.Time(c.Op, c.Bytes, 2, 0) >= least {
		t.Errorf("takes %.0f us, the link %.0f, the library's law %.0f", took*1e6, least*1e6, m.Library.Time(c.Op, c.Bytes, 2, 0)*1e6)
	}
	if bytes := l.BytesIn(c, trace.Time(took*1e9)); !plantest.Near(float64(bytes), float64(c.Bytes)) {
		t.Errorf("%.0f us have %d bytes, want %d", took*1e6, bytes, c.Bytes)
	}
}

// Twice as many workgroups of a kernel that memory bounds reach the same rate once they saturate it: a tile then takes
// up to twice as long. One of a kernel of matrix instructions hardly notices.
func TestTileOn(t *testing.T) {
	l := lawsOf(plantest.H200(t, 1))
	for _, c := range []struct {
		kind        workload.ShapeKind
		least, most float64
	}{{workload.Elementwise, 1.9, 2.1}, {workload.Embedding, 1.3, 2.1}, {workload.GEMM, 1, 1.1}, {workload.NoShape, 1, 1}} {
		op := &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{Kind: c.kind}}}
		if got := l.TileOn(op, 1056, 528, false); got < c.least || got > c.most {
			t.Errorf("%v: %.2f times as long, want %.1f to %.1f", c.kind, got, c.least, c.most)
		}
	}
}

// A GEMM that streams its operands counts as what it is beside a collective and on fewer compute units: a kernel bound by
// memory. One that leaves the memory time is a GEMM as before; neither is worse than a kernel that saturates the memory,
// and fewer workgroups together never move more than all.
func TestStreamedGEMM(t *testing.T) {
	l := lawsOf(plantest.H200(t, 2))
	l.Workload.Ops = make([]workload.Op, 2)
	c := &workload.Collective{Op: trace.AllReduce, Bytes: 64 << 20, Channels: 8, Members: []int32{0, 1}}
	gemm := func(load float64) *workload.Op {
		op := &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM, M: 64, N: 65536, K: 8192, ElemSize: 2}, Tiling: workload.Tiling{TileM: 64, TileN: 256}}}
		op.Alone = 250e3
		op.Read = load * l.Machine.GPU.Memory.Value * 250e-6
		return op
	}
	slowed := func(by machine.CoRunner) float64 {
		factor, _, _ := l.Machine.Library.CoRun(c.Op, c.Bytes, 2, c.Channels, by)
		return factor
	}
	tiles, saturated := slowed(machine.CoRunner{Kind: machine.CoRunTiles}), slowed(machine.CoRunner{Kind: machine.CoRunMemory, Load: 1})
	for _, load := range []float64{0, 0.3, 0.7, 0.75, 0.9, 1} {
		op := gemm(load)
		got, _, _ := l.Beside(c, c.Bytes, c.Channels, op, 1)
		half, all := l.TileOn(op, 66, 132, false), l.TileOn(op, 132, 132, false)
		switch {
		case all != 1:
			t.Errorf("load %.2f: as many workgroups take %.3f times as long", load, all)
		case load <= 0.7 && (got != tiles || half != l.Machine.TileTimeFactor(66)/l.Machine.TileTimeFactor(132)):
			t.Errorf("load %.2f: slows by %.3f instead of %.3f, half of the workgroups take %.3f times as long", load, got, tiles, half)
		case load > 0.7 && (got == tiles || got > saturated || half >= 1 || half < 0.5):
			t.Errorf("load %.2f: slows by %.3f, at most %.3f; half of the workgroups take %.3f times as long", load, got, saturated, half)
		}
	}
}
