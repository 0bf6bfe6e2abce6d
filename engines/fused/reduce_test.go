package fused_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A fused reduction is faster than bulk if tiles can hide its communication. It is slower
// if its final sums cost more than the library's collective.
func TestFusedReduction(t *testing.T) {
	vast := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 100_000, Comm: 640_000, Channels: 24}
	slow := plantest.Vector
	slow.Comm = 4 * plan.Duration(plantest.H200(t, 4).Fabric.Latency.Value) // two exchanges of fences and flags take six latencies
	for _, c := range []struct {
		name string
		spec plantest.Spec
		set  map[string]string
		wins bool
	}{
		{"scatter behind a GEMM", plantest.Scattered, nil, true},
		{"small vector", plantest.Vector, nil, true},
		{"fences cost more than a fast collective", slow, map[string]string{"graph": "on"}, false},
		{"a few workgroups add a large vector", vast, map[string]string{"programs": "16"}, false},
	} {
		w, m := c.spec.Build(t), plantest.H200(t, c.spec.Ranks)
		base, got := enginetest.Outcome(t, w, m, "bulk", c.set), enginetest.Outcome(t, w, m, "fused", c.set)
		if got.Result == nil {
			t.Fatalf("%s: %s", c.name, got.Why)
		}
		if wins := got.Time < base.Time; wins != c.wins {
			t.Errorf("%s: fused %d ns, bulk %d", c.name, got.Time, base.Time)
		}
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
