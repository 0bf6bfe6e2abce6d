package plan_test

import (
	"math"
	"os"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// With copy engines a collective takes no compute unit, and its bytes cross the links as
// copies; sums stay on compute units.
func TestCarriers(t *testing.T) {
	for _, c := range []struct {
		op      trace.CollectiveOp
		engines bool
	}{
		{trace.AllGather, true}, {trace.AllToAll, true}, {trace.AllReduce, false}, {trace.ReduceScatter, false},
	} {
		s := plantest.Spec{Ranks: 4, Steps: 1, Op: c.op, Bytes: 64 << 20, Gemm: 500_000, Comm: 300_000, Channels: 8}
		w := s.Build(t)
		pl, err := plan.NewPlanner(w, plantest.H200(t, s.Ranks), plan.Scenario{})
		if err != nil {
			t.Fatal(err)
		}
		if why := pl.SetCarrier(plan.Values{"carrier": plan.ByEngines}); (why == "") != c.engines {
			t.Errorf("%v: %q", c.op, why)
		}
		coll := &w.Collectives[0]
		k := pl.Carried(&w.Ops[coll.Members[1]], pl.Chunks(coll, 1, 0, nil))
		if k.Free != c.engines {
			t.Errorf("%v: holds no slot: %v, want %v", c.op, k.Free, c.engines)
		}
		if !c.engines {
			continue
		}
		var moved float64
		var to []int32
		for _, p := range k.Phases(0, nil) {
			if p.Op == program.Put {
				moved += p.Bytes
				to = append(to, p.Peer)
				if !p.DMA {
					t.Errorf("%v: a put without a copy engine", c.op)
				}
			}
		}
		if want := float64(c.op.WireBytes(s.Bytes, s.Ranks)); moved != want || len(to) != 3 || to[0] != 2 {
			t.Errorf("%v: %.0f bytes to %v, want %.0f", c.op, moved, to, want)
		}
	}
}

// With sums by copy engines a part from each rank is copied to the one that adds it, or all of an all-reduce to every rank, and a
// kernel adds. No sum takes less time than its bytes on the links, and less than the kernel behind it takes at the memory's rate.
func TestSumsByCopies(t *testing.T) {
	const bytes = 64 << 20
	for _, c := range []struct {
		op                trace.CollectiveOp
		ranks             int
		each, read, write float64 // of bytes
	}{
		{trace.ReduceScatter, 2, 1. / 2, 1, 1. / 2},
		{trace.ReduceScatter, 8, 1. / 8, 1, 1. / 8},
		{trace.AllReduce, 2, 1, 2, 1},
		{trace.AllReduce, 4, 1, 6, 3},
	} {
		m := plantest.H200(t, c.ranks)
		s := plantest.Spec{Ranks: c.ranks, Steps: 1, Op: c.op, Bytes: bytes, Gemm: 500_000, Channels: 16}
		s.Comm = trace.Time(1e9 * m.Library.Time(s.Op, bytes, s.Ranks, 0))
		w := s.Build(t)
		pl, err := plan.NewPlanner(w, m, plan.Scenario{})
		if err != nil {
			t.Fatal(err)
		}
		if why := pl.SetCarrier(plan.Values{"sums": plan.ByEngines}); why != "" {
			t.Fatal(why)
		}
		coll := &w.Collectives[0]
		op := &w.Ops[coll.Members[1]]
		var moved float64
		for _, p := range pl.Carried(op, pl.Chunks(coll, 1, 0, nil)).Phases(0, nil) {
			if p.Op == program.Put {
				moved += p.Bytes
			}
		}
		if want := float64(c.ranks-1) * c.each * bytes; math.Abs(moved/want-1) > 1e-9 {
			t.Errorf("%v of %d: %.0f bytes, want %.0f", c.op, c.ranks, moved, want)
		}
		var read, write float64
		sum := pl.CollectiveTail(op)
		for wg := range sum.WGs {
			for _, p := range sum.Phases(wg, nil) {
				read, write = read+p.Read, write+p.Write
			}
		}
		if math.Abs(read/(c.read*bytes)-1) > 1e-6 || math.Abs(write/(c.write*bytes)-1) > 1e-6 {
			t.Errorf("%v of %d: the sum reads %.0f and writes %.0f bytes", c.op, c.ranks, read, write)
		}
		e := enginetest.EngineNamed(t, "bulk")
		took := map[string]trace.Time{}
		for _, set := range []string{plan.AsCaptured, plan.ByEngines} {
			v, err := e.Values(map[string]string{"sums": set})
			if err != nil {
				t.Fatal(err)
			}
			out, err := engines.Run(w, m, plan.Selection{Strategy: e, Values: v}, plan.Scenario{}, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			took[set] = out.Time
		}
		least := 1e9 * (moved/m.Fabric.Egress.Value + (read+write)/m.GPU.Memory.Value)
		if got := float64(took[plan.ByEngines] - took[plan.AsCaptured] + s.Comm); got < least {
			t.Errorf("%v of %d: takes %.0f ns, its bytes at least %.0f", c.op, c.ranks, got, least)
		}
	}
}

// What a mover cannot move stays as captured: nothing changes where it is one of several collectives, and where it is the only one
// the setting does not apply.
func TestMoversOfOthers(t *testing.T) {
	amd, err := machine.Load("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	h200 := plantest.H200(t, 4)
	for _, c := range []struct {
		op   trace.CollectiveOp
		m    machine.Machine
		set  plan.Values
		does bool
	}{
		{trace.AllReduce, h200, plan.Values{"carrier": plan.ByEngines}, false},
		{trace.AllGather, h200, plan.Values{"sums": plan.ByEngines}, false},
		{trace.AllToAll, h200, plan.Values{"carrier": "symmetric"}, false},
		{trace.AllGather, h200, plan.Values{"carrier": "symmetric"}, true},
		{trace.ReduceScatter, h200, plan.Values{"sums": "symmetric"}, true},
		{trace.AllGather, amd, plan.Values{"carrier": "symmetric"}, false},
		{trace.AllGather, h200, plan.Values{"carrier": plan.ByUnits}, true},
	} {
		s := plantest.Spec{Ranks: 4, Steps: 1, Op: c.op, Bytes: 64 << 20, Gemm: 500_000, Comm: 300_000, Channels: 8}
		pl, err := plan.NewPlanner(s.Build(t), c.m, plan.Scenario{})
		if err != nil {
			t.Fatal(err)
		}
		if why := pl.SetCarrier(c.set); (why == "") != c.does {
			t.Errorf("%v with %v on %s: %q", c.op, c.set, c.m.Profile, why)
		}
		coll := &pl.Workload.Collectives[0]
		p := pl.Chunks(coll, 1, 0, nil)
		if k := pl.Carried(&pl.Workload.Ops[coll.Members[0]], p); !c.does && (k.Free || k.WGs != 8 || p.DurAlone != s.Comm) {
			t.Errorf("%v with %v on %s: %d workgroups, %d ns", c.op, c.set, c.m.Profile, k.WGs, p.DurAlone)
		}
	}
}

// A change of carrier scales the captured time by the ratio of the carriers' times.
func TestEngineTime(t *testing.T) {
	s := plantest.Spec{Ranks: 8, Steps: 1, Op: trace.AllGather, Bytes: 448 << 20, Gemm: 2_000_000, Comm: 1_400_000, Channels: 32}
	w := s.Build(t)
	m, err := machine.Load("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	pl, err := plan.NewPlanner(w, m, plan.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	if why := pl.SetCarrier(plan.Values{"carrier": plan.ByEngines}); why != "" {
		t.Fatal(why)
	}
	c := &w.Collectives[0]
	var took trace.Time
	for _, p := range pl.Carried(&w.Ops[c.Members[0]], pl.Chunks(c, 1, 0, nil)).Phases(0, nil) {
		if p.Op == program.Sleep || p.Op == program.Put && p.Peer == 1 {
			took += p.Time
		}
	}
	engines := float64(s.Bytes)/8/m.Fabric.Pair.Value + 2*m.Launch.Barrier.Value + m.Engines.Latency.Value
	want := float64(s.Comm) * engines / m.Library.Time(trace.AllGather, s.Bytes, 8, 0)
	if math.Abs(float64(took)/want-1) > 0.001 {
		t.Errorf("%d ns, want %.0f", took, want)
	}
}

// A collective takes the time of its law where a GPU has fewer copy engines than
// peers, too; a captured one by engines takes the time that it took.
func TestTurnsOfEngines(t *testing.T) {
	amd, err := machine.Load("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		m        machine.Machine
		captured float64 // by copy engines, of the law's time; 0: by compute units
	}{
		{"h200:2", plantest.H200(t, 2), 0},
		{"h200:4", plantest.H200(t, 4), 0},
		{"h200:5", plantest.H200(t, 5), 0},
		{"h200:8", plantest.H200(t, 8), 0},
		{"h200:8 as captured", plantest.H200(t, 8), 1.5},
		{"h200:4 as captured", plantest.H200(t, 4), 1.5},
		{"mi300x:8", amd, 0},
	} {
		m := &c.m
		s := plantest.Spec{Ranks: m.GPUs, Steps: 1, Op: trace.AllGather, Bytes: 512 << 20, Gemm: 500_000, Channels: 32}
		start := 2*m.Launch.Barrier.Value + m.Engines.Latency.Value
		peers, each := float64(s.Ranks-1), float64(s.Bytes)/float64(s.Ranks)
		want := 1e9 * max(each/min(m.Engines.Rate.Value, m.Fabric.Pair.Value), peers*each/m.Fabric.Egress.Value) // ns
		s.Comm = trace.Time(1e9 * m.Library.Time(s.Op, s.Bytes, s.Ranks, 0))
		if c.captured > 0 {
			want *= c.captured
			s.Comm = trace.Time(want + 1e9*start)
		}
		w := s.Build(t)
		w.Collectives[0].Engines = c.captured > 0
		e := enginetest.EngineNamed(t, "bulk")
		v, err := e.Values(map[string]string{"carrier": plan.ByEngines})
		if err != nil {
			t.Fatal(err)
		}
		out, err := engines.Run(w, c.m, plan.Selection{Strategy: e, Values: v}, plan.Scenario{}, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got float64
		for _, s := range out.Result.Run.Spans {
			if s.Kind == trace.Collective {
				got = max(got, float64(s.Dur()))
			}
		}
		want += 1e9 * start
		if math.Abs(got/want-1) > 0.02 {
			t.Errorf("%s: takes %.0f ns, want %.0f", c.name, got, want)
		}
	}
}

// Two captures of one program, 48 GEMMs beside six all-gathers of eight MI300X (public,
// Z-Y00/ROCM-sdma-rccl-test): gathers on compute units, and by copy engines. Each predicts
// the change to the other.
func TestCarriersAgainstHardware(t *testing.T) {
	const folder = "../../../shared/data/traces/ROCM-sdma-rccl-test/ag_gemm_llama70b_ffn_down_"
	units, copied := folder+"cu_rank0.json", folder+"sdma_rank0.json"
	if _, err := os.Stat(units); err != nil {
		t.Skip("no traces of MI300X alongside the checkout")
	}
	lift := func(path string) *workload.Workload {
		run, err := format.Open(path, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := lift.Workload(run, lift.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	m, err := machine.Load("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	byUnits, byEngines := lift(units), lift(copied)
	measured := float64(plan.MeasuredSteps(byEngines).Time()) / float64(plan.MeasuredSteps(byUnits).Time())
	for _, c := range []struct {
		w       *workload.Workload
		carrier string
		want    float64
	}{
		{byUnits, plan.ByEngines, measured},
		{byEngines, "cu", 1 / measured},
	} {
		w, err := engines.Isolate(c.w, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := enginetest.EngineNamed(t, "multistream")
		v, err := e.Values(map[string]string{"carrier": c.carrier})
		if err != nil {
			t.Fatal(err)
		}
		out, err := engines.Run(w, m, plan.Selection{Strategy: e, Values: v}, plan.Scenario{}, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := float64(out.Time) / float64(plan.MeasuredSteps(c.w).Time())
		t.Logf("to %s: %+.2f %%, measured %+.2f %%", c.carrier, 100*(got-1), 100*(c.want-1))
		if math.Abs(got-c.want) > 0.02 {
			t.Errorf("to %s: %+.2f %%, measured %+.2f %%", c.carrier, 100*(got-1), 100*(c.want-1))
		}
	}
}
