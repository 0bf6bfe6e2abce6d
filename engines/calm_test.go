package engines

import (
	"math"
	"os"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Two iterations; in the first one, rank 0 waits 200 us for rank 1. A column is 50 us.
//
//	rank 0  stream 7  |P1|F1----|Q1|P2|  |F2--|Q2|
//	        stream 9     |wwwwAR|        |AR|
//	rank 1  stream 7  |P1----|F1|Q1|P2|  |F2--|Q2|
//	        stream 9         |AR|        |AR|
func waiting(t *testing.T, waits bool) *workload.Workload {
	w := plantest.Step(t, 2, `
7 P1 100
9 AR1 300 P1 waits P1
7 F1 300
7 Q1 100
7 P2 100
9 AR2 100 P2 waits P2
7 F2 200 waits AR2
7 Q2 100`)
	w.Unprofiled = true
	w.Steps = make([]workload.Step, 2)
	for i := range w.Ops {
		op := &w.Ops[i]
		if waits && op.Rank == 1 {
			switch op.Name {
			case "P1":
				op.End = 300_000
			case "AR1", "F1":
				op.Start = 300_000
			}
		}
		op.Step = int32(op.Name[len(op.Name)-1] - '1')
		k := *op.Kernel
		k.Name = k.Name[:len(k.Name)-1]
		op.Kernel = &k
	}
	if waits {
		w.Collectives[0].Arrive = 300_000
	}
	w.TimeSteps()
	return w
}

// first is the kernel F of the first iteration of rank 0.
const first = 2

// What a wait did to a kernel goes with the wait: F takes 200 us alone, as it did in the other iteration;
// two thirds of what ran alongside waited, so that two thirds of what slowed it go.
func TestWaitsGoWithWhatTheyDid(t *testing.T) {
	m := plantest.H200(t, 2)
	w := must.Have(Isolate(waiting(t, true), m, nil))(t)
	f := &w.Ops[first]
	if f.DurAlone() != 200_000 || w.Lasts(f) != 233_333 {
		t.Errorf("F takes %d ns alone and lasts %d, want 200000 and 233333", f.DurAlone(), w.Lasts(f))
	}
	lasts := func(unprofiled bool) (took trace.Time) {
		w.Unprofiled = unprofiled
		out := captured(t, w, m)
		for _, s := range out.Result.Run.Spans {
			if plan.OriginOf(out.Result.Run, s) == first {
				took = s.End - s.Start
			}
		}
		return took
	}
	if with, without := lasts(false), lasts(true); with != 300_000 || without != 233_333 {
		t.Errorf("F lasts %d ns with the profiler and %d without it, want 300000 and 233333", with, without)
	}
}

// Rank 1 computes longer, with the profiler and without: where the model slows F beside the waiting collective, a
// workgroup on each compute unit, what the wait did stays.
func TestWaitsThatStay(t *testing.T) {
	m := plantest.H200(t, 2)
	w := waiting(t, true)
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Name == "F" {
			k := *op.Kernel
			k.Tiling.WGs, k.Footprint.Threads, k.Footprint.Registers = int(m.GPU.CUs.Value), 1024, 64
			op.Kernel, op.Gap, op.Start, op.End = &k, 10_000, op.Start+10_000, op.End+10_000 // behind the collective
		}
	}
	w, err := Isolate(w, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := &w.Ops[first]; f.DurAlone() != 200_000 || w.Lasts(f) != 300_000 {
		t.Errorf("F takes %d ns alone and lasts %d, want 200000 and 300000", f.DurAlone(), w.Lasts(f))
	}
}

// Of what slowed a kernel it keeps as much as slows it again.
func TestSlowedAgain(t *testing.T) {
	op := workload.Op{Alone: 100}
	for _, c := range []struct {
		stretch float64
		runs    trace.Time // ns without the profiler
		want    float64
	}{{1.5, 100, 0}, {1.5, 125, 0.5}, {1.5, 150, 1}, {1.5, 200, 1}, {1, 100, 0}, {1, 120, 1}, {1.5, 0, 0}} {
		x := subject{op: &op, stretch: c.stretch}
		if got := slowedAgain(&x, plan.Interval{Start: 50, End: 50 + c.runs}); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("slowed %.1f times, and %d ns instead of 100: %.3f, want %.3f", c.stretch, c.runs, got, c.want)
		}
	}
}

