package tiles_test

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The three kernels of attention run as one chain: each once per step, each on its own
// stream, the third concurrent with the first if slots are free, and no kernel before
// the first tile of its producer.
func TestChainsOfThree(t *testing.T) {
	w, m := plantest.SelfAttention(1024).Build(t), plantest.H200(t, 1)
	for _, policy := range []string{"row", "tile", "strided"} {
		got := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": policy})
		if got.Result == nil {
			t.Fatalf("%s: %s", policy, got.Why)
		}
		runs, starts := map[string]int{}, map[string]trace.Time{}
		queues := map[int64]bool{}
		for _, s := range got.Result.Run.Spans {
			if s.Kind == trace.Compute {
				name := got.Result.Run.NameOf(s)
				if runs[name]++; runs[name] == 1 {
					starts[name] = s.Start
				}
				queues[got.Result.Run.Setup(got.Result.Run.Kernel(s)).Stream] = true
			}
		}
		if runs["qkv"] != 4 || runs["dot product"] != 4 || runs["projection"] != 4 || runs["wait kernel"] != 8 || len(queues) != 3 {
			t.Errorf("%s: %v on %d streams", policy, runs, len(queues))
		}
		if starts["dot product"] < starts["qkv"] || starts["projection"] < starts["dot product"] {
			t.Errorf("%s: started at %v", policy, starts)
		}
		if base := enginetest.Outcome(t, w, m, "captured", nil); got.Time >= base.Time {
			t.Errorf("%s: %d ns, one after another %d", policy, got.Time, base.Time)
		}
	}
}

// The memory traffic of a chain is the sum over its kernels, for any policy.
func TestChainsKeepBytes(t *testing.T) {
	w, m := plantest.SelfAttention(512).Build(t), plantest.H200(t, 1)
	for _, policy := range []string{"row", "strided"} {
		moved := enginetest.Memory(enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": policy}))
		for i := range 3 {
			op := &w.Ops[i]
			if want := 4 * (op.Read + op.Write); !plantest.Near(moved[op.Name], want) {
				t.Errorf("%s %s: %.0f bytes, want %.0f", policy, op.Name, moved[op.Name], want)
			}
		}
	}
}

// A chain runs with and without wait kernels: its first kernel is launched first.
func TestChainDeadlock(t *testing.T) {
	w, m := plantest.SelfAttention(1024).Build(t), plantest.H200(t, 1)
	for _, wait := range []string{"off", "on"} {
		if got := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"waitkernel": wait}); got.Result == nil {
			t.Errorf("waitkernel=%s: %v", wait, got.Why)
		}
	}
}

// Pairs of convolutions, as GEMMs over 3×3 positions of the channels, synchronised by
// tile of channels or by row.
func TestConvolutionPairs(t *testing.T) {
	conv := func(channels int64) plantest.Chain {
		x := plantest.Dense{N: channels, K: 9 * channels, Dur: 60_000}
		first, second := x, x
		first.Name, second.Name = "conv 1", "conv 2"
		return plantest.Chain{Ranks: 1, Steps: 4, M: 56 * 56 * 12, GEMMs: []plantest.Dense{first, second}}
	}
	w, m := conv(256).Build(t), plantest.H200(t, 1)
	base := enginetest.Outcome(t, w, m, "captured", nil)
	for _, policy := range []string{"row", "conv"} {
		got := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": policy})
		if got.Result == nil {
			t.Fatalf("%s: %s", policy, got.Why)
		}
		if got.Time >= base.Time {
			t.Errorf("%s: %d ns, one after the other %d", policy, got.Time, base.Time)
		}
	}
	// With one tile of channels a row is a tile, and the policies are equal but for the test in the loop.
	w, m.GPU.LoopWait = conv(128).Build(t), machine.Quantity{}
	row := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": "row"})
	tile := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": "conv"})
	if row.Time != tile.Time {
		t.Errorf("one tile of channels: by row %d ns, by tile %d", row.Time, tile.Time)
	}
	for i := range w.Ops { // the loop over K looks at a semaphore in each step of a tile's width
		w.Ops[i].Tiling.Depth = 32
	}
	row = enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": "row"})
	tile = enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": "conv"})
	if tile.Time <= row.Time {
		t.Errorf("looking at a semaphore in each of four steps takes %d ns, once %d", tile.Time, row.Time)
	}
}

// A tile counter costs each workgroup two round trips to memory: the number, then its tile.
func TestTickets(t *testing.T) {
	w, m := plantest.Mlp512.Build(t), plantest.H200(t, plantest.Mlp512.Ranks)
	off := enginetest.Outcome(t, w, m, "tilesync", nil)
	on := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"tickets": "on"})
	if d := on.Time - off.Time; d <= 0 || d > 16*plan.Duration(m.GPU.Post.Value) {
		t.Errorf("with a counter %d ns, without %d", on.Time, off.Time)
	}
}

// The reason why a pair cannot be synchronised is one line.
func TestTilesyncRefusals(t *testing.T) {
	m := plantest.H200(t, 1)
	for _, c := range []struct {
		chain  plantest.Chain
		policy string
		want   string
	}{
		{plantest.Chain{Ranks: 1, Steps: 2, M: 512, GEMMs: []plantest.Dense{{Name: "qkv", N: 768, K: 512, Dur: 20_000}, {Name: "out", N: 512, K: 256, Dur: 20_000}}}, "tile", "policy tile needs a consumer that sums over the producer's 768 columns, not 256"},
		{plantest.SelfAttention(512), "conv", "policy conv needs a consumer that sums over a whole number of filter positions of the producer's channels"},
		{plantest.Chain{Ranks: 1, Steps: 2, M: 512, GEMMs: []plantest.Dense{{Name: "up", N: 1024, K: 512, Dur: 20_000}, {Name: "down", N: 512, K: 1024, Dur: 20_000}}}, "strided", "policy strided needs a producer whose columns hold several matrices (queries, keys, values), each as wide as the consumer sums over"},
	} {
		if got := enginetest.Outcome(t, c.chain.Build(t), m, "tilesync", map[string]string{"policy": c.policy}); got.Why != c.want {
			t.Errorf("%s: %q\nwant %q", c.policy, got.Why, c.want)
		}
	}
}

// Grouped GEMMs are synchronised by rows where the rows of each group are whole tiles.
func TestTilesyncOfGroups(t *testing.T) {
	for rows, want := range map[int]string{
		8192: "",
		8200: "the rows of a group of grouped_gemm_tile_128x128 are no whole number of its tiles",
	} {
		w, m := plantest.OperatorOf(t, fmt.Sprintf(`
machine: h200:2
type: bf16
shape: {rows: %d}
graph:
  - {op: grouped_gemm, m: rows, n: 2048, k: 4096, groups: 8, tile: 128x128}
  - {op: grouped_gemm, m: rows, n: 4096, k: 2048, groups: 8, tile: 128x128}
`, rows))
		got := enginetest.Outcome(t, w, m, "tilesync", nil)
		if got.Why != want || (got.Result == nil) != (want != "") {
			t.Errorf("%d rows: %q, want %q", rows, got.Why, want)
		}
	}
}
