package plan

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// marked is a workload of one rank; ops are iterations in milliseconds: start and end of a kernel each.
func marked(ops ...[3]trace.Time) *workload.Workload {
	w := &workload.Workload{World: 1, Captured: 1, Rows: []int32{0}, Copies: []bool{false}, Ranks: make([][]int32, 1)}
	for i, op := range ops {
		for len(w.Steps) <= int(op[0]) {
			w.Steps = append(w.Steps, workload.Step{})
		}
		w.Ops = append(w.Ops, workload.Op{
			Kernel: &workload.Kernel{Name: "k"}, ID: int32(i), Collective: -1, Kind: trace.Compute, Step: int32(op[0]), Start: 1e6 * op[1], End: 1e6 * op[2],
		})
		w.Ranks[0] = append(w.Ranks[0], int32(i))
	}
	return w
}

func TestStepTime(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  [][3]trace.Time // iteration, start and end in ms
		want trace.Time      // ms
		out  int             // left out
	}{
		{"a first one that starts cold", [][3]trace.Time{{0, 0, 90}, {1, 90, 140}, {2, 140, 190}}, 50, 0},
		{"three unequal ones: the fastest is the one that nothing disturbed", [][3]trace.Time{{0, 0, 40}, {0, 110, 150}, {1, 150, 190}, {1, 210, 250}, {2, 250, 290}, {2, 430, 470}}, 100, 1},
		{"one of three disturbed", [][3]trace.Time{{0, 0, 100}, {1, 100, 150}, {1, 250, 300}, {2, 300, 405}}, 105, 1},
		{"two of three alike, the fastest another", [][3]trace.Time{{0, 0, 90}, {1, 90, 130}, {1, 190, 240}, {2, 240, 285}, {2, 350, 395}}, 150, 0},
		{"the second of two disturbed, from within", [][3]trace.Time{{0, 0, 60}, {0, 62, 110}, {1, 112, 170}, {1, 285, 333}}, 112, 1},
		{"a pause in front of each", [][3]trace.Time{{0, 0, 10}, {1, 60, 70}, {2, 120, 130}}, 60, 0},
		{"iterations of different work: the median", [][3]trace.Time{{0, 0, 10}, {1, 10, 30}, {1, 30, 50}, {2, 50, 90}}, 40, 0},
		{"a microsecond of overlap is none", [][3]trace.Time{{0, 0, 900}, {1, 899, 1400}, {2, 1400, 1900}}, 500, 0},
		{"an iteration that ends after the next one: they overlap", [][3]trace.Time{{0, 0, 100}, {0, 100, 900}, {1, 860, 880}}, 450, 0},
		{"a pipeline of iterations: the mean", [][3]trace.Time{{0, 0, 100}, {1, 60, 160}, {2, 120, 220}}, 73, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := marked(c.ops...)
			steps := MeasuredSteps(w)
			if got := steps.Time() / 1e6; got != c.want {
				t.Errorf("%d ms, want %d", got, c.want)
			}
			if _, _, out := steps.Disturbed(); out != c.out {
				t.Errorf("%d left out, want %d", out, c.out)
			}
			if is, n := steps.Typical(); n == 1 && is.Length() != steps.Time() {
				t.Errorf("the typical one takes %d ns of %d", is.Length(), steps.Time())
			}
		})
	}
}

// Where a part of what disturbed a captured iteration is simulated, that iteration stands for no other; one that was shorter than
// the others was not disturbed, and without another iteration it is what there is.
func TestDisturbedWhenCaptured(t *testing.T) {
	for _, c := range []struct {
		name                string
		captured, simulated [][3]trace.Time
		want                trace.Time // ms
	}{
		{"nothing disturbed", [][3]trace.Time{{0, 0, 100}, {1, 100, 200}, {2, 200, 304}}, [][3]trace.Time{{0, 0, 90}, {1, 90, 180}, {2, 180, 280}}, 90},
		{"the last of three", [][3]trace.Time{{0, 0, 100}, {1, 100, 200}, {2, 350, 450}}, [][3]trace.Time{{0, 0, 100}, {1, 110, 210}, {2, 215, 315}}, 110},
		{"a short one", [][3]trace.Time{{0, 0, 100}, {1, 180, 280}, {2, 460, 560}, {3, 580, 680}}, [][3]trace.Time{{0, 0, 100}, {1, 100, 200}, {2, 200, 300}, {3, 300, 400}}, 100},
		{"the second of two", [][3]trace.Time{{0, 0, 60}, {0, 62, 110}, {1, 112, 170}, {1, 285, 333}}, [][3]trace.Time{{0, 0, 60}, {0, 62, 110}, {1, 111, 170}, {1, 185, 233}}, 111},
	} {
		steps := MeasuredSteps(marked(c.simulated...))
		steps.late = MeasuredSteps(marked(c.captured...)).disturbed()
		if got := steps.Time() / 1e6; got != c.want {
			t.Errorf("%s: %d ms, want %d", c.name, got, c.want)
		}
	}
}

