package compare

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

// The durations alone that Isolate finds in an overlapped capture are those of a
// serial capture of the same program: kernels of one kind, and collectives, within
// 3 % in sum over all kinds that both captures hold as often.
func TestIsolateFindsSerialDurations(t *testing.T) {
	const traces = "../../samples/measurements/2026-11-22-h200x2-steps/traces/h200x2_"
	for name, pair := range map[string][2]string{
		"ddp h4096":  {"ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue", "ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapFalse"},
		"fsdp h4096": {"fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardTrue", "fsdp_h4096_channels0_priorityFalse_overlapFalse_reshardTrue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sums [2]map[instanceClass][2]float64 // by class: number, nanoseconds
			for side, folder := range pair {
				w := isolatedTrace(t, traces+folder)
				sums[side] = map[instanceClass][2]float64{}
				add := func(c instanceClass, took trace.Time) {
					n := sums[side][c]
					sums[side][c] = [2]float64{n[0] + 1, n[1] + float64(took)}
				}
				for i := range w.Ops {
					if op := &w.Ops[i]; op.Kind == trace.Compute {
						add(kernelClass(w, op), op.DurAlone())
					}
				}
				for i := range w.Collectives {
					add(collectiveClass(&w.Collectives[i]), w.Collectives[i].TransferAlone())
				}
				t.Logf("%s: %d of %d operations disturbed, residual %.1f %% in the median, %.1f %% in the 90th percentile, %d rounds",
					folder, w.Isolation.Disturbed, w.Isolation.Operations, 100*w.Isolation.Median, 100*w.Isolation.P90, w.Isolation.Rounds)
			}
			var alone, serial [2]float64 // collectives, compute
			for class, n := range sums[0] {
				if m := sums[1][class]; m[0] == n[0] {
					kind := 0
					if class.isCompute {
						kind = 1
					}
					alone[kind] += n[1]
					serial[kind] += m[1]
				}
			}
			for kind, what := range []string{"collectives", "compute kernels"} {
				off := alone[kind]/serial[kind] - 1
				t.Logf("%s alone, %.0f us: %+.1f %% of the serial capture's", what, alone[kind]/1e3, 100*off)
				if off > 0.03 || off < -0.03 {
					t.Errorf("%s alone are %+.1f %% off the serial capture's", what, 100*off)
				}
			}
		})
	}
}

func isolatedTrace(t *testing.T, path string) *workload.Workload {
	t.Helper()
	run, err := format.Open(path, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.Lift(run, workload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err = Isolate(w, plantest.H200(t, w.World), nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
