package tiles

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
)

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
