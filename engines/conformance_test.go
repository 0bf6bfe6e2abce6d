package engines

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

var loadH200 = sync.OnceValues(func() (machine.Machine, error) { return machine.Load("h200") })

func h200(t testing.TB, gpus int) machine.Machine {
	t.Helper()
	m, err := loadH200()
	if err != nil {
		t.Fatal(err)
	}
	return m.Resize(gpus)
}

// outcome runs an engine with settings, which must apply.
func outcome(t testing.TB, w *workload.Workload, m machine.Machine, name string, set map[string]string) Outcome {
	t.Helper()
	e := engineNamed(t, name)
	v, err := e.Values(set)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(w, m, Selection{e, v}, replay.Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

func engineNamed(t testing.TB, name string) Engine {
	t.Helper()
	i := slices.IndexFunc(All(), func(e Engine) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("no engine %s", name)
	}
	return All()[i]
}

// Every engine, on workloads of both directions, all operations, two to eight
// ranks: it plans or says why not, terminates, repeats itself, moves the bytes
// that the collectives demand, and stays above the physical bounds.
func TestConformance(t *testing.T) {
	specs := map[string]spec{
		"all_to_all":     moeDown,
		"all_reduce":     {ranks: 4, steps: 3, op: trace.AllReduce, bytes: 128 << 20, gemm: 1_220_000, comm: 640_000, channels: 24},
		"reduce_scatter": {ranks: 2, steps: 2, op: trace.ReduceScatter, bytes: 64 << 20, gemm: 304_000, comm: 100_000, channels: 16},
		"all_gather":     {ranks: 8, steps: 2, op: trace.AllGather, bytes: 64 << 20, gemm: 304_000, comm: 170_000, channels: 32, reverse: true},
		"vector":         vector,
		"late rank":      {ranks: 4, steps: 2, op: trace.AllToAll, bytes: 64 << 20, gemm: 304_000, comm: 153_000, channels: 32, late: 50_000},
		"one step":       {ranks: 4, steps: 1, op: trace.AllToAll, bytes: 1 << 20, gemm: 20_000, comm: 25_000, channels: 8},
	}
	for name, s := range specs {
		w, m := s.build(t), h200(t, s.ranks)
		for _, e := range All() {
			t.Run(name+"/"+e.Name, func(t *testing.T) { conform(t, e, nil, s, w, m) })
		}
	}
}

func conform(t *testing.T, e Engine, set map[string]string, s spec, w *workload.Workload, m machine.Machine) {
	out := outcome(t, w, m, e.Name, set)
	if out.Result == nil {
		if out.Why == "" || strings.HasPrefix(out.Why, "cannot run") {
			t.Fatalf("no result: %q", out.Why)
		}
		t.Skip("does not apply: " + out.Why)
	}
	again := outcome(t, w, m, e.Name, set)
	if d := cmp.Diff(out.Result.Run.Spans, again.Result.Run.Spans); d != "" {
		t.Errorf("a repeat differs:\n%s", d)
	}
	if out.Time < s.gemm {
		t.Errorf("a step takes %d ns, less than its GEMM alone (%d)", out.Time, s.gemm)
	}
	wire := float64(s.op.WireBytes(s.bytes, s.ranks))
	if least := trace.Time(wire / m.Fabric.Egress.Value * 1e9); e.Name != "captured" && e.Name != "ideal" && out.Time < least {
		t.Errorf("a step takes %d ns; its bytes alone need %d", out.Time, least)
	}
	if e.Name == "captured" || e.Name == "ideal" {
		return // hold no resources
	}
	moved := map[int]float64{}
	for _, tr := range out.Result.Traffic {
		if tr.Resource == replay.Egress {
			moved[tr.GPU] += tr.Bytes
		}
	}
	for r := range s.ranks {
		want := wire * float64(s.steps)
		if e.Name == "fused" { // packets of stores carry less than those of copies
			cost := m.Fabric.StoreCost(machine.ToNext)
			if s.op == trace.AllReduce { // the half that brings sums back goes to all peers at once
				cost = (cost + m.Fabric.StoreCost(machine.ToAll)) / 2
			}
			want *= cost
		}
		if got := moved[r]; got < 0.999*want || got > 1.001*want {
			t.Errorf("rank %d sent %.0f bytes, the collectives demand %.0f", r, got, want)
		}
	}
}

// Captured gives the run back, whatever the ranks' skew.
func TestCapturedIsIdentity(t *testing.T) {
	for _, late := range []trace.Time{0, 1, 50_000} {
		s := moeDown
		s.late = late
		w := s.build(t)
		out := outcome(t, w, h200(t, s.ranks), "captured", nil)
		if r := ResidualOf(w, out.Result.Run); r.Ops != len(w.Ops) || r.Worst > 1 {
			t.Errorf("rank 0 late by %d: residual %+v over %d ops", late, r, len(w.Ops))
		}
	}
}

// Overlap may lose. Each case is one in which the strategy has nothing to win
// and something to pay.
func TestOverlapLoses(t *testing.T) {
	small := spec{ranks: 4, steps: 3, op: trace.AllReduce, bytes: 64 << 10, gemm: 300_000, comm: 28_000, channels: 4}
	even := spec{ranks: 4, steps: 6, op: trace.AllReduce, bytes: 128 << 20, gemm: 1_220_000, comm: 640_000, channels: 24}
	crowded := spec{ranks: 4, steps: 3, op: trace.ReduceScatter, bytes: 256 << 20, gemm: 300_000, comm: 560_000, channels: 24}
	tiny := spec{ranks: 8, steps: 3, op: trace.ReduceScatter, bytes: 256 << 10, gemm: 40_000, comm: 20_000, channels: 4}
	for _, c := range []struct {
		name, engine string
		spec         spec
		set          map[string]string
	}{
		{"eight launches for a collective that is all latency", "decompose", small, map[string]string{"chunks": "8"}},
		{"tiles computed by a quarter of the machine", "fused", moeDown, map[string]string{"programs": "33"}},
		{"half the machine kept for a collective of a third of the time", "multistream", even, map[string]string{"carve": "66"}},
		{"a quarter of the machine left to compute", "multistream", even, map[string]string{"blocks": "33"}},
		{"memory that adds slowly what every tile stores", "trigger", crowded, nil},
		{"groups of one wave that are all latency", "decompose", small, map[string]string{"variant": "waves", "group": "1"}},
		{"a ring of pieces that are all launches", "decompose", tiny, map[string]string{"variant": "ring"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, m := c.spec.build(t), h200(t, c.spec.ranks)
			if c.engine == "trigger" { // of links that are a third of the memory
				m.GPU.Memory.Value, m.GPU.Update.Value = 1e12, 4
			}
			base := outcome(t, w, m, "bulk", nil)
			got := outcome(t, w, m, c.engine, c.set)
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
		spec         spec
		set          map[string]string
	}{
		{"a product in one group", "decompose", moeDown, map[string]string{"variant": "waves", "chunks": "1"}},
		{"one chunk", "decompose", moeDown, map[string]string{"chunks": "1"}},
	} {
		w, m := c.spec.build(t), h200(t, c.spec.ranks)
		base := outcome(t, w, m, "bulk", nil)
		got := outcome(t, w, m, c.engine, c.set)
		if d := got.Time - base.Time; d < -base.Time/50 || d > base.Time/50 {
			t.Errorf("%s: %s takes %d ns, bulk %d", c.name, c.engine, got.Time, base.Time)
		}
	}
}

// And it may win: the case each strategy was invented for.
func TestOverlapWins(t *testing.T) {
	even := spec{ranks: 4, steps: 6, op: trace.AllReduce, bytes: 128 << 20, gemm: 1_220_000, comm: 640_000, channels: 24}
	for _, c := range []struct {
		engine string
		spec   spec
		set    map[string]string
	}{
		{"multistream", even, map[string]string{"priority": "on"}},
		{"fused", moeDown, nil},
		{"ideal", even, nil},
		{"decompose", even, map[string]string{"variant": "waves"}},
		{"decompose", spec{ranks: 4, steps: 3, op: trace.AllGather, bytes: 256 << 20, gemm: 900_000, comm: 700_000, channels: 16, reverse: true}, map[string]string{"variant": "ring"}},
	} {
		w, m := c.spec.build(t), h200(t, c.spec.ranks)
		base := outcome(t, w, m, "bulk", nil)
		if got := outcome(t, w, m, c.engine, c.set); got.Time >= base.Time {
			t.Errorf("%s takes %d ns, bulk %d: it should win", c.engine, got.Time, base.Time)
		}
	}
}

// A rank that arrives late delays every rank, and aware order of a fused kernel
// is no slower than oblivious order, in which all ranks store to rank 0 first.
func TestOrders(t *testing.T) {
	w, m := moeDown.build(t), h200(t, 4)
	aware := outcome(t, w, m, "fused", nil)
	oblivious := outcome(t, w, m, "fused", map[string]string{"order": "oblivious"})
	if aware.Time >= oblivious.Time {
		t.Errorf("aware order takes %d ns, oblivious %d", aware.Time, oblivious.Time)
	}
}

func TestSelections(t *testing.T) {
	for in, want := range map[string]string{
		"bulk":                                  "bulk",
		"decompose:chunks=8:priority=on, fused": "decompose chunks=8 priority=on; fused",
		"decompose:chunks=2,channels=4":         "decompose chunks=2 channels=4",
		"decompos":                              `no strategy "decompos" (there are ` + strings.Join(Names(), ", ") + `, all)`,
		"ideal:chunks=2":                        `ideal: no parameter "chunks" (it has variant)`,
		"decompose:chunks=0":                    `decompose: chunks: 0 is less than 1`,
		"fused:occupancy=88":                    `fused: occupancy: 88 is more than 87`,
		"onesided:rows=0":                       `onesided: rows: 0 is less than 1`,
		"decompose:chunks=-1":                   `decompose: chunks: "-1" is not a whole number`,
		"decompose:priority=high":               `decompose: priority: "high" is none of off, on`,
		"decompose:chunks":                      `decompose: "chunks" is not name=value`,
	} {
		sel, err := ParseSelection(in)
		got := ""
		for i, s := range sel {
			if i > 0 {
				got += "; "
			}
			got += s.Engine.Name
			if set := s.Engine.String(s.Values); set != "" {
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
	w := moeDown.build(t)
	for _, e := range All() {
		v, _ := e.Values(nil)
		var na *NotApplicable
		if _, err := e.Plan(w, h200(t, 2), v); err == nil || errors.As(err, &na) {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
