package score

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	embedded "github.com/overlapse/overlapse/samples"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestStatuses holds what is reproduced of each paper: by claim, its status and points.
func TestStatuses(t *testing.T) {
	for _, p := range must.Have(Papers())(t) {
		t.Run(p.Name, func(t *testing.T) {
			if long := p.Name == "fused" || p.Name == "others"; long && !longtest.Asked() {
				t.Skip("many replays")
			}
			p.statuses(t)
		})
	}
}

func (p *Paper) statuses(t *testing.T) {
	results := must.Have(Claims(embedded.Workloads(), p.Claims, nil, nil, nil, nil))(t)
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "%-18s %-16s", r.ID, r.Status)
		if k := TallyOf([]Claim{r}); k.Points > 0 {
			fmt.Fprintf(&b, " %2d of %2d within, %2d of %2d signs", k.Within, k.Points, k.SameSign, k.Signed)
		}
		b.WriteByte('\n')
		if r.Status != Reproduced && r.Why == "" {
			t.Errorf("%s is %s without a cause or a reason", r.ID, r.Status)
		}
		for _, p := range r.Points {
			if p.Why != "" {
				t.Errorf("%s: %s: was not replayed: %s", r.ID, p.Label, p.Why)
			}
		}
	}
	golden(t, "testdata/statuses/"+p.Name+".golden", b.String())
}

// TestClaimsAreComplete checks that every claim has an id of its own, a place in its paper, and
// either points or a status.
func TestClaimsAreComplete(t *testing.T) {
	papers := must.Have(Papers())(t)
	seen := map[string]bool{}
	for _, p := range papers {
		if p.Source == "" || len(p.Claims) == 0 {
			t.Errorf("%s: no source or no claims", p.Name)
		}
		for _, c := range p.Claims {
			if seen[c.ID] || c.Says == "" || c.Where == "" {
				t.Errorf("%s: twice, or without text or place", c.ID)
			}
			seen[c.ID] = true
			if (c.Status == "") != (len(c.Points) > 0) || c.Status != "" && c.Status != NotCheckable {
				t.Errorf("%s: status %q with %d points", c.ID, c.Status, len(c.Points))
			}
		}
	}
	for prefix, n := range map[string]int{"SC": 18, "CS": 14, "RA": 9, "T3": 32, "TD": 9} {
		for i := range n {
			if id := fmt.Sprintf("%s-%d", prefix, i+1); !seen[id] {
				t.Errorf("no claim %s", id)
			}
		}
	}
}

// A claim whose marks a replay does not leave is not reproduced: bulk puts no slices.
func TestMissingMark(t *testing.T) {
	papers := must.Have(Papers())(t)
	for _, strategy := range []string{"fused", "bulk"} {
		results := must.Have(Claims(embedded.Workloads(), []Claim{under(papers, "SC-15", strategy)}, nil, nil, nil, nil))(t)
		for _, p := range results[0].Points {
			if missing := strings.Contains(p.Why, "the replay has no such mark"); missing != (strategy == "bulk") || p.Here > 1 {
				t.Errorf("%s: %+v", strategy, p)
			}
		}
		if busiest := results[0].Points[1].Within; busiest != (strategy == "fused") {
			t.Errorf("%s: the two busiest workgroups have most of the puts: %v", strategy, busiest)
		}
	}
}

// A measure that a workload has nothing of is no number: neither a bandwidth without collectives nor waves without two GEMMs.
func TestMeasureOfNothing(t *testing.T) {
	point := func(workload, measure string) Point {
		return Point{As: count, Experiment: Experiment{Workload: workload, Strategy: "bulk", Measure: measure, With: map[string]any{"iterations": 1}}}
	}
	claims := must.Have(Claims(embedded.Workloads(), []Claim{{Points: []Point{
		point("cusync-gpt3-mlp.yaml", "bus"), point("all-reduce.yaml", "waves.first"), point("all-reduce.yaml", "bus"),
	}}}, nil, nil, nil, nil))(t)
	for i, p := range claims[0].Points {
		if want := i < 2; strings.Contains(p.Why, "nothing to read "+p.Measure+" off") != want || (p.Here == 0) != want {
			t.Errorf("%s of %s: %v, %q", p.Measure, p.Workload, p.Here, p.Why)
		}
	}
}

// Of several strategies the fastest counts, and one that was timed in a loop waits for no host.
func TestTunedAndLoop(t *testing.T) {
	on := Experiment{
		Workload: "t3-tnlg-fc2.yaml", Against: "bulk",
		With: map[string]any{"machine": "a800.yaml:2", "m": 1024, "n": 2048, "k": 1024},
	}
	gemms := Experiment{
		Workload: "cusync-gpt3-mlp.yaml", Strategy: "tilesync:policy=streamk", Against: "captured",
		With: map[string]any{"times": "800 400", "sync": "host", "iterations": 1},
	}
	point := func(e Experiment, strategy, loop string) Point {
		if strategy != "" {
			e.Strategy = strategy
		}
		e.Loop = loop
		return Point{As: speedup, Experiment: e}
	}
	results := must.Have(Claims(embedded.Workloads(), []Claim{{Points: []Point{
		point(on, "ideal", ""), point(on, "bulk|ideal", ""), point(on, "ideal|bulk", ""), point(gemms, "", ""), point(gemms, "", gemms.Strategy),
	}}}, nil, nil, nil, nil))(t)
	p := results[0].Points
	if p[0].Here < 1.01 || p[1].Here != p[0].Here || p[2].Here != p[0].Here {
		t.Errorf("ideal %v, the best of it and bulk %v and %v", p[0].Here, p[1].Here, p[2].Here)
	}
	if a, b := 1200/p[3].Here, 1200/p[4].Here; math.Abs(a-b-7.3) > 0.1 { // launch 6, wait 2.8 less a gap of 1.5 us
		t.Errorf("%.1f us with a wait of the host, %.1f in a loop", a, b)
	}
}

