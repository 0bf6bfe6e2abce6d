package engines_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// TestSampleWorkloads runs every workload file of the samples under every
// strategy: each has a result, or one line that says why it has none; the
// schedule as given comes out as it went in.
func TestSampleWorkloads(t *testing.T) {
	all, err := engines.ParseSelection("all")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range plantest.SampleOperators(t) {
		t.Run(name, func(t *testing.T) {
			w, m := plantest.SampleOperator(t, name)
			outcomes, err := compare.Compare(w, m, all, plan.Scenario{}, replay.Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			applied := 0
			for _, out := range outcomes {
				switch {
				case out.Result == nil && (out.Why == "" || strings.HasPrefix(out.Why, "cannot run")):
					t.Errorf("%s: %q", out.Strategy.Name, out.Why)
				case out.Result == nil:
					continue
				case out.Result.Run.Estimated == "":
					t.Errorf("%s: not marked as estimated", out.Strategy.Name)
				case out.Strategy.Name == "captured":
					if r := compare.ResidualOf(w, out.Result.Run); r.Worst > 0 {
						t.Errorf("the schedule as given is off by %d ns", r.Worst)
					}
				default:
					applied++
				}
			}
			if applied < 2 { // bulk, and what the file is about
				t.Errorf("%d strategies apply", applied)
			}
		})
	}
}

// BenchmarkCompare replays a sample of two iterations of a whole model under all
// strategies, on as many cores as there are.
func BenchmarkCompare(b *testing.B) {
	w, m := plantest.LiftSample(b, "llama70b-prefill"), plantest.H200(b, 4)
	all, err := engines.ParseSelection("all")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := compare.Compare(w, m, all, plan.Scenario{}, replay.Options{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
