package tiles_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

const steps = "measurements/2026-11-22-h200x2-steps/traces/h200x2_dlrm_d256_b32768_"

// Lookups of 32 tables and their all-to-all are cut together, from a capture in one part
// or in four: each all-to-all runs alongside the lookups of the next part. Measured: 39.93
// ms in one part, 39.75, 40.55 and 42.32 in 2, 4 and 8.
func TestLookupsInChunks(t *testing.T) {
	m := plantest.H200(t, 2)
	for _, captured := range []string{"chunks1_channels0", "chunks4_channels0"} {
		w := plantest.LiftSample(t, steps+captured)
		for _, c := range []struct {
			strategy, chunks string
			ms               float64
			collectives      int // of both ranks and steps
		}{{"bulk", "", 39.93, 4}, {"decompose", "2", 39.75, 8}, {"decompose", "4", 40.55, 16}, {"decompose", "8", 42.32, 32}} {
			set := map[string]string{}
			if c.chunks != "" {
				set["chunks"] = c.chunks
			}
			out := enginetest.Outcome(t, w, m, c.strategy, set)
			if out.Result == nil {
				t.Fatalf("%s %s: %s", c.strategy, c.chunks, out.Why)
			}
			n := 0
			for _, s := range out.Result.Run.Spans {
				if s.Kind == trace.Collective {
					n++
				}
			}
			if off := float64(out.Time)/1e6/c.ms - 1; math.Abs(off) > 0.03 || n != c.collectives {
				t.Errorf("%s: %s %s: %.2f ms and %d collectives, measured %.2f and %d", captured, c.strategy, c.chunks, float64(out.Time)/1e6, n, c.ms, c.collectives)
			}
		}
	}
}
