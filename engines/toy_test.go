package engines_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay"
)

// toy is a whole strategy: it writes the two operations of each pair on their own
// streams and waits for nothing between them, so it is wrong about dependencies
// and as fast as the longer of the two.
var toy = plan.Strategy{
	Name:    "toy",
	From:    "this test",
	Summary: "GEMM and collective side by side",
	Plan: func(pl *plan.Planner, _ plan.Values) (plan.Emitter, error) {
		if pl.Take(plan.WithCollective); len(pl.Pairs) == 0 {
			return nil, &plan.NotApplicable{Strategy: "toy", Why: "no pair with a collective was found"}
		}
		return func(r *plan.Rank, p *plan.Pair) {
			compute, comm := r.Split(p)
			r.BeginPair(p)
			a, b := r.Stream(compute.Queue), r.Added("beside")
			a.Launch(0, plan.LaunchOf(compute, pl.MeasuredKernel(compute, compute.Dur())))
			b.Launch(0, plan.LaunchOf(comm, pl.Collective(comm, pl.Chunks(p.Coll, 1, 0, nil))))
			r.Written(a, compute)
			r.Written(b, comm)
			r.EndPair(p)
		}, nil
	},
}

// A strategy is a value of package plan and nothing else: what is written in
// twenty lines is compared, recorded and refused like those of the table.
func TestToyStrategy(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	out, err := compare.Run(w, m, plan.Selection{Strategy: toy}, plan.Scenario{}, replay.Options{})
	if err != nil || out.Result == nil {
		t.Fatal(err, out.Why)
	}
	if gemm, comm := plantest.MoeDown.Gemm, plantest.MoeDown.Comm; out.Time < max(gemm, comm) || out.Time > gemm+comm {
		t.Errorf("%d ns, want at least the longer of %d and %d, and less than their sum", out.Time, gemm, comm)
	}
	w.Pairs = nil
	if out, err = compare.Run(w, m, plan.Selection{Strategy: toy}, plan.Scenario{}, replay.Options{}); err != nil || out.Why == "" {
		t.Errorf("without pairs: %v, %q", err, out.Why)
	}
}
