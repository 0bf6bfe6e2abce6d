package engines

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A product of 1024 tiles on 132 CUs takes 8 waves; groups are whole waves, the
// last one what is left.
func TestGroupsOfWaves(t *testing.T) {
	w, m := moeDown.build(t), h200(t, 4)
	pl, err := newPlanner(w, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ waves, chunks, n, first, last int }{
		{0, 4, 4, 264, 1024 - 3*264},
		{0, 8, 8, 132, 100},
		{0, 3, 3, 396, 232},
		{1, 4, 8, 132, 100},
		{5, 4, 2, 660, 364},
		{9, 4, 1, 1024, 1024}, // more waves than there are
	} {
		g := pl.groupsOf(&w.Ops[0], c.waves, c.chunks)
		if g.n != c.n || g.tilesIn(0) != c.first || g.tilesIn(g.n-1) != c.last {
			t.Errorf("%d waves, %d chunks: %d groups of %d to %d tiles, want %d of %d to %d",
				c.waves, c.chunks, g.n, g.tilesIn(0), g.tilesIn(g.n-1), c.n, c.first, c.last)
		}
	}
}

// No grouping beats both of FlashOverlap's bounds: the whole product and its
// last group's communication, or the first group and all communication.
func TestWavesKeepTheirBounds(t *testing.T) {
	s := spec{ranks: 4, steps: 3, op: trace.AllReduce, bytes: 128 << 20, gemm: 1_220_000, comm: 640_000, channels: 24}
	w, m := s.build(t), h200(t, s.ranks)
	wave := s.gemm / 8
	var times []trace.Time
	for _, waves := range []string{"1", "2", "4", "8"} {
		got := outcome(t, w, m, "decompose", map[string]string{"variant": "waves", "group": waves})
		pl, _ := newPlanner(w, m)
		g := pl.groupsOf(&w.Ops[0], Values{"n": waves}.Int("n"), 1)
		alone := func(i int) trace.Time {
			return pl.piece(part{coll: &w.Collectives[0], of: g.wgs, take: g.tilesIn(i)}, 0, nil).alone
		}
		tail := s.gemm + alone(g.n-1)
		head := trace.Time(Values{"n": waves}.Int("n")) * wave
		for i := range g.n {
			head += alone(i)
		}
		if least := max(tail, head) * 99 / 100; got.Time < least {
			t.Errorf("groups of %s waves take %d ns, less than their bound of %d", waves, got.Time, least)
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
	w, m := moeDown.build(t), h200(t, 4)
	pl, err := newPlanner(w, m)
	if err != nil {
		t.Fatal(err)
	}
	total := func(waves int) (sum trace.Time) {
		g := pl.groupsOf(&w.Ops[0], waves, 1)
		for i := range g.n {
			sum += pl.piece(part{coll: &w.Collectives[0], of: g.wgs, take: g.tilesIn(i)}, 0, nil).alone
		}
		return sum
	}
	if one, four := total(1), total(4); one <= four {
		t.Errorf("eight groups communicate for %d ns, two for %d", one, four)
	}
}

// The bytes that a ring of pieces reads and writes beyond the products: a piece
// put in its place is read and written; a sum reads two chunks, or three where
// both ways round meet, and writes one (MECHANISM D2).
func TestRingCombines(t *testing.T) {
	scatter := spec{ranks: 4, steps: 2, op: trace.ReduceScatter, bytes: 64 << 20, gemm: 304_000, comm: 150_000, channels: 16}
	gather := scatter
	gather.op, gather.reverse = trace.AllGather, true
	for _, c := range []struct {
		spec   spec
		both   string
		name   string
		chunks float64 // of the collective's bytes over ranks
	}{
		{scatter, "off", "add partial sums", 3 * 3}, // three arrivals, one after another
		{scatter, "on", "add partial sums", 3 + 4},  // one on the way up, two at home
		{gather, "off", "place in the whole", 2 * 4 * outputChunk(gather)},
	} {
		w, m := c.spec.build(t), h200(t, c.spec.ranks)
		for i := range w.Ops {
			w.Ops[i].Write = 2 * float64(w.Ops[i].Shape.M*w.Ops[i].Shape.N)
		}
		got := outcome(t, w, m, "decompose", map[string]string{"variant": "ring", "both": c.both})
		want := c.chunks * float64(c.spec.steps) * float64(c.spec.bytes) / float64(c.spec.ranks)
		if b := memory(got)[c.name]; !near(b, want) {
			t.Errorf("%s both=%s: %s moved %.0f bytes, want %.0f", c.spec.op, c.both, c.name, b, want)
		}
	}
}

// outputChunk is a rank's part of the product's output, in chunks of the collective.
func outputChunk(s spec) float64 { return 2 * 8192 * 4096 / float64(s.bytes) }

// On a ring of links both ways round take half as long as one; through a switch,
// where a GPU's own link is what limits, they take as long.
func TestBothWaysRound(t *testing.T) {
	s := spec{ranks: 8, steps: 2, op: trace.AllGather, bytes: 512 << 20, gemm: 304_000, comm: 1_300_000, channels: 32, reverse: true}
	w := s.build(t)
	times := func(m machine.Machine) (one, both trace.Time) {
		one = outcome(t, w, m, "decompose", map[string]string{"variant": "ring"}).Time
		both = outcome(t, w, m, "decompose", map[string]string{"variant": "ring", "both": "on"}).Time
		return one, both
	}
	m := h200(t, 8)
	if one, both := times(m); both < one*9/10 {
		t.Errorf("through a switch one way takes %d ns, both %d", one, both)
	}
	m.Fabric.Topology, m.Fabric.Pair = machine.Ring, m.Fabric.Egress
	m.Fabric.Egress.Value *= 2
	m.Fabric.Ingress.Value *= 2
	if one, both := times(m); both > one*7/10 {
		t.Errorf("on a ring one way takes %d ns, both %d", one, both)
	}
}

// T3's references, by hand: a product of 1.22 ms and an all-reduce of 640 µs.
func TestIdealVariants(t *testing.T) {
	s := spec{ranks: 4, steps: 3, op: trace.AllReduce, bytes: 128 << 20, gemm: 1_220_000, comm: 640_000, channels: 24}
	w, m := s.build(t), h200(t, s.ranks)
	m.Library.ReduceScatter = m.Library.AllGather // halves of 320 µs each
	reduce := trace.Time(320_000)
	for _, c := range []struct {
		variant string
		gemm    trace.Time
		want    trace.Time
	}{
		{"whole", 1_220_000, 1_220_000},
		{"gemm-rs", 1_220_000, 1_220_000 + reduce},
		{"rs-nmc", 1_220_000, 1_220_000 + reduce}, // the product decides
		{"gemm-rs", 100_000, 2 * reduce},
	} {
		s.gemm = c.gemm
		got := outcome(t, s.build(t), m, "ideal", map[string]string{"variant": c.variant})
		if d := got.Time - c.want; d < 0 || d > 10_000 {
			t.Errorf("%s beside a product of %d ns: %d ns, want %d and a launch", c.variant, c.gemm, got.Time, c.want)
		}
	}
	s.gemm = 100_000
	plain := outcome(t, s.build(t), m, "ideal", map[string]string{"variant": "gemm-rs"}).Time
	nmc := outcome(t, s.build(t), m, "ideal", map[string]string{"variant": "rs-nmc"}).Time
	pl, err := newPlanner(w, m)
	if err != nil {
		t.Fatal(err)
	}
	if saved, last := plain-nmc, pl.lastSum(&w.Collectives[0], reduce); saved < last-2 || saved > last+2 || last <= 0 {
		t.Errorf("near-memory sums save %d ns, the last step takes %d", saved, last)
	}
}

// ringPasses and countsWaves say in one line what is missing.
func TestDecomposeRefusals(t *testing.T) {
	gather := spec{ranks: 4, steps: 2, op: trace.AllGather, bytes: 64 << 20, gemm: 304_000, comm: 150_000, channels: 16, reverse: true}
	uneven := func(w *workload.Workload) { w.Ops[len(w.Ops)-2].Tiling.Tiles++ }
	shapeless := func(w *workload.Workload) {
		for i := range w.Ops {
			w.Ops[i].Shape = workload.Shape{}
		}
	}
	for _, c := range []struct {
		spec    spec
		variant string
		spoil   func(*workload.Workload)
		want    string
	}{
		{gather, "waves", nil, "variant=waves counts tiles of a product before a collective, and the collectives here come first"},
		{moeDown, "ring", nil, "variant=ring needs an all-gather before a product or a reduce-scatter behind one, not all_to_all in a pair compute→collective"},
		{gather, "ring", shapeless, "variant=ring needs a matrix product, and the shape of gemm_256x128 is not known"},
	} {
		w := c.spec.build(t)
		if c.spoil != nil {
			c.spoil(w)
		}
		if got := outcome(t, w, h200(t, 4), "decompose", map[string]string{"variant": c.variant}); got.Why != c.want {
			t.Errorf("%s: %q\nwant %q", c.variant, got.Why, c.want)
		}
	}
	w := moeDown.build(t)
	uneven(w)
	if pl, err := newPlanner(w, h200(t, 4)); err != nil || pl.countsWaves(&w.Pairs[len(w.Pairs)-1]) == "" {
		t.Error("ranks whose groups do not match are not refused")
	}
}
