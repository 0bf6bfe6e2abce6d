package schedule_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// spans are the kernels of rank 0 by name, in order of start.
func spans(t *testing.T, w *workload.Workload, out compare.Outcome) map[string][]plan.Interval {
	t.Helper()
	if out.Result == nil {
		t.Fatal(out.Why)
	}
	found := map[string][]plan.Interval{}
	run := out.Result.Run
	for _, s := range run.Spans {
		if id := plan.OriginOf(run, s); id >= 0 && w.Ops[id].Rank == 0 {
			name := w.Ops[id].Name
			found[name] = append(found[name], plan.Interval{Start: s.Start, End: s.End})
		}
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b plan.Interval) int { return int(a.Start - b.Start) })
	}
	return found
}

func shared(a, b plan.Interval) trace.Time { return max(0, min(a.End, b.End)-max(a.Start, b.Start)) }

// Two sharded blocks, each gathered in front of its use, on one stream:
//
//	captured   |copy1|AG1|F1|copy2|AG2|F2|
//	schedule   |copy1|AG1|F1|F2|
//	               |copy2|AG2|
const gathered = `
7 copy1  20
7 AG1 200 copy1
7 F1  900 AG1
7 copy2  20
7 AG2 200 copy2
7 F2  900 AG2 F1
7 copy3  20
7 AG3 200 copy3
7 F3  900 AG3 F2`

func TestGathersRunAhead(t *testing.T) {
	w, m := plantest.Step(t, 2, gathered), plantest.H200(t, 2)
	at := spans(t, w, enginetest.Outcome(t, w, m, "multistream", nil))
	if o := shared(at["AG2"][0], at["F1"][0]); o < 150_000 {
		t.Errorf("AG2 runs %v alongside F1 %v for %d ns: want all of it", at["AG2"], at["F1"], o)
	}
	// With one gather ahead, the third waits until the second block is in use.
	if at["AG3"][0].Start < at["F2"][0].Start {
		t.Errorf("AG3 starts at %v, before F2 %v: prefetch is 1", at["AG3"], at["F2"])
	}
	two := spans(t, w, enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("prefetch=2")))
	if two["AG3"][0].Start >= two["F2"][0].Start {
		t.Errorf("prefetch=2: AG3 starts at %v, after F2 %v", two["AG3"], two["F2"])
	}
	for _, x := range []string{"F1", "F2", "F3"} {
		if g := "AG" + x[1:]; at[x][0].Start < at[g][0].End {
			t.Errorf("%s starts before %s has ended", x, g)
		}
	}
}

// Gradients G1 to G4 of 32 MiB each, summed in buckets of two behind backward:
//
//	captured   |G1|G2|G3|G4|AR1|AR2|opt|
const gradients = `
7 G1  500
7 G2  500
7 G3  500
7 G4  500
7 AR1=64 300 G1=32 G2=32
7 AR2=64 300 G3=32 G4=32
7 opt 100 AR1 AR2`

func TestBucketsStartWhenTheirGradientsAreReady(t *testing.T) {
	w, m := plantest.Step(t, 2, gradients), plantest.H200(t, 2)
	// Sums of activations are no gradients: the next layer reads them.
	if out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("bucket_mb=64")); !strings.Contains(out.Why, "no gradient of a parameter") {
		t.Errorf("all-reduces outside of backward: %q", out.Why)
	}
	plantest.InBackward(t, w, "G1", "G2", "G3", "G4")
	at := spans(t, w, enginetest.Outcome(t, w, m, "multistream", nil))
	if at["AR1"][0].Start < at["G2"][0].End || shared(at["AR1"][0], at["G3"][0]) == 0 {
		t.Errorf("AR1 %v does not run alongside G3 %v", at["AR1"], at["G3"])
	}
	if at["opt"][0].Start < at["AR2"][0].End {
		t.Errorf("opt %v starts before AR2 %v has ended", at["opt"], at["AR2"])
	}
	// The captured first bucket holds more than one MiB, as with bucket_cap_mb set: buckets of 64 MiB are the captured ones,
	// large ones are one, and those of 32 MiB are one each. Where it ends there, G1 stays alone.
	alone := plantest.Step(t, 2, strings.NewReplacer("AR1=64 300 G1=32 G2=32", "AR1=32 150 G1=32", "AR2=64 300 G3=32", "AR2=96 450 G2=32 G3=32").Replace(gradients))
	plantest.InBackward(t, alone, "G1", "G2", "G3", "G4")
	for _, c := range []struct {
		w       *workload.Workload
		mb      string
		buckets int
	}{{w, "32", 4}, {w, "64", 2}, {w, "1000", 1}, {alone, "64", 3}, {alone, "1000", 2}} {
		out := enginetest.Outcome(t, c.w, m, "multistream", enginetest.Settings("bucket_mb="+c.mb))
		at := spans(t, c.w, out)
		if n := len(at["AR1"]) + len(at["AR2"]); n != c.buckets {
			t.Errorf("%d all-reduces with buckets of %s MiB: want %d", n, c.mb, c.buckets)
		}
		if captured := enginetest.Outcome(t, c.w, m, "multistream", nil); c.mb == "64" && c.buckets == 2 && out.Time != captured.Time {
			t.Errorf("buckets as captured take %d ns, without the setting %d", out.Time, captured.Time)
		}
	}
	// A bucket of an unknown content is refused.
	for i := range w.Flow {
		for k := range w.Flow[i] {
			w.Flow[i][k].Bytes = 0
		}
	}
	if out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("bucket_mb=64")); !strings.Contains(out.Why, "bucket holds is not known") {
		t.Errorf("unknown gradients: %q", out.Why)
	}
}

