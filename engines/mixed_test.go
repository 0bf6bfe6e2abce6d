package engines_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A mixture-of-experts layer: the all-to-all before the first GEMM, the two
// GEMMs, and the all-to-all behind the second.
func TestComparePairs(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	sel := must.Have(engines.ParseSelection("bulk,ideal,decompose,fused,multistream"))(t)
	base := must.Have(engines.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{}))(t)
	choices, mixed, err := engines.Pairs(w, m, sel, plan.Scenario{}, base, replay.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(choices) != 3 || mixed.Result == nil {
		t.Fatalf("%d kinds of pairs, mixed: %q", len(choices), mixed.Why)
	}
	fastest := base.Time
	for k, c := range choices {
		if len(c.Rows) != 3 {
			t.Errorf("kind %d has %d pairs, not one an iteration", k+1, len(c.Rows))
		}
		for i, out := range c.Outcomes {
			if c.Best == i && (out.Strategy.Kind == plan.Bound || out.Strategy.Kind == plan.Exact || out.Strategy.Loop || out.Why != "" || out.Time >= base.Time) {
				t.Errorf("kind %d: %s was chosen at %d ns against %d", k+1, out.Strategy.Name, out.Time, base.Time)
			}
		}
		if c.Best >= 0 {
			fastest = min(fastest, c.Outcomes[c.Best].Time)
		}
	}
	// The fused GEMM is another kernel than the library's, alone and in the mix.
	if e := verdict.EvidenceOf(w, mixed); e.Poor+e.Unproven == 0 || !e.OtherKernels {
		t.Errorf("a mix with a fused kernel is trusted: %+v", e)
	}
	// Kinds two and three begin and end at different GEMMs, so they gain independently.
	if mixed.Time > fastest {
		t.Errorf("all best at once take %d ns, one of them alone %d", mixed.Time, fastest)
	}
}

// Keeping a strategy to all pairs changes nothing; to none leaves nothing to plan.
func TestOnPairs(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	for _, s := range enginetest.MustParse(t, "decompose,fused") {
		var all []int
		for i := range w.Pairs {
			all = append(all, i)
		}
		times := map[string]trace.Time{}
		for name, e := range map[string]plan.Strategy{"": s.Strategy, "all": engines.On(s.Strategy, all), "none": engines.On(s.Strategy, []int{})} {
			out := must.Have(engines.Run(w, m, plan.Selection{Strategy: e, Values: s.Values}, plan.Scenario{}, replay.Options{}))(t)
			times[name] = out.Time
			if name == "none" && out.Why == "" {
				t.Errorf("%s planned no pair and says nothing", s.Strategy.Name)
			}
		}
		if times["all"] != times[""] {
			t.Errorf("%s kept to all pairs takes %d ns, by itself %d", s.Strategy.Name, times["all"], times[""])
		}
	}
}

// Behind the pairs of another strategy, which may have no collective, a
// strategy plans its own and no others.
func TestPlansBesideOthers(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	for _, e := range engines.All() {
		if e.Kind == plan.Bound || e.Kind == plan.Exact || e.Loop || e.Kind == plan.Future {
			continue
		}
		pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
		pl.Take(func(p *workload.Pair) bool { return p.Direction == workload.ComputeThenCompute })
		v := must.Have(e.Values(nil))(t)
		others := len(pl.Pairs)
		e.Plan(pl, v)
		for i := range others {
			if slices.ContainsFunc(pl.Pairs[i].Dropped, func(ids []int32) bool { return len(ids) > 0 }) {
				t.Errorf("%s changed a pair that is not its own", e.Name)
			}
		}
	}
}

