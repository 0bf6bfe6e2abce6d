package main

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay/workload"
)

// Batches have whole tokens: of one captured token no eighth is tried, of many every one.
func TestWholeTokens(t *testing.T) {
	for _, c := range []struct {
		tokens int64
		batch  int
		want   bool
	}{{1, 1, false}, {1, 8, true}, {1, 9, false}, {1, 64, true}, {4, 2, true}, {4, 3, false}, {1021, 1, true}, {1021, 3, true}, {0, 1, true}, {1024, 512, true}, {1025, 512, false}, {57287, 8, true}, {57287, 64, false}, {100_000, 8, true}} {
		s := &batchSearch{w: &workload.Workload{Steps: []workload.Step{{Batch: workload.Batch{Tokens: c.tokens}}}}}
		if got := s.whole(c.batch); got != c.want {
			t.Errorf("%d eighths of %d tokens: %v", c.batch, c.tokens, got)
		}
	}
}

// A captured schedule that does not fit on the machine is an error.
func TestThresholdThatCannotRun(t *testing.T) {
	s := &batchSearch{w: plantest.Step(t, 2, "7 G1 500\n7 AR1 400 G1"), m: plantest.H200(t, 2), by: map[int][]compare.Outcome{}}
	s.m.GPU.Shared.Value = 1
	for i := range s.w.Ops {
		k := *s.w.Ops[i].Kernel
		k.Footprint.Shared = 1 << 20
		s.w.Ops[i].Kernel = &k
	}
	if err := s.replay(eighths, nil); err == nil || !strings.Contains(err.Error(), "the captured schedule: ") {
		t.Errorf("error %v", err)
	}
}