// However gradients are put into buckets, a captured rank waits as long for ranks that nobody captured.
func TestBucketsWaitAsLongForUnseenRanks(t *testing.T) {
	w, m := plantest.Step(t, 2, gradients), plantest.H200(t, 2)
	plantest.InBackward(t, w, "G1", "G2", "G3", "G4")
	w.Collectives[0].Late, w.Collectives[1].Late = 40_000, 60_000
	for _, mb := range []string{"32", "64", "96", "1000"} {
		out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("bucket_mb="+mb))
		if out.Result == nil {
			t.Fatal(out.Why)
		}
		waits := trace.Time(0)
		for idle := range out.Result.IdleOf(0) {
			if idle.Cause == program.Unseen {
				waits += idle.End - idle.Start
			}
		}
		if waits != 100_000 {
			t.Errorf("buckets of %s MiB: waits of %d ns for unseen ranks, want 100000", mb, waits)
		}
	}
}

// TestGradientsCopiedIntoBuckets: DDP copies each gradient into its bucket when it is made. The copy is the gradient,
// though what it copies is of unknown size and only the bucket reads it.
func TestGradientsCopiedIntoBuckets(t *testing.T) {
	w, m := plantest.Step(t, 2, `
7 G1  500
7 G2  500
7 copy1  10 G1=0
7 G3  500
7 copy2  10 G2=0
7 AR1=64 300 copy1=32 copy2=32
7 G4  500
7 opt 100 AR1`), plantest.H200(t, 2)
	plantest.InBackward(t, w, "G1", "copy1", "G2", "copy2", "G3", "G4")
	for i := range w.Ops {
		w.Ops[i].Gradient = strings.HasPrefix(w.Ops[i].Name, "copy")
	}
	out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("bucket_mb=32"))
	if out.Result == nil {
		t.Fatal(out.Why)
	}
	if at := spans(t, w, out); len(at["AR1"]) != 2 || at["AR1"][0].Start < at["copy1"][0].End || at["AR1"][0].Start >= at["G3"][0].End {
		t.Errorf("two buckets of a gradient each run at %v, behind copies at %v and %v", at["AR1"], at["copy1"], at["copy2"])
	}
}

// A bucket that was matched on each rank alone shares no bucket with one of all ranks: they are sums over
// other ranks.
func TestBucketsOfOtherRanksStayApart(t *testing.T) {
	w, m := plantest.Step(t, 2, gradients), plantest.H200(t, 2)
	plantest.InBackward(t, w, "G1", "G2", "G3", "G4")
	apart := w.Collectives[1]
	alone := apart.Members[1]
	w.Collectives[1].Members, apart.Members = apart.Members[:1:1], []int32{alone}
	w.Ops[alone].Collective = int32(len(w.Collectives))
	w.Collectives = append(w.Collectives, apart)
	out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("bucket_mb=1000"))
	if out.Result == nil {
		t.Fatal(out.Why)
	}
	at := spans(t, w, out) // on rank 0
	if n := len(at["AR1"]) + len(at["AR2"]); n != 2 {
		t.Errorf("%d all-reduces: want one over both ranks, and one of rank 0 alone", n)
	}
}

