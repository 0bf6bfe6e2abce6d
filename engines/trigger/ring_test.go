package trigger

import "testing"

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

// For any number of tiles, the blocks add up to stages and the stages to the GEMM. The
// posts of each counter add up to the value that its transfer waits for.
func TestTrackerCounts(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		for _, tiles := range []int{n, 17, 100, 513} {
			if tiles < n {
				continue
			}
			g := &ring{ranks: make([]int32, n), tiles: tiles}
			g.blocks = min(mostBlocks, tiles/n)
			posts := map[[2]int]int64{}
			for i := range tiles {
				stage, block := g.of(i)
				posts[[2]int{stage, block}]++
			}
			for stage := range n {
				for block := range g.blocks {
					if got, want := posts[[2]int{stage, block}], g.size(stage, block); got != want || got == 0 {
						t.Errorf("%d ranks, %d tiles: stage %d block %d has %d tiles, size says %d", n, tiles, stage, block, got, want)
					}
				}
			}
		}
	}
}
