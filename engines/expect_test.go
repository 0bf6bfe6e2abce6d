package engines_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// On two ranks both GEMMs win the race in a quarter of the runs, both collectives in a
// quarter, and the ranks differ in half. On four ranks: a sixteenth, a sixteenth, the rest.
func TestExpected(t *testing.T) {
	for _, c := range []struct {
		path  string
		ranks int
		alike float64
	}{
		{"measurements/2026-11-21-h200x2/traces/bulk_moe_wide_all_to_all_w2", 2, 1. / 4},
		{"llama70b-fc2-allreduce", 4, 1. / 16},
	} {
		w := plantest.LiftSample(t, c.path)
		sel := must.Have(engines.ParseSelection("decompose:chunks=2,decompose:chunks=1,bulk"))(t)
		m := plantest.H200(t, c.ranks)
		fell := map[plan.RaceOutcome]float64{}
		for _, race := range []plan.RaceOutcome{plan.GEMMFirst, plan.CommFirst, plan.RanksDiffer} {
			out := must.Have(engines.Run(w, m, sel[0], plan.Scenario{Race: race}, replay.Options{}))(t)
			if out.Expected != out.Time {
				t.Errorf("a race outcome is given, and %v expected of %v", out.Expected, out.Time)
			}
			fell[race] = float64(out.Time)
		}
		for i, s := range sel {
			out := must.Have(engines.Run(w, m, s, plan.Scenario{}, replay.Options{}))(t)
			want := float64(out.Time)
			if i == 0 {
				want = c.alike*(fell[plan.GEMMFirst]+fell[plan.CommFirst]) + (1-2*c.alike)*fell[plan.RanksDiffer]
			}
			if got := float64(out.Expected); math.Abs(got-want) > 0.001*want { // outcomes settle their clocks from the same start or from each other's
				t.Errorf("%d ranks, %s: expected %.0f ns, want %.0f", c.ranks, s.Strategy.Name, got, want)
			}
			if out.Best > out.Expected || out.Worst < out.Expected || i > 0 && out.Best != out.Worst {
				t.Errorf("%d ranks, %s: %v is expected of %v to %v", c.ranks, s.Strategy.Name, out.Expected, out.Best, out.Worst)
			}
		}
	}
}

// Ranks outside a pair's group have no part in its races: the same work of two of four
// ranks is expected to take what it takes on two.
func TestExpectedByGroup(t *testing.T) {
	const work = `
type: bf16
iterations: 3
shape: {tokens: 8192, hidden: 8192}
`
	of := func(text string) trace.Time {
		w, m := plantest.OperatorOf(t, text)
		out, err := engines.Run(w, m, enginetest.MustParse(t, "decompose:chunks=4")[0], plan.Scenario{}, replay.Options{})
		if err != nil || out.Best == out.Worst {
			t.Fatalf("%v, from %d to %d ns: no races", err, out.Best, out.Worst)
		}
		return out.Expected
	}
	two := of("machine: h200:2" + work + `
graph:
  - {op: gemm, m: tokens, n: hidden, k: 12288}
  - {op: all_reduce, count: tokens*hidden}
`)
	four := of("machine: h200:4" + work + `
groups: {tensor: 2}
graph:
  - {op: gemm, m: tokens, n: hidden, k: 12288}
  - {op: all_reduce, count: tokens*hidden, group: tensor}
`)
	if math.Abs(float64(four)/float64(two)-1) > 0.005 {
		t.Errorf("groups of two of four ranks: %d ns, two ranks: %d", four, two)
	}
}

// racing is a pair on some ranks that lie so far apart.
func racing(d workload.Direction, ranks, apart int) (*workload.Workload, *plan.Pair) {
	w, p := &workload.Workload{World: ranks * apart}, &workload.Pair{Direction: d}
	for i := range ranks {
		w.Ops = append(w.Ops, workload.Op{ID: int32(i), Rank: i * apart})
		p.First = append(p.First, int32(i))
	}
	return w, &plan.Pair{Pair: p}
}

