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
	for _, c := range []struct{ call, first, second trace.Time }{{5000, 59_588, 67_288}, {10_000, 25_088, 32_788}, {3450, 90_588, 98_288}, {2000, 94_544, 99_008}} {
		w.Calls = []trace.Time{c.call} // ns, of a launch: no host issues faster than the fastest known, which is at 3450
		pl := &plan.Planner{Workload: w, Machine: m, Scenario: plan.Scenario{FastHosts: true}}
		if got, want := pl.IssueCosts(0), []trace.Time{0, 0, 0, c.first, c.second}; !slices.Equal(got, want) {
			t.Errorf("launches of %d ns: on the fastest hosts, issues cost %d ns, want %d", c.call, got, want)
		}
	}
}

// Setting the kernels of a graph is for the most part the profiler's, who sees each call (rule H7).
func TestGraphsSetWithoutProfiler(t *testing.T) {
	for _, c := range []struct{ sets, want trace.Time }{{0, 97_000}, {50_000, 60_500}, {100_000, 24_000}} {
		w, m := plantest.Step(t, 1, "7 a 100\n7 b 100"), plantest.H200(t, 1)
		m.Launch.ProfiledLaunch.Value, m.Launch.Call.Value = 3e-6, 5e-6
		w.Unprofiled = true
		w.Hosts = []*workload.Host{{Order: []int32{0, 1}, Issues: []workload.Issue{{}, {Work: 100_000, Launches: 1}}, Sets: map[int32]trace.Time{1: c.sets}}}
		if got := (&plan.Planner{Workload: w, Machine: m}).IssueCosts(0); got[1] != c.want {
			t.Errorf("with %d ns to set them: the issue costs %d ns, want %d", c.sets, got[1], c.want)
		}
	}
}

// A profiler that does not record sizes adds less to an operator, and the same to all else (rule H7).
func TestOperatorsWithoutSizes(t *testing.T) {
	for _, c := range []struct {
		operators int32
		dims      [][]int64
		want      trace.Time
	}{
		{10, [][]int64{{4, 4}}, 77_000},
		{10, nil, 84_800},
		{0, [][]int64{{4, 4}}, 97_000},
		{0, nil, 97_000},
	} {
		w, m := plantest.Step(t, 1, "7 a 100\n7 b 100"), plantest.H200(t, 1)
		m.Launch.ProfiledOp.Value, m.Launch.ProfiledCall.Value, m.Launch.Call.Value = 2e-6, 3e-6, 5e-6
		w.Unprofiled, w.Run.Operators = true, []trace.Operator{{Dims: c.dims}}
		w.Hosts = []*workload.Host{{Order: []int32{0, 1}, Issues: []workload.Issue{{}, {Work: 100_000, Operators: c.operators, Calls: 1}}}}
		if got := (&plan.Planner{Workload: w, Machine: m}).IssueCosts(0); got[1] != c.want {
			t.Errorf("%d operators with sizes %d: the issue costs %d ns, want %d", c.operators, c.dims, got[1], c.want)
		}
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

// Ranks that issue the same run one program: an issue costs none of them more than the median over the iterations of both, at
// the pace of its host. What one rank does longer by HostStall it does alone, waking a thread scatters, and ranks that issue
// other operations are no twins (rule H7). Hosts that are as fast as they may be have the pace of the fastest; these here are as
// fast as any.
func TestTwinHosts(t *testing.T) {
	quiet := []trace.Time{0, 20, 30, 10, 20, 30} // us, of two iterations of a, b and c
	for _, c := range []struct {
		what        string
		works, want []trace.Time // of rank 1
		fast        []trace.Time // as fast as it may be
		handed, own bool         // c is issued by another thread; rank 1 issues another c
	}{
		{"equal ranks", quiet, quiet, quiet, false, false},
		{"a disturbed host", []trace.Time{0, 20, 90, 10, 20, 80}, quiet, quiet, false, false},
		{"a slow host", []trace.Time{0, 40, 60, 20, 40, 60}, []trace.Time{0, 40, 60, 20, 40, 60}, quiet, false, false},
		{"a slow and disturbed host", []trace.Time{0, 40, 160, 20, 40, 180}, []trace.Time{0, 40, 60, 20, 40, 60}, quiet, false, false},
		{"work of one rank", []trace.Time{0, 20, 5080, 10, 20, 5030}, []trace.Time{0, 20, 5030, 10, 20, 5030}, []trace.Time{0, 20, 5030, 10, 20, 5030}, false, false},
		{"another thread", []trace.Time{0, 20, 90, 10, 20, 80}, []trace.Time{0, 20, 90, 10, 20, 80}, []trace.Time{0, 20, 90, 10, 20, 80}, true, false},
		{"other operations", []trace.Time{0, 20, 90, 10, 20, 80}, []trace.Time{0, 20, 80, 10, 20, 80}, []trace.Time{0, 20, 80, 10, 20, 80}, false, true},
	} {
		w := plantest.Step(t, 2, "7 a 100\n7 b 100\n7 c 100\n7 a 100\n7 b 100\n7 c 100")
		w.Unprofiled, w.Steps, w.Hosts = true, make([]workload.Step, 2), nil
		for rank, ids := range w.Ranks {
			h, works := &workload.Host{}, [][]trace.Time{quiet, c.works}[rank]
			for i, id := range ids {
				op := &w.Ops[id]
				k := *op.Kernel
				k.Name = w.Ops[ids[i%3]].Name
				if c.own && rank == 1 && i%3 == 2 {
					k.Name = "d"
				}
				op.Step, op.Kernel = int32(i/3), &k
				h.Order, h.Issues = append(h.Order, int32(i)), append(h.Issues, workload.Issue{Work: 1000 * works[i], Handed: c.handed && i%3 == 2})
			}
			w.Hosts, w.Calls = append(w.Hosts, h), append(w.Calls, 3000)
		}
		for _, fast := range []bool{false, true} {
			pl := &plan.Planner{Workload: w, Machine: plantest.H200(t, 2), Scenario: plan.Scenario{FastHosts: fast}}
			last := map[bool][]trace.Time{false: c.want, true: c.fast}[fast]
			for rank, want := range [][]trace.Time{quiet, last} {
				got := pl.IssueCosts(rank)
				for i := range got {
					got[i] /= 1000
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: issues of rank %d cost %d us, want %d (as fast as may be: %v)", c.what, rank, got, want, fast)
				}
			}
		}
	}
}
