package engines_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// conform runs a strategy and returns its cell of the matrix. One that applies
// terminates, repeats itself, moves the bytes that the collectives demand, and
// stays above the physical bounds.
func conform(t *testing.T, s plan.Selection, w *workload.Workload, m machine.Machine) string {
	t.Helper()
	run := func() engines.Outcome {
		out := must.Have(engines.Run(w, m, s, plan.Scenario{}, replay.Options{}))(t)
		return out
	}
	out := run()
	if out.Result == nil {
		return cellOf(t, out)
	}
	if d := cmp.Diff(out.Result.Run.Spans, run().Result.Run.Spans); d != "" {
		t.Errorf("a repeat differs:\n%s", d)
	}
	if least := leastCompute(w, &m); out.Time < least {
		t.Errorf("a step takes %d ns, less than its longest kernel can alone (%d)", out.Time, least)
	}
	if s.Strategy.Name == "captured" || s.Strategy.Name == "ideal" {
		return applies // hold no resources
	}
	want := make([]float64, w.World)
	for i := range w.Collectives {
		c := &w.Collectives[i]
		wire := float64(c.Op.WireBytes(c.Bytes, len(c.Members)))
		if least := trace.Time(wire / injection(&m) * 1e9); out.Time < least {
			t.Errorf("a step takes %d ns; the bytes of %s alone need %d", out.Time, c.Op, least)
		}
		for _, id := range c.Members {
			want[w.Ops[id].Rank] += wire * carried(s, c, &m)
		}
	}
	got := make([]float64, w.World)
	for _, tr := range out.Result.Traffic {
		if tr.Resource == replay.Egress || tr.Resource == replay.NICEgress {
			got[tr.GPU] += tr.Bytes
		}
	}
	if m.Nodes() > 1 && slices.ContainsFunc(w.Collectives, func(c workload.Collective) bool { return c.Op == trace.AllReduce }) {
		got, want = []float64{sum(got)}, []float64{sum(want)} // of a tree, not all ranks send as much
	}
	for r := range want {
		if !plantest.Near(got[r], want[r]) && got[r] != want[r] {
			t.Errorf("rank %d sent %.0f bytes, the collectives demand %.0f", r, got[r], want[r])
		}
	}
	return applies
}

func sum(of []float64) (all float64) {
	for _, x := range of {
		all += x
	}
	return all
}

// leastCompute is a time below which no step can end: that of its longest matrix
// GEMM as captured, but for times of tiles that are rounded to a nanosecond, or
// of the memory reads of any other kernel.
func leastCompute(w *workload.Workload, m *machine.Machine) (least trace.Time) {
	for i := range w.Ops {
		op := &w.Ops[i]
		switch rate := max(m.GPU.Memory.Value, m.GPU.Read.Value); {
		case op.Kind != trace.Compute:
		case op.Shape.Kind == workload.GEMM:
			least = max(least, op.DurAlone()*999/1000)
		case rate > 0:
			least = max(least, trace.Time(op.Read/rate*1e9))
		}
	}
	return least
}

// injection is the most bytes a second that a GPU can send: to the others of its
// node and through its NICs at once.
func injection(m *machine.Machine) (rate float64) {
	of := func(egress, pair float64, ports int) float64 {
		switch {
		case pair <= 0:
			return egress
		case egress <= 0:
			return pair * float64(ports)
		}
		return min(egress, pair*float64(ports))
	}
	if m.PerNode() > 1 {
		rate += of(m.Fabric.Egress.Value, m.Fabric.Pair.Value, m.Fabric.Topology.Ports(m.PerNode()))
	}
	if m.Nodes() > 1 {
		rate += of(m.Network.Egress.Value, m.Network.Pair.Value, m.Network.Topology.Ports(m.Nodes())) * max(1, m.Network.NICs.Value)
	}
	return rate
}

// carried is how many bytes a strategy has links carry for each that an operation
// demands. Packets of stores within a node carry less than those of copies and NICs.
func carried(s plan.Selection, c *workload.Collective, m *machine.Machine) float64 {
	next, everyone, n := m.Fabric.StoreCost(machine.ToNext), m.Fabric.StoreCost(machine.ToAll), float64(len(c.Members))
	per := min(n, float64(m.PerNode()))
	within := func(cost, sends float64) float64 { return (cost*sends + n - 1 - sends) / (n - 1) } // sends of n-1 stay in the node
	// sends in the node where what is of a node is added before it is sent, or passed on
	added := n / per * (per - 1)
	switch impl := s.Values["impl"]; {
	case s.Strategy.Name == "fused" && c.Op == trace.AllReduce:
		return (within(next, added) + within(everyone, added)) / 2 // the half that brings sums back goes to all peers at once
	case s.Strategy.Name == "fused" && c.Op == trace.AllToAll && n > per: // to all others at once
		return within(everyone, per-1)
	case s.Strategy.Name == "fused":
		return within(next, added)
	case c.Op == trace.AllReduce && c.Bytes > 16<<20 && m.Nodes() > 1 && m.Library.Switch.Value > 0 && slices.Contains([]string{"bulk", "decompose", "multistream"}, s.Strategy.Name):
		// of long buffers sums in the switch: the buffer and the added part once, and a tree between nodes
		nodes := float64(m.Nodes())
		return (1 + nodes/n + 2*(nodes-1)/n) / (2 * (n - 1) / n)
	case impl == "oneshot" && c.Op == trace.AllReduce:
		return n / 2 // the whole vector to every peer
	case impl == "ll" && c.Op == trace.AllGather:
		return 2 * within(everyone, added) // a flag with every word
	case impl == "ll" && c.Op == trace.AllToAll:
		return within(everyone, per-1)
	case s.Strategy.Name == "onesided" && c.Op == trace.AllGather && n > per: // a kernel passes on what comes between nodes
		return within(next, added)
	}
	return 1
}

