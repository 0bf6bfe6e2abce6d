package engines_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// BenchmarkCompare replays a sample of two iterations of a whole model under all
// strategies, on as many cores as there are.
func BenchmarkCompare(b *testing.B) {
	w, m := plantest.LiftSample(b, "llama70b-prefill"), plantest.H200(b, 4)
	all := must.Have(engines.ParseSelection("all"))(b)
	for b.Loop() {
		if _, err := engines.Compare(w, m, all, plan.Scenario{}, replay.Options{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
