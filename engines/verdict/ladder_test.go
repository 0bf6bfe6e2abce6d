package verdict

import (
	"sync/atomic"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// climbOne is the ladder of a workload whose phases are not answered apart.
func climbOne(w *workload.Workload, m machine.Machine, captured engines.Outcome, candidates [][]plan.Selection, sc plan.Scenario, o replay.Options, over func() bool, done func()) (Ladder, error) {
	l, err := Climb(w, m, captured, candidates, sc, o, over, done)
	if err != nil {
		return Ladder{}, err
	}
	return l[0], nil
}

// Experimental settings are tried where they are given, and are no rung.
func TestNoExperimentalRung(t *testing.T) {
	w, m := plantest.LiftSample(t, "fsdp-step"), plantest.H200(t, 2)
	captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{}))(t)
	const others = ":channels=0:priority=off:bucket_mb=0:interleave=0:buffers=0:sums=captured:scatter_group=captured"
	for set, rungs := range map[string]int{":keep_gathered=on": 1, ":keep_gathered=on:prefetch=1": 0} {
		candidates := must.Have(engines.ParseCandidates("multistream" + set + others))(t)
		l, err := climbOne(w, m, captured, candidates, plan.Scenario{}, replay.Options{}, nil, func() {})
		if err != nil || len(l.Rungs) != rungs || len(l.Tried) != 1 {
			t.Errorf("%s: %d rungs, %d tried, %v", set, len(l.Rungs), len(l.Tried), err)
		}
	}
}

// Each rung of a ladder differs from the one before in a single parameter, is likely to gain, and
// has the time that it has alone; where it ends no single change is likely.
func TestClimb(t *testing.T) {
	w, m := plantest.LiftSample(t, "llama70b-fc2-allreduce"), plantest.H200(t, 4)
	captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{}))(t)
	candidates := must.Have(engines.ParseCandidates("bulk,decompose:variant=chunks,multistream"))(t)
	l, err := climbOne(w, m, captured, candidates, plan.Scenario{}, replay.Options{}, nil, func() {})
	if err != nil || len(l.Rungs) == 0 {
		t.Fatal(len(l.Rungs), err)
	}
	before := captured.Expected
	for i, r := range l.Rungs {
		if i > 0 && (r.Strategy.Name != l.Rungs[i-1].Strategy.Name || differ(r.Values, l.Rungs[i-1].Values) != 1) {
			t.Errorf("rung %d, %s, is not one change of %s", i, r.Selection, l.Rungs[i-1].Selection)
		}
		if r.StepChance.PFaster < Likely || float64(r.Expected) > float64(before)*(1+Faster) {
			t.Errorf("rung %d, %s: probability %.2f, %d ns after %d", i, r.Selection, r.StepChance.PFaster, r.Expected, before)
		}
		alone, err := engines.Run(w, m, r.Selection, plan.Scenario{}, replay.Options{})
		if err != nil || alone.Expected != r.Expected {
			t.Errorf("%s: %d ns, alone %d, %v", r.Selection, r.Expected, alone.Expected, err)
		}
		before = r.Expected
	}
	last := l.Rungs[len(l.Rungs)-1]
	if len(l.Last) != 1 || l.Last[0].Result == nil || l.Last[0].Expected != last.Expected {
		t.Errorf("%d outcomes to be judged", len(l.Last))
	}
	ran, planned := 0, 0
	for i := range candidates {
		ran, planned = ran+l.Strategies[i].Ran, planned+l.Strategies[i].Tried
	}
	if ran != len(l.Tried) || planned < ran || planned >= len(candidates[0])+len(candidates[1])+len(candidates[2]) {
		t.Errorf("%d planned, %d ran, %d listed", planned, ran, len(l.Tried))
	}
	for i, r := range l.Tried {
		if i > 0 && r.Expected < l.Tried[i-1].Expected {
			t.Errorf("%s is listed behind a slower one", r.Selection)
		}
		step := float64(r.Expected)/float64(last.Expected) - 1
		if r.Strategy.Name == last.Strategy.Name && differ(r.Values, last.Values) == 1 && r.Evidence.Confidence(step).Chance.PFaster >= Likely {
			t.Errorf("%s is a likely change of the last rung, %s", r.Selection, last.Selection)
		}
	}
}

