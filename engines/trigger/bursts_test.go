package trigger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/engines/enginetest"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/trace"
)

// With a memory queue, writes of a wave come in a burst and triggered transfers read in
// bursts. A GEMM whose memory writes and adds alike takes its time alone, and transfers
// move the same bytes as without a queue. Bursts of transfers slow it, and compute first prevents that
// (rule K11).
func TestTriggerBursts(t *testing.T) {
	s := plantest.Sublayer{Model: "T-NLG", Name: "FC-2", Hidden: 4256, Tokens: 8 << 10, Share: 4, Ranks: 8}
	run := func(queue, update float64, arbitration string) (gemm, whole trace.Time, moved map[string]float64) {
		m := plantest.T3(t, s.Ranks)
		m.GPU.MemoryQueue.Value, m.GPU.Update.Value = queue, update
		w, _, _ := s.Build(t, m)
		got := enginetest.Outcome(t, w, m, "trigger", map[string]string{"arbitration": arbitration})
		for _, s := range got.Result.Run.Spans {
			if s.Kind == trace.Compute && got.Result.Run.Lanes[s.Lane].Kind == trace.Queue {
				gemm = max(gemm, s.End-s.Start)
			}
		}
		return gemm, got.Time, enginetest.Memory(got)
	}
	even, _, without := run(0, 1, "mca")
	first, _, with := run(64, 1, "mca")
	if first > even*101/100 || first < even*99/100 {
		t.Errorf("the GEMM takes %d ns with bursts of writes, %d without", first, even)
	}
	delete(without, "gemm_256x128") // reads panels again (rule M12)
	delete(with, "gemm_256x128")
	if d := cmp.Diff(without, with, cmp.Comparer(plantest.Near)); d != "" {
		t.Errorf("bytes of memory without and with a queue:\n%s", d)
	}
	_, fluid, _ := run(0, 2, "rr")
	_, taken, _ := run(64, 2, "rr")
	_, limited, _ := run(64, 2, "mca")
	t.Logf("%d ns without queue, %d with, %d with compute first", fluid, taken, limited)
	if !(fluid < limited && limited < taken) {
		t.Errorf("%d ns without queue, %d with, %d with compute first", fluid, taken, limited)
	}
}
