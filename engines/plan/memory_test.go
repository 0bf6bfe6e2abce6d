package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Two blocks of 48 and 80 MiB that backward gathers a second time.
const sharded = `
7 AG1=48 200
7 F1  900 AG1
7 AG2=80 200
7 F2  900 AG2 F1
7 AG4=80 200
7 B2  900 AG4 F2
7 AG3=48 200
7 B1  900 AG3 B2`

func TestMemoryOfSchedules(t *testing.T) {
	fsdp := plantest.Step(t, 2, sharded)
	plantest.InBackward(t, fsdp, "AG4", "B2", "AG3", "B1")
	// Two micro-batches, forward and backward one after the other: F11 keeps 10 MiB for B11, F21 12 for B21.
	micro := plantest.Step(t, 2, `
7 F11 900
7 AR11 300 F11
7 B11 900 AR11 F11=10
7 AR12 300 B11
7 G11 100 AR12
7 F21 900
7 AR21 300 F21
7 B21 900 AR21 F21=12
7 AR22 300 B21
7 G21 100 AR22`)
	plantest.InBackward(t, micro, "B11", "AR12", "G11", "B21", "AR22", "G21")
	unknown := plantest.Step(t, 2, `
7 F11 900
7 AR11 300 F11
7 B11 900 AR11
7 AR12 300 B11
7 G11 100 AR12
7 F21 900
7 AR21 300 F21
7 B21 900 AR21
7 AR22 300 B21
7 G21 100 AR22`)
	for i := range unknown.Flow {
		for k := range unknown.Flow[i] {
			unknown.Flow[i][k].Bytes = 0
		}
	}
	plantest.InBackward(t, unknown, "B11", "AR12", "G11", "B21", "AR22", "G21")
	loop, sum := plantest.MoeDown.Build(t), plantest.MoeDown
	sum.Op = trace.AllReduce
	for _, c := range []struct {
		w        *workload.Workload
		strategy string
		mib      int64
		least    bool
	}{
		{fsdp, "multistream", 0, false},
		{fsdp, "multistream:keep_gathered=on", 48 + 80, false},
		{fsdp, "multistream:prefetch=2", 80, false},
		{micro, "multistream:interleave=2", 64 + 12, false}, // AR21 brings backward 64 MiB
		{unknown, "multistream:interleave=2", 0, true},
		{loop, "decompose:chunks=4", 64, false},
		{loop, "decompose:chunks=1", 0, false},
		{sum.Build(t), "decompose:chunks=4", 0, false},
		{loop, "bulk:graph=on", 0, true},
		{loop, "multistream", 64, true},
		{loop, "multistream:buffers=2", 64, false},
		{loop, "multistream:buffers=1", 0, false},
	} {
		name, settings, _ := strings.Cut(c.strategy, ":")
		out := enginetest.Outcome(t, c.w, plantest.H200(t, 4), name, enginetest.Settings(settings))
		if out.Why != "" {
			t.Errorf("%s: %s", c.strategy, out.Why)
		}
		if got := out.Memory; got.Bytes != c.mib<<20 || (len(got.Lacks) > 0) != c.least {
			t.Errorf("%s: %.1f MiB, lacks %q; not %d", c.strategy, float64(got.Bytes)/(1<<20), got.Lacks, c.mib)
		}
	}
}

// A limit refuses what does not fit, and never the captured schedule.
func TestMemoryLimit(t *testing.T) {
	w := plantest.Step(t, 2, sharded)
	plantest.InBackward(t, w, "AG4", "B2", "AG3", "B1")
	run := func(name, settings string, limit int64) string {
		return enginetest.OutcomeIn(t, w, plantest.H200(t, 2), name, enginetest.Settings(settings), plan.Scenario{MemoryLimit: limit << 20}).Why
	}
	for _, c := range []struct {
		captured, limit int64 // MiB
		why             string
	}{{0, 128, ""}, {0, 127, "not recorded"}, {900, 1028, ""}, {900, 1027, "takes 1.00 GiB, 128 MiB more"}} {
		for i := range w.Run.Ranks {
			w.Run.Ranks[i].Memory = nil
			if c.captured > 0 {
				w.Run.Ranks[i].Memory = []trace.MemoryLevel{{At: 0, Bytes: 5}, {At: 10, Bytes: c.captured << 20}, {At: 20, Bytes: 7}}
			}
		}
		if why := run("multistream", "keep_gathered=on", c.limit); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%+v: %q", c, why)
		}
		if why := run("captured", "", 1); why != "" {
			t.Errorf("captured: %s", why)
		}
	}
}

// Records of the allocator give what sizes do not: what forward keeps, and the pool of a graph.
func TestMemoryRecords(t *testing.T) {
	w := plantest.Step(t, 2, sharded)
	plantest.InBackward(t, w, "AG4", "B2", "AG3", "B1")
	for i := range w.Ops {
		w.Ops[i].Issued = w.Ops[i].Start
	}
	for i := range w.Run.Ranks {
		w.Run.Ranks[i].Memory = []trace.MemoryLevel{{At: 0, Bytes: 100 << 20}, {At: w.Ops[2].Start, Bytes: 700 << 20}, {At: w.Ops[5].Start, Bytes: 300 << 20}}
	}
	out := enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings("graph=on"))
	if out.Memory.Bytes != 600<<20 || out.Memory.Lacks != nil {
		t.Errorf("graph: %+v", out.Memory)
	}
	w.Flow = nil
	pl, err := plan.NewPlanner(w, plantest.H200(t, 2), plan.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	ids := w.Ranks[0]
	if bytes, all := pl.Saved(ids[:4], ids[4:]); bytes != 600<<20 || !all {
		t.Errorf("saved %d MiB, all: %v", bytes>>20, all)
	}
	for i := range w.Run.Ranks {
		w.Run.Ranks[i].Memory = nil
	}
	if bytes, all := pl.Saved(slices.Clone(ids[:4]), ids[4:]); bytes != 0 || all {
		t.Errorf("without records %d, all: %v", bytes, all)
	}
}
