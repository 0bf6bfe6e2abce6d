package lift

import (
	"testing"

	"github.com/overlapse/overlapse/replay/lift/pairs"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// TestGroupedGEMMsOfAnIteration: GEMMs of the next iteration read nothing that a collective of
// this one brought.
func TestGroupedGEMMsOfAnIteration(t *testing.T) {
	run := drawing{text: `0 7 | CC KK |`, parts: map[byte]part{
		'C': comm(trace.AllToAll, trace.None, 0, 4096),
		'K': {op: gemm(32, 16, 64)}, // reads 4096 bytes
	}}.run(t)
	w, err := Workload(run, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		if _, gemms := pairs.GroupedGEMMs(w, 0, &w.Collectives[0], workload.CollectiveThenCompute); len(gemms) != want {
			t.Errorf("iterations %d and %d: %d GEMMs, want %d", w.Ops[0].Step, w.Ops[1].Step, len(gemms), want)
		}
		w.Ops[0].Step, w.Ops[1].Step = 0, 1
	}
}
