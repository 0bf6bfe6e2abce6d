package engines_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
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

// Strategies and settings that plan the same program, such as the captured schedule's, have one simulation, each under its own name.
func TestSameProgramIsSimulatedOnce(t *testing.T) {
	t.Parallel()
	w := plantest.LiftSample(t, "fsdp-step")
	m := plantest.H200(t, w.World)
	alone := must.Have(engines.Isolate(w, m, nil))(t)
	var simulated []string
	var mu sync.Mutex
	o := replay.Options{Like: true, Progress: func(run string, _ float64) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(simulated, run) {
			simulated = append(simulated, run)
		}
	}}
	control := must.Have(engines.Control(alone, m, plan.Scenario{}, o))(t)
	var outs []engines.Outcome
	for _, settings := range []string{"multistream,bulk,multistream:prefetch=2,multistream:prefetch=3", "bulk:channels=64"} {
		more := must.Have(engines.Compare(alone, m, enginetest.MustParse(t, settings), plan.Scenario{}, o, nil))(t)
		outs = append(outs, more...)
	}
	for _, of := range []struct {
		i     int
		as    *replay.Result
		equal bool
	}{{0, control.Result, true}, {1, control.Result, false}, {2, control.Result, false}, {3, control.Result, false}, {4, outs[1].Result, true}} {
		is := outs[of.i].Result
		if is.Run.Name != outs[of.i].String() || slices.Equal(is.Run.Spans, of.as.Run.Spans) != of.equal || (is.Makespan == of.as.Makespan) != of.equal {
			t.Errorf("%q runs %d ns, %q %d", is.Run.Name, is.Makespan, of.as.Run.Name, of.as.Makespan)
		}
	}
	if slices.Sort(simulated); !slices.Equal(simulated, []string{"", "bulk", "multistream prefetch=2", "multistream prefetch=3"}) {
		t.Errorf("simulated: %q", simulated)
	}
}

// Where collectives take several times the machine's law, other kernels in their place have no prediction: they may be as slow.
func TestSlowCollectivesKeepTheirKernels(t *testing.T) {
	w := *plantest.LiftSample(t, "llama70b-fc2-allreduce")
	w.Slow = []workload.SlowCollective{{Op: trace.AllReduce, Took: 5000, Law: 1000, Machine: "h200:4"}}
	for selection, refused := range map[string]bool{
		"captured": false, "bulk": false, "multistream": false, "decompose": false, "bulk:channels=16": false,
		"fused": true, "onesided:impl=twoshot": true, "bulk:protocol=ll": true, "bulk:algorithm=tree": true, "multistream:carrier=dma": true,
	} {
		sel, err := engines.ParseSelection(selection)
		if err != nil {
			t.Fatal(err)
		}
		_, err = schedule.Planned(sel[0].Strategy, &w, plantest.H200(t, 4), sel[0].Values, plan.Scenario{})
		var na *plan.NotApplicable
		if got := errors.As(err, &na) && strings.HasPrefix(na.Why, "no prediction: all_reduce takes 5 times the law of h200:4"); got != refused {
			t.Errorf("%s: %v, want refused: %v", selection, err, refused)
		}
	}
}
