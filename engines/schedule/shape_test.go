package schedule

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// All tiles are computed with any setting: a GEMM alone takes at least the time of its
// flop on the CUs that it may use.
func TestShapedGridsComputeAllTiles(t *testing.T) {
	m := machinetest.Load(t, "a100x4")
	w := Load{Op: trace.AllReduce, Gemm: 1}.Build(t, m)
	pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
	op := &w.Ops[0]
	base := pl.ApartGrid(op, op.Tiling.Tiles)
	work := float64(base.Time) * base.Pipe * float64(op.Tiling.Tiles) // CU time
	for _, o := range []occupancy{{}, {blocks: 54}, {blocks: 864}, {carve: 8}, {carve: 107}, {shared: 50 << 10, carve: 16}, {blocks: 100, carve: 50}, {shared: 80 << 10, blocks: 300}} {
		g := shaped(pl, op, o)
		k := pl.KernelOf(op, g)
		res, err := replay.Simulate(m, &program.Program{GPUs: []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Launch, Kernel: k}}}}}}}, replay.Options{})
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		cus := m.GPU.CUs.Value - float64(o.carve)
		if o.blocks > 0 {
			cus = min(cus, float64(o.blocks))
		}
		if least := trace.Time(0.99 * work / cus); res.Makespan < least {
			t.Errorf("%+v: %d ns, its tiles need %d", o, res.Makespan, least)
		}
		if most := trace.Time(2 * work / cus); res.Makespan > most {
			t.Errorf("%+v: %d ns, twice what its tiles need", o, res.Makespan)
		}
	}
}
