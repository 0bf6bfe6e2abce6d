package engines_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
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