// Two micro-batches through one layer of experts:
//
//	captured   |d0|A2A0|e0|d1|A2A1|e1|
//	schedule   |d0|d1|e0|e1|
//	              |A2A0|A2A1|
const batches = `
7 D0   500
7 A2A0 400 D0
7 E0   500 A2A0
7 D1   500
7 A2A1 400 D1
7 E1   500 A2A1`

func TestChainsAlternate(t *testing.T) {
	w, m := plantest.Step(t, 2, batches), plantest.H200(t, 2)
	at := spans(t, w, enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("interleave=2")))
	if !(at["D0"][0].End <= at["D1"][0].Start && at["D1"][0].End <= at["E0"][0].Start && at["E0"][0].End <= at["E1"][0].Start) {
		t.Errorf("order D0 %v, D1 %v, E0 %v, E1 %v", at["D0"], at["D1"], at["E0"], at["E1"])
	}
	if shared(at["A2A0"][0], at["D1"][0]) < 300_000 {
		t.Errorf("A2A0 %v does not run alongside D1 %v", at["A2A0"], at["D1"])
	}
	if out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("interleave=3")); !strings.Contains(out.Why, "2 independent chains") {
		t.Errorf("three chains of two: %q", out.Why)
	}
	lost := w.Ranks[0]
	w.Ranks[0] = nil // its recording has no kernels
	if out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("interleave=2")); out.Result != nil {
		t.Errorf("chains of a rank with %d operations, of which none is known", len(lost))
	}
}

// Serial schedules with other settings keep compute away from collectives.
func TestSerialStep(t *testing.T) {
	w, m := plantest.Step(t, 2, gradients), plantest.H200(t, 2)
	plantest.InBackward(t, w, "G1", "G2", "G3", "G4")
	at := spans(t, w, enginetest.Outcome(t, w, m, "bulk", enginetest.Settings("bucket_mb=64")))
	for name, list := range at {
		for _, ar := range append(slices.Clone(at["AR1"]), at["AR2"]...) {
			for _, x := range list {
				if !strings.HasPrefix(name, "AR") && shared(x, ar) > 0 {
					t.Errorf("%s %v runs alongside an all-reduce %v", name, x, ar)
				}
			}
		}
	}
}

// A collective does not wait once more for a stream that its own has waited for.
func TestSerialWaitsOnce(t *testing.T) {
	behind := func(text string) trace.Time {
		w := plantest.Step(t, 2, text)
		at := spans(t, w, enginetest.Outcome(t, w, plantest.H200(t, 2), "bulk", nil))
		return at["AR1"][0].Start - at["G2"][0].End
	}
	alone, beside := behind("7 G1 50\n7 G2 50 G1\n7 AR1 40 G2\n7 G3 50 AR1"), behind("7 G1 50\n8 N 20 G1 waits G1\n7 G2 50 G1 N waits N\n7 AR1 40 G2\n7 G3 50 AR1")
	if alone != beside {
		t.Errorf("%d ns behind G2, %d where another stream computed before", alone, beside)
	}
}

