package plan_test

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The work before an issue includes the call that launched a graph before it, which a profiler makes
// longer by every kernel of the graph (rule H7).
func TestGraphLaunchesWithoutProfiler(t *testing.T) {
	w, m := plantest.Step(t, 1, "7 a 100\n7 b 100\n7 c 100\n7 d 100\n7 e 100"), plantest.H200(t, 1)
	m.Launch.ProfiledLaunch.Value, m.Launch.ProfiledNode.Value, m.Launch.Call.Value = 2e-6, 3e-6, 5e-6
	w.Unprofiled = true
	h := &workload.Host{Order: []int32{0, 1, 2, 3, 4}, Issues: make([]workload.Issue, 5)}
	for i := range 3 {
		w.Ops[i].Graph = true
	}
	h.Issues[3] = workload.Issue{Work: 100_000, Launches: 1}
	h.Issues[4] = workload.Issue{Work: 100_000, Launches: 1}
	w.Hosts = []*workload.Host{h}
	pl := &plan.Planner{Workload: w, Machine: m}
	if got, want := pl.IssueCosts(0), []trace.Time{0, 0, 0, 89_000, 98_000}; !slices.Equal(got, want) {
		t.Errorf("issues cost %d ns, want %d", got, want)
	}
}

// What disturbs a host once is lowered to the next highest of the issues at one place of all iterations; what it takes to
// wake another thread scatters, so that of two iterations both are kept (rule H7).
func TestDisturbedHosts(t *testing.T) {
	for _, c := range []struct {
		steps       int
		works, want []trace.Time // us
		handed      bool         // the second issue of every two is another thread's
	}{
		{2, []trace.Time{0, 20, 10, 20, 10, 24, 10, 90}, []trace.Time{0, 20, 10, 20, 10, 20, 10, 20}, false},
		{2, []trace.Time{0, 20, 16, 20, 10, 24, 10, 90}, []trace.Time{0, 20, 10, 20, 10, 24, 10, 90}, true},
		{4, []trace.Time{0, 20, 11, 26, 12, 90, 13, 24}, []trace.Time{0, 20, 11, 26, 12, 26, 12, 24}, false},
		{4, []trace.Time{0, 20, 11, 26, 12, 90, 13, 24}, []trace.Time{0, 20, 11, 26, 12, 26, 12, 24}, true},
	} {
		w := plantest.Step(t, 1, "7 a 100\n7 b 100\n7 a 100\n7 b 100\n7 a 100\n7 b 100\n7 a 100\n7 b 100")
		w.Unprofiled, w.Steps = true, make([]workload.Step, c.steps)
		h := &workload.Host{}
		for i := range w.Ops {
			w.Ops[i].Step, w.Ops[i].Name = int32(i*c.steps/len(w.Ops)), w.Ops[i%2].Name
			h.Order, h.Issues = append(h.Order, int32(i)), append(h.Issues, workload.Issue{Work: 1000 * c.works[i], Handed: c.handed && i%2 == 1})
		}
		w.Hosts = []*workload.Host{h}
		got := (&plan.Planner{Workload: w, Machine: plantest.H200(t, 1)}).IssueCosts(0)
		for i := range got {
			got[i] /= 1000
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d iterations with issues of %d us cost %d us, want %d", c.steps, c.works, got, c.want)
		}
	}
}
