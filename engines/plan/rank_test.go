package plan

import (
	"errors"
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// BenchmarkStreams shows that the time to write a kernel does not grow with the number of
// streams: ns/kernel.
func BenchmarkStreams(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				r := &Rank{Planner: &Planner{}, byQueue: map[int64][]*Stream{}}
				for i := range n {
					r.Lane(int64(i), 0)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/kernel")
		})
	}
}

// A stream runs in the order of issue: where no launch of an operation is recorded, or a late one, it stays in front of
// what follows on its stream.
func TestIssueOrderKeepsStreams(t *testing.T) {
	w := &workload.Workload{World: 1, Ranks: [][]int32{{0, 1, 2, 3, 4}}, Ops: []workload.Op{
		{Queue: 7, Start: 40, Issued: trace.Infinity},
		{Queue: 9, Start: 45, Issued: 8},
		{Queue: 7, Start: 50, Issued: 60}, // by the file's clock after its start
		{Queue: 7, Start: 60, Issued: 10},
		{Queue: 9, Start: 65, Issued: 20},
	}}
	if got := fmt.Sprint(w.IssueOrder(0)); got != "[1 0 2 3 4]" {
		t.Errorf("%s", got)
	}
}

// A gap as short as a launch holds nothing up: without host calls too, what comes next runs beside what ended before it where a
// schedule lets it.
func TestLaunchesAreNoPauses(t *testing.T) {
	w := &workload.Workload{World: 1, Ranks: [][]int32{{0, 1}}, Ops: []workload.Op{
		{ID: 0, Queue: 19, Kind: trace.Collective, End: 100_000, Issued: trace.Infinity},
		{ID: 1, Queue: 7, Kind: trace.Compute, Collective: -1, Start: 104_000, End: 200_000, Issued: trace.Infinity},
	}}
	pl := &Planner{Workload: w}
	pl.Machine.Launch.Event.Value = 5e-6
	if idle := pl.HostIdle(&w.Ops[1]); idle != 0 {
		t.Errorf("a launch gap of 4 us is a pause of %d ns", idle)
	}
	w.Ops[1].Start += 2_000
	if idle := pl.HostIdle(&w.Ops[1]); idle != 6_000 {
		t.Errorf("a pause of 6 us is %d ns", idle)
	}
}

// Behind a pause beside a collective, of which the trace shows no cause and no launch, an operation that keeps its place starts
// as late as it did; one that is moved starts behind an event.
func TestPausesWithoutLaunchesKeepTheirPlace(t *testing.T) {
	w := &workload.Workload{World: 1, Ranks: [][]int32{{0, 1, 2}}, Ops: []workload.Op{
		{ID: 0, Queue: 7, Kind: trace.Compute, Collective: -1, End: 100_000, Issued: trace.Infinity},
		{ID: 1, Queue: 19, Kind: trace.Collective, Start: 50_000, End: 600_000, Issued: trace.Infinity},
		{ID: 2, Queue: 7, Kind: trace.Compute, Collective: -1, Start: 550_000, End: 650_000, Issued: trace.Infinity},
	}}
	pl := &Planner{Workload: w}
	pl.Machine.Launch.Event.Value = 5e-6
	if kept, moved := pl.GapOf(&w.Ops[2], &w.Ops[0], false, true), pl.GapOf(&w.Ops[2], &w.Ops[0], false, false); kept != 450_000 || moved != 5_000 {
		t.Errorf("gaps of %d and %d ns, want 450000 and 5000", kept, moved)
	}
	w.Ops[2].Issued = 200_000
	if known := pl.GapOf(&w.Ops[2], &w.Ops[0], false, true); known != 5_000 {
		t.Errorf("a gap of %d ns behind a launch that the trace shows, want 5000", known)
	}
}

// Copies of a rank in a small trace do not make a job that takes all memory; a large trace
// may take more.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		spans, ops int
		refused    bool
	}{
		{5000, 700_000, false},
		{5000, 800_000, true},
		{40_000, 800_000, false},
		{1 << 20, 3_000_000, true},
	} {
		w := &workload.Workload{World: 8, Run: &trace.Run{Spans: make([]trace.Span, c.spans)}}
		err := w.Affordable(c.ops, simulated)
		var large *workload.TooLargeError
		if errors.As(err, &large) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if c.refused && (large.Bytes <= large.Most || large.Ops != c.ops || large.Ranks != 8) {
			t.Errorf("%+v: %+v", c, *large)
		}
	}
	w := &workload.Workload{World: 1, Run: &trace.Run{}, Ops: make([]workload.Op, 800_000)}
	var large *workload.TooLargeError
	if _, err := NewPlanner(w, machine.Machine{GPUs: 1}, Scenario{}); !errors.As(err, &large) {
		t.Errorf("a plan of 800,000 operations of an empty trace: %v", err)
	}
}
