package plan

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// In a graph kernels follow each other sooner than collectives of the library follow them;
// a profile without these times has one for both.
func TestGraphLaunches(t *testing.T) {
	for name, want := range map[string][2]trace.Time{"h200": {420, 2400}, "mi300x": {1226, 1226}} {
		pl := &Planner{Machine: machinetest.Load(t, name)}
		kernel, collective := &workload.Op{Collective: -1}, &workload.Op{}
		if got := [2]trace.Time{pl.graphLaunch(kernel), pl.graphLaunch(collective)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Without a profiler that records each of them, kernels of a graph follow one another sooner, and graphs one another much sooner; no
// gap is below 0, and none behind a graph below that of a launch. Launches that are late, of other GPUs, or profiled, keep theirs
// (rule S2).
func TestGraphsWithoutRecords(t *testing.T) {
	h200, mi300x := machinetest.Load(t, "h200"), machinetest.Load(t, "mi300x")
	first, same := &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 10, End: 100}, &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 10}
	next, late := &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 50}, &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 101}
	earlier, other := &workload.Op{Launched: workload.Launched{Graph: true}, End: 20}, &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 10, Start: 5760, After: []workload.Dep{{}}}
	for _, c := range []struct {
		what       string
		pl         Planner
		op, before *workload.Op
		gap, want  trace.Time
	}{
		{"in a graph", Planner{Machine: h200}, same, first, 420, 290},
		{"in a graph, at once", Planner{Machine: h200}, same, first, 60, 0},
		{"of the next graph", Planner{Machine: h200}, next, first, 5660, 1560},
		{"of the next graph, soon", Planner{Machine: h200}, next, first, 4450, 1264},
		{"of the next graph, at once", Planner{Machine: h200}, next, first, 900, 900},
		{"on another stream than what it reads", Planner{Machine: h200}, other, earlier, 5660, 5530},
		{"issued late", Planner{Machine: h200}, late, first, 5660, 5660},
		{"behind no graph", Planner{Machine: h200}, next, &workload.Op{End: 100}, 5660, 5660},
		{"of no graph", Planner{Machine: h200}, &workload.Op{}, first, 420, 420},
		{"first of all", Planner{Machine: h200}, next, nil, 420, 420},
		{"of AMD", Planner{Machine: mi300x}, same, first, 420, 420},
	} {
		c.pl.Workload = &workload.Workload{Unprofiled: true, Ops: []workload.Op{*first}}
		if got := c.pl.withoutRecords(c.op, c.before, c.gap); got != c.want {
			t.Errorf("%s: %d ns, want %d", c.what, got, c.want)
		}
		c.pl.Workload.Unprofiled = false
		if got := c.pl.withoutRecords(c.op, c.before, c.gap); got != c.gap {
			t.Errorf("%s, with the profiler: %d ns, want %d", c.what, got, c.gap)
		}
	}
}

// An operation that started later than its launch and what it reads allow waited for work before the capture; one that
// followed what it reads did not.
func TestWorkBeforeTheCapture(t *testing.T) {
	w := plantest.Step(t, 1, "7 G0 100\n9 G1 100 G0")
	w.Hosts = []*workload.Host{{Order: []int32{0, 1}, Latency: 10_000}}
	pl := &Planner{Workload: w}
	r := &Rank{Planner: pl, latency: 10_000}
	pl.ranks = []*Rank{r}
	first, second := &w.Ops[0], &w.Ops[1]
	first.Issued, second.Issued = 0, 1000
	second.After, second.Start = []workload.Dep{{Op: 0}}, first.End+5000
	if got := r.startAhead(second); got != 0 {
		t.Errorf("behind what it reads: %d ns", got)
	}
	second.Start = first.End + 20_000_000
	if got := r.startAhead(second); got != 20_000_000 {
		t.Errorf("20 ms behind what it reads: %d ns, want 20000000", got)
	}
}