// Captured gives the run back, whatever the ranks' skew.
func TestCapturedIsIdentity(t *testing.T) {
	for _, late := range []trace.Time{0, 1, 50_000} {
		s := plantest.MoeDown
		s.Late = late
		w := s.Build(t)
		out := enginetest.Outcome(t, w, plantest.H200(t, s.Ranks), "captured", nil)
		if r := enginetest.ResidualOf(w, out.Result.Run); r.Ops != len(w.Ops) || r.Worst > 1 {
			t.Errorf("rank 0 late by %d: residual %+v over %d ops", late, r, len(w.Ops))
		}
	}
}

// Overlap may lose. Each case is one in which the strategy has nothing to win
// and something to pay.
func TestOverlapLoses(t *testing.T) {
	small := plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllReduce, Bytes: 64 << 10, Gemm: 300_000, Comm: 28_000, Channels: 4}
	even := plantest.Spec{Ranks: 4, Steps: 6, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 1_220_000, Comm: 640_000, Channels: 24}
	crowded := plantest.Spec{Ranks: 4, Steps: 3, Op: trace.ReduceScatter, Bytes: 256 << 20, Gemm: 300_000, Comm: 560_000, Channels: 24}
	vast := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 100_000, Comm: 640_000, Channels: 24}
	copies := plantest.Scattered
	copies.Bytes, copies.Gemm, copies.Comm = 256<<10, 20_000, 12_000
	tiny := plantest.Spec{Ranks: 8, Steps: 3, Op: trace.ReduceScatter, Bytes: 256 << 10, Gemm: 40_000, Comm: 20_000, Channels: 4}
	for _, c := range []struct {
		name, engine string
		spec         plantest.Spec
		set          map[string]string
	}{
		{"eight launches for a collective that is all latency", "decompose", small, map[string]string{"chunks": "8"}},
		{"tiles computed by a quarter of the machine", "fused", plantest.MoeDown, map[string]string{"programs": "33"}},
		{"half the machine kept for a collective of a third of the time", "multistream", even, map[string]string{"carve": "66"}},
		{"a quarter of the machine left to compute", "multistream", even, map[string]string{"blocks": "33"}},
		{"copies of 64 KiB, each an engine's latency", "onesided", copies, nil},
		{"a few workgroups that add a large vector", "fused", vast, map[string]string{"programs": "16"}},
		{"memory that adds slowly what every tile stores", "trigger", crowded, nil},
		{"groups of one wave that are all latency", "decompose", small, map[string]string{"variant": "waves", "chunks": "64"}},
		{"a ring of pieces that are all launches", "decompose", tiny, map[string]string{"variant": "ring"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, m := c.spec.Build(t), plantest.H200(t, c.spec.Ranks)
			if c.engine == "trigger" { // of links that are a third of the memory
				m.GPU.Memory.Value, m.GPU.Update.Value = 1e12, 4
			}
			base := enginetest.Outcome(t, w, m, "bulk", nil)
			got := enginetest.Outcome(t, w, m, c.engine, c.set)
			if got.Time <= base.Time {
				t.Errorf("%s takes %d ns, bulk %d: it should lose", c.engine, got.Time, base.Time)
			}
		})
	}
}

// Where there is nothing to overlap, a strategy ties.
func TestOverlapTies(t *testing.T) {
	for _, c := range []struct {
		name, engine string
		spec         plantest.Spec
		set          map[string]string
	}{
		{"a GEMM in one group", "decompose", plantest.MoeDown, map[string]string{"variant": "waves", "chunks": "1"}},
		{"one chunk", "decompose", plantest.MoeDown, map[string]string{"chunks": "1"}},
	} {
		w, m := c.spec.Build(t), plantest.H200(t, c.spec.Ranks)
		base := enginetest.Outcome(t, w, m, "bulk", nil)
		got := enginetest.Outcome(t, w, m, c.engine, c.set)
		if d := got.Time - base.Time; d < -base.Time/50 || d > base.Time/50 {
			t.Errorf("%s: %s takes %d ns, bulk %d", c.name, c.engine, got.Time, base.Time)
		}
	}
}

