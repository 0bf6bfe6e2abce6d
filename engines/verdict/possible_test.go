package verdict

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A step in which an all-reduce runs beside compute, its captured outcome, and the same under bulk.
func overlapping(t *testing.T) (w *workload.Workload, captured, bulk engines.Outcome) {
	w = plantest.Step(t, 2, `
7 G1  500
9 AR1 400 G1 waits G1
7 G2  900 G1
7 opt 100 AR1 G2 waits AR1`)
	m := plantest.H200(t, 2)
	w, err := engines.Isolate(w, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	captured, err = engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	times := TimesOf(w, captured)
	captured.Times = &times
	return w, captured, enginetest.Outcome(t, w, m, "bulk", nil)
}

// What cannot be is no prediction: times that are not above zero, and a gain larger than what the schedule
// removes. What is possible but not known is never likely: a gain with more exposed communication, and one
// within the error of the captured schedule's own simulation.
func TestPossible(t *testing.T) {
	w, captured, bulk := overlapping(t)
	if p := Predict(w, captured, bulk); p.Result == nil || p.Change < 0.1 {
		t.Fatalf("bulk takes %+.1f %% (%s)", 100*p.Change, p.Why)
	}
	faster := bulk // by 5 %, though nothing hides its all-reduce
	faster.Expected = captured.Expected * 95 / 100
	faster.Time, faster.Best, faster.Worst = faster.Expected, faster.Expected, faster.Expected
	faster.Noise = 0
	noisy := faster
	noisy.Simulated, noisy.Noise = 0, 0.06
	never := faster
	never.Best = -1
	most := captured
	most.Selection = enginetest.MustParse(t, "multistream")[0]
	most.Times, most.Expected, most.Time = nil, captured.Expected/2, captured.Expected/2 // as exposed as captured
	for _, c := range []struct {
		name      string
		out       engines.Outcome
		withdrawn bool
		why       string
	}{
		{"more exposed", faster, false, "of communication more than the captured schedule"},
		{"within the noise", noisy, false, "noise floor"},
		{"below zero", never, true, "a time of -"},
		{"half of all", most, true, "can change"},
	} {
		p := Predict(w, captured, c.out)
		if why := p.Why + p.Confidence.Why; (p.Result == nil) != c.withdrawn || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, withdrawn %v", c.name, why, p.Result == nil)
		}
		if p.likely() {
			t.Errorf("%s is likely", c.name)
		}
	}
	for _, change := range []float64{-0.999, -0.5, 3} {
		if c := fitted.chance(change, Evidence{}); math.IsNaN(c.PFaster + c.Error) {
			t.Errorf("%v: %+v", change, c)
		}
	}
}

// A schedule that exposes more communication and removes no work gains at most the slowing that the capture shows
// beside communication: F takes 100 us in the median alone, once 80, and 110 beside an all-reduce.
func TestGainsByLessSlowing(t *testing.T) {
	for _, c := range []struct {
		beside string // us
		doubt  bool
	}{{"110", true}, {"121", false}, {"190", false}} { // 121: a bound of 21 us, which 25 exceed by less than the error
		w := plantest.Step(t, 2, `
7 F1  80
7 F2 100
7 F3 100
7 F4 100
9 AR1 300 F4 waits F4
7 F5 `+c.beside+`
7 opt 700 AR1 waits AR1`)
		for i := range w.Ops {
			k := *w.Ops[i].Kernel
			k.Name = strings.TrimRight(k.Name, "12345")
			w.Ops[i].Kernel = &k
		}
		captured := enginetest.Outcome(t, w, plantest.H200(t, 2), "captured", nil)
		times := TimesOf(w, captured)
		captured.Times = &times
		faster := enginetest.Outcome(t, w, plantest.H200(t, 2), "bulk", nil)
		faster.Expected = captured.Expected - 25_000
		faster.Time, faster.Best, faster.Worst, faster.Noise = faster.Expected, faster.Expected, faster.Expected, 0
		p := Predict(w, captured, faster)
		if got := strings.Contains(p.Why+p.Confidence.Why, "kernels alone show no slowdown"); got != c.doubt {
			t.Errorf("%s us beside an all-reduce: doubted %v, %q", c.beside, got, p.Why+p.Confidence.Why)
		}
	}
}

