package tiles_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A fused reduction is slower than bulk if its fences and flags cost more than the library's collective: two exchanges of
// them take six latencies.
func TestFusedReductionLoses(t *testing.T) {
	slow, m := plantest.Vector, plantest.H200(t, 4)
	slow.Comm = 4 * plan.Duration(m.Fabric.Latency.Value)
	set := map[string]string{"graph": "on"}
	base, got := enginetest.Outcome(t, slow.Build(t), m, "bulk", set), enginetest.Outcome(t, slow.Build(t), m, "fused", set)
	if got.Time <= base.Time {
		t.Errorf("fused %d ns, bulk %d", got.Time, base.Time)
	}
}

// One fence before the flags of all peers saves up to the fences of the other two peers, in both
// phases; part of them hide behind other waits.
func TestFencePerPhase(t *testing.T) {
	w, m := plantest.Vector.Build(t), plantest.H200(t, 4)
	each, once := enginetest.Outcome(t, w, m, "fused", nil).Time, enginetest.Outcome(t, w, m, "fused", map[string]string{"fence": "phase"}).Time
	if saved, most := each-once, 4*plan.Duration(m.Fabric.Fence.Value); saved <= 0 || saved > most {
		t.Errorf("%d ns with a fence a peer, %d with one a phase: saves %d, want up to %d", each, once, saved, most)
	}
}

// No rank ends before the sums of its peers have arrived. Partial results and sums are
// each followed by a fence and a flag.
func TestFusedReductionWaits(t *testing.T) {
	w, m := plantest.Vector.Build(t), plantest.H200(t, 4)
	on := enginetest.Outcome(t, w, m, "fused", nil).Time
	if least := plantest.Vector.Gemm + 6*plan.Duration(m.Fabric.Latency.Value); on < least {
		t.Errorf("%d ns: the GEMM and two exchanges of flags take %d", on, least)
	}
}

// Ranks that cut what they sum into other tiles have no parts to exchange.
func TestFusedReductionOfOtherTiles(t *testing.T) {
	for name, change := range map[string]func(k *workload.Kernel){
		"tiles":      func(k *workload.Kernel) { k.Tiling.Tiles *= 2 },
		"workgroups": func(k *workload.Kernel) { k.Tiling.WGs /= 2 },
		"footprint":  func(k *workload.Kernel) { k.Footprint.Shared /= 4 },
	} {
		w, m := plantest.Vector.Build(t), plantest.H200(t, 4)
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Rank == 3 && op.Collective < 0 {
				other := *op.Kernel
				change(&other)
				op.Kernel = &other
			}
		}
		if out := enginetest.Outcome(t, w, m, "fused", nil); !strings.Contains(out.Why, "parts of the sum would not match") {
			t.Errorf("%s: %q", name, out.Why)
		}
	}
}