// In the median case two ranks have the same race outcome at the first chunk, and four
// do not. At a later chunk the GEMM goes first.
func TestRaces(t *testing.T) {
	first := func(ranks, id, chunk int) bool {
		w, p := racing(workload.ComputeThenCollective, ranks, 1)
		r := &plan.Rank{Planner: &plan.Planner{Machine: plantest.H200(t, ranks), Workload: w}, ID: id}
		return r.CommFirst(p, chunk)
	}
	for chunk := range 4 {
		if first(2, 0, chunk) || first(2, 1, chunk) {
			t.Errorf("chunk %d: two ranks, and a collective goes first", chunk)
		}
		if got := first(4, 0, chunk) || first(4, 1, chunk); got != (chunk == 0) {
			t.Errorf("chunk %d: ranks 0 and 1 of four differ: %v", chunk, got)
		}
	}
}

// An all-gather that went first stays ahead. In the median case ranks differ.
func TestRacesOfGathers(t *testing.T) {
	w, p := racing(workload.CollectiveThenCompute, 2, 2) // ranks 0 and 2
	first := func(sc plan.Scenario, place, chunk int) bool {
		return (&plan.Rank{Planner: &plan.Planner{Machine: plantest.H200(t, 4), Scenario: sc, Workload: w}, ID: 2 * place}).CommFirst(p, chunk)
	}
	for _, c := range []struct {
		race plan.RaceOutcome
		want [2][3]bool // by rank and chunk
	}{
		{plan.MedianRace, [2][3]bool{{true, true, true}, {false, true, true}}},
		{plan.GEMMFirst, [2][3]bool{}},
		{plan.CommFirst, [2][3]bool{{true, true, true}, {true, true, true}}},
		{plan.LastGEMMFirst, [2][3]bool{{true, true, true}, {}}},
	} {
		for id := range c.want {
			for chunk, want := range c.want[id] {
				if got := first(plan.Scenario{Race: c.race}, id, chunk); got != want {
					t.Errorf("outcome %d, rank %d, chunk %d: %v", c.race, id, chunk, got)
				}
			}
		}
	}
}

// Two kernels run side by side on two streams. If one's operator lists tensors that the
// memory does not move in its time, its time alone stays what it is, and so does bulk's.
func TestTrafficWithinMemoryRate(t *testing.T) {
	m := plantest.H200(t, 2)
	rate := m.GPU.Memory.Value
	for _, c := range []struct{ listed, kept float64 }{{0.5, 0.5}, {2, 1}, {100, 0}} { // relative to what the memory moves in its time
		w := plantest.Step(t, 2, "7 G1 100\n8 b 50\n9 AR1=16 100 G1=16\n7 G2 100 AR1=16 waits AR1")
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Name == "b" {
				k := *op.Kernel
				k.Shape.Kind = workload.Elementwise
				op.Kernel, op.Read = &k, c.listed*rate*plan.Seconds(op.Dur())
			}
		}
		out, err := engines.Run(w, m, enginetest.MustParse(t, "bulk")[0], plan.Scenario{}, replay.Options{})
		if err != nil || out.Time < 230_000 || out.Time > 300_000 {
			t.Errorf("%g times the memory's rate: bulk takes %d ns, %v", c.listed, out.Time, err)
		}
		alone := must.Have(engines.Isolate(w, m, nil))(t)
		for i := range alone.Ops {
			op := &alone.Ops[i]
			if op.Name != "b" {
				continue
			}
			if moved := op.Read / rate / plan.Seconds(op.Dur()); math.Abs(moved-c.kept) > 1e-9 || op.DurAlone() < op.Dur()/2 {
				t.Errorf("%g times the memory's rate: %g kept, %d ns alone of %d", c.listed, moved, op.DurAlone(), op.Dur())
			}
		}
	}
}
