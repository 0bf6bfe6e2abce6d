package main

import (
	"testing"

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