// A collective that ran alongside compute when captured keeps its place and dependencies.
func TestCapturedOverlapStays(t *testing.T) {
	w := plantest.Step(t, 2, `
7 G1  500
9 AR1 400 G1 waits G1
7 G2  500 G1
7 opt 100 AR1 G2 waits AR1`)
	at := spans(t, w, enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", nil))
	if shared(at["AR1"][0], at["G2"][0]) == 0 || at["opt"][0].Start < at["AR1"][0].End {
		t.Errorf("AR1 %v, G2 %v, opt %v", at["AR1"], at["G2"], at["opt"])
	}
}

// FSDP1 casts what it gathers on the streams of its collectives: they are no streams of compute, and their gathers
// stay on them.
func TestStreamsOfCollectivesCast(t *testing.T) {
	w := plantest.Step(t, 2, `
9 cast1 20
9 AG1  200 cast1
7 F1   900 AG1 waits AG1
9 cast2 20
9 AG2  200 cast2
7 F2   900 AG2 F1 waits AG2
7 F3   900 F2`)
	out := enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", nil)
	for _, lane := range out.Result.Run.Lanes {
		if lane.Name == "collectives" {
			t.Errorf("an added lane: %+v", lane)
		}
	}
}

// A sum whose input no operation of the capture is known to make, or a gather that none is known to read, keeps its place.
func TestUnknownDataStay(t *testing.T) {
	for _, c := range []struct{ text, of string }{
		{"7 G1 500\n7 copy1 20\n7 AR1 400 copy1\n7 G2 500 AR1", "AR1"},
		{"7 G1 500\n7 copy1 20\n7 AG1 400 copy1\n7 G2 500", "AG1"},
	} {
		w := plantest.Step(t, 2, c.text)
		at := spans(t, w, enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", nil))
		if x := at[c.of][0]; x.Start < at["G1"][0].End || at["G2"][0].Start < x.End {
			t.Errorf("%s %v between G1 %v and G2 %v", c.of, x, at["G1"], at["G2"])
		}
	}
}

// Collectives of one communicator run one after another in the order of their launches, whatever their streams: the
// slower sum of fewer channels holds the gather behind it.
func TestCommunicatorsRunInOrder(t *testing.T) {
	w := plantest.Step(t, 2, `
7 G1    500
9 RS1   300 G1 waits G1
7 G2    900 G1
8 copy1 350 waits G1
8 AG1   300 copy1
7 G3    300 AG1 G2 waits AG1
7 opt   100 RS1 waits RS1`)
	at := spans(t, w, enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings("channels=4")))
	if at["AG1"][0].Start < at["RS1"][0].End || at["RS1"][0].End < at["copy1"][0].End {
		t.Errorf("AG1 %v, RS1 %v of the same communicator, copy1 %v", at["AG1"], at["RS1"], at["copy1"])
	}
}

// Copies that prepare a collective are the program's: they do not wait for the collective in front of it in its
// communicator, only the collective does.
func TestCopiesDoNotWaitForTheCommunicator(t *testing.T) {
	w := plantest.Step(t, 2, `
7 G1    500
7 RS1   300 G1
7 copy1 100 G1
7 AG1   300 copy1
7 G2    900 G1
7 G3    300 AG1 G2
7 opt   100 RS1`)
	at := spans(t, w, enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings("channels=4")))
	if at["copy1"][0].End > at["RS1"][0].End || at["AG1"][0].Start < at["RS1"][0].End {
		t.Errorf("copy1 %v in front of AG1 %v, behind RS1 %v of the same communicator", at["copy1"], at["AG1"], at["RS1"])
	}
}

// A schedule that changes nothing takes the captured time, whatever the model misses of the
// interference in the capture.
func TestRelativeToCaptured(t *testing.T) {
	w := plantest.Step(t, 2, `
7 G1  500
9 AR1 400 G1 waits G1
7 G2  900 G1
7 opt 100 AR1 G2 waits AR1`)
	out := enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", nil)
	took := float64(plan.MeasuredSteps(w).Time())
	if got := float64(out.Time) / took; got < 0.999 || got > 1.001 {
		t.Errorf("%d ns, captured %.0f", out.Time, took)
	}
	if half := enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings("channels=4")); half.Time <= out.Time {
		t.Errorf("4 channels: %d ns, 16: %d", half.Time, out.Time)
	}
}

// A block gathered in forward and again in backward, as fully_shard marks it, and the same
// with parameters kept gathered: each is made from the other.
func TestKeptAndGatheredAgain(t *testing.T) {
	const again = `
7 copy1   20
7 AG1  200 copy1
7 F1   900 AG1
7 copy2   20
7 AG2  200 copy2
7 B1   900 AG2 F1
7 opt  100 B1`
	const kept = `
7 copy1  20
7 AG1 200 copy1
7 F1  900 AG1
7 B1  900 AG1 F1
7 opt 100 B1`
	m := plantest.H200(t, 2)
	w := plantest.Step(t, 2, again)
	plantest.InBackward(t, w, "AG2", "B1")
	on := spans(t, w, enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("keep_gathered=on")))
	if len(on["AG1"]) != 1 || len(on["AG2"])+len(on["copy2"]) != 0 {
		t.Errorf("kept: AG1 %v, AG2 %v, copy2 %v", on["AG1"], on["AG2"], on["copy2"])
	}
	w = plantest.Step(t, 2, kept)
	plantest.InBackward(t, w, "B1")
	off := spans(t, w, enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("keep_gathered=off")))
	if len(off["AG1"]) != 2 || off["B1"][0].Start < off["AG1"][1].End {
		t.Errorf("gathered again: AG1 %v, B1 %v", off["AG1"], off["B1"])
	}
}