// under is a claim of the papers with its points under a strategy.
func under(papers []Paper, id, strategy string) Claim {
	for _, p := range papers {
		for _, c := range p.Claims {
			if c.ID != id {
				continue
			}
			c.Points = slices.Clone(c.Points)
			for i := range c.Points {
				more, less := *c.Points[i].More, *c.Points[i].Less
				more.Strategy, less.Strategy = strategy, strategy
				c.Points[i].More, c.Points[i].Less = &more, &less
			}
			return c
		}
	}
	return Claim{}
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		q               quantity
		published, here float64
		within, sign    bool
	}{
		{reduction, 0.1, 0.124, true, true},
		{reduction, 0.1, 0.126, false, true},
		{reduction, 0.4, 0.31, true, true},
		{reduction, 0.03, 0.011, true, true}, // 2 points
		{reduction, 0.03, -0.005, false, false},
		{reduction, 0.02, -0.01, false, true}, // too small an effect to have a sign
		{gain, 0.2, 0.31, false, true},
		{gain, -0.05, -0.031, true, true},
		{gain, -0.05, 0, false, false}, // nothing happens
		{speedup, 1.308, 1.38, true, true},
		{speedup, 1.308, 1.4, false, true}, // 7 % of the ratio, 30 % of the effect
		{speedup, 1.05, 0.99, false, false},
		{speedup, 0.94, 1, false, false},
		{share, 0.4, 0.49, true, true},
		{count, 1.2, 1.24, true, true},
		{count, 4, 3, false, true},
		{time, 100e-6, 124e-6, true, true},
		{order, 1, 0.021, true, true},
		{order, 1, 0.001, false, true},  // no difference to act on
		{order, 0.1, 0.04, false, true}, // less than half of what was published
		{order, 1, 0, false, true},
		{order, -1, 0.2, false, true},
		{bandwidth, 100e9, 114e9, true, true},
		{bandwidth, 100e9, 116e9, false, true},
	} {
		if within, sign := c.q.within(c.published, c.here), c.q.sameSign(c.published, c.here); within != c.within || sign != c.sign {
			t.Errorf("%s %v against %v: within %v, same sign %v", c.q, c.here, c.published, within, sign)
		}
	}
	ok, off, other := Point{Within: true, SameSign: true}, Point{SameSign: true}, Point{Within: true}
	rates := func(here ...float64) (points []Point) {
		for _, x := range here {
			points = append(points, Point{As: bandwidth, Published: 1, Here: x, Within: bandwidth.within(1, x), SameSign: true})
		}
		return points
	}
	apart := Point{Apart: "repeats another", Within: true, SameSign: true}
	for _, c := range []struct {
		points []Point
		want   Status
	}{
		{[]Point{ok, ok, ok, ok, off}, Reproduced},
		{[]Point{ok, ok, ok, off}, NotReproduced},
		{[]Point{ok, ok, ok, ok, ok, other}, NotReproduced},
		{[]Point{ok, {Why: "does not apply"}}, NotReproduced},
		{[]Point{ok, off, apart, apart, apart}, NotReproduced},
		{[]Point{apart}, NotScored},
		{rates(1.1, 1.1, 3), Reproduced}, // bandwidths: by their median
		{rates(1.1, 1.2, 1.2), NotReproduced},
	} {
		if got := judge(c.points); got != c.want {
			t.Errorf("%+v: %s, want %s", c.points, got, c.want)
		}
	}
}

// TestKeys checks which key of a workload file a short name stands for.
func TestKeys(t *testing.T) {
	got := fmt.Sprint(keys(map[string]any{"m": 512, "machine": "t3x8"}, map[string]any{"m": 256, "kernel.tile": "64x64", "channels": 64}))
	if want := "map[kernel.tile:64x64 machine:t3x8 shape.channels:64 shape.m:256]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSummaries checks the summaries of several experiments.
func TestSummaries(t *testing.T) {
	for of, want := range map[string]float64{"": 3.5, "mean": 3.5, "geomean": math.Sqrt(6), "max": 6, "min": 1} {
		if got := summary([]float64{1, 6}, of); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", of, got, want)
		}
	}
}

// TestScore checks what models without knowledge reach: of effects of 1, 8, 10 and -6 %, their median, 8 %,
// is within a quarter of two.
func TestScore(t *testing.T) {
	point := func(published, here float64) Point {
		return Point{As: gain, Published: published, Here: here, Within: gain.within(published, here), SameSign: gain.sameSign(published, here)}
	}
	apart := point(0.5, 0.5)
	apart.Apart = "an identity"
	got := TallyOf([]Claim{{Points: []Point{point(0.01, 0), point(0.08, 0.05), point(0.1, 0.11), point(-0.06, 0.02), apart}}})
	got.Error, got.NothingError, got.ConstantError = 0, 0, 0
	want := Tally{Points: 4, Within: 2, Effects: 4, Signed: 3, EffectsWithin: 2, NothingWithin: 1, SignedWithin: 1, ConstantWithin: 2, SameSign: 2, Gains: 2}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
