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