// And it may win: the case each strategy was invented for.
func TestOverlapWins(t *testing.T) {
	even := plantest.Spec{Ranks: 4, Steps: 6, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 1_220_000, Comm: 640_000, Channels: 24}
	reduced := plantest.Scattered
	reduced.Op, reduced.Comm = trace.AllReduce, 300_000
	for _, c := range []struct {
		engine string
		spec   plantest.Spec
		set    map[string]string
	}{
		{"multistream", even, map[string]string{"priority": "on"}},
		{"fused", plantest.MoeDown, nil},
		{"fused", plantest.Scattered, nil},
		{"fused", plantest.Vector, nil},
		{"onesided", plantest.Scattered, map[string]string{"impl": "pull", "gemm": "whole"}},
		{"onesided", plantest.Scattered, map[string]string{"impl": "pull", "gemm": "chunks"}},
		{"onesided", plantest.Scattered, map[string]string{"impl": "push"}},
		{"onesided", plantest.Gathered, map[string]string{"impl": "pull", "gemm": "whole"}},
		{"onesided", plantest.Gathered, map[string]string{"impl": "pull", "gemm": "chunks"}},
		{"onesided", plantest.Gathered, map[string]string{"impl": "push"}},
		{"trigger", plantest.Scattered, nil},
		{"trigger", reduced, nil},
		{"trigger", plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllGather, Bytes: 256 << 20, Gemm: 304_000, Comm: 600_000, Channels: 16}, nil},
		{"trigger", plantest.Gathered, nil},
		{"ideal", even, nil},
		{"decompose", even, map[string]string{"variant": "waves"}},
		{"decompose", plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllGather, Bytes: 256 << 20, Gemm: 900_000, Comm: 700_000, Channels: 16, Reverse: true}, map[string]string{"variant": "ring"}},
	} {
		w, m := c.spec.Build(t), plantest.H200(t, c.spec.Ranks)
		base := enginetest.Outcome(t, w, m, "bulk", nil)
		if got := enginetest.Outcome(t, w, m, c.engine, c.set); got.Time >= base.Time {
			t.Errorf("%s %v of %s takes %d ns, bulk %d: it should win", c.engine, c.set, c.spec.Op, got.Time, base.Time)
		}
	}
}

// A rank that arrives late delays every rank, and aware order of a fused kernel
// is no slower than oblivious order, in which all ranks store to rank 0 first.
func TestOrders(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	aware := enginetest.Outcome(t, w, m, "fused", nil)
	oblivious := enginetest.Outcome(t, w, m, "fused", map[string]string{"order": "oblivious"})
	if aware.Time >= oblivious.Time {
		t.Errorf("aware order takes %d ns, oblivious %d", aware.Time, oblivious.Time)
	}
}

func TestSelections(t *testing.T) {
	for in, want := range map[string]string{
		"bulk":                                  "bulk",
		"decompose:chunks=8:priority=on, fused": "decompose chunks=8 priority=on; fused",
		"decompose:chunks=2,channels=4":         "decompose chunks=2 channels=4",
		"decompos":                              `no strategy "decompos" (there are ` + strings.Join(engines.Names(), ", ") + `, all): did you mean decompose?`,
		"ideal:chunks=2":                        `ideal: no parameter "chunks" (it has variant)`,
		"decompose:chunks=0":                    `decompose: chunks: 0 is less than 1`,
		"decompose:chunks=1025":                 `decompose: chunks: 1025 is more than 1024`,
		"fused:occupancy=101":                   `fused: occupancy: 101 is more than 100`,
		"decompose:chunks=-1":                   `decompose: chunks: "-1" is not a whole number`,
		"decompose:priority=high":               `decompose: priority: "high" is none of off, on`,
		"decompose:chunks":                      `decompose: "chunks" is not name=value`,
		"multistream:microbatches=16":           `multistream: microbatches=16 has no effect without schedule=gpipe|1f1b|interleaved|zb`,
	} {
		sel, err := engines.ParseSelection(in)
		got := ""
		for i, s := range sel {
			if i > 0 {
				got += "; "
			}
			got += s.Strategy.Name
			if set := s.Strategy.String(s.Values); set != "" {
				got += " " + set
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s\nwant %s", in, got, want)
		}
	}
}

// A machine with fewer GPUs than the job has ranks is the user's mistake, and is told so.
func TestTooFewGPUs(t *testing.T) {
	w := plantest.MoeDown.Build(t)
	for _, e := range engines.All() {
		v, _ := e.Values(nil)
		var na *plan.NotApplicable
		if _, err := schedule.Planned(e, w, plantest.H200(t, 2), v, plan.Scenario{}); err == nil || errors.As(err, &na) {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
