package onesided

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/engines/plan"
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
	b := &state{ranks: []int32{0, 1, 2}, cuts: 2, impl: "push"}
	mesh := &operator{swizzle: "mesh"}
	// Step c takes piece c of every rank, its own first, or, of what it makes, last.
	if got, want := mesh.units(b, 1, true), []unit{{1, 0}, {2, 0}, {0, 0}, {1, 1}, {2, 1}, {0, 1}}; !slices.Equal(got, want) {
		t.Errorf("own first: %v", got)
	}
	if got, want := mesh.units(b, 1, false), []unit{{2, 0}, {0, 0}, {1, 0}, {2, 1}, {0, 1}, {1, 1}}; !slices.Equal(got, want) {
		t.Errorf("own last: %v", got)
	}
}

// Whatever the shapes, every tile is computed once, waits for all that its rows
// touch, in the order of the units: with the last of them, or, of what is made,
// with the first.
func TestRuns(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		ranks, cuts := rapid.IntRange(2, 8).Draw(t, "ranks"), rapid.IntRange(1, 4).Draw(t, "cuts")
		var units []unit
		for s := range ranks {
			for c := range cuts {
				units = append(units, unit{s, c})
			}
		}
		units = rapid.Permutation(units).Draw(t, "units")
		height, cols := rapid.SampledFrom([]int{0, 64, 100, 256}).Draw(t, "height"), rapid.IntRange(1, 5).Draw(t, "cols")
		m := rapid.IntRange(ranks*cuts, 5000).Draw(t, "m")
		panels := rapid.IntRange(1, 300).Draw(t, "tiles")
		if height > 0 {
			panels = plan.CeilDiv(m, height)
		} else {
			cols = 1
		}
		part := gemm{op: &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{M: int64(m)}, Tiling: workload.Tiling{TileM: height}}}, tiles: panels * cols}
		waits := rapid.Bool().Draw(t, "waits")
		all := part.inOrder(units, ranks, cuts, waits)
		last, before := 0, -1
		touched := make([]bool, len(units))
		for _, r := range all {
			turn := slices.Min(r.units)
			if waits {
				turn = slices.Max(r.units)
			}
			if r.until <= last || turn < before {
				t.Fatalf("run up to %d behind %d, unit %d behind %d", r.until, last, turn, before)
			}
			last, before = r.until, turn
			if height > 0 && r.until%cols != 0 {
				t.Fatalf("a run ends at tile %d of rows of %d", r.until, cols)
			}
			for _, u := range r.units {
				touched[u] = true
			}
		}
		if last != part.tiles {
			t.Fatalf("%d tiles of %d", last, part.tiles)
		}
		if slices.Contains(touched, false) {
			t.Fatalf("nothing reads some of the rows: %v", touched)
		}
	})
}

// A tile of a grouped GEMM needs the shards that its rows come from, counted row by row: those of
// each group are sorted by shard (rule O20).
func TestRunsOfGroups(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		ranks, groups := rapid.IntRange(2, 8).Draw(t, "ranks"), rapid.IntRange(2, 6).Draw(t, "groups")
		height, cols := rapid.IntRange(1, 40).Draw(t, "height"), rapid.IntRange(1, 4).Draw(t, "cols")
		each := ranks * rapid.IntRange(1, 30).Draw(t, "rows of a shard")
		panels := plan.CeilDiv(each, height)
		at := make([]int, ranks)
		for i := range at {
			at[i] = i
		}
		op := &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{M: int64(each * groups), Groups: int64(groups)}, Tiling: workload.Tiling{TileM: height}}}
		part := gemm{op: op, tiles: groups * panels * cols}
		part.tileEvenly(ranks)
		all := part.runs(at)
		if len(all) != groups*panels {
			t.Fatalf("%d runs, want %d", len(all), groups*panels)
		}
		for i, r := range all {
			var want []int
			for row := i % panels * height; row < min(each, (i%panels+1)*height); row++ {
				if s := row / (each / ranks); !slices.Contains(want, s) {
					want = append(want, s)
				}
			}
			if r.until != cols || !slices.Equal(r.units, want) {
				t.Fatalf("tiles of rows %d: %d of shards %v, want %d of %v", i, r.until, r.units, cols, want)
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
		p := gemm{op: op, g: plan.Grid{Tiles: c.tiles, Time: 1_000_000}, tiles: c.tiles}
		p.tileEvenly(4)
		if p.tiles != c.wantTiles || p.g.Tiles != c.wantTiles || p.g.Time != c.wantTime {
			t.Errorf("%s: %d tiles (%d) of %d ns, want %d of %d", c.name, p.tiles, p.g.Tiles, p.g.Time, c.wantTiles, c.wantTime)
		}
		perPiece := make([]int, 4)
		for _, r := range p.runs([]int{0, 1, 2, 3}) {
			if len(r.units) == 1 {
				perPiece[r.units[0]]++
			}
			if r.until != 3 {
				t.Errorf("%s: a run of %d tiles, want one of each column", c.name, r.until)
			}
		}
		for i, n := range perPiece {
			if n != c.wantRows && c.wantRows > 0 {
				t.Errorf("%s: %d rows of tiles touch piece %d alone, want %d", c.name, n, i, c.wantRows)
			}
		}
	}
}
