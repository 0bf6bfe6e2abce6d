package engines

import (
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// memory is the bytes that rank 0's memory moved, by name.
func memory(out Outcome) map[string]float64 {
	by := map[string]float64{}
	for _, tr := range out.Result.Traffic {
		if tr.GPU == 0 && tr.Resource == replay.Memory {
			by[tr.Name] += tr.Bytes
		}
	}
	return by
}

// One chunk of N leaves by stores and N-2 by transfers, each of which reads the
// memory once, or twice where memory does not add (MECHANISM T3 to T6).
func TestTriggerTraffic(t *testing.T) {
	for _, ranks := range []int{2, 4, 8} {
		s := scattered
		s.ranks = ranks
		w, m := s.build(t), h200(t, ranks)
		chunk := float64(s.steps) * float64(s.bytes) / float64(ranks)
		rounds := float64(ranks - 2)
		for _, c := range []struct {
			nmc   string
			reads float64 // of a chunk
			last  float64 // read and written by the sum
		}{{"on", 1, 0}, {"off", 2, 3}} {
			got := outcome(t, w, m, "trigger", map[string]string{"nmc": c.nmc})
			left, moved := sent(got), memory(got)
			const dma = "reduce_scatter by triggered transfers"
			if b := left["tracked stores"]; !near(b, chunk) {
				t.Errorf("%d ranks: %.0f bytes stored to the neighbour, want %.0f", ranks, b, chunk)
			}
			if b := left[dma]; rounds > 0 && !near(b, rounds*chunk) || rounds == 0 && b != 0 {
				t.Errorf("%d ranks: %.0f bytes transferred, want %.0f", ranks, b, rounds*chunk)
			}
			if b, want := moved[dma], rounds*chunk*(c.reads+1); rounds > 0 && !near(b, want) {
				t.Errorf("%d ranks nmc=%s: transfers moved %.0f bytes of memory, those that arrive among them, want %.0f", ranks, c.nmc, b, want)
			}
			if b := moved["sum of the last chunk"]; c.last > 0 && !near(b, c.last*chunk) || c.last == 0 && b != 0 {
				t.Errorf("%d ranks nmc=%s: the sum moved %.0f bytes, want %.0f", ranks, c.nmc, b, c.last*chunk)
			}
		}
	}
}

func TestTriggerWins(t *testing.T) {
	m := h200(t, 4)
	reduced := scattered
	reduced.op, reduced.comm = trace.AllReduce, 300_000
	exchanged := moeDown
	for _, c := range []struct {
		spec spec
		set  map[string]string
	}{
		{scattered, nil},
		{scattered, map[string]string{"algorithm": "direct"}},
		{reduced, nil},
		{exchanged, map[string]string{"algorithm": "direct"}},
	} {
		w := c.spec.build(t)
		base := outcome(t, w, m, "bulk", nil)
		got := outcome(t, w, m, "trigger", c.set)
		if got.Result == nil {
			t.Fatalf("%s %v: %s", c.spec.op, c.set, got.Why)
		}
		if got.Time >= base.Time {
			t.Errorf("%s %v: %d ns, bulk %d", c.spec.op, c.set, got.Time, base.Time)
		}
	}
}

// Where memory is what limits, compute comes first with mca, and transfers pay.
func TestTriggerArbitration(t *testing.T) {
	w, m := scattered.build(t), h200(t, 4)
	m.GPU.Memory.Value = 400e9
	product := func(arbitration string) (longest trace.Time) {
		got := outcome(t, w, m, "trigger", map[string]string{"arbitration": arbitration})
		for _, s := range got.Result.Run.Spans {
			if s.Kind == trace.Compute && got.Result.Run.NameOf(s) == "gemm_256x128" {
				longest = max(longest, s.End-s.Start)
			}
		}
		return longest
	}
	rr, mca := product("rr"), product("mca")
	if mca >= rr {
		t.Errorf("the product takes %d ns with compute first, %d in turn", mca, rr)
	}
}

// Blocks make up stages and stages the product, for any number of tiles; each
// counter's posts add up to what its transfer waits for.
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
