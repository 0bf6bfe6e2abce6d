package results

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// FSDP2 marks on the host which block it gathers and reduces for: every collective of a block has its name. Products of one kernel
// are told apart by their sizes.
func TestLayersAndPairs(t *testing.T) {
	w := plantest.LiftSample(t, "fsdp-step")
	layers, count := layersOf(w), map[string]int{}
	for i := range w.Collectives {
		for _, id := range w.Collectives[i].Members {
			count[layers[id]]++
		}
	}
	for _, block := range []string{"blocks.0", "blocks.5"} {
		if count[block] != 6 { // a gather in forward, one in backward, a reduction, on two ranks
			t.Errorf("%d collectives of %s", count[block], block)
		}
	}
	seen := map[string]bool{}
	for _, p := range workload.Pairs(w)[:4] {
		first, second := pairNames(w, p.Rows)
		if seen[first+second] {
			t.Errorf("two pairs are %s → %s", first, second)
		}
		seen[first+second] = true
	}
}
