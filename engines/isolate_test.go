package engines

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The durations alone that Isolate finds in an overlapped capture are those of a serial
// capture of the same program, in sum over all kernels, and over all collectives, that both
// hold as often. Kernels of matrix instructions count at the serial capture's clock: by the
// ratio, on each rank, of those that nothing disturbed in either capture. The all-to-all of
// 201 MB is found 6 % too short: alongside SiLU, which alone uses 0.7 of the memory.
func TestIsolateFindsSerialDurations(t *testing.T) {
	const traces = "measurements/2026-11-22-h200x2-steps/traces/h200x2_"
	for name, c := range map[string]struct {
		overlapped, serial string
		compute, transfers float64 // largest relative error of the sums
	}{
		"ddp h4096":  {"ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue", "ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapFalse", 0.015, 0.02},
		"ddp 100 MB": {"ddp_h4096_bucket_mb100_channels0_priorityFalse_overlapTrue", "ddp_h4096_bucket_mb100_channels0_priorityFalse_overlapFalse", 0.015, 0.02},
		"fsdp h4096": {"fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardTrue", "fsdp_h4096_channels0_priorityFalse_overlapFalse_reshardTrue", 0.015, 0.02},
		"moe t8192":  {"moe_ep_h4096_t8192_scheduletwo_batch_overlap_channels0_priorityFalse", "moe_ep_h4096_t8192_scheduleserial_channels0_priorityFalse", 0.015, 0.03},
		"moe t24576": {"moe_ep_h4096_t24576_scheduletwo_batch_overlap_channels0_priorityFalse", "moe_ep_h4096_t24576_scheduleserial_channels0_priorityFalse", 0.015, 0.07},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, serial := isolatedTrace(t, traces+c.overlapped), isolatedTrace(t, traces+c.serial)
			t.Logf("%d of %d operations disturbed; residual of %d %.1f %% in the median, %.1f %% in the 90th percentile, %d rounds",
				w.Isolation.Disturbed, w.Isolation.Operations, w.Isolation.Checked, 100*w.Isolation.Median, 100*w.Isolation.P90, w.Isolation.Rounds)
			check := func(what string, off, most float64) {
				t.Logf("%s alone: %+.1f %% of the serial capture's", what, 100*off)
				if off > most || off < -most {
					t.Errorf("%s alone are %+.1f %% off the serial capture's", what, 100*off)
				}
			}
			check("compute kernels", kernelsOff(w, serial), c.compute)
			check("collectives", transfersOff(w, serial), c.transfers)
		})
	}
}

// kernelsOff is how much longer than in a serial capture the compute kernels take alone.
func kernelsOff(w, serial *workload.Workload) float64 {
	type key struct {
		class instanceClass
		rank  int
	}
	byClass := func(w *workload.Workload) map[key][]*workload.Op {
		m := map[key][]*workload.Op{}
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Kind == trace.Compute {
				k := key{kernelClass(w, op), op.Rank}
				m[k] = append(m[k], op)
			}
		}
		return m
	}
	a, b := byClass(w), byClass(serial)
	ratios := make([][]float64, w.World) // by rank: the clock
	for k, ops := range a {
		for i, op := range ops {
			if len(b[k]) == len(ops) && op.Matrix() && op.Alone == 0 && b[k][i].Alone == 0 {
				ratios[k.rank] = append(ratios[k.rank], float64(op.Dur())/float64(b[k][i].Dur()))
			}
		}
	}
	var alone, want float64
	for k, ops := range a {
		clock := 1.0
		if r := ratios[k.rank]; len(r) > 0 && ops[0].Matrix() {
			slices.Sort(r)
			clock = r[(len(r)-1)/2]
		}
		for i, op := range ops {
			if len(b[k]) == len(ops) {
				alone += float64(op.DurAlone())
				want += clock * float64(b[k][i].DurAlone())
			}
		}
	}
	return alone/want - 1
}

// transfersOff is the same for collectives.
func transfersOff(w, serial *workload.Workload) float64 {
	sums := func(w *workload.Workload) map[instanceClass][2]float64 { // number, ns
		m := map[instanceClass][2]float64{}
		for i := range w.Collectives {
			c := &w.Collectives[i]
			n := m[collectiveClass(c)]
			m[collectiveClass(c)] = [2]float64{n[0] + 1, n[1] + float64(c.TransferAlone())}
		}
		return m
	}
	b := sums(serial)
	var alone, want float64
	for class, n := range sums(w) {
		if b[class][0] == n[0] {
			alone, want = alone+n[1], want+b[class][1]
		}
	}
	return alone/want - 1
}

// A kernel that starts on its stream before the one in front has ended waits in its prologue: neither
// disturbs the other, and what the profile holds are their times alone.
func TestDependentLaunchDisturbsNothing(t *testing.T) {
	w := plantest.LiftSample(t, "measurements/2026-11-24-h100-graph/traces/decode_b32_h4096_graph_off.json.gz")
	early := 0
	for i := 1; i < len(w.Ops); i++ {
		if a, b := &w.Ops[i-1], &w.Ops[i]; w.Run.Spans[b.Span].Start < a.End && a.Queue == b.Queue {
			early++
		}
	}
	w, err := Isolate(w, plantest.H200(t, w.World), nil)
	if err != nil {
		t.Fatal(err)
	}
	if early == 0 || w.Isolation.Disturbed != 0 {
		t.Errorf("%d kernels start before the one in front has ended, %d are disturbed", early, w.Isolation.Disturbed)
	}
}

// What slows a collective to many times the law's time does not grow with its size as the law does: a large one that ran
// alone says nothing about a small one alongside which a kernel ran.
func TestSlowCollectivesHaveNoLaw(t *testing.T) {
	w := plantest.Step(t, 2, `
		7 G1     3000
		9 AR1=8  6000
		7 G2      100 waits AR1
		9 AR2=64 8000 waits G2`)
	w.Slow = []workload.SlowCollective{{Op: trace.AllReduce}}
	w, err := Isolate(w, plantest.H200(t, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	if alone := w.Collectives[0].Alone; alone < 5_500_000 || alone > 6_000_000 {
		t.Errorf("a collective of 6000 us takes %d ns alone", alone)
	}
}

func isolatedTrace(t *testing.T, path string) *workload.Workload {
	t.Helper()
	w := plantest.LiftSample(t, path)
	w, err := Isolate(w, plantest.H200(t, w.World), nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
