package schedule_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay/machine"
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

// Without host calls in the trace a pause in which a rank was idle stays: no schedule of
// the device's work removes what the host does.
func TestPausesWithoutHostCallsStay(t *testing.T) {
	const pause = 2_000_000
	s := plantest.Spec{Ranks: 2, Steps: 4, Op: trace.AllReduce, Bytes: 64 << 20, Gemm: 500_000, Comm: 300_000, Channels: 8}
	w := s.Build(t)
	for i := range w.Ops {
		by := trace.Time(w.Ops[i].Step) * pause
		w.Ops[i].Start += by
		w.Ops[i].End += by
		if w.Ops[i].Collective < 0 && w.Ops[i].Step > 0 {
			w.Ops[i].Gap += pause
		}
	}
	for i := range w.Collectives {
		by := trace.Time(w.Ops[w.Collectives[i].Members[0]].Step) * pause
		w.Collectives[i].Arrive += by
		w.Collectives[i].Depart += by
	}
	w.Pairs = nil
	out := enginetest.Outcome(t, w, plantest.H200(t, s.Ranks), "multistream", nil)
	if measured := plan.MeasuredSteps(w).Time(); out.Time < pause || out.Time > measured*11/10 {
		t.Errorf("an iteration takes %d ns, captured %d with a pause of %d", out.Time, measured, trace.Time(pause))
	}
}

// loop is six kernels of 1 ms on one rank, in three iterations or in one, whose host takes a time before each but the first pair of
// them and 20 µs before every other launch.
func loop(t *testing.T, between trace.Time, iterations int) *workload.Workload {
	w := plantest.Step(t, 1, "7 G0 1000\n7 G1 1000\n7 G2 1000\n7 G3 1000\n7 G4 1000\n7 G5 1000")
	w.Unprofiled, w.Steps = true, make([]workload.Step, iterations)
	h := &workload.Host{Issues: make([]workload.Issue, 6), Latency: 5000}
	for i := range w.Ops {
		op := &w.Ops[i]
		by := trace.Time(i/2) * between
		op.Step, op.Start, op.End, op.Issued = int32(i/2*iterations/3), op.Start+by, op.End+by, op.Start+by
		h.Order, h.Issues[i].Work = append(h.Order, int32(i)), 20_000
		if i%2 == 0 && i > 0 {
			h.Issues[i].Work = between
		}
	}
	w.Hosts = []*workload.Host{h}
	return w
}

// A graph has no launches, but what the host does for milliseconds between iterations, or within the only one, stays (rule H11).
func TestGraphsKeepPauses(t *testing.T) {
	for _, c := range []struct {
		iterations           int
		between, least, most trace.Time
	}{
		{3, 400_000, 2_000_000, 2_100_000},
		{3, 5_000_000, 5_000_000, 5_200_000},
		{1, 400_000, 6_000_000, 6_100_000},
		{1, 5_000_000, 12_000_000, 12_200_000},
	} {
		w := loop(t, c.between, c.iterations)
		out := enginetest.Outcome(t, w, plantest.H200(t, 1), "captured", plan.Values{"graph": "on"})
		if out.Time < c.least || out.Time > c.most {
			t.Errorf("%d iterations, %d ns of the host between pairs: %d ns an iteration, want %d to %d", c.iterations, c.between, out.Time, c.least, c.most)
		}
	}
}

// A file in which an operation started before its launch, as after a clock was set: its host cannot wait for
// what is behind it on its stream.
func TestHostWaitsForNothingBehindLaterIssues(t *testing.T) {
	w := plantest.Step(t, 1, "7 G0 100\n7 G1 100\n7 G2 100")
	w.Unprofiled = true
	w.Ops[0].Issued, w.Ops[1].Issued, w.Ops[2].Issued = 300_000, 0, 310_000
	w.Hosts = []*workload.Host{{
		Issues: make([]workload.Issue, 3), Order: []int32{1, 0, 2}, Latency: 5000,
		Syncs: []workload.HostSync{{Start: 150_000, End: 210_000}},
	}}
	if out := enginetest.Outcome(t, w, plantest.H200(t, 1), "captured", nil); out.Result == nil {
		t.Error(out.Why)
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
