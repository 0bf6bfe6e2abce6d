package verdict

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Over all samples and workload files: under bulk no communication runs alongside
// compute on any rank; ideal is no slower than any strategy, the captured schedule
// included, unless the strategy says what work it saves.
func TestBulkAndIdealOfSamples(t *testing.T) {
	for _, dir := range []string{"llama70b-fc2-allreduce", "llama70b-prefill", "moe-down-triton", "moe-ep4"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			bulkAndIdeal(t, plantest.LiftSample(t, dir), plantest.H200(t, 4))
		})
	}
	for _, name := range plantest.SampleOperators(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := plantest.SampleOperator(t, name)
			bulkAndIdeal(t, w, m)
		})
	}
}

// The same over every trace under shared/data that has communication and ranks
// that a node of the machine holds.
func TestBulkAndIdealOfSharedTraces(t *testing.T) {
	if !longtest.Asked() {
		t.Skip("half a minute")
	}
	const shared = "../../../shared/data"
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
			w, err := lift.Workload(run, lift.Options{})
			if err != nil || len(w.Collectives) == 0 || w.World > 8 || len(w.Ops) > 50_000 {
				t.Skip("nothing to replay: ", err)
			}
			bulkAndIdeal(t, w, plantest.H200(t, w.World))
		})
	}
}

// sharedTraces are folders of captures, of those of steps every other one, since they are variants of few programs, and the
// single files of public ones.
func sharedTraces(t *testing.T, shared string) []string {
	var paths []string
	for _, pattern := range []string{"h200/traces/*", "steps/h200x2/traces/*", "traces/*", "traces/*/*", "traces/*/*/*"} {
		found := must.Have(filepath.Glob(filepath.Join(shared, pattern)))(t)
		for i, p := range found {
			if at, err := os.Stat(p); err == nil && (at.IsDir() != strings.HasPrefix(pattern, "traces")) && (i%2 == 0 || !strings.HasPrefix(pattern, "steps")) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

func bulkAndIdeal(t *testing.T, w *workload.Workload, m machine.Machine) {
	t.Helper()
	// The strategies that run the same operations; others may save work (TestSaves).
	schedules := must.Have(engines.ParseSelection("captured,bulk,ideal,multistream"))(t)
	outcomes := must.Have(engines.Compare(w, m, schedules, plan.Scenario{}, replay.Options{}, nil))(t)
	of := func(name string) engines.Outcome {
		return outcomes[slices.IndexFunc(outcomes, func(o engines.Outcome) bool { return o.Strategy.Name == name })]
	}
	if serial := of("bulk"); serial.Result != nil {
		for rank, r := range overlap.Collect(serial.Result.Run).Metrics().Ranks {
			if r.Overlapped > 0 {
				t.Errorf("bulk: %d ns of communication alongside compute on rank %d", r.Overlapped, rank)
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
	slack := trace.Time(2*plan.MaxWaves*len(w.Ops)/max(1, w.World*max(1, workload.Iterations(w)))) + ideal.Time/10_000
	// The time of iterations that overlap leaves out the wait for the last rank to
	// start, in which the others computed ahead: up to 1 % of ten and more iterations.
	if _, overlap := plan.StepsOf(w, of("captured").Result.Run).Ran(); overlap {
		slack += ideal.Time / 100
	}
	for _, o := range outcomes {
		best := o.Best // before it is scaled by what the model of interference does to the captured schedule (rule L6), as ideal's is
		if o.Simulated > 0 {
			best = trace.Time(float64(best) * float64(o.Simulated) / float64(o.Time))
		}
		switch {
		case o.Result == nil || o.Strategy.Name == "ideal":
		case best+slack < ideal.Time && workSaved(o.Selection) == "":
			t.Errorf("%s takes %d ns, ideal %d: it saves no work", o.Selection, o.Best, ideal.Time)
		}
	}
}

// A strategy that takes less than ideal says which work it saves: schedules, which
// run the same operations, have nothing to say.
func TestSaves(t *testing.T) {
	for name, saves := range map[string]bool{"captured": false, "bulk": false, "multistream": false, "ideal": false, "fused": true, "onesided": true, "trigger": true, "tilesync": true, "decompose": true} {
		e := enginetest.EngineNamed(t, name)
		v := must.Have(e.Values(nil))(t)
		if got := workSaved((plan.Selection{Strategy: e, Values: v})) != ""; got != saves {
			t.Errorf("%s: saves work: %v, want %v", name, got, saves)
		}
	}
}

// A collective of which only one rank is known keeps its time: it is no copy from
// the rank to itself.
func TestCollectiveOfOneRank(t *testing.T) {
	s := plantest.Spec{Ranks: 1, Steps: 3, Op: trace.AllReduce, Bytes: 1 << 20, Gemm: 300_000, Comm: 50_000, Channels: 4}
	w := s.Build(t)
	out := enginetest.Outcome(t, w, plantest.H200(t, 1), "bulk", nil)
	if out.Result == nil || out.Time < s.Gemm+s.Comm {
		t.Errorf("a step takes %d ns, its parts %d: %s", out.Time, s.Gemm+s.Comm, out.Why)
	}
}
