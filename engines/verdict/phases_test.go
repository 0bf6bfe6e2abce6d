package verdict

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Prefill and decode have answers of their own from one simulation: what gains in one and loses in the other says so, nothing
// changed is 0.0 % in each, and no number is of both.
func TestPhasesApart(t *testing.T) {
	w, m := plantest.Served(t, 2), plantest.H200(t, 2)
	captured := enginetest.Outcome(t, w, m, "captured", nil)
	if len(captured.Phases) != 2 || captured.Of(1).Time != 2_800_000 || captured.Of(2).Time != 280_000 {
		t.Fatalf("phases %+v", captured.Phases)
	}
	var list []Prediction
	for _, s := range enginetest.MustParse(t, "bulk,multistream,multistream:interleave=2,decompose:chunks=1") {
		out := must.Have(engines.Run(w, m, s, plan.Scenario{}, replay.Options{}))(t)
		p := Predict(w, captured, out)
		if out.Result == nil {
			continue
		}
		if p.Change != 0 || p.Confidence != (Confidence{}) || len(p.Apart) != 2 {
			t.Errorf("%s: %+.3f of both, %d phases", s, p.Change, len(p.Apart))
		}
		for i, of := range p.Apart {
			if s.String() == "bulk" && math.Abs(of.Change) > 0.0005 {
				t.Errorf("%s changes nothing: %+.4f of phase %d", s, of.Change, i+1)
			}
		}
		if s.String() == "multistream interleave=2" && (p.Apart[0].Change > -0.1 || p.Apart[1].Change < 0.2) {
			t.Errorf("%s: %+.3f of prefill, %+.3f of decode", s, p.Apart[0].Change, p.Apart[1].Change)
		}
		list = append(list, p)
	}
	v := Judge(w, captured, list, nil)
	if v.Kind != byPhase || v.Strategy != "" || v.Change != 0 || len(v.Phases) != 2 {
		t.Fatalf("%s, %s, %+.3f, %d phases", v.Kind, v.Strategy, v.Change, len(v.Phases))
	}
	if p := v.Phases[0]; p.Phase != "prefill" || p.Kind != Winner || p.Strategy != "multistream" || p.Parameters["interleave"] != "2" || p.Change > -0.1 {
		t.Errorf("prefill: %s %s %+.3f", p.Kind, p.Parameters, p.Change)
	}
	if p := v.Phases[1]; p.Phase != "decode" || p.Kind == Winner {
		t.Errorf("decode: %s %s", p.Kind, p.Strategy)
	}
	said := strings.Join(v.Sentences, "\n")
	for _, want := range []string{"prefill steps: pass --enable-two-batch-overlap: ", "prefill steps: strategy: multistream interleave=2", "though decode steps take ", "decode steps: keep the captured schedule: "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if head := v.Headline(); !strings.HasPrefix(head, "prefill steps: ") || !strings.Contains(head, "; decode steps: ") {
		t.Errorf("headline %q", head)
	}
}

// A search climbs on each phase, of one simulation for each candidate.
func TestClimbOnPhases(t *testing.T) {
	w, m := plantest.Served(t, 2), plantest.H200(t, 2)
	captured := enginetest.Outcome(t, w, m, "captured", nil)
	candidates := must.Have(engines.ParseCandidates("multistream:channels=0:priority=off:bucket_mb=0:prefetch=0:buffers=0:sums=captured:scatter_group=captured"))(t)
	var simulated atomic.Int32
	ladders, err := Climb(w, m, captured, candidates, plan.Scenario{}, replay.Options{}, nil, func() { simulated.Add(1) })
	if err != nil || len(ladders) != 2 {
		t.Fatal(len(ladders), err)
	}
	if n := len(candidates[0]); int(simulated.Load()) != n {
		t.Errorf("%d simulations of %d candidates", simulated.Load(), n)
	}
	if r := ladders[0].Rungs; len(r) != 1 || r[0].Selection.String() != "multistream interleave=2" {
		t.Errorf("prefill: %d rungs", len(r))
	}
	if r := ladders[1].Rungs; len(r) != 0 {
		t.Errorf("decode: %s", r[0].Selection)
	}
	if v := Judge(w, ladders[1].Captured, ladders[1].Last, nil, ladders[1].Others()...); v.Phase != "decode" || v.Kind == Winner {
		t.Errorf("%s: %s %s", v.Phase, v.Kind, v.Strategy)
	}
}

// Steps of the same work that vary have one answer.
func TestOneClassOfSteps(t *testing.T) {
	m := plantest.H200(t, 2)
	for _, tenths := range []int{10, 13, 40} { // the last one of other kernels
		text := plantest.Layers(2, tenths)
		if tenths == 40 {
			text = strings.NewReplacer("D", "G", "E", "H", "F", "K").Replace(text)
		}
		w := plantest.Iterations(t, 2, plantest.Iteration{Text: plantest.Layers(1, 10)}, plantest.Iteration{Text: text}, plantest.Iteration{Text: plantest.Layers(3, 10)})
		captured := enginetest.Outcome(t, w, m, "captured", nil)
		if got, want := len(captured.Phases), map[bool]int{true: 2}[tenths == 40]; got != want {
			t.Errorf("%d tenths: %d phases apart, want %d", tenths, got, want)
		}
		if tenths == 40 && (captured.Phases[0].Steps.Phase != "short" || captured.Phases[1].Steps.Phase != "long" || captured.Of(2).Time != 11_200_000) {
			t.Errorf("%+v", captured.Phases)
		}
	}
}
