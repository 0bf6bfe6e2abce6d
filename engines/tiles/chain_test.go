package tiles_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The lookups of 32 tables and their all-to-all are one kernel, captured in one part or in four:
// what prepares the lookups still runs, the concatenation and the collective do not, every byte for
// the peer is sent, and the step takes less time than the lookups and the all-to-all in sequence.
func TestFusedLookups(t *testing.T) {
	m := plantest.H200(t, 2)
	for _, captured := range []string{"chunks1_channels0", "chunks4_channels0"} {
		w := plantest.LiftSample(t, "measurements/2026-11-22-h200x2-steps/traces/h200x2_dlrm_d256_b32768_"+captured)
		got := enginetest.Outcome(t, w, m, "fused", nil)
		if got.Result == nil {
			t.Fatalf("%s: %s", captured, got.Why)
		}
		runs := map[string]int{}
		for _, s := range got.Result.Run.Spans {
			name := got.Result.Run.NameOf(s)
			switch {
			case s.Kind == trace.Collective:
				runs["collective"]++
			case s.Kind == trace.Compute && strings.Contains(name, "EmbeddingBag"):
				runs["lookup"]++
			case s.Kind == trace.Compute && strings.Contains(name, "_with_index"):
				runs["preparation"]++
			}
		}
		if runs["collective"] != 0 || runs["lookup"] != 4 || runs["preparation"] != 4*32 {
			t.Errorf("%s: %v", captured, runs)
		}
		c := w.Collectives[0]
		if sent, want := enginetest.Sum(enginetest.Sent(got)), 2*float64(c.In)/2*m.Fabric.StoreCost(machine.ToNext); captured == "chunks1_channels0" && (c.Op != trace.AllToAll || !plantest.Near(sent, want)) {
			t.Errorf("%s: %s, %.0f bytes sent, want %.0f", captured, c.Op, sent, want)
		}
		bulk := enginetest.Outcome(t, w, m, "bulk", nil)
		if change := float64(got.Time)/float64(bulk.Time) - 1; change > -0.015 || change < -0.06 || len(got.Changed.Never) != 1 {
			t.Errorf("%s: %.3f of bulk, never run %v", captured, change, got.Changed.Never)
		}
	}
}
