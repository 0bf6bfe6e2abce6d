package plan

import (
	"errors"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Copies of a rank in a small trace do not make a job that takes all memory; a large trace
// may take more.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		spans, ops int
		refused    bool
	}{
		{5000, 700_000, false},
		{5000, 800_000, true},
		{40_000, 800_000, false},
		{1 << 20, 3_000_000, true},
	} {
		w := &workload.Workload{World: 8, Run: &trace.Run{Spans: make([]trace.Span, c.spans)}}
		err := w.Affordable(c.ops, simulated)
		var large *workload.TooLargeError
		if errors.As(err, &large) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if c.refused && (large.Bytes <= large.Most || large.Ops != c.ops || large.Ranks != 8) {
			t.Errorf("%+v: %+v", c, *large)
		}
	}
	w := &workload.Workload{World: 1, Run: &trace.Run{}, Ops: make([]workload.Op, 800_000)}
	var large *workload.TooLargeError
	if _, err := NewPlanner(w, machine.Machine{GPUs: 1}, Scenario{}); !errors.As(err, &large) {
		t.Errorf("a plan of 800,000 operations of an empty trace: %v", err)
	}
}
