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
	if got := r.startAhead(second); got != 0 {
		t.Errorf("behind what it reads: %d ns", got)
	}
	second.Start = first.End + 20_000_000
	if got := r.startAhead(second); got != second.Start {
		t.Errorf("20 ms behind what it reads: %d ns, want %d", got, second.Start)
	}
}
