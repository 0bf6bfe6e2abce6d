package lift

import (
	"testing"
	"time"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Two ranks' profilers disagree by 1.8 % about how fast time passes: iterations of one
// loop end 635.9 us apart on rank 0 and 624.5 on rank 1, and their collectives seem to
// overlap less and less. On either clock each takes 224 to 232 us, the first one on the
// rank that came last.
func TestTransferOnDriftingClocks(t *testing.T) {
	run := must.Have(format.Open("../../samples/measurements/2026-11-22-h200x2-fourth/traces/pipe_grok_op_reduce_scatter_w2", format.Options{}))(t)
	w := must.Have(Workload(run, Options{}))(t)
	if len(w.Collectives) != 16 {
		t.Fatalf("%d collectives", len(w.Collectives))
	}
	for i := range w.Collectives {
		if got := w.Collectives[i].Transfer(); got < trace.Time(223*time.Microsecond) || got > trace.Time(233*time.Microsecond) {
			t.Errorf("collective %d takes %v ns", i, got)
		}
	}
}
