package schedule_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

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