// A setting that ran on a GPU ran there with its strategy.
func TestElsewhere(t *testing.T) {
	s := Strategy{Name: "s", Params: []Param{CarrierParams[0]}}
	for _, c := range []struct{ carrier, gpu, want string }{
		{AsCaptured, "NVIDIA H200", ""},
		{AsCaptured, "AMD Instinct MI300X", "s"},
		{ByEngines, "AMD Instinct MI300X", ""},
		{ByEngines, "NVIDIA H100", "carrier=dma"},
	} {
		if got, _ := Elsewhere(Selection{Strategy: s, Values: Values{"carrier": c.carrier}}, c.gpu); got != c.want {
			t.Errorf("%s on %s: %q, want %q", c.carrier, c.gpu, got, c.want)
		}
	}
}

// What runs before a single iteration and behind it is not of it.
func TestSteady(t *testing.T) {
	one := marked([3]trace.Time{0, 0, 10}, [3]trace.Time{0, 40, 60}, [3]trace.Time{0, 90, 95})
	one.Ops[0].Step, one.Ops[2].Step = -1, -1
	if got, want := MeasuredSteps(one).Steady()[0], (Interval{Start: 40e6, End: 60e6}); got != want {
		t.Errorf("one iteration: %v, want %v", got, want)
	}
	two := marked([3]trace.Time{0, 0, 10}, [3]trace.Time{1, 20, 30})
	if got, want := MeasuredSteps(two).Steady()[0], (Interval{Start: 10e6, End: 30e6}); got != want {
		t.Errorf("two iterations: %v, want %v", got, want)
	}
}

func TestIterationsWithoutStepsHaveNoPhases(t *testing.T) {
	loop := Steps{ranks: 1, each: [][]Interval{{{Start: 0, End: 5}}, {{Start: 5, End: 10}}}}
	if phases := loop.Phases(); phases != nil {
		t.Errorf("phases %v", phases)
	}
}

// In a graph kernels follow each other sooner than collectives of the library follow them;
// a profile without these times has one for both.
func TestGraphLaunches(t *testing.T) {
	for name, want := range map[string][2]trace.Time{"h200": {420, 2400}, "mi300x": {1226, 1226}} {
		pl := &Planner{Machine: machinetest.Load(t, name)}
		kernel, collective := &workload.Op{Collective: -1}, &workload.Op{}
		if got := [2]trace.Time{pl.graphLaunch(kernel), pl.graphLaunch(collective)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Without a profiler that records each of them, kernels of a graph follow one another sooner, and graphs one another much sooner; no
// gap is below 0, and none behind a graph below that of a launch. Launches that are late, of other GPUs, or profiled, keep theirs
// (rule S2).
func TestGraphsWithoutRecords(t *testing.T) {
	h200, mi300x := machinetest.Load(t, "h200"), machinetest.Load(t, "mi300x")
	first, same := &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 10, End: 100}, &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 10}
	next, late := &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 50}, &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 101}
	earlier, other := &workload.Op{Launched: workload.Launched{Graph: true}, End: 20}, &workload.Op{Launched: workload.Launched{Graph: true}, Issued: 10, Start: 5760, After: []workload.Dep{{}}}
	for _, c := range []struct {
		what       string
		pl         Planner
		op, before *workload.Op
		gap, want  trace.Time
	}{
		{"in a graph", Planner{Machine: h200}, same, first, 420, 290},
		{"in a graph, at once", Planner{Machine: h200}, same, first, 60, 0},
		{"of the next graph", Planner{Machine: h200}, next, first, 5660, 1560},
		{"of the next graph, soon", Planner{Machine: h200}, next, first, 4450, 1264},
		{"of the next graph, at once", Planner{Machine: h200}, next, first, 900, 900},
		{"on another stream than what it reads", Planner{Machine: h200}, other, earlier, 5660, 5530},
		{"issued late", Planner{Machine: h200}, late, first, 5660, 5660},
		{"behind no graph", Planner{Machine: h200}, next, &workload.Op{End: 100}, 5660, 5660},
		{"of no graph", Planner{Machine: h200}, &workload.Op{}, first, 420, 420},
		{"first of all", Planner{Machine: h200}, next, nil, 420, 420},
		{"of AMD", Planner{Machine: mi300x}, same, first, 420, 420},
	} {
		c.pl.Workload = &workload.Workload{Unprofiled: true, Ops: []workload.Op{*first}}
		if got := c.pl.withoutRecords(c.op, c.before, c.gap); got != c.want {
			t.Errorf("%s: %d ns, want %d", c.what, got, c.want)
		}
		c.pl.Workload.Unprofiled = false
		if got := c.pl.withoutRecords(c.op, c.before, c.gap); got != c.gap {
			t.Errorf("%s, with the profiler: %d ns, want %d", c.what, got, c.gap)
		}
	}
}

