package verdict

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Each what-if is a replay of its own; repeating them on another number of cores changes
// nothing. The time of bulk follows what it consists of. A factor of 1 changes nothing.
func TestUnder(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, plantest.MoeDown.Ranks)
	outs, all := explained(t, plantest.MoeDown)
	changes := WhatIfs(&m)
	first := must.Have(Under(w, m, outs, changes, nil, nil))(t)
	again, err := Under(w, m, outs, changes, nil, nil)
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("two answers: %v, then %v (error %v)", first, again, err)
	}
	same := must.Have(Under(w, m, outs, []machine.WhatIf{{{Name: "links", By: 1}}}, nil, nil))(t)
	for i, out := range outs {
		if len(same[i]) != 1 || math.Abs(same[i][0].Change) > 1e-4 { // causes are recorded of every workgroup
			t.Errorf("%s: links=1 gives %v", out.Strategy.Name, same[i])
		}
		if len(first[i]) != len(changes) {
			t.Errorf("%s: %v, want one of each of %v", out.Strategy.Name, first[i], changes)
		}
		if out.Strategy.Name != "bulk" {
			continue
		}
		halves := map[string]string{"links=2": "communication", "clock=2": "computation"}
		for _, x := range first[i] {
			for _, p := range all[i].Parts {
				want := -float64(p.Time) / 2 / float64(out.Time)
				// Channels limit half of the collective, which faster compute units speed up too; at
				// fewer GEMMs a time the clock rises.
				if p.What == halves[x.Name] && (x.Change > 0.5*want || x.Change < 1.25*want) {
					t.Errorf("%s: %+.3f, want about %+.3f, half of the %s", x.Name, x.Change, want, p.What)
				}
			}
		}
	}
	_, err = Under(w, m, outs, changes, func() bool { return true }, nil)
	if !errors.Is(err, replay.ErrStopped) {
		t.Errorf("stopped: error %v", err)
	}
}

// A factor of 1 changes no strategy, also where the simulation differs from the captured
// schedule: here the links cannot carry the bytes in the captured time.
func TestUnchangedMachine(t *testing.T) {
	s := plantest.Spec{Ranks: 8, Steps: 2, Op: trace.AllGather, Bytes: 28 << 20, Gemm: 200_000, Comm: 5_000, Channels: 32}
	w, m := s.Build(t), plantest.H200(t, s.Ranks)
	sel := must.Have(engines.ParseSelection("captured,bulk,ideal"))(t)
	outs := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t)
	found := must.Have(Under(w, m, outs, []machine.WhatIf{{{Name: "links", By: 1}}}, nil, nil))(t)
	for i, out := range outs {
		if len(found[i]) != 1 || found[i][0].Change != 0 {
			t.Errorf("%s: links=1 gives %v", out.Strategy.Name, found[i])
		}
	}
}

// On faster hardware, nothing that runs without contention takes longer (rule Z7): captured
// and bulk run one kernel at a time, and ideal has no contention. Ends are rounded to
// nanoseconds, a few times for each of the operations. The captured collective takes at least
// the library's time: if it took less than the links need for the bytes of a ring, then a
// latency at which the library changes from a sum in the switch to a ring, which sends almost
// twice as many bytes (rule C26), would make the step slower.
func TestFasterIsNotSlower(t *testing.T) {
	sel := must.Have(engines.ParseSelection("captured,bulk,ideal"))(t)
	rapidtest.Check(t, func(rt *rapid.T) {
		s := plantest.Spec{
			Ranks: rapid.SampledFrom([]int{2, 4, 8}).Draw(rt, "ranks"), Steps: 2,
			Op:       rapid.SampledFrom([]trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll}).Draw(rt, "operation"),
			Bytes:    rapid.Int64Range(1<<10, 1<<28).Draw(rt, "bytes"),
			Gemm:     trace.Time(rapid.Int64Range(200_000, 400_000).Draw(rt, "GEMM")),
			Comm:     trace.Time(rapid.Int64Range(5_000, 900_000).Draw(rt, "collective")),
			Channels: rapid.SampledFrom([]int{4, 8, 16, 24, 32}).Draw(rt, "channels"),
			Reverse:  rapid.Bool().Draw(rt, "reverse"),
		}
		p := rapid.SampledFrom(machine.Properties).Draw(rt, "property")
		by := rapid.Float64Range(1, 8).Draw(rt, "factor")
		if p.Name == "latency" {
			by = rapid.Float64Range(0, 1).Draw(rt, "factor of latency")
		}
		m := plantest.H200(t, s.Ranks)
		s.Comm = max(s.Comm, trace.Time(m.Library.Time(s.Op, s.Bytes, s.Ranks, s.Channels)*1e9+0.5))
		w := s.Build(t)
		outs := must.Have(engines.Compare(w, m, sel, plan.Scenario{Clock: plan.FullClock}, replay.Options{}, nil))(rt)
		x := machine.WhatIf{{Name: p.Name, By: by}}
		found := must.Have(Under(w, m, outs, []machine.WhatIf{x}, nil, nil))(rt)
		for i, out := range outs {
			if out.Result == nil || len(found[i]) == 0 {
				continue
			}
			if slack := float64(8*s.Steps) / float64(out.Expected); found[i][0].Change > slack {
				rt.Fatalf("%s takes %d ns, with %s %d, %+.3g", out.Strategy.Name, out.Expected, x, found[i][0].Time, found[i][0].Change)
			}
		}
	})
}

// The captured schedule responds where its durations depend on the property, and only there.
func TestCapturedRespondsToWhatIf(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, plantest.MoeDown.Ranks)
	sel := must.Have(engines.ParseSelection("captured"))(t)
	outs := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t)
	for _, c := range []struct {
		factors     string
		least, most float64
	}{
		{"clock=0.9", .08, .1}, // of a GEMM of 304 µs and a collective of 153 µs, of which channels limit a third
		{"cus=0.5", .55, .75},
		{"links=2", -.17, -.08},
		{"nics=2", 0, 0},
		{"latency=0", -.03, -.008}, // two gaps of 1.3 of 2 µs, the library's start, an empty kernel
	} {
		x := must.Have(machine.ParseWhatIf(c.factors))(t)
		found := must.Have(Under(w, m, outs, []machine.WhatIf{x}, nil, nil))(t)
		if got := found[0][0].Change; got < c.least || got > c.most {
			t.Errorf("%s: %+.4f, want %+.3f to %+.3f", c.factors, got, c.least, c.most)
		}
	}
	if names := strings.Join(machine.PropertyNames(), " "); names != "links nics memory cus clock latency" {
		t.Errorf("properties %s: also in the README", names)
	}
}
