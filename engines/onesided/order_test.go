package onesided

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
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
	mesh := &operator{swizzle: "mesh", numa: 1}
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
	rapid.Check(t, func(t *rapid.T) {
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
		all := runs([]gemm{part}, units, ranks, cuts, waits)
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