// A message comes when its sender has computed it, with the profiler and without: what waiting for it did
// to F stays.
func TestWaitsForMessagesStay(t *testing.T) {
	w := waiting(t, true)
	for i := range w.Collectives {
		if c := &w.Collectives[i]; len(c.Members) == 2 {
			c.Op, c.Sender = trace.SendRecv, 1
		}
	}
	w, err := Isolate(w, plantest.H200(t, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Unprofiled = true
	if f := &w.Ops[first]; w.Lasts(f) != f.Dur() {
		t.Errorf("F lasts %d ns without the profiler, want %d", w.Lasts(f), f.Dur())
	}
}

// The sender of a message that buffers hold ends without its receiver, which begins 200 us later and
// takes what is there; both ranks of another message are there at a time.
func TestHeldMessages(t *testing.T) {
	stays := func(sender int8, simulated bool) (stays [2]trace.Time) {
		w := waiting(t, true)
		x := &w.Collectives[0]
		x.Op, x.Sender, x.Depart, x.Shortest = trace.SendRecv, sender, 150_000, 40_000
		w.Ops[x.Members[0]].End, w.Ops[x.Members[1]].End = 150_000, 340_000
		var out Outcome
		if m := plantest.H200(t, 2); simulated {
			var err error
			if out, err = Control(w, m, plan.Scenario{}, replay.Options{}); err != nil {
				t.Fatal(err)
			}
		} else {
			out = captured(t, w, m)
		}
		for _, s := range out.Result.Run.Spans {
			for i, id := range x.Members {
				if plan.OriginOf(out.Result.Run, s) == id {
					stays[i] = s.End - s.Start
				}
			}
		}
		return stays
	}
	if got, want := stays(1, false), [2]trace.Time{50_000, 40_000}; got != want {
		t.Errorf("replayed, members stay for %d ns, want %d", got, want)
	}
	held, meets := stays(1, true), stays(0, true)
	if later := meets[0] - held[0]; later/10 != 20_000 || held[1] > meets[1] {
		t.Errorf("simulated, members of a held message stay for %d ns, of one that is not for %d", held, meets)
	}
}

func captured(t *testing.T, w *workload.Workload, m machine.Machine) Outcome {
	t.Helper()
	v, _ := schedule.Captured.Values(nil)
	return must.Have(Run(w, m, plan.Selection{Strategy: schedule.Captured, Values: v}, plan.Scenario{}, replay.Options{}))(t)
}

// The second iteration computes for 400 us and moves bytes for 100 beside nothing; where 30 us of F are what a wait
// did, or 40 of the transfer a wait for ranks that nobody captured, these do not count.
func TestBusyTime(t *testing.T) {
	w := waiting(t, false)
	busy := func(want trace.Time) {
		t.Helper()
		if got := plan.BusyTime(w, 0); got != want {
			t.Errorf("busy for %d ns, want %d", got, want)
		}
	}
	busy(500_000)
	calm := func(step int32, calm float64) {
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Name == "F" && op.Step == step {
				op.Calm = calm
			}
		}
	}
	w.Steps[1].Batch.Phase = workload.Prefill // of several phases the mean counts, of 440 and 500 us
	calm(0, 0.8)
	busy(470_000)
	w.Steps[1].Batch.Phase = workload.NoPhase
	calm(0, 0)
	calm(1, 0.85)
	busy(470_000)
	w.Collectives[1].Late = 40_000
	busy(430_000)
	w.Steps = w.Steps[:1]
	for i := range w.Ops {
		w.Ops[i].Step = 0
	}
	busy(0)
}

// The iterations of this trace are busy for 56 ms and more without waits in collectives, and have pauses in between; without the profiler
// their streams overlap more than they did when captured, of which nothing in the file says that they may.
func TestCapturedTakesItsBusyTime(t *testing.T) {
	const path = "../../../shared/data/traces/field/hta_diff_control"
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	run := must.Have(format.Open(path, format.Options{}))(t)
	w := must.Have(lift.Workload(run, lift.Options{Unprofiled: true}))(t)
	m := must.Have(machine.Load("a100"))(t)
	m = m.Resize(8)
	if busy, out := plan.BusyTime(w, 0), captured(t, w, m); busy < 55_000_000 || out.Time < busy {
		t.Errorf("an iteration takes %d ns, busy for %d", out.Time, busy)
	}
}

// No estimate without the profiler is above the captured time, but one that contradicts the capture, which stays to be seen.
func TestCapturedTimeBounds(t *testing.T) {
	for _, c := range []struct {
		estimate, captured trace.Time
		want               bool
	}{{100, 120, false}, {100, 100, false}, {104, 100, false}, {106, 100, true}} {
		if got := plan.Contradicts(c.estimate, c.captured); got != c.want {
			t.Errorf("an estimate of %d against %d: %v", c.estimate, c.captured, got)
		}
	}
}

// Where no collective waited for a captured rank, nothing goes.
func TestWithoutWaitsKernelsLastAsCaptured(t *testing.T) {
	late := waiting(t, false)
	late.Collectives[0].Arrive, late.Collectives[0].Late = 300_000, 200_000 // for ranks that nobody captured
	for _, w := range []*workload.Workload{waiting(t, false), late} {
		w := must.Have(Isolate(w, plantest.H200(t, 2), nil))(t)
		if w.Isolation.Disturbed == 0 {
			t.Error("F is not disturbed")
		}
		for i := range w.Ops {
			if op := &w.Ops[i]; w.Lasts(op) != op.Dur() {
				t.Errorf("%s of rank %d lasts %d ns, captured %d", op.Name, op.Rank, w.Lasts(op), op.Dur())
			}
		}
	}
}

// A kernel never lasts less than alone, nor more than captured.
func TestCalmIsBetweenAloneAndCaptured(t *testing.T) {
	w := isolatedTrace(t, "measurements/2026-11-22-h200x2-steps/traces/h200x2_ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue")
	w.Unprofiled = true
	waited := 0
	for i := range w.Ops {
		op := &w.Ops[i]
		if lasts := w.Lasts(op); lasts < op.DurAlone() || lasts > op.Dur() {
			t.Errorf("%s lasts %d ns, alone %d, captured %d", op.Name, lasts, op.DurAlone(), op.Dur())
		} else if lasts < op.Dur() {
			waited++
		}
	}
	if waited == 0 {
		t.Error("no kernel ran alongside a wait")
	}
}