// Of two blocks in turn each is gathered again with the copy behind its own gather, whatever the first adds to the order.
func TestEachGatheredAgain(t *testing.T) {
	w := plantest.Step(t, 2, `
7 AG1  200
7 out1  20 AG1
7 F1   900 out1
7 B1   900 out1 F1
7 opt1 100 B1
7 AG2  200
7 out2  20 AG2
7 F2   900 out2
7 B2   900 out2 F2
7 opt2 100 B2`)
	plantest.InBackward(t, w, "B1", "B2")
	off := spans(t, w, enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings("keep_gathered=off")))
	for name, times := range map[string]int{"AG1": 2, "out1": 2, "F1": 1, "B1": 1, "opt1": 1, "AG2": 2, "out2": 2, "F2": 1, "B2": 1, "opt2": 1} {
		if len(off[name]) != times {
			t.Errorf("%s runs %d times, want %d", name, len(off[name]), times)
		}
	}
	if off["B2"][0].Start < off["out2"][1].End {
		t.Errorf("B2 %v does not wait for out2 %v", off["B2"], off["out2"])
	}
}

// A gather in backward of what a GEMM of the iteration made is no second gather of a parameter, and a sum that a GEMM of backward
// reads no gradient of one.
func TestGatheredActivations(t *testing.T) {
	m, w := plantest.H200(t, 2), plantest.Step(t, 2, `
7 AG1 200
7 F1  900 AG1
7 AG2 200 F1
7 B1  900 AG2
7 AR1 100 B1
7 B2  900 AR1
7 opt 100 B2`)
	plantest.InBackward(t, w, "AG2", "B1", "AR1", "B2")
	for _, exact := range []bool{false, true} {
		for id := range w.Flow {
			for k := range w.Flow[id] {
				if w.Flow[id][k].Evidence = workload.Annotated; exact {
					w.Flow[id][k].Evidence = workload.Exact
				}
			}
		}
		for setting, why := range map[string]string{
			"keep_gathered=on": "keep_gathered=on keeps nothing: backward uses no parameters that forward has gathered",
			"bucket_mb=50":     "what all-reduces sum is no gradient of a parameter: buckets hold those",
		} {
			if !exact {
				why = "" // what only ranges show may be wrong
			}
			if out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings(setting)); out.Why != why {
				t.Errorf("%s, recorded: %v: %q, want %q", setting, exact, out.Why, why)
			}
		}
	}
}

// A copy out of a gather's buffer reads a table that the host copies in front of it: the two go with the gather, what follows
// starts as behind any kernel, not as late as behind the copy, and a gather that does not run draws no power.
func TestTablesGoWithGathers(t *testing.T) {
	const again = `
7 copy1    20
7 AG1     200 copy1
7 table1    5
7 out1    100 AG1 table1
7 F1      900 out1
7 copy2    20
7 AG2     200 copy2
7 table2    5
7 out2    100 AG2 table2
7 B1      900 out2 F1
7 opt     100 B1`
	m, w := plantest.H200(t, 2), plantest.Step(t, 2, again)
	plantest.InBackward(t, w, "AG2", "B1")
	for i := range w.Ops {
		if op := &w.Ops[i]; strings.HasPrefix(op.Name, "table") {
			op.Kind = trace.Copy
		} else if op.Name == "B1" || op.Name == "opt" {
			op.Start, op.End = op.Start+4_000, op.End+4_000 // late behind the copy
		}
	}
	out := enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("keep_gathered=on"))
	on := spans(t, w, out)
	if len(on["AG2"])+len(on["copy2"])+len(on["table2"])+len(on["out2"]) != 0 || len(on["table1"]) == 0 {
		t.Errorf("kept: AG2 %v, copy2 %v, table2 %v, out2 %v, table1 %v", on["AG2"], on["copy2"], on["table2"], on["out2"], on["table1"])
	}
	if gap := on["B1"][0].Start - on["F1"][0].End; gap > 2_000 {
		t.Errorf("backward starts %d ns behind forward", gap)
	}
	all := plan.ClockOf(w, &m, out.Scenario, plan.Changes{}).Demand(out.Scenario, out.Time)
	less := plan.ClockOf(w, &m, out.Scenario, out.Changed).Demand(out.Scenario, out.Time)
	if math.Abs(less.Link/all.Link-0.5) > 0.01 || less.Matrix != all.Matrix {
		t.Errorf("all gathers draw %.6f of %.6f s", less.Link, all.Link)
	}
}

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

