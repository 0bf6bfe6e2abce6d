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

// Nor do flags for each pair of ranks.
func TestTooManyFlags(t *testing.T) {
	w := &workload.Workload{World: 64, Run: &trace.Run{}, Ranks: make([][]int32, 64)}
	e := Strategy{Name: "s", Plan: func(pl *Planner, _ Values) (Emitter, error) {
		pl.Program.NewFlags(4*mostFlags, "of a pair")
		return nil, nil
	}}
	_, err := e.Planned(w, machine.Machine{GPUs: 64}, nil, Scenario{})
	if want := "s: does not apply: 67108929 flags between 64 ranks take too much memory to simulate (a job of at most 31 ranks)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
