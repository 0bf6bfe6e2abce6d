package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
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
	pl := must.Have(plan.NewPlanner(w, plantest.H200(t, 2), plan.Scenario{}))(t)
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
