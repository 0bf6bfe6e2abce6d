package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A change that is a gain only in the estimate without the profiler is not likely where the profiler added much to the
// step, and stays as likely as it was where it added nothing.
func TestGainsOnlyWithoutTheProfiler(t *testing.T) {
	if !longtest.Asked() {
		t.Skip("simulates a step of 11,000 operations")
	}
	for _, c := range []struct {
		path  string
		added bool
	}{
		{"../../samples/measurements/2026-11-28-h200x2-programs/traces/h200x2_ddp_hf_llama_bucket_mb25_overlapTrue", true}, // 93 ms with the profiler, measured 66
		{"../../samples/ddp-step", false},
	} {
		run := must.Have(format.Open(c.path, format.Options{}))(t)
		w := must.Have(lift.Workload(run, lift.Options{Unprofiled: true}))(t)
		m := plantest.H200(t, w.World)
		captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{Like: true}))(t)
		claimed := captured
		claimed.Selection = enginetest.MustParse(t, "multistream:priority=on")[0]
		claimed.Time = trace.Time(0.8 * float64(captured.Time))
		claimed.Expected, claimed.Best, claimed.Worst = claimed.Time, claimed.Time, claimed.Time
		p := Prediction{Outcome: claimed, Change: -0.2}
		p.Confidence = p.Evidence.Confidence(p.Change)
		p.besideProfiler(w, captured)
		if p.likely() == c.added {
			t.Errorf("%s: a gain of 20 %% has probability %.2f: %s", c.path, p.Confidence.Chance.PFaster, p.Evidence.Why)
		}
		said := profilerText(w, captured)
		if strings.Contains(said, "without the profiler, which holds up the host: that time is between") != c.added || strings.Contains(said, "profile_memory") {
			t.Errorf("%s: %q", c.path, said) // profile_memory was off
		}
		// The change is said first, but where the slowing decides its sign.
		better := captured
		better.Selection, better.Expected = claimed.Selection, claimed.Expected
		for _, decides := range []bool{false, true} {
			p := Prediction{Outcome: better, Change: -0.2}
			if p.Evidence.profiled = decides; decides {
				p.Evidence.Untested = 1
			}
			p.Confidence = p.Evidence.Confidence(p.Change)
			v := Judge(w, captured, []Prediction{p}, nil)
			if first := said != "" && v.Sentences[0] == said; first != (c.added && decides) || c.added && !slices.Contains(v.Sentences, said) {
				t.Errorf("%s, decides %v: %q", c.path, decides, v.Sentences)
			}
		}
	}
}

// profiledOverlap is overlapping of a trace with a step and host calls, predicted without the profiler.
func profiledOverlap(t *testing.T) (w *workload.Workload, captured, bulk engines.Outcome) {
	w, captured, bulk = overlapping(t)
	w.Unprofiled, w.Steps = true, []workload.Step{{Name: "step#0"}}
	for range w.Ranks {
		w.Hosts = append(w.Hosts, &workload.Host{Issues: []workload.Issue{{Calls: 1}}})
	}
	return w, captured, bulk
}

// A verdict that is withdrawn says that the profiler slowed the step, too, before it says why there is none.
func TestProfilerOfWithdrawn(t *testing.T) {
	w, captured, bulk := profiledOverlap(t)
	captured.Expected /= 2
	said := profilerText(w, captured)
	if !strings.HasPrefix(said, "the captured step took ") {
		t.Fatalf("%q", said)
	}
	list := []Prediction{Predict(w, captured, bulk)}
	if v := Judge(w, captured, list, nil); v.Kind == Withdrawn || v.Sentences[0] == said || !slices.Contains(v.Sentences, said) {
		t.Errorf("the change does not come first: %s %q", v.Kind, v.Sentences)
	}
	untimed := w.Copy()
	for _, c := range untimed.Collectives {
		for _, id := range c.Members {
			untimed.Ops[id].End = untimed.Ops[id].Start
		}
	}
	parts := *captured.Times
	parts.Idle = -1
	negative := captured
	negative.Times = &parts
	for name, v := range map[string]Verdict{"no time": Judge(untimed, captured, list, nil), "negative part": Judge(w, negative, list, nil)} {
		reason := slices.IndexFunc(v.Sentences, func(s string) bool { return strings.HasPrefix(s, "no verdict") })
		if at := slices.Index(v.Sentences, said); v.Kind != Withdrawn || at < 0 || at > reason {
			t.Errorf("%s: %s %q", name, v.Kind, v.Sentences)
		}
	}
}

// A graph that gains only because of a host that the profiler may have slowed is not likely to gain: hosts of one program may
// all be as fast as the fastest. Where every host is slow, it is.
func TestGainsOnlyOnSlowHosts(t *testing.T) {
	for _, c := range []struct {
		works  [2]trace.Time // us, of an issue of either rank
		likely bool
	}{
		{[2]trace.Time{20, 400}, false},
		{[2]trace.Time{400, 400}, true},
	} {
		w := plantest.Step(t, 2, "7 a 100\n7 b 100\n7 c 100\n7 d 100\n7 e 100\n7 f 100")
		w.Unprofiled, w.Steps, w.Hosts = true, make([]workload.Step, 2), nil
		for rank, ids := range w.Ranks {
			h := &workload.Host{}
			for i, id := range ids {
				op := &w.Ops[id]
				k := *op.Kernel
				k.Name = w.Ops[ids[i%3]].Name
				op.Step, op.Kernel = int32(i/3), &k
				op.Start = 1000 * trace.Time(i) * max(100, c.works[rank])
				op.Issued, op.End, op.Gap = max(0, op.Start-1000), op.Start+100_000, 1000*max(0, c.works[rank]-100)
				h.Order, h.Issues = append(h.Order, int32(i)), append(h.Issues, workload.Issue{Work: 1000 * c.works[rank], Calls: 1})
			}
			w.Hosts = append(w.Hosts, h)
		}
		m := plantest.H200(t, 2)
		captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{Like: true}))(t)
		graph := enginetest.Outcome(t, w, m, "captured", map[string]string{"graph": "on"})
		captured.Expected = measuredStep(w, captured) / 2 // the profiler added as much
		p := Prediction{Outcome: graph, Change: -0.5}
		p.Confidence = p.Evidence.Confidence(p.Change)
		was := p.Confidence.Chance
		p.besideProfiler(w, captured)
		if p.likely() != c.likely || p.Confidence.Chance.PFaster > was.PFaster || p.Evidence.profiled == c.likely {
			t.Errorf("hosts of %d us an issue: %+v, was %+v: %s", c.works, p.Confidence.Chance, was, p.Evidence.Why)
		}
	}
}

// No run without a profiler takes longer than the one with it: an estimate that says so is wrong, and no gain against it is likely.
func TestEstimatesAboveTheCapture(t *testing.T) {
	w, captured, bulk := profiledOverlap(t)
	for _, c := range []struct {
		share float64 // of the captured time
		wrong bool
	}{{1.04, false}, {1.3, true}} {
		over := captured
		over.Expected = trace.Time(c.share * float64(measuredStep(w, captured)))
		p := Prediction{Outcome: bulk, Change: -0.4}
		p.Confidence = p.Evidence.Confidence(p.Change)
		if p.besideProfiler(w, over); p.likely() == c.wrong || strings.Contains(profilerText(w, over), "which it cannot be") != c.wrong {
			t.Errorf("an estimate of %.2f of the captured time: %+v, %q", c.share, p.Confidence, profilerText(w, over))
		}
	}
}