// Without a likely change the fastest settings of each strategy are judged.
func TestClimbNowhere(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{}))(t)
	candidates := must.Have(engines.ParseCandidates("bulk,tilesync"))(t)
	l, err := climbOne(w, m, captured, candidates, plan.Scenario{}, replay.Options{}, nil, func() {})
	if err != nil || len(l.Rungs) != 0 || len(l.Last) != 1 || l.Last[0].Expected != l.Tried[0].Expected || l.Strategies[1].Ran != 0 || l.Strategies[1].Why == "" {
		t.Errorf("%d rungs, %d to be judged, %v %q, %v", len(l.Rungs), len(l.Last), l.Strategies, l.Tried, err)
	}
}

// A candidate that panics is in the tally with its error; the others are tried.
func TestClimbPastDefects(t *testing.T) {
	w, m := plantest.Vector.Build(t), plantest.H200(t, 4)
	captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{}))(t)
	candidates := must.Have(engines.ParseCandidates("bulk,multistream"))(t)
	for i := range candidates[1] {
		candidates[1][i].Strategy.Plan = func(*plan.Planner, plan.Values) (plan.Emitter, string) { panic("no such tile") }
	}
	l := must.Have(climbOne(w, m, captured, candidates, plan.Scenario{}, replay.Options{}, nil, func() {}))(t)
	if a, b := l.Strategies[0], l.Strategies[1]; a.Ran == 0 || a.Defect != nil || b.Ran > 0 || b.Defect == nil {
		t.Errorf("bulk %+v, multistream %+v", a, b)
	}
}

// A search that ends early has tried the defaults of all strategies before their other settings, judges the fastest so far as
// a whole search does, and counts what it would have tried next.
func TestClimbWithin(t *testing.T) {
	w, m := plantest.LiftSample(t, "llama70b-fc2-allreduce"), plantest.H200(t, 4)
	captured := enginetest.Ran(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{Like: true}))(t)
	candidates := must.Have(engines.ParseCandidates("bulk,decompose:variant=chunks,multistream"))(t)
	var ended atomic.Int32
	over := func(after int32) func() bool { return func() bool { return ended.Load() >= after } }
	climb := func(over func() bool) Ladder {
		ended.Store(0)
		l := must.Have(climbOne(w, m, captured, candidates, plan.Scenario{}, replay.Options{Like: true}, over, func() { ended.Add(1) }))(t)
		return l
	}
	none, some, all := climb(over(0)), climb(over(3)), climb(nil)
	if len(none.Tried) > 0 || len(none.Last) > 0 || none.NotTried <= len(candidates) {
		t.Errorf("without time: %d tried, %d left", len(none.Tried), none.NotTried)
	}
	for n := range len(all.Tried) {
		if most := climb(over(int32(n))); len(most.Tried) < len(all.Tried) && most.NotTried == 0 {
			t.Errorf("after %d of %d tried nothing is left", len(most.Tried), len(all.Tried))
		}
	}
	if len(some.Tried) != 3 || some.NotTried == 0 || all.NotTried > 0 {
		t.Fatalf("%d tried, %d left; of a whole search %d", len(some.Tried), some.NotTried, all.NotTried)
	}
	left := 0
	for i, s := range some.Strategies {
		if left += s.NotTried; s.Ran != 1 {
			t.Errorf("%s: %d settings before the defaults of all", s.Strategy, s.Ran)
		}
		if some.Tried[i].Strategy.String(some.Tried[i].Values) != "" {
			t.Errorf("%s before the defaults of all", some.Tried[i].Selection)
		}
	}
	if left != some.NotTried {
		t.Errorf("%d of strategies left, %d in all", left, some.NotTried)
	}
	if len(some.Rungs) != 1 || len(some.Last) != 1 || some.Last[0].Result == nil || some.Last[0].Expected != some.Tried[0].Expected {
		t.Fatalf("%d rungs, %d to be judged", len(some.Rungs), len(some.Last))
	}
	for _, r := range all.Tried {
		if best := some.Last[0]; r.String() == best.String() && (r.Expected != best.Expected || r.Confidence != best.Confidence) {
			t.Errorf("%s: %d ns, %v; in a whole search %d ns, %v", r.Selection, best.Expected, best.Confidence, r.Expected, r.Confidence)
		}
	}
}
