package schedule_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// profiledLoop is two iterations of four kernels of 100 µs on one rank, for each of which
// the profiled host takes some time and records 10 operators, a launch and 5 other calls.
func profiledLoop(t *testing.T, work trace.Time) *workload.Workload {
	w := plantest.Step(t, 1, "7 a 100\n7 b 100\n7 c 100\n7 d 100\n7 e 100\n7 f 100\n7 g 100\n7 h 100")
	w.Unprofiled = true
	w.Steps = []workload.Step{{Name: "step#1"}, {Name: "step#2"}}
	h := &workload.Host{Latency: 5_000}
	for i := range w.Ops {
		op := &w.Ops[i]
		op.Step = int32(i / 4)
		issued := trace.Time(i) * work
		late := max(0, issued+5_000-op.Start) // by then the device is free
		for k := i; k < len(w.Ops); k++ {
			w.Ops[k].Start, w.Ops[k].End = w.Ops[k].Start+late, w.Ops[k].End+late
		}
		op.Issued = issued
		is := workload.Issue{Work: work, Operators: 10, Launches: 1, Calls: 5}
		if i == 0 {
			is = workload.Issue{}
		}
		h.Order, h.Issues = append(h.Order, int32(i)), append(h.Issues, is)
	}
	w.Hosts = []*workload.Host{h}
	w.Run.Operators = []trace.Operator{{Name: "aten::mm", Dims: [][]int64{{64, 64}, {64, 64}}}} // with sizes, which cost the host too
	return w
}

// Without the profiler the host needs 10·profiled_op + profiled_launch + 5·profiled_call less per kernel. If
// that is less than the kernel takes, the device is the bound, without gaps for launches;
// else the host. In a captured graph the host does not count.
func TestCapturedWithoutProfiler(t *testing.T) {
	m := plantest.H200(t, 1)
	m.Launch.ProfiledOp.Value, m.Launch.ProfiledLaunch.Value, m.Launch.ProfiledCall.Value, m.Launch.Call.Value = 2e-6, 2e-6, 1e-6, 5e-6
	for _, c := range []struct {
		work, least, most trace.Time // of an iteration, µs
		settings          string
	}{
		{110_000, 400, 410, ""},
		{200_000, 692, 697, ""},
		{200_000, 400, 410, "graph=on"},
		{30_000, 400, 410, ""}, // below the least time of a call
	} {
		w := profiledLoop(t, c.work)
		out := enginetest.Outcome(t, w, m, "captured", enginetest.Settings(c.settings))
		if out.Time < c.least*1000 || out.Time > c.most*1000 {
			t.Errorf("host %d ns, %q: an iteration takes %d ns, want %d to %d µs", c.work, c.settings, out.Time, c.least, c.most)
		}
	}
	w := profiledLoop(t, 200_000)
	w.Hosts[0].Issues[2].Work += 3_000_000 // in one of two iterations
	for i := range w.Ops {
		w.Ops[i].Name = w.Ops[i%4].Name
	}
	if out := enginetest.Outcome(t, w, m, "captured", nil); out.Time < 692_000 || out.Time > 697_000 {
		t.Errorf("with a disturbed host an iteration takes %d ns, want 692 to 697 µs", out.Time)
	}
	w = profiledLoop(t, 200_000)
	w.Unprofiled = false
	if out := enginetest.Outcome(t, w, m, "captured", nil); out.Time != 800_000 {
		t.Errorf("under the profiler an iteration takes %d ns, captured 800 µs", out.Time)
	}
}
