package engines

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Over all samples and workload files: under bulk no communication runs beside
// compute on any rank; ideal is no slower than any strategy, the captured schedule
// included, unless the strategy says what work it saves.
func TestBulkAndIdealOfSamples(t *testing.T) {
	for _, dir := range []string{"llama70b-fc2-allreduce", "llama70b-prefill", "moe-down-triton", "moe-ep4"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			bulkAndIdeal(t, liftSample(t, dir), h200(t, 4))
		})
	}
	files, err := filepath.Glob("../samples/workloads/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no workload files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := sampleOperator(t, name)
			bulkAndIdeal(t, w, m)
		})
	}
}

// The same over every trace under shared/data that has communication and ranks
// that a node of the machine holds.
func TestBulkAndIdealOfSharedTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	const shared = "../../shared/data"
	if _, err := os.Stat(shared); err != nil {
		t.Skip("shared data is not here")
	}
	for _, path := range sharedTraces(t, shared) {
		name, _ := filepath.Rel(shared, path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := format.Open(path, format.Options{})
			if err != nil {
				t.Skip(err) // the readers' tests say which of these files are broken
			}
			w, err := workload.Lift(run, workload.Options{})
			if err != nil || len(w.Collectives) == 0 || w.World > 8 || len(w.Ops) > 50_000 {
				t.Skip("nothing to replay: ", err)
			}
			bulkAndIdeal(t, w, h200(t, w.World))
		})
	}
}

// sharedTraces are the folders of captures and the single files of public ones.
func sharedTraces(t *testing.T, shared string) []string {
	var paths []string
	for _, pattern := range []string{"h200/traces/*", "steps/h200x2/traces/*", "traces/*", "traces/*/*", "traces/*/*/*"} {
		found, err := filepath.Glob(filepath.Join(shared, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			if at, err := os.Stat(p); err == nil && (at.IsDir() != strings.HasPrefix(pattern, "traces")) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

func bulkAndIdeal(t *testing.T, w *workload.Workload, m machine.Machine) {
	t.Helper()
	// The strategies that run the same operations; others may save work (TestSaves).
	schedules, err := ParseSelection("captured,bulk,ideal,multistream")
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := Compare(w, m, schedules, replay.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) Outcome {
		return outcomes[slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Engine.Name == name })]
	}
	if serial := of("bulk"); serial.Result != nil {
		for rank, r := range overlap.Measure(serial.Result.Run).Ranks {
			if r.Overlapped > 0 {
				t.Errorf("bulk: %d ns of communication beside compute on rank %d", r.Overlapped, rank)
			}
		}
	} else {
		t.Logf("bulk: %s", serial.Why)
	}
	ideal := of("ideal")
	if ideal.Result == nil {
		t.Logf("ideal: %s", ideal.Why)
		return
	}
	// A kernel's time is whole nanoseconds a wave, so that a schedule's kernels are a
	// few nanoseconds shorter than the durations that they were made from.
	slack := trace.Time(2*maxWaves*len(w.Ops)/max(1, w.World*max(1, Iterations(w)))) + ideal.Time/10_000
	// The time of iterations that overlap leaves out the wait for the last rank to
	// start, in which the others computed ahead: up to 1 % of ten and more iterations.
	if _, overlap := stepsOf(w, of("captured").Result.Run).ran(); overlap {
		slack += ideal.Time / 100
	}
	for _, o := range outcomes {
		switch {
		case o.Result == nil || o.Engine.Name == "ideal":
		case o.Best+slack < ideal.Time && o.Selection.saves() == "":
			t.Errorf("%s takes %d ns, ideal %d: it saves no work", o.Selection, o.Best, ideal.Time)
		}
	}
}

// A strategy that takes less than ideal says which work it saves: schedules, which
// run the same operations, have nothing to say.
func TestSaves(t *testing.T) {
	for name, saves := range map[string]bool{"captured": false, "bulk": false, "multistream": false, "ideal": false, "fused": true, "onesided": true, "trigger": true, "tilesync": true, "decompose": true} {
		e := engineNamed(t, name)
		v, err := e.Values(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Selection{e, v}).saves() != ""; got != saves {
			t.Errorf("%s: saves work: %v, want %v", name, got, saves)
		}
	}
}

// The durations alone that Isolate finds in an overlapped capture are those of a
// serial capture of the same program: kernels of one kind, and collectives, within
// 3 % in sum over all kinds that both captures hold as often.
func TestIsolateFindsSerialDurations(t *testing.T) {
	const traces = "../samples/measurements/2026-11-22-h200x2-steps/traces/h200x2_"
	if _, err := os.Stat(filepath.Dir(traces)); err != nil {
		t.Skip("shared data is not here")
	}
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
	w, err = Isolate(w, h200(t, w.World), nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A collective of which only one rank is known keeps its time: it is no copy from
// the rank to itself.
func TestCollectiveOfOneRank(t *testing.T) {
	s := spec{ranks: 1, steps: 3, op: trace.AllReduce, bytes: 1 << 20, gemm: 300_000, comm: 50_000, channels: 4}
	w := s.build(t)
	out := outcome(t, w, h200(t, 1), "bulk", nil)
	if out.Result == nil || out.Time < s.gemm+s.comm {
		t.Errorf("a step takes %d ns, its parts %d: %s", out.Time, s.gemm+s.comm, out.Why)
	}
}

// A device waits for its host where nothing runs on it and a launch is late: not
// where one stream waits while another one's kernels run.
func TestOutside(t *testing.T) {
	late := united([]interval{{10, 20}, {0, 5}, {18, 40}})
	busy := united([]interval{{3, 12}, {30, 35}})
	if got, want := outside(late, busy), trace.Time(3+18+5); got != want {
		t.Errorf("%v outside of %v: %d, want %d", late, busy, got, want)
	}
}
