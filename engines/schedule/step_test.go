package schedule_test

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A host that waited for a collective, or for the copy in front of one, waits for it in
// every schedule of the step, and that comes to an end.
func TestHostWaitsForCollective(t *testing.T) {
	for _, waitsFor := range []string{"in1", "AG1"} {
		w := plantest.Step(t, 2, "7 in1 20\n7 AG1 100 in1\n7 F1 200 AG1\n7 F2 200 F1")
		for _, ids := range w.Ranks {
			h := &workload.Host{}
			for i, id := range ids {
				op := &w.Ops[id]
				h.Order, h.Issues = append(h.Order, int32(i)), append(h.Issues, workload.Issue{Work: 1})
				op.Issued = trace.Time(1 + i)
				if len(h.Syncs) > 0 {
					op.Issued += h.Syncs[0].End
				}
				if op.Name == waitsFor {
					h.Syncs = []workload.HostSync{{Start: op.Issued, End: op.End}}
				}
			}
			w.Hosts = append(w.Hosts, h)
		}
		w.Unprofiled, w.Steps = true, []workload.Step{{Name: "step#1"}}
		for _, name := range []string{"captured", "bulk", "multistream"} {
			if out := enginetest.Outcome(t, w, plantest.H200(t, 2), name, nil); out.Why != "" || out.Time < 500_000 {
				t.Errorf("host waits for %s, %s: %d ns, %s", waitsFor, name, out.Time, out.Why)
			}
		}
		w.Steps = nil
		const never = "a captured graph pays where it is launched again, and nothing in the trace marks what repeats"
		if out := enginetest.Outcome(t, w, plantest.H200(t, 2), "captured", enginetest.Settings("graph=on")); !slices.Contains(out.Changed.Never, never) {
			t.Errorf("no step, in a graph: %q", out.Changed.Never)
		}
		w.Steps = []workload.Step{{Name: "step#1"}}
		const ends = "a captured graph ends where the host waits for the device: 1 an iteration"
		if out := enginetest.Outcome(t, w, plantest.H200(t, 2), "captured", enginetest.Settings("graph=on")); !slices.Equal(out.Changed.Never, []string{ends}) {
			t.Errorf("host waits for %s, in a graph: %q", waitsFor, out.Changed.Never)
		}
		for _, h := range w.Hosts {
			h.Syncs[0].Start = w.Ops[len(w.Ops)-1].Issued + 1 // behind the last launch
		}
		if out := enginetest.Outcome(t, w, plantest.H200(t, 2), "captured", enginetest.Settings("graph=on")); len(out.Changed.Never) > 0 {
			t.Errorf("host waits at the end: %q", out.Changed.Never)
		}
	}
}

// What a host does before it waits for its device costs no time where the device takes longer.
func TestHostWorksBeforeItWaits(t *testing.T) {
	times := map[float64]trace.Time{}
	for _, before := range []float64{0, 0.5, 1} {
		w := plantest.Step(t, 1, "7 A 500\n7 B 500 A")
		a, b := &w.Ops[w.Ranks[0][0]], &w.Ops[w.Ranks[0][1]]
		a.Issued, b.Issued = a.Start, b.Start
		w.Hosts = []*workload.Host{{Order: []int32{0, 1}, Issues: []workload.Issue{{}, {Work: 400_000}}, Syncs: []workload.HostSync{{Start: a.Issued, End: a.End, Before: before}}}}
		b.Issued++
		w.Unprofiled = true
		times[before] = enginetest.Outcome(t, w, plantest.H200(t, 1), "captured", nil).Time
	}
	if half, all := times[0]-times[0.5], times[0]-times[1]; half != 200_000 || all != 400_000 {
		t.Errorf("%v: want 200 and 400 µs less than with the work behind the wait", times)
	}
}

// layers are a chain: each operation needs the one before.
const layers = `
7 D0   500
7 A2A0 400 D0
7 E0   500 A2A0
7 E1   500 E0
7 A2A1 400 E1
7 F0   500 A2A1`

// A larger batch and back is the captured one, for what is in proportion to it.
func TestBatched(t *testing.T) {
	m := plantest.H200(t, 2)
	w := must.Have(engines.Isolate(serving(plantest.Step(t, 2, layers), workload.Batch{Phase: workload.Prefill, Tokens: 32}), m, nil))(t)
	last := trace.Time(0)
	for _, eighths := range []int{1, 4, 8, 16, 64} {
		b := edit.Batch(w, m, eighths, 8, 1)
		if len(b.Ops) != len(w.Ops) || b.Steps[0].Batch.Tokens != int64(4*eighths) {
			t.Fatalf("%d/8: %d operations of %d tokens", eighths, len(b.Ops), b.Steps[0].Batch.Tokens)
		}
		out := enginetest.Outcome(t, b, m, "captured", nil)
		if out.Result == nil || out.Time <= last {
			t.Fatalf("%d/8: %d ns, a smaller batch %d; %s", eighths, out.Time, last, out.Why)
		}
		if last = out.Time; eighths == 8 && engines.Abs(last-enginetest.Outcome(t, w, m, "captured", nil).Time) > last/200 {
			t.Errorf("the captured batch takes %d ns", last)
		}
	}
}
