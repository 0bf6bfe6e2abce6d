package verdict

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// launched gives every operation a launch, as captures have.
func launched(w *workload.Workload) {
	for i := range w.Ops {
		w.Ops[i].Issued = w.Ops[i].Start
	}
}

// The verdict on outcomes that are made by hand: each takes the captured schedule's time with
// a change.
func TestJudge(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{}))(t)
	launched(w)
	after := func(selection string, change float64) engines.Outcome {
		o := captured
		o.Selection = enginetest.MustParse(t, selection)[0]
		o.Time = trace.Time(float64(captured.Time) * (1 + change))
		o.Expected, o.Best, o.Worst = o.Time, o.Time, o.Time
		return o
	}
	mixed := func(change float64) engines.Outcome {
		o := after("onesided", change)
		o.Strategy = engines.MixedOf([]engines.PairChoice{{Outcomes: []engines.Outcome{after("multistream", change)}}})
		o.Values = plan.Values{}
		return o
	}
	refused := engines.Outcome{Selection: enginetest.MustParse(t, "fused")[0], Why: "no pairs"}
	unlike := *w
	unlike.Isolation = &workload.Isolation{Checked: 10, P90: 0.6}
	damaged, run := *w, *w.Run
	run.Ledger.Entries = append(slices.Clone(run.Ledger.Entries), trace.Entry{Action: trace.Repaired, Reason: "negative duration: set to 0", Kernels: 2})
	damaged.Run, damaged.Damage = &run, run.Damage()
	for _, c := range []struct {
		name     string
		w        *workload.Workload
		outcomes []engines.Outcome
		kind     Kind
		strategy string
		tie      []string
		says     string
	}{
		{"a likely winner", w, []engines.Outcome{after("bulk", 0.1), after("multistream", -0.2), after("decompose", 0.05)}, Winner, "multistream", nil, "issue collectives with async_op=True: 20.0 ± 2.8 % less, >99 % likely"},
		{"within the error", w, []engines.Outcome{after("multistream", -0.015), after("decompose", -0.02)}, NoClearWinner, "captured", []string{"decompose", "multistream"}, "chunks side by side or issue collectives with async_op=True, -2.0 to -1.5 %: not distinguishable from no change"},
		{"one within the error", w, []engines.Outcome{after("multistream", 0.2), after("decompose", -0.02)}, NoClearWinner, "captured", []string{"decompose"}, "chunks side by side, -2.0 %: not distinguishable from no change"},
		{"two likely ones alike", w, []engines.Outcome{after("multistream", -0.2), after("decompose", -0.21)}, Winner, "decompose", []string{"multistream"}, "not distinguishable from it: issue collectives with async_op=True (-20.0 %)"},
		{"a likely one behind an unlikely one", w, []engines.Outcome{after("multistream", -0.12), after("decompose:variant=ring", -0.13)}, Winner, "multistream", nil, "12.0 ± 2.9 % less, 99 % likely to gain 1 %; code\nstrategy: multistream; predicted faster, but passed over: chunks side by side (variant=ring), -13.0 % (not measured on hardware here"},
		{"all slower", w, []engines.Outcome{after("multistream", 0.2), after("decompose", 0.01)}, keepCaptured, "captured", nil, "keep the captured schedule: no strategy is predicted to take at least 1 % less; overlapse tune tries more settings"},
		{"one within the error behind a setting nobody measured", w, []engines.Outcome{after("multistream", -0.015), after("decompose:variant=waves", -0.5)}, NoClearWinner, "captured", []string{"multistream"}, "to gain 1 %); predicted faster, but passed over: chunks side by side (variant=waves), -50.0 % (not measured on hardware here)"},
		{"a kernel nobody measured", w, []engines.Outcome{after("decompose:variant=waves", -0.5)}, NoClearWinner, "captured", []string{"decompose variant=waves"}, "keep the captured schedule: no flag or line of code is predicted to take at least 1 % less; a kernel may (chunks side by side (variant=waves), -50.0 %: not measured on hardware here"},
		{"a setting nobody measured", w, []engines.Outcome{after("bulk:carrier=cu", -0.5)}, NoClearWinner, "captured", []string{"bulk carrier=cu"}, "keep the captured schedule: NCCL_CTA_POLICY=0 and turn the overlap off, -50.0 %, is not known well enough: not measured on hardware here"},
		{"the captured schedule in a graph", w, []engines.Outcome{after("captured:graph=on", -0.6), after("multistream", -0.005)}, Winner, "captured", nil, "capture the iteration in a CUDA graph: 60.0 ± 4.7 % less"},
		{"nothing applies", w, []engines.Outcome{after("bulk", 0.001), refused}, NothingToCompare, "captured", nil, "nothing to compare: fused does not apply to this trace (no pairs)"},
		{"bulk alone is likely", w, []engines.Outcome{after("bulk", -0.3), refused}, Winner, "bulk", nil, "turn the overlap off: 30.0 ± 2.6 % less"},
		{"bounds do not compete", w, []engines.Outcome{after("ideal", -0.5), after("trigger", -0.5), after("multistream", -0.2)}, Winner, "multistream", nil, "strategy: multistream"},
		{"an experimental setting does not compete", w, []engines.Outcome{after("multistream:prefetch=1", -0.3), after("multistream", -0.2)}, Winner, "multistream", nil, "multistream prefetch=1, -30.0 %, is experimental: no measurement has such a setting, so it is not recommended"},
		{"an experimental setting alone", w, []engines.Outcome{after("multistream:prefetch=1", -0.3)}, NothingToCompare, "captured", nil, "multistream prefetch=1, -30.0 %, is experimental"},
		{"a mix", w, []engines.Outcome{after("multistream", -0.1), mixed(-0.3)}, Winner, "mixed", nil, "strategy: mixed"},
		{"a damaged trace", &damaged, []engines.Outcome{after("multistream", -0.5)}, NoClearWinner, "captured", []string{"multistream"}, "nothing is called likely: 2 of 32 kernels and copies were repaired: negative duration"},
		{"the captured schedule cannot be simulated", &unlike, []engines.Outcome{after("multistream", -0.5)}, Winner, "multistream", nil, "strategy: multistream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(c.w, captured, predicted(c.w, captured, c.outcomes), nil)
			if v.Kind != c.kind || v.Strategy != c.strategy || !slices.Equal(v.Candidates, c.tie) {
				t.Errorf("%s: %s %q, want %s: %s %q", v.Kind, v.Strategy, v.Candidates, c.kind, c.strategy, c.tie)
			}
			if len(v.Sentences) == 0 || !strings.Contains(strings.Join(v.Sentences, "\n"), c.says) {
				t.Errorf("%q, want ...%s...", v.Sentences, c.says)
			}
			if (v.Kind == Winner) != (v.PFaster >= Likely) || (v.Kind == Winner) != (v.Advice != nil) {
				t.Errorf("%s with probability %.2f, advice %v", v.Kind, v.PFaster, v.Advice)
			}
			other := slices.Clone(c.outcomes)
			slices.Reverse(other)
			if again := Judge(c.w, captured, predicted(c.w, captured, other), nil); again.Strategy != v.Strategy || again.Kind != v.Kind {
				t.Errorf("in another order %s %s, else %s %s", again.Kind, again.Strategy, v.Kind, v.Strategy)
			}
		})
	}
}

