package engines_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Without the profiler the hosts of fsdp-step issue sooner, but they were ahead of the devices: what its kernels
// waited for before the capture, and the gaps behind it, stay as they were. What waits did to kernels goes (rule L7): 0.1 %.
func TestStepWhoseHostsAreAheadStaysAsLong(t *testing.T) {
	w := plantest.LiftSample(t, "fsdp-step")
	w.Unprofiled = true
	out := enginetest.Outcome(t, w, machinetest.Load(t, "h200").Resize(2), "captured", nil)
	if want := plan.MeasuredSteps(w).Time(); out.Time > want || out.Time < want-want/500 {
		t.Errorf("%d ns, measured %d", out.Time, want)
	}
}

// The captured schedule, replayed, gives every measured kernel and copy back:
// start and end within 1 µs or 1 % of its duration. The samples are always
// there; the other captures lie in the folder shared alongside the checkout.
func TestIdentityReplay(t *testing.T) {
	folders := must.Have(filepath.Glob("../samples/*/rank0.json.gz"))(t)
	more, _ := filepath.Glob("../samples/measurements/2026-11-20-h200x4/traces/*/rank0.json.gz")
	if len(more) == 0 {
		t.Log("no captures alongside the checkout: only the samples are replayed")
	}
	if len(folders) != 6 {
		t.Errorf("%d samples, want 6", len(folders))
	}
	for _, f := range append(folders, more...) {
		dir := filepath.Dir(f)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			run := must.Have(format.Open(dir, format.Options{Stdin: os.Stdin}))(t)
			w := must.Have(lift.Workload(run, lift.Options{}))(t)
			m := must.Have(machine.Load("h200"))(t)
			out := enginetest.Outcome(t, w, m.Resize(w.World), "captured", nil)
			r := enginetest.ResidualOf(w, out.Result.Run)
			if r.Ops != len(w.Ops) || r.Outside != 0 {
				t.Errorf("%d of %d operations came back, %d outside 1 µs and 1 %%; worst %d ns: %s", r.Ops, len(w.Ops), r.Outside, r.Worst, r.WorstOp)
			}
		})
	}
}
