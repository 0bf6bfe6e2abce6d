package plan_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// 256 tiles of 256x128 on 80 CUs are 4 waves. Each reads the rows that 80 tiles span, and all columns (rule M12).
func TestRereads(t *testing.T) {
	w, m := plantest.OperatorOf(t, "operator: gemm+all_reduce\nmachine: t3:8\nranks: 8\ntype: f16\nshape: {m: 4096, n: 2048, k: 8192}")
	op := &w.Ops[0]
	rows, cols := 4096/op.Tiling.TileM, 2048/op.Tiling.TileN
	if rows*cols != 256 {
		t.Fatalf("%d by %d tiles", rows, cols)
	}
	wave := float64(machine.CeilDiv(80, cols)*op.Tiling.TileM+2048) * 8192 * 2
	inputs, output := float64(4096+2048)*8192*2, float64(4096*2048*2)
	read := func(queue, cache float64) float64 {
		m.GPU.MemoryQueue.Value, m.GPU.Cache.Value = queue, cache
		pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
		return pl.Workload.Ops[0].Read
	}
	for _, c := range []struct{ queue, cache, want float64 }{
		{0, 1, inputs},
		{64, 1, 4 * wave},
		{64, (inputs + output) / 2, (inputs + 4*wave) / 2},
		{64, inputs + output, inputs},
	} {
		if got := read(c.queue, c.cache); !plantest.Near(got, c.want) {
			t.Errorf("queue %g, cache of %g bytes: %.0f bytes read, want %.0f", c.queue, c.cache, got, c.want)
		}
	}
	if w.Ops[0].Read != inputs {
		t.Errorf("the workload's GEMM reads %.0f bytes afterwards, want %.0f", w.Ops[0].Read, inputs)
	}
}
