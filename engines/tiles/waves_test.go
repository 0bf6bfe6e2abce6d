package tiles_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The bytes that a ring of pieces reads and writes beyond the GEMMs: a piece
// put in its place is read and written; a sum reads two chunks and writes one (rule W5).
func TestRingCombines(t *testing.T) {
	scatter := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.ReduceScatter, Bytes: 64 << 20, Gemm: 304_000, Comm: 150_000, Channels: 16}
	gather := scatter
	gather.Op, gather.Reverse = trace.AllGather, true
	for _, c := range []struct {
		spec   plantest.Spec
		name   string
		chunks float64 // of the collective's bytes over ranks
	}{
		{scatter, "add partial sums", 3 * 3}, // three arrivals, one after another
		{gather, "place in the whole", 2 * 4 * outputChunk(gather)},
	} {
		w, m := c.spec.Build(t), plantest.H200(t, c.spec.Ranks)
		for i := range w.Ops {
			w.Ops[i].Write = 2 * float64(w.Ops[i].Shape.M*w.Ops[i].Shape.N)
		}
		got := enginetest.Outcome(t, w, m, "decompose", map[string]string{"variant": "ring"})
		want := c.chunks * float64(c.spec.Steps) * float64(c.spec.Bytes) / float64(c.spec.Ranks)
		if b := enginetest.Memory(got)[c.name]; !plantest.Near(b, want) {
			t.Errorf("%s: %s moved %.0f bytes, want %.0f", c.spec.Op, c.name, b, want)
		}
	}
}

// outputChunk is a rank's part of the GEMM's output, in chunks of the collective.
func outputChunk(s plantest.Spec) float64 { return 2 * 8192 * 4096 / float64(s.Bytes) }