// What a strategy sets holds for the pairs that it is kept to: all others are
// launched by the host, and their collectives moved, as under bulk.
func TestSettingsOfOnePair(t *testing.T) {
	reduce := plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllReduce, Bytes: 64 << 20, Gemm: 304_000, Comm: 353_000, Channels: 24}
	gather := plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllGather, Bytes: 1 << 20, Gemm: 30_000, Comm: 25_000, Channels: 8, Reverse: true}
	for strategy, s := range map[string]plantest.Spec{
		"bulk:graph=on": reduce, "bulk:algorithm=tree": reduce, "bulk:protocol=ll": reduce, "onesided:impl=ll:blocks=16": gather, "onesided:impl=ll:blocks=16:graph=on": gather,
	} {
		w, m := s.Build(t), plantest.H200(t, s.Ranks)
		mine := map[int32]bool{}
		for _, id := range slices.Concat(w.Pairs[1].First, w.Pairs[1].Second) {
			mine[id] = true
		}
		planAll := func(s plan.Selection, rows ...int) (own, others []string) {
			p := must.Have(schedule.Planned(engines.On(s.Strategy, rows), w, m, s.Values, plan.Scenario{}))(t)
			for _, g := range p.Program.GPUs {
				for _, st := range g.Streams {
					hosts := 0
					for _, c := range st.Commands {
						if c.Op == program.Wait && c.Name == "host" {
							hosts++
						}
						if c.Kernel == nil {
							continue
						}
						about := fmt.Sprintf("%d: %d waits for the host, %d workgroups", c.Origin, hosts, c.Kernel.WGs)
						for _, ph := range c.Kernel.Phases(0, nil) {
							about += fmt.Sprint(", ", ph.Op, ph.Peer, ph.Time, ph.Bytes, ph.Read)
						}
						hosts = 0
						if mine[c.Origin] {
							own = append(own, about)
						} else {
							others = append(others, about)
						}
					}
				}
			}
			return own, others
		}
		bulkOwn, _ := planAll(enginetest.MustParse(t, "bulk")[0], 0, 1, 2)
		own, others := planAll(enginetest.MustParse(t, strategy)[0], 1)
		if slices.Equal(own, bulkOwn) {
			t.Errorf("%s: the pair is as under bulk", strategy)
		}
		_, captured := planAll(enginetest.MustParse(t, "bulk")[0], 1)
		if !slices.Equal(others, captured) {
			t.Errorf("%s kept to one pair changes others\ngot  %q\nwant %q", strategy, others, captured)
		}
	}
}

// Parts of a mix keep their settings to themselves.
func TestSettingsOfParts(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	sel := enginetest.MustParse(t, "bulk:graph=on,bulk")
	kinds := workload.Pairs(w)
	choices := []engines.PairChoice{
		{PairSummary: kinds[0], Outcomes: []engines.Outcome{taking(sel[0], 1, "")}},
		{PairSummary: kinds[2], Outcomes: []engines.Outcome{taking(sel[1], 2, "")}},
	}
	p := must.Have(schedule.Planned(engines.MixedOf(choices), w, m, plan.Values{}, plan.Scenario{}))(t)
	for k, want := range []bool{false, true} { // waits for the host
		of := map[int32]bool{}
		for _, row := range choices[k].Rows {
			for _, id := range slices.Concat(w.Pairs[row].First, w.Pairs[row].Second) {
				of[id] = true
			}
		}
		launches := 0
		for _, g := range p.Program.GPUs {
			for _, st := range g.Streams {
				host := false
				for _, c := range st.Commands {
					host = host || c.Op == program.Wait && c.Name == "host"
					if c.Kernel == nil && (c.Copy == nil || c.Copy.Attr.Dir == trace.Fill) { // fills go with what follows
						continue
					}
					if of[c.Origin] {
						launches++
						if host != want {
							t.Errorf("part %d: %s waits for the host: %v", k+1, c.Name, host)
						}
					}
					host = false
				}
			}
		}
		if launches == 0 {
			t.Errorf("part %d: nothing is launched", k+1)
		}
	}
}

// Where nothing is gained nothing is mixed.
func TestMixOfNothing(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	choices := []engines.PairChoice{{Outcomes: []engines.Outcome{taking(plan.Selection{}, 997, "")}}, {Outcomes: []engines.Outcome{taking(plan.Selection{}, 900, "does not")}}}
	for k := range choices {
		choices[k].Choose(1000, false)
	}
	if slices.ContainsFunc(choices, func(c engines.PairChoice) bool { return c.Best >= 0 }) {
		t.Fatal("a gain of 0.3 % or of a strategy that does not apply was chosen")
	}
	var na *plan.NotApplicable
	if _, err := schedule.Planned(engines.MixedOf(choices), w, m, plan.Values{}, plan.Scenario{}); !errors.As(err, &na) {
		t.Errorf("planned %v", err)
	}
}

// Of one kind of pair, strategies on all pairs are those on the kind, and the best of them is the mix: all times are the same.
func TestOneKindOfPair(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	sel := enginetest.MustParse(t, "fused,onesided,decompose")
	known := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t)
	choices, mixed, err := engines.Pairs(w, m, sel, plan.Scenario{}, taking(plan.Selection{}, trace.Infinity, ""), replay.Options{}, nil)
	if err != nil || len(choices) != 1 || mixed.Result == nil || mixed.Result.Run.Name != mixed.String() {
		t.Fatalf("%d kinds, mixed %q, error %v", len(choices), mixed.Why, err)
	}
	for i, out := range choices[0].Outcomes {
		if out.Expected != known[i].Expected {
			t.Errorf("%s on the kind takes %d ns, on all pairs %d", out, out.Expected, known[i].Expected)
		}
	}
	if best := choices[0].Outcomes[choices[0].Best]; mixed.Expected != best.Expected {
		t.Errorf("the mix takes %d ns, the best %d", mixed.Expected, best.Expected)
	}
}
