package tiles_test

import (
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A pipeline is for pairs of one strategy: with another one for the combine, the
// dispatch is cut by itself.
func TestPipelineHasOneStrategy(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	only := map[int]bool{}
	for i, p := range w.Pairs {
		only[i] = p.Direction == workload.CollectiveThenCompute
	}
	pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
	pl.Only = only
	v := must.Have(enginetest.EngineNamed(t, "decompose").Values(nil))(t)
	if _, why := tiles.Decompose.Plan(pl, v); why != "" {
		t.Fatal(why)
	}
	for i := range pl.Pairs {
		if len(pl.Pairs[i].Continued) > 0 {
			t.Errorf("pair %d continues in a pair that was not selected", i)
		}
	}
	if len(pl.Pairs) == 0 {
		t.Error("no pairs were taken")
	}
}

// A GEMM of 1024 tiles on 132 CUs takes 8 waves; groups are whole waves, the
// last one what is left.
func TestGroupsOfWaves(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
	for _, c := range []struct{ chunks, n, first, last int }{
		{4, 4, 264, 1024 - 3*264},
		{8, 8, 132, 100},
		{9, 8, 132, 100}, // more groups than waves
		{3, 3, 396, 232},
		{1, 1, 1024, 1024},
	} {
		g := tiles.GroupsOf(pl, &w.Ops[0], c.chunks)
		if g.N() != c.n || g.TilesIn(0) != c.first || g.TilesIn(g.N()-1) != c.last {
			t.Errorf("%d chunks: %d groups of %d to %d tiles, want %d of %d to %d",
				c.chunks, g.N(), g.TilesIn(0), g.TilesIn(g.N()-1), c.n, c.first, c.last)
		}
	}
}

// No grouping beats both of FlashOverlap's bounds: the whole GEMM and its
// last group's communication, or the first group and all communication.
func TestWavesRespectBounds(t *testing.T) {
	s := plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 1_220_000, Comm: 640_000, Channels: 24}
	w, m := s.Build(t), plantest.H200(t, s.Ranks)
	wave := s.Gemm / 8
	var times []trace.Time
	for _, chunks := range []int{8, 4, 2, 1} {
		got := enginetest.Outcome(t, w, m, "decompose", map[string]string{"variant": "waves", "chunks": strconv.Itoa(chunks)})
		pl, _ := plan.NewPlanner(w, m, plan.Scenario{})
		g := tiles.GroupsOf(pl, &w.Ops[0], chunks)
		alone := func(i int) trace.Time {
			return pl.PieceOf(plan.Piece{Coll: &w.Collectives[0], Of: g.WGs, Shares: g.TilesIn(i)}, 0, nil).DurAlone
		}
		tail := s.Gemm + alone(g.N()-1)
		head := trace.Time(8/chunks) * wave
		for i := range g.N() {
			head += alone(i)
		}
		if least := max(tail, head) * 99 / 100; got.Time < least {
			t.Errorf("%d groups take %d ns, less than their bound of %d", chunks, got.Time, least)
		}
		times = append(times, got.Time)
	}
	if times[3] <= times[1] {
		t.Errorf("one group of all waves takes %d ns, groups of two %d: nothing was overlapped", times[3], times[1])
	}
}

// The same collective in groups of one wave takes longer altogether than in
// groups of four: small messages do not fill the links.
func TestSmallGroupsAreSlow(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
	total := func(chunks int) (sum trace.Time) {
		g := tiles.GroupsOf(pl, &w.Ops[0], chunks)
		for i := range g.N() {
			sum += pl.PieceOf(plan.Piece{Coll: &w.Collectives[0], Of: g.WGs, Shares: g.TilesIn(i)}, 0, nil).DurAlone
		}
		return sum
	}
	if eight, two := total(8), total(2); eight <= two {
		t.Errorf("eight groups communicate for %d ns, two for %d", eight, two)
	}
}

// ringPasses and countsWaves say in one line what is missing.
func TestDecomposeRefusals(t *testing.T) {
	gather := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllGather, Bytes: 64 << 20, Gemm: 304_000, Comm: 150_000, Channels: 16, Reverse: true}
	uneven := func(w *workload.Workload) { w.Ops[len(w.Ops)-2].Tiling.Tiles++ }
	shapeless := func(w *workload.Workload) {
		for i := range w.Ops {
			w.Ops[i].Shape = workload.Shape{}
		}
	}
	for _, c := range []struct {
		spec    plantest.Spec
		variant string
		spoil   func(*workload.Workload)
		want    string
	}{
		{gather, "waves", nil, "variant=waves counts tiles of a GEMM before a collective, and the collectives here come first"},
		{plantest.MoeDown, "ring", nil, "variant=ring needs an all-gather before a GEMM or a reduce-scatter behind one, not all_to_all in a pair compute→collective"},
		{gather, "ring", shapeless, "variant=ring needs a GEMM, and the shape of gemm_256x128 is not known"},
	} {
		w := c.spec.Build(t)
		if c.spoil != nil {
			c.spoil(w)
		}
		if got := enginetest.Outcome(t, w, plantest.H200(t, 4), "decompose", map[string]string{"variant": c.variant}); got.Why != c.want {
			t.Errorf("%s: %q\nwant %q", c.variant, got.Why, c.want)
		}
	}
	w := plantest.MoeDown.Build(t)
	uneven(w)
	if pl, err := plan.NewPlanner(w, plantest.H200(t, 4), plan.Scenario{}); err != nil || tiles.CountsWaves(pl, &w.Pairs[len(w.Pairs)-1]) == "" {
		t.Error("ranks whose groups do not match are not refused")
	}
}
