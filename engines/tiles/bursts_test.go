package tiles_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Writes of a wave come in a burst and triggered transfers read in bursts. A GEMM whose memory
// writes and adds alike takes its time alone. Bursts of transfers slow it, and compute first prevents
// that, with the queue of the profile or with the one that is assumed (rule K11).
func TestTriggerBursts(t *testing.T) {
	s := plantest.Sublayer{Model: "T-NLG", Name: "FC-2", Hidden: 4256, Tokens: 8 << 10, Share: 4, Ranks: 8}
	run := func(queue, update float64, arbitration string) (gemm, alone, whole trace.Time) {
		m := machinetest.Load(t, "t3").Resize(s.Ranks)
		m.GPU.MemoryQueue.Value, m.GPU.Update.Value = queue, update
		w, alone, _ := s.Build(t, m)
		got := enginetest.Outcome(t, w, m, "trigger", map[string]string{"arbitration": arbitration})
		for _, s := range got.Result.Run.Spans {
			if s.Kind == trace.Compute && got.Result.Run.Lanes[s.Lane].Kind == trace.Queue {
				gemm = max(gemm, s.End-s.Start)
			}
		}
		return gemm, alone, got.Time
	}
	if first, alone, _ := run(64, 1, "mca"); first > alone*101/100 || first < alone*99/100 {
		t.Errorf("the GEMM takes %d ns with bursts of writes, %d alone", first, alone)
	}
	for _, c := range []struct{ queue, update float64 }{{64, 2}, {0, 0}} {
		_, _, taken := run(c.queue, c.update, "rr")
		_, _, limited := run(c.queue, c.update, "mca")
		if limited >= taken {
			t.Errorf("queue %v: %d ns with compute first, %d without", c.queue, limited, taken)
		}
	}
}
