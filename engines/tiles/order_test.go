package tiles

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// The orders that the rules state for two nodes of four.
func TestOrderBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		rank   int
		gather bool
		want   string
	}{
		{0, false, "5 6 7 4 1 2 3 0"},
		{4, false, "1 2 3 0 5 6 7 4"},
		{1, true, "1 0 3 2 5 4 7 6"},
	} {
		var got []string
		for _, s := range order((plan.Cluster{Nodes: 2, Per: 4, Node: c.rank / 4, Local: c.rank % 4}), c.gather) {
			got = append(got, string(rune('0'+s)))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("rank %d: %s, want %s", c.rank, s, c.want)
		}
	}
}

func TestUnits(t *testing.T) {
	at := func(dir workload.Direction) *side {
		b := &state{operator: &operator{swizzle: "mesh"}, n: 3, cuts: 2, impl: "push"}
		return &side{state: b, Side: plan.Side{Pair: &plan.Pair{Pair: &workload.Pair{Direction: dir}}, Me: 1}}
	}
	// Step c takes piece c of every rank, its own first, or, of what it makes, last.
	if got, want := at(workload.CollectiveThenCompute).units(), []int{2, 4, 0, 3, 5, 1}; !slices.Equal(got, want) {
		t.Errorf("own first: %v", got)
	}
	if got, want := at(workload.ComputeThenCollective).units(), []int{4, 0, 2, 5, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("own last: %v", got)
	}
}

// Whatever the shapes, every tile is computed once, waits for all that its rows
// touch, in the order of the units: with the last of them, or, of what is made,
// with the first.
func TestPanels(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		units := make([]int, rapid.IntRange(2, 8).Draw(t, "ranks")*rapid.IntRange(1, 4).Draw(t, "cuts"))
		for u := range units {
			units[u] = u
		}
		units = rapid.Permutation(units).Draw(t, "units")
		height, cols := rapid.SampledFrom([]int{0, 64, 100, 256}).Draw(t, "height"), rapid.IntRange(1, 5).Draw(t, "cols")
		m := rapid.IntRange(len(units), 5000).Draw(t, "m")
		panels := rapid.IntRange(1, 300).Draw(t, "tiles")
		if height > 0 {
			panels = machine.CeilDiv(m, height)
		} else {
			cols = 1
		}
		q := sequence{op: &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{M: int64(m)}, Tiling: workload.Tiling{TileM: height}}}, tiles: panels * cols}
		waits := rapid.Bool().Draw(t, "waits")
		q.inOrder(units, waits)
		before, touches := -1, int64(0)
		for _, p := range q.panels {
			turn := len(units)
			if waits {
				turn = -1
			}
			for u := p.first; u <= p.last; u++ {
				if at := slices.Index(units, u); (at > turn) == waits {
					turn = at
				}
				touches += int64(q.each)
			}
			if turn < before {
				t.Fatalf("unit %d behind %d", turn, before)
			}
			before = turn
		}
		if len(q.panels)*q.each != q.tiles || height > 0 && q.each != cols {
			t.Fatalf("%d panels of %d tiles, of %d", len(q.panels), q.each, q.tiles)
		}
		for u, n := range q.counts {
			touches -= n
			if n == 0 {
				t.Fatalf("nothing reads unit %d", u)
			}
		}
		if touches != 0 {
			t.Fatalf("%d touches are not counted", touches)
		}
	})
}

// A tile of a grouped GEMM needs the shards that its rows come from, counted row by row: those of
// each group are sorted by shard (rule O20).
func TestPanelsOfGroups(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		ranks, groups := rapid.IntRange(2, 8).Draw(t, "ranks"), rapid.IntRange(2, 6).Draw(t, "groups")
		height, cols := rapid.IntRange(1, 40).Draw(t, "height"), rapid.IntRange(1, 4).Draw(t, "cols")
		each := ranks * rapid.IntRange(1, 30).Draw(t, "rows of a shard")
		panels := machine.CeilDiv(each, height)
		op := &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{M: int64(each * groups), Groups: int64(groups)}, Tiling: workload.Tiling{TileM: height}}}
		q := sequence{op: op, tiles: groups * panels * cols}
		q.tileEvenly(ranks)
		if q.cut(ranks); len(q.panels) != groups*panels || q.each != cols {
			t.Fatalf("%d panels of %d tiles, want %d of %d", len(q.panels), q.each, groups*panels, cols)
		}
		for i, p := range q.panels {
			want := panel{first: ranks}
			for row := i % panels * height; row < min(each, (i%panels+1)*height); row++ {
				shard := row / (each / ranks)
				want.first, want.last = min(want.first, shard), max(want.last, shard)
			}
			if p != want {
				t.Fatalf("tiles of rows %d: of shards %v, want %v", i, p, want)
			}
		}
	})
}

// A piece of 1000 rows takes four tiles of 256 rows, and of 250 just as well: none touches two
// pieces, and the work of all rows stays (rule O4).
func TestTilesOfAShard(t *testing.T) {
	for _, c := range []struct {
		name                string
		rows, height, tiles int
		wantTiles           int
		wantTime            trace.Time
		wantRows            int
	}{
		{"lower tiles", 4000, 256, 16 * 3, 16 * 3, 976_563, 4}, // 1 ms of 256 rows, 250 of them
		{"more tiles", 4 * 300, 256, 5 * 3, 8 * 3, 585_938, 2}, // 150 of 256
		{"as captured", 4 * 512, 256, 8 * 3, 8 * 3, 1_000_000, 2},
		{"rows that shards do not share", 4001, 256, 16 * 3, 16 * 3, 1_000_000, 0},
	} {
		op := &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{M: int64(c.rows)}, Tiling: workload.Tiling{TileM: c.height}}}
		q := sequence{op: op, g: plan.Grid{Tiles: c.tiles, Time: 1_000_000}, tiles: c.tiles}
		q.tileEvenly(4)
		if q.tiles != c.wantTiles || q.g.Tiles != c.wantTiles || q.g.Time != c.wantTime {
			t.Errorf("%s: %d tiles (%d) of %d ns, want %d of %d", c.name, q.tiles, q.g.Tiles, q.g.Time, c.wantTiles, c.wantTime)
		}
		if q.cut(4); q.each != 3 {
			t.Errorf("%s: a panel of %d tiles, want one of each column", c.name, q.each)
		}
		perPiece := make([]int, 4)
		for _, p := range q.panels {
			if p.first == p.last {
				perPiece[p.first]++
			}
		}
		for i, n := range perPiece {
			if n != c.wantRows && c.wantRows > 0 {
				t.Errorf("%s: %d rows of tiles touch piece %d alone, want %d", c.name, n, i, c.wantRows)
			}
		}
	}
}
