package tiles

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
)

func TestSemaphores(t *testing.T) {
	square := func(m, n, k int64) workload.Shape {
		return workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k}
	}
	c := plan.Cover{Rows: 2, Cols: 6, Splits: 2}
	for _, x := range []struct {
		policy string
		a, b   workload.Shape
		parts  int
		posts  int64
		ok     bool
	}{
		{"row", square(256, 768, 64), square(256, 512, 768), 1, 12, true},
		{"tile", square(256, 768, 64), square(256, 512, 768), 6, 2, true},
		{"tile", square(256, 768, 64), square(256, 512, 256), 0, 0, false},
		{"strided", square(256, 768, 64), square(256, 512, 256), 2, 6, true}, // queries, keys, values
		{"strided", square(256, 768, 64), square(256, 512, 768), 0, 0, false},
		{"conv", square(256, 768, 64), square(256, 512, 9*768), 6, 2, true}, // 3×3 filters
		{"conv", square(256, 768, 64), square(256, 512, 768), 0, 0, false},
		{"row", square(128, 768, 64), square(256, 512, 768), 0, 0, false},
	} {
		s, why := semaphoresFor(x.policy, nil, c, x.a, x.b)
		if (why == "") != x.ok {
			t.Errorf("%s %v %v: %q", x.policy, x.a, x.b, why)
			continue
		} else if !x.ok {
			continue
		}
		posts := map[int]int64{} // by semaphore
		for tile := range c.Tiles() {
			posts[s.ready(tile/c.Cols, tile%c.Cols)] += int64(c.Splits)
		}
		for row := range c.Rows {
			for part := range s.parts {
				if set, count := s.waits(row, part); count != x.posts || posts[set] != count || s.parts != x.parts {
					t.Errorf("%s: %d parts; the tiles post %d times to part %d of row %d, whose consumers wait for %d", x.policy, s.parts, posts[set], part, row, count)
				}
			}
		}
	}
}

// Whatever the order, every tile is computed once; with a stride, tiles that
// complete one semaphore follow each other.
func TestTileOrder(t *testing.T) {
	strided := &link{semaphores: semaphores{stride: 3}}
	for _, x := range []struct {
		link   *link
		splits int
	}{{nil, 1}, {nil, 2}, {strided, 1}} {
		c := plan.Cover{Rows: 3, Cols: 6, Splits: x.splits}
		seen := map[[2]int]int{}
		for i := range c.Tiles() * c.Splits {
			row, col := x.link.at(c, i)
			seen[[2]int{row, col}]++
		}
		if len(seen) != 18 {
			t.Errorf("%+v computes %d different tiles of 18", x, len(seen))
		}
	}
	c := plan.Cover{Rows: 1, Cols: 6, Splits: 1}
	var cols []int
	for i := range 3 {
		_, col := strided.at(c, i)
		cols = append(cols, col)
	}
	if cols[0] != 0 || cols[1] != 2 || cols[2] != 4 { // column 0 of queries, of keys, of values
		t.Errorf("first three columns are %v", cols)
	}
}

// GEMMs that use more of the memory get a lower threshold.
func TestThresholds(t *testing.T) {
	last := 2 * unlimited
	for _, intensity := range []float64{0, 0.3, 0.6, 0.9} {
		if n := threshold(intensity); n >= last {
			t.Errorf("at an intensity of %.1f %d entries, %d below", intensity, n, last)
		} else {
			last = n
		}
	}
}

// For any number of tiles, those that post to a counter are as many as its transfer waits for.
func TestTrackerCounts(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		for _, tiles := range []int{8, 17, 100, 513} {
			g := &ring{n: n, stages: plan.Cut{N: tiles, Parts: n}, blocks: min(32, tiles/n)}
			posts := map[[2]int]int{}
			for i := range tiles {
				stage, block := g.of(i)
				posts[[2]int{stage, block}]++
			}
			for stage := range n {
				for block := range g.blocks {
					got, from := posts[[2]int{stage, block}], 1 // the neighbour's transfer
					if stage == 1 {
						from = posts[[2]int{0, block}] // its stores
					}
					if want := g.complete(stage, block); int64(got+from) != want || got == 0 {
						t.Errorf("%d ranks, %d tiles: stage %d block %d has %d posts of %d", n, tiles, stage, block, got+from, want)
					}
				}
			}
		}
	}
}
