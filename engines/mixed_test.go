package engines

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

func liftSample(t testing.TB, name string) *workload.Workload {
	t.Helper()
	run, err := format.Open("../samples/"+name, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.Lift(run, workload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A mixture-of-experts layer: the all-to-all before the first product, the two
// products, and the all-to-all behind the second.
func TestComparePairs(t *testing.T) {
	w, m := liftSample(t, "moe-ep4"), h200(t, 4)
	sel, err := ParseSelection("bulk,ideal,decompose,fused,multistream")
	if err != nil {
		t.Fatal(err)
	}
	base, err := Run(w, m, Captured(), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	choices, mixed, err := ComparePairs(w, m, sel, base.Time, replay.Options{}, nil)
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
			if c.Best == i && (out.Engine.Bound || out.Engine.Loop || out.Why != "" || out.Time >= base.Time) {
				t.Errorf("kind %d: %s was chosen at %d ns against %d", k+1, out.Engine.Name, out.Time, base.Time)
			}
		}
		if c.Best >= 0 {
			fastest = min(fastest, c.Outcomes[c.Best].Time)
		}
	}
	// The fused product is another kernel than the library's, alone and in the mix.
	if c := ConfidenceOf(w, mixed); c.Level != Low {
		t.Errorf("a mix with a fused kernel is trusted: %s, %s", c.Level, c.Why)
	}
	// Kinds two and three begin and end at different products, so they gain independently.
	if mixed.Time > fastest {
		t.Errorf("all best at once take %d ns, one of them alone %d", mixed.Time, fastest)
	}
}

// Keeping a strategy to all pairs changes nothing; to none leaves nothing to plan.
func TestOnPairs(t *testing.T) {
	w, m := liftSample(t, "moe-ep4"), h200(t, 4)
	for _, s := range mustParse(t, "decompose,fused") {
		var all []int
		for i := range w.Pairs {
			all = append(all, i)
		}
		times := map[string]trace.Time{}
		for name, e := range map[string]Engine{"": s.Engine, "all": s.Engine.On(all), "none": s.Engine.On([]int{})} {
			out, err := Run(w, m, Selection{e, s.Values}, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			times[name] = out.Time
			if name == "none" && out.Why == "" {
				t.Errorf("%s planned no pair and says nothing", s.Engine.Name)
			}
		}
		if times["all"] != times[""] {
			t.Errorf("%s kept to all pairs takes %d ns, by itself %d", s.Engine.Name, times["all"], times[""])
		}
	}
}

// Behind the pairs of another strategy, which may have no collective, a
// strategy plans its own and no others.
func TestPlansBesideOthers(t *testing.T) {
	w, m := liftSample(t, "moe-ep4"), h200(t, 4)
	for _, e := range All() {
		if e.Bound || e.Loop || e.Future {
			continue
		}
		pl, err := newPlanner(w, m)
		if err != nil {
			t.Fatal(err)
		}
		pl.take(func(p *workload.Pair) bool { return p.Direction == workload.ComputeThenCompute })
		v, err := e.Values(nil)
		if err != nil {
			t.Fatal(err)
		}
		others := len(pl.pairs)
		var na *NotApplicable
		if _, err := e.plan(pl, v); err != nil && !errors.As(err, &na) {
			t.Errorf("%s: %v", e.Name, err)
		}
		for i := range others {
			if slices.ContainsFunc(pl.pairs[i].post, func(ids []int32) bool { return len(ids) > 0 }) {
				t.Errorf("%s changed a pair that is not its own", e.Name)
			}
		}
	}
}

// What a strategy sets holds for the pairs that it is kept to: all others are
// launched by the host, and their collectives moved, as under bulk.
func TestSettingsOfOnePair(t *testing.T) {
	reduce := spec{ranks: 4, steps: 3, op: trace.AllReduce, bytes: 64 << 20, gemm: 304_000, comm: 353_000, channels: 24}
	gather := spec{ranks: 4, steps: 3, op: trace.AllGather, bytes: 1 << 20, gemm: 30_000, comm: 25_000, channels: 8, reverse: true}
	for strategy, s := range map[string]spec{
		"bulk:graph=on": reduce, "bulk:algorithm=tree": reduce, "bulk:protocol=ll": reduce, "onesided:impl=ll": gather, "onesided:impl=ll:graph=on": gather,
	} {
		w, m := s.build(t), h200(t, s.ranks)
		mine := map[int32]bool{}
		for _, id := range slices.Concat(w.Pairs[1].First, w.Pairs[1].Second) {
			mine[id] = true
		}
		plan := func(s Selection, rows ...int) (own, others []string) {
			p, err := s.Engine.On(rows).Plan(w, m, s.Values)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range p.GPUs {
				for _, st := range g.Streams {
					hosts := 0
					for _, c := range st.Commands {
						if c.Op == replay.Wait && c.Name == "host" {
							hosts++
						}
						if c.Kernel == nil {
							continue
						}
						about := fmt.Sprintf("%d: %d waits for the host, %d workgroups", c.Origin, hosts, c.Kernel.WGs)
						for _, ph := range c.Kernel.Recipe(0, nil) {
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
		bulkOwn, _ := plan(mustParse(t, "bulk")[0], 0, 1, 2)
		own, others := plan(mustParse(t, strategy)[0], 1)
		if slices.Equal(own, bulkOwn) {
			t.Errorf("%s: the pair is as under bulk", strategy)
		}
		_, captured := plan(mustParse(t, "bulk")[0], 1)
		if !slices.Equal(others, captured) {
			t.Errorf("%s kept to one pair changes others\ngot  %q\nwant %q", strategy, others, captured)
		}
	}
}

// Parts of a mix keep their settings to themselves.
func TestSettingsOfParts(t *testing.T) {
	w, m := liftSample(t, "moe-ep4"), h200(t, 4)
	sel := mustParse(t, "bulk:graph=on,bulk")
	kinds := w.PairKinds()
	choices := []PairChoice{
		{PairSummary: kinds[0], Outcomes: []Outcome{{Selection: sel[0], Time: 1}}},
		{PairSummary: kinds[2], Outcomes: []Outcome{{Selection: sel[1], Time: 2}}},
	}
	p, err := mixedOf(choices).Plan(w, m, Values{})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range []bool{false, true} { // waits for the host
		of := map[int32]bool{}
		for _, row := range choices[k].Rows {
			for _, id := range slices.Concat(w.Pairs[row].First, w.Pairs[row].Second) {
				of[id] = true
			}
		}
		launches := 0
		for _, g := range p.GPUs {
			for _, st := range g.Streams {
				host := false
				for _, c := range st.Commands {
					host = host || c.Op == replay.Wait && c.Name == "host"
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
	w, m := liftSample(t, "moe-ep4"), h200(t, 4)
	choices := []PairChoice{{Outcomes: []Outcome{{Expected: 997}}}, {Outcomes: []Outcome{{Expected: 900, Why: "does not"}}}}
	for k := range choices {
		choices[k].choose(1000, false)
	}
	if slices.ContainsFunc(choices, func(c PairChoice) bool { return c.Best >= 0 }) {
		t.Fatal("a gain of 0.3 % or of a strategy that does not apply was chosen")
	}
	var na *NotApplicable
	if _, err := mixedOf(choices).Plan(w, m, Values{}); !errors.As(err, &na) {
		t.Errorf("planned %v", err)
	}
}

// What modelled kernels gain by themselves is no strategy's.
func TestGainIsBeyondBulk(t *testing.T) {
	sel := mustParse(t, "bulk,bulk:protocol=simple,decompose")
	for _, c := range []struct {
		times [3]trace.Time
		best  int
	}{{[3]trace.Time{997, 996, 993}, -1}, {[3]trace.Time{1003, 1003, 994}, 2}, {[3]trace.Time{997, 990, 993}, 1}} {
		var p PairChoice
		for i, s := range sel {
			p.Outcomes = append(p.Outcomes, Outcome{Selection: s, Expected: c.times[i]})
		}
		if p.choose(1000, false); p.Best != c.best {
			t.Errorf("times %v: chose %d, want %d", c.times, p.Best, c.best)
		}
	}
}

func mustParse(t *testing.T, s string) []Selection {
	t.Helper()
	sel, err := ParseSelection(s)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}