// A step of no time has no verdict, and nothing is relative to it.
func TestWithdrawn(t *testing.T) {
	w, captured, bulk := overlapping(t)
	captured.Expected = -34_000
	v := Judge(w, captured, []Prediction{Predict(w, captured, bulk)}, nil)
	if v.Kind != Withdrawn || v.Strategy != "" || !strings.Contains(v.Sentences[0], "the captured schedule takes -34.0 µs") {
		t.Errorf("%s %q: %q", v.Kind, v.Strategy, v.Sentences)
	}
}

// Collectives that take far longer than the machine's law are found out about first: nothing that replaces their
// kernels is likely, and what keeps them is judged as ever.
func TestSlowCollectives(t *testing.T) {
	m := plantest.H200(t, 2)
	for _, c := range []struct {
		took string // µs, of 64 MiB
		slow bool
	}{{"300", false}, {"30000", true}} {
		w := plantest.Step(t, 2, "7 G1 500\n7 AR1=64 "+c.took+" G1=64\n7 opt 100 AR1")
		for name, told := range map[string]bool{"onesided": c.slow, "bulk": false} {
			out := enginetest.Outcome(t, w, m, "captured", nil)
			out.Selection = enginetest.MustParse(t, name)[0]
			if e := EvidenceOf(w, out); strings.Contains(e.Why, "times as long as") != told {
				t.Errorf("%s µs, %s: %s", c.took, name, e.Why)
			}
		}
	}
}

// A verdict with a number that is none, in a sentence or in a field, is withdrawn and says so behind the damage.
func TestNumbersThatAreNone(t *testing.T) {
	w, _, _ := overlapping(t)
	for name, spoil := range map[string]func(v *Verdict){
		"nothing":            func(v *Verdict) {},
		"a sentence":         func(v *Verdict) { v.say("%.0f %% longer", math.Inf(1)) },
		"a change":           func(v *Verdict) { v.Change = math.NaN() },
		"a share":            func(v *Verdict) { v.HostWait = 1.2 },
		"a share below none": func(v *Verdict) { v.UnseenWait = -0.01 },
		"the late rank":      func(v *Verdict) { v.Late = &overlap.LateRank{Balanced: math.Inf(-1)} },
	} {
		v := Verdict{Kind: Winner, Strategy: "bulk"}
		v.say("predicted fastest: bulk, %.1f %% less", 10.0)
		spoil(&v)
		v.checkNumbers(w)
		withdrawn := v.Kind == Withdrawn && v.Strategy == "" && len(v.Sentences) == 1 && strings.HasPrefix(v.Sentences[0], "no verdict: a number")
		if withdrawn != (name != "nothing") {
			t.Errorf("%s: %s %s %q", name, v.Kind, v.Strategy, v.Sentences)
		}
	}
	a := assessment{}
	if a.addCaveat(noted, "%.1f %%", math.NaN()); a.caveats[0].weight != invalid || strings.Contains(a.caveats[0].why, "NaN") {
		t.Errorf("a caveat with a number that is none: %+v", a.caveats[0])
	}
}

// A change is doubted within the error of the captured schedule's own simulation and 1 % above it: a schedule that takes as
// much less as the captured one does when it is simulated gains nothing.
func TestChangesBesideNoise(t *testing.T) {
	for _, c := range []struct {
		noise, change float64
		doubts        int
	}{{0, -0.05, 0}, {0.003, -0.012, 0}, {0.02, -0.035, 0}, {0.02, -0.025, 1}, {0.06, -0.05, 1}, {0.208, -0.209, 1}, {0.208, -0.6, 0}} {
		if got := (Evidence{}).Beside(c.noise, c.change).Untested; got != c.doubts {
			t.Errorf("%.3f beside noise of %.3f has %d doubts, want %d", c.change, c.noise, got, c.doubts)
		}
	}
}