// Buckets of the captured size are the captured ones, and bulk with them is bulk.
func TestBucketsAsCaptured(t *testing.T) {
	w, m := plantest.LiftSample(t, "ddp-step"), plantest.H200(t, 2)
	bulk, same := enginetest.Outcome(t, w, m, "bulk", nil), enginetest.Outcome(t, w, m, "bulk", enginetest.Settings("bucket_mb=25"))
	if off := compare.Abs(bulk.Time - same.Time); bulk.Result == nil || off*1000 > bulk.Time {
		t.Errorf("bulk takes %d ns, %d with buckets of 25 MiB as captured", bulk.Time, same.Time)
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

// serving makes the one step of a workload one of serving.
func serving(w *workload.Workload, batch workload.Batch, name string) *workload.Workload {
	w.Steps = []workload.Step{{Name: "step", Batch: batch}}
	for i := range w.Ops {
		op := &w.Ops[i]
		op.Step = 0
		if op.Collective < 0 {
			k := *op.Kernel
			k.Name, k.Shape, k.Dense = name+k.Name, workload.Shape{}, false
			op.Kernel = &k
		}
	}
	w.TimeSteps()
	return w
}

// A batch in two halves hides the collectives of one behind the other; where the GEMMs read weights
// for few rows, each half reads them all, and splitting loses. Each half runs until it needs a
// collective: E0 and E1 of one, then of the other. Guessed dependencies do not make batches.
func TestBatchInTwo(t *testing.T) {
	m := plantest.H200(t, 2)
	for _, c := range []struct {
		workload.Batch
		guessed, gains bool
	}{{workload.Batch{Phase: workload.Prefill, Tokens: 8192}, false, true}, {workload.Batch{Phase: workload.Decode, Tokens: 32}, false, false}, {workload.Batch{Tokens: 8192}, true, true}, {workload.Batch{Tokens: 32}, true, false}} {
		w := serving(plantest.Step(t, 2, layers), c.Batch, "nvjet_")
		for i := range w.Flow {
			for k := range w.Flow[i] {
				if e := &w.Flow[i][k]; c.guessed && w.Ops[e.Op].Collective < 0 && w.Ops[i].Collective < 0 {
					e.Kind, e.Evidence = workload.StreamOnly, workload.Guessed
				}
			}
		}
		whole, half := enginetest.Outcome(t, w, m, "captured", nil), enginetest.Outcome(t, w, m, "multistream", enginetest.Settings("interleave=2"))
		if whole.Result == nil || half.Result == nil {
			t.Fatalf("%v: captured %q, in two %q", c.Batch, whole.Why, half.Why)
		}
		change := float64(half.Time)/float64(whole.Time) - 1
		if c.gains != (change < -0.1) || !c.gains && change < 0.2 {
			t.Errorf("%v: %+.1f %% in two batches", c.Batch, 100*change)
		}
		var order []string
		run := half.Result.Run
		for _, s := range run.Spans {
			if s.Kind == trace.Compute && run.RankOf(s) == 0 {
				order = append(order, strings.TrimPrefix(run.NameOf(s), "nvjet_"))
			}
		}
		if got := strings.Join(order, " "); got != "D0 D0 E0 E1 E0 E1 F0 F0" {
			t.Errorf("%v: order %s", c.Batch, got)
		}
	}
}

// One token makes no two batches.
func TestOneToken(t *testing.T) {
	w := serving(plantest.Step(t, 2, layers), workload.Batch{Phase: workload.Decode, Tokens: 1}, "nvjet_")
	if out := enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", enginetest.Settings("interleave=2")); !strings.Contains(out.Why, "an iteration of 1 token has no 2 batches") {
		t.Errorf("%q", out.Why)
	}
}

// A larger batch and back is the captured one, for what is in proportion to it.
func TestBatched(t *testing.T) {
	m := plantest.H200(t, 2)
	w, err := compare.Isolate(serving(plantest.Step(t, 2, layers), workload.Batch{Phase: workload.Prefill, Tokens: 32}, "nvjet_"), m, nil)
	if err != nil {
		t.Fatal(err)
	}
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
		if last = out.Time; eighths == 8 && compare.Abs(last-enginetest.Outcome(t, w, m, "captured", nil).Time) > last/200 {
			t.Errorf("the captured batch takes %d ns", last)
		}
	}
}