// An operation that started later than its launch and what it reads allow waited for work before the capture; one that
// followed what it reads did not.
func TestWorkBeforeTheCapture(t *testing.T) {
	w := plantest.Step(t, 1, "7 G0 100\n9 G1 100 G0")
	w.Hosts = []*workload.Host{{Order: []int32{0, 1}, Latency: 10_000}}
	pl := &Planner{Workload: w}
	r := &Rank{Planner: pl, latency: 10_000}
	pl.ranks = []*Rank{r}
	first, second := &w.Ops[0], &w.Ops[1]
	first.Issued, second.Issued = 0, 1000
	second.After, second.Start = []workload.Dep{{Op: 0}}, first.End+5000
	if got := r.startAhead(second); got != 0 {
		t.Errorf("behind what it reads: %d ns", got)
	}
	second.Start = first.End + 20_000_000
	if got := r.startAhead(second); got != 20_000_000 {
		t.Errorf("20 ms behind what it reads: %d ns, want 20000000", got)
	}
}

// The gaps of 30 kernels and more while a collective waits, less those while none does, are the delay of its stream (rule
// S23). Of fewer nothing is concluded.
func TestDelaysOfFewGaps(t *testing.T) {
	for _, c := range []struct {
		kernels int
		known   bool
	}{{enoughGaps - 2, false}, {enoughGaps + 2, true}} {
		kernel := &workload.Kernel{Name: "k"}
		w := &workload.Workload{World: 1, Hosts: []*workload.Host{{Latency: 5_000}}, Ranks: make([][]int32, 1)}
		add := func(op workload.Op) {
			op.ID, op.Kernel = int32(len(w.Ops)), kernel
			w.Ops, w.Ranks[0] = append(w.Ops, op), append(w.Ranks[0], op.ID)
		}
		at := trace.Time(1_000_000)
		for _, gap := range []trace.Time{1_300, 2_400} {
			for range c.kernels {
				add(workload.Op{Queue: 7, Kind: trace.Compute, Collective: -1, Start: at + gap, End: at + gap + 10_000})
				at += gap + 10_000
			}
		}
		add(workload.Op{Queue: 20, Kind: trace.Collective, Issued: w.Ops[c.kernels].Start - 1, Start: at, End: at + 5_000})
		var m machine.Machine
		m.Launch.Gap.Value, m.Launch.Event.Value = 1.3e-6, 5.5e-6
		by, known := (&Planner{Workload: w, Machine: m}).Blocked(0).By[20]
		if known != c.known || known && by != 1_100 {
			t.Errorf("%d kernels beside a waiting collective: delay %d ns, known: %t", c.kernels, by, known)
		}
	}
}

// The host is late with a graph whose launch call still ran when the stream had become idle: with its first kernel, and with one that
// the call handed over later. Kernels that follow at once, or that had long been launched, wait for the device alone.
func TestHostsLateWithGraphs(t *testing.T) {
	for _, c := range []struct {
		what                     string
		before, start, call, end trace.Time // us: end of the kernel before; start; the launch call
		same, want               bool       // same: one call launched both
	}{
		{"launched long before", 100, 140, 10, 30, false, false},
		{"still launching", 100, 140, 60, 130, false, true},
		{"ends as the call does", 100, 140, 60, 100, false, false},
		{"at once", 100, 105, 60, 130, false, false},
		{"launched when idle", 100, 140, 101, 150, false, true},
		{"in the graph, launched", 100, 140, 10, 90, true, false},
		{"in the graph, still launching", 100, 140, 10, 130, true, true},
		{"in the graph, at once", 100, 101, 10, 130, true, false},
	} {
		const us = 1000
		w := &workload.Workload{Run: &trace.Run{}, Hosts: []*workload.Host{{}}, Ranks: [][]int32{{0, 1}}}
		w.Run.Kernels = []trace.Kernel{{Launch: 1}}
		w.Run.Spans = []trace.Span{{Kind: trace.Compute}, {Kind: trace.Launch, Start: c.call * us, End: c.end * us}}
		w.Ops = []workload.Op{{End: c.before * us, Launched: workload.Launched{Graph: true}}, {ID: 1, Start: c.start * us, Issued: c.call * us, Launched: workload.Launched{Graph: true}}}
		if c.same {
			w.Ops[0].Issued = w.Ops[1].Issued
		}
		var m machine.Machine
		m.Launch.Event.Value = 5.5e-6
		if got := (&Planner{Workload: w, Machine: m}).HostWasLate(&w.Ops[1], &w.Ops[0]); got != c.want {
			t.Errorf("%s: late: %t", c.what, got)
		}
		w.Hosts[0].Syncs = []workload.HostSync{{}}
		if (&Planner{Workload: w, Machine: m}).HostWasLate(&w.Ops[1], &w.Ops[0]) {
			t.Errorf("%s: late, though the host waits for the device", c.what)
		}
	}
}