// predicted compares outcomes with the captured schedule.
func predicted(w *workload.Workload, captured engines.Outcome, outcomes []engines.Outcome) (list []Prediction) {
	for _, o := range outcomes {
		list = append(list, Predict(w, captured, o))
	}
	return list
}

// Without overlap a step that waits for its host is no faster, whatever bulk is predicted.
func TestJudgeHostBound(t *testing.T) {
	s := plantest.Spec{Ranks: 2, Steps: 3, Op: trace.AllReduce, Bytes: 1 << 20, Gemm: 100_000, Comm: 50_000, Channels: 4}
	w, m := s.Build(t), plantest.H200(t, 2)
	captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{}))(t)
	launched(w)
	v := Verdict{HostBound: true}
	bulk := captured
	bulk.Selection = enginetest.MustParse(t, "bulk")[0]
	graph := captured
	graph.Selection = enginetest.MustParse(t, "bulk:graph=on")[0]
	if list := v.contenders(predicted(w, captured, []engines.Outcome{bulk, graph})); len(list) != 1 || list[0].Values["graph"] != "on" {
		t.Errorf("%d contenders", len(list))
	}
	// What a graph saves is told by the sentence on the host, and not again where it is not likely enough.
	graph.Expected, graph.Time = captured.Expected/2, captured.Expected/2
	unlikely := Predict(w, captured, graph)
	unlikely.Confidence.Chance.PFaster = 0.7
	v.Sentences = nil
	if v.judge(w, captured, []Prediction{unlikely}, ""); v.Kind != NoClearWinner || len(v.Candidates) != 1 || len(v.Sentences) != 0 {
		t.Errorf("%s %q, says %q", v.Kind, v.Candidates, v.Sentences)
	}
}

// A probability follows the size of the change, each kind of evidence moves it towards one half
// and none away, and the word follows from it.
func TestChance(t *testing.T) {
	for x := -0.5; x < 0.5; x += 0.003 {
		for _, kernels := range []bool{false, true} {
			own := Evidence{OtherKernels: kernels}
			p := fitted.chance(x, own)
			if next := fitted.chance(x+0.003, own); next.PFaster > p.PFaster {
				t.Errorf("%.3f: probability %.3f, a smaller gain %.3f", x, p.PFaster, next.PFaster)
			}
			for _, less := range []Evidence{
				{OtherKernels: kernels, Spread: 0.1},
				{OtherKernels: kernels, Poor: 1},
				{OtherKernels: kernels, Poor: 3},
				{OtherKernels: kernels, Untested: 1},
			} {
				q := fitted.chance(x, less)
				if math.Abs(q.PFaster-0.5) > math.Abs(p.PFaster-0.5)+1e-9 || (q.PFaster-0.5)*(p.PFaster-0.5) < -1e-9 || q.Error < p.Error {
					t.Errorf("%.3f: %+v, with less evidence %+v %+v", x, p, less, q)
				}
				if less.Untested > 0 && q.PFaster >= Likely {
					t.Errorf("%.3f: likely without a measurement", x)
				}
			}
		}
	}
	for p, want := range map[float64]level{0: High, 0.05: High, 0.06: medium, 0.2: medium, 0.3: low, 0.79: low, 0.8: medium, 0.94: medium, 0.95: High, 1: High} {
		if got := levelOf(p); got != want {
			t.Errorf("probability %v: %s, want %s", p, got, want)
		}
	}
	// Four of five measured changes lie within the error: of the t distribution, 1.638 scales.
	if e := fitted.chance(0, Evidence{OtherKernels: true}).Error; math.Abs(e/(1.638*math.Hypot(noise, fitted.Kernels))-1) > 0.01 {
		t.Errorf("error %v of scale %v", e, fitted.Kernels)
	}
}
