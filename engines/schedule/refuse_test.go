package schedule_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A setting that cannot apply is refused with its reason: it neither changes the schedule
// nor is ignored.
func TestSettingsThatCannotApply(t *testing.T) {
	const steps = "is for steps, and this trace is a loop"
	for _, c := range []struct{ sample, selection, why string }{
		{"moe-down-triton", "multistream:prefetch=1", steps},
		{"moe-down-triton", "multistream:keep_gathered=on", steps},
		{"moe-down-triton", "multistream:keep_gathered=off", steps},
		{"moe-down-triton", "multistream:interleave=2", steps},
		{"moe-down-triton", "multistream:bucket_mb=25", steps},
		{"moe-down-triton", "bulk:keep_gathered=on", "keeps nothing"},
		{"moe-down-triton", "bulk:bucket_mb=25", "no all-reduce of gradients"},
		{"moe-ep4", "multistream:prefetch=1", steps},
		{"moe-ep4", "bulk:keep_gathered=on", "keeps nothing"},
		{"ddp-step", "multistream:prefetch=2", "no parameters are gathered"},
		{"ddp-step", "multistream:keep_gathered=on", "keeps nothing"},
		{"ddp-step", "multistream:keep_gathered=off", "gathers nothing again"},
		{"ddp-step", "multistream:interleave=1", "one chain"},
		{"ddp-step", "multistream:interleave=2", "1 independent chain"},
		{"ddp-step", "multistream:buffers=2", "buffers is for loops"},
		{"ddp-step", "multistream:lds=100000", "does not fit"},
		{"ddp-step", "multistream:carve=1000", "leaves compute none"},
		{"fsdp-step", "multistream:bucket_mb=25", "no all-reduce of gradients"},
		{"fsdp-step", "multistream:keep_gathered=off", ""}, // as captured
		{"fsdp-step", "multistream:keep_gathered=on", ""},
		{"fsdp-step", "multistream:prefetch=1", ""},
		{"ddp-step", "multistream:carve=8", ""},
		{"moe-down-triton", "multistream:buffers=2", ""},
	} {
		w := plantest.LiftSample(t, c.sample)
		s := enginetest.MustParse(t, c.selection)[0]
		_, err := schedule.Planned(s.Strategy, w, plantest.H200(t, w.World), s.Values, plan.Scenario{})
		var na *plan.NotApplicable
		switch {
		case c.why == "" && err != nil:
			t.Errorf("%s %s: %v", c.sample, c.selection, err)
		case c.why != "" && (!errors.As(err, &na) || !strings.Contains(na.Why, c.why)):
			t.Errorf("%s %s: %v, want %q", c.sample, c.selection, err, c.why)
		}
	}
}

// A program with flags for each pair of ranks of a large job is refused.
func TestTooManyFlags(t *testing.T) {
	w := &workload.Workload{World: 64, Run: &trace.Run{}, Ranks: make([][]int32, 64)}
	e := plan.Strategy{Name: "s", Plan: func(pl *plan.Planner, _ plan.Values) (emit plan.Emitter, why string) {
		pl.Program.NewFlags(1<<26, "of a pair")
		return nil, ""
	}}
	_, err := schedule.Planned(e, w, machine.Machine{GPUs: 64}, nil, plan.Scenario{})
	if want := "s: does not apply: 67108929 flags between 64 ranks take too much memory to simulate (a job of at most 31 ranks)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
