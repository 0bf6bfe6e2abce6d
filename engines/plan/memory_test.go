package plan_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Two blocks of 48 and 80 MiB that backward gathers a second time.
const sharded = `
7 AG1=48 200
7 F1  900 AG1
7 AG2=80 200
7 F2  900 AG2 F1
7 AG4=80 200
7 B2  900 AG4 F2
7 AG3=48 200
7 B1  900 AG3 B2`

// A limit refuses what does not fit, and never the captured schedule.
func TestMemoryLimit(t *testing.T) {
	w := plantest.Step(t, 2, sharded)
	plantest.InBackward(t, w, "AG4", "B2", "AG3", "B1")
	run := func(name, settings string, limit int64) string {
		return enginetest.OutcomeIn(t, w, plantest.H200(t, 2), name, enginetest.Settings(settings), plan.Scenario{MemoryLimit: limit << 20}).Why
	}
	for _, c := range []struct {
		captured, limit int64 // MiB
		why             string
	}{{0, 128, ""}, {0, 127, "not recorded"}, {900, 1028, ""}, {900, 1027, "takes 1.00 GiB, 128 MiB more"}} {
		for i := range w.Run.Ranks {
			w.Run.Ranks[i].Memory = nil
			if c.captured > 0 {
				w.Run.Ranks[i].Memory = []trace.MemoryLevel{{At: 0, Bytes: 5}, {At: 10, Bytes: c.captured << 20}, {At: 20, Bytes: 7}}
			}
		}
		if why := run("multistream", "keep_gathered=on", c.limit); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%+v: %q", c, why)
		}
		if why := run("captured", "", 1); why != "" {
			t.Errorf("captured: %s", why)
		}
	}
}

// Records of the allocator give what sizes do not: what forward keeps, and the pool of a graph.
func TestMemoryRecords(t *testing.T) {
	w := plantest.Step(t, 2, sharded)
	plantest.InBackward(t, w, "AG4", "B2", "AG3", "B1")
	for i := range w.Ops {
		w.Ops[i].Issued = w.Ops[i].Start
	}
	for i := range w.Run.Ranks {
		w.Run.Ranks[i].Memory = []trace.MemoryLevel{{At: 0, Bytes: 100 << 20}, {At: w.Ops[2].Start, Bytes: 700 << 20}, {At: w.Ops[5].Start, Bytes: 300 << 20}}
	}
	out := enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings("graph=on"))
	if out.Memory.Bytes != 600<<20 || out.Memory.Lacks != nil {
		t.Errorf("graph: %+v", out.Memory)
	}
	w.Flow = nil
	pl := must.Have(plan.NewPlanner(w, plantest.H200(t, 2), plan.Scenario{}))(t)
	ids := w.Ranks[0]
	if bytes, all := pl.Saved(ids[:4], ids[4:]); bytes != 600<<20 || !all {
		t.Errorf("saved %d MiB, all: %v", bytes>>20, all)
	}
	for i := range w.Run.Ranks {
		w.Run.Ranks[i].Memory = nil
	}
	if bytes, all := pl.Saved(slices.Clone(ids[:4]), ids[4:]); bytes != 0 || all {
		t.Errorf("without records %d, all: %v", bytes, all)
	}
}

// Where power is plentiful the clock never falls, whatever is asked; where it is
// scarce it is full only at first.
func TestRegimes(t *testing.T) {
	w := plantest.MoeDown.Build(t)
	times := func(knee float64, regimes ...plan.ClockRegime) (at []float64) {
		m := plantest.H200(t, w.World)
		m.Clock.Knee.Value = knee
		for _, regime := range regimes {
			at = append(at, float64(enginetest.OutcomeIn(t, w, m, "bulk", nil, plan.Scenario{Clock: regime}).Time))
		}
		return at
	}
	all := []plan.ClockRegime{plan.FullClock, plan.SettledClock, plan.CapturedClock}
	if at := times(2, all...); at[0] != at[1] || at[0] != at[2] {
		t.Errorf("with power for all it takes %v", at)
	}
	at := times(0.4, all...)
	if at[1] < at[0]*1.05 {
		t.Errorf("with little power it takes %v at first and %v for long", at[0], at[1])
	}
	if at[2] > at[0]*1.01 || at[2] < at[0]*0.99 {
		t.Errorf("as captured it takes %v, captured was %v", at[2], at[0])
	}
}

// For long, a strategy settles where its draw can be kept up.
func TestSustainedDraw(t *testing.T) {
	w := plantest.MoeDown.Build(t)
	m := plantest.H200(t, w.World)
	m.Clock.Knee.Value = 0.4
	for _, e := range []string{"bulk", "decompose", "multistream"} {
		out := enginetest.OutcomeIn(t, w, m, e, nil, plan.Scenario{Clock: plan.SettledClock})
		d := plan.ClockOf(w, &m, out.Scenario, out.Changed).Demand(out.Scenario, out.Time)
		if draw := m.Clock.Draw(d, d.At); math.Abs(draw/0.4-1) > 0.02 {
			t.Errorf("%s settles at %.3f of the clock and draws %.3f", e, d.At, draw)
		}
	}
}

// On another GPU a loop of five iterations (7.8 ms, GEMMs at full clock, which for long would be 0.91) has the full clock
// too; for long it has that GPU's steady one.
func TestShortLoopsOnAnotherGPU(t *testing.T) {
	run := must.Have(format.Open("../../samples/measurements/2026-11-23-h200x2-eighth/traces/bulk_olmo2_fc2_all_reduce_w2", format.Options{}))(t)
	captured := must.Have(lift.Workload(run, lift.Options{}))(t)
	other := machinetest.Load(t, "h100:2")
	w := edit.To(captured, plantest.H200(t, 2), other)
	at := map[plan.ClockRegime]trace.Time{}
	for _, regime := range []plan.ClockRegime{plan.FullClock, plan.CapturedClock, plan.SettledClock} {
		at[regime] = enginetest.OutcomeIn(t, w, other, "captured", nil, plan.Scenario{Clock: regime}).Time
	}
	if at[plan.CapturedClock] != at[plan.FullClock] || float64(at[plan.SettledClock]) < 1.05*float64(at[plan.FullClock]) {
		t.Errorf("as captured it takes %d ns, at the full clock %d, for long %d", at[plan.CapturedClock], at[plan.FullClock], at[plan.SettledClock])
	}
}

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
