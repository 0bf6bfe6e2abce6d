package tiles_test

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Of N chunks, one is sent by stores and N-2 by transfers. Each transfer reads the memory
// once, or twice if memory does not add (rules K2, K3 and K5).
func TestTriggerTraffic(t *testing.T) {
	for _, ranks := range []int{2, 4, 8} {
		s := plantest.Scattered
		s.Ranks = ranks
		w, m := s.Build(t), plantest.H200(t, ranks)
		chunk := float64(s.Steps) * float64(s.Bytes) / float64(ranks)
		rounds := float64(ranks - 2)
		got := enginetest.Outcome(t, w, m, "trigger", nil)
		left, moved := enginetest.Sent(got), enginetest.Memory(got)
		const dma = "reduce_scatter by triggered transfers"
		if b := left["reduce_scatter by tracked stores"]; !plantest.Near(b, chunk) {
			t.Errorf("%d ranks: %.0f bytes stored to the neighbour, want %.0f", ranks, b, chunk)
		}
		if b := left[dma]; rounds > 0 && !plantest.Near(b, rounds*chunk) || rounds == 0 && b != 0 {
			t.Errorf("%d ranks: %.0f bytes transferred, want %.0f", ranks, b, rounds*chunk)
		}
		if b, want := moved[dma], rounds*chunk*2; rounds > 0 && !plantest.Near(b, want) {
			t.Errorf("%d ranks: transfers moved %.0f bytes of memory, those that arrive among them, want %.0f", ranks, b, want)
		}
	}
}

// If memory is the bottleneck, mca prioritises compute at the cost of transfers. The cost
// grows as the transfers' threshold decreases.
func TestTriggerArbitration(t *testing.T) {
	w, m := plantest.Scattered.Build(t), plantest.H200(t, 4)
	m.GPU.Memory.Value = 400e9
	for i := range w.Ops {
		w.Ops[i].Read = 90e6
	}
	gemmTime := func(set map[string]string) (longest trace.Time) {
		got := enginetest.Outcome(t, w, m, "trigger", set)
		for _, s := range got.Result.Run.Spans {
			if s.Kind == trace.Compute && got.Result.Run.NameOf(s) == "gemm_256x128" {
				longest = max(longest, s.End-s.Start)
			}
		}
		return longest
	}
	rr := gemmTime(nil)
	none := gemmTime(map[string]string{"arbitration": "mca", "queue": "none"})
	five := gemmTime(map[string]string{"arbitration": "mca", "queue": "5"})
	if none < rr*99/100 || none > rr*101/100 {
		t.Errorf("the GEMM takes %d ns in turn, %d first without a limit", rr, none)
	}
	if five >= none*95/100 {
		t.Errorf("the GEMM takes %d ns with transfers in five entries, %d without a limit", five, none)
	}
}

// T3's sub-layers on its machine: the speedup is below the ideal and close to it.
// The published mean is 1.30 and the maximum 1.47 with compute first.
func TestTriggerOnT3(t *testing.T) {
	logs, most, n := 0.0, 0.0, 0
	for _, s := range plantest.Sublayers() {
		m := machinetest.Load(t, "t3").Resize(s.Ranks)
		w, gemm, half := s.Build(t, m)
		ideal := enginetest.Outcome(t, w, m, "ideal", map[string]string{"variant": "gemm-rs"})
		got := enginetest.Outcome(t, w, m, "trigger", map[string]string{"arbitration": "mca"})
		speedup := float64(gemm+2*half) / float64(got.Time)
		t.Logf("%s %s over %d: %.3f, ideal %.3f", s.Model, s.Name, s.Ranks, speedup, float64(gemm+2*half)/float64(ideal.Time))
		if got.Time < ideal.Time*99/100 {
			t.Errorf("%s %s over %d: %d ns, ideal %d", s.Model, s.Name, s.Ranks, got.Time, ideal.Time)
		}
		logs, most, n = logs+math.Log(speedup), max(most, speedup), n+1
	}
	mean := math.Exp(logs / float64(n))
	t.Logf("geometric mean %.3f, most %.3f", mean, most)
	if mean < 1.2 || mean > 1.346 || most > 1.5 {
		t.Errorf("mean %.3f, most %.3f", mean, most)
	}
}

// T3's Figure 18 by counting bytes: a reduce-scatter of N ranks reads 2N-1 chunks, with
// T3 N-2. GEMM and reduce-scatter write 2N chunks, with T3 2N-2. The all-gather is
// unchanged. Published: 2.5 and 2.2 times fewer reads, 14 and 7 % fewer writes.
func TestTriggerTrafficByCause(t *testing.T) {
	for _, ranks := range []int{8, 16} {
		s := plantest.Sublayer{Model: "T-NLG", Name: "FC-2", Hidden: 4256, Tokens: 8 << 10, Share: 4, Ranks: ranks}
		m := machinetest.Load(t, "t3").Resize(ranks)
		w, _, _ := s.Build(t, m)
		moved := func(engine string) map[string]verdict.Moved {
			by := map[string]verdict.Moved{}
			for _, x := range verdict.MemoryByCause(w, enginetest.Outcome(t, w, m, engine, nil)) {
				by[x.Cause] = x
			}
			return by
		}
		before, after := moved("bulk"), moved("trigger")
		chunk, n := s.Tokens*s.Hidden*2/float64(ranks), float64(ranks)
		if got := before["reduce_scatter"].Read; !plantest.Near(got, (2*n-1)*chunk) {
			t.Errorf("%d ranks: a reduce-scatter reads %.2f chunks", ranks, got/chunk)
		}
		if got := after["reduce_scatter"].Read; !plantest.Near(got, (n-2)*chunk) {
			t.Errorf("%d ranks: triggered transfers read %.2f chunks", ranks, got/chunk)
		}
		if got := before["compute"].Written + before["reduce_scatter"].Written; !plantest.Near(got, 2*n*chunk) {
			t.Errorf("%d ranks: one after the other %.2f chunks are written", ranks, got/chunk)
		}
		if got := after["compute"].Written + after["reduce_scatter"].Written; !plantest.Near(got, (2*n-2)*chunk) {
			t.Errorf("%d ranks: triggered %.2f chunks are written", ranks, got/chunk)
		}
		if a, b := before["all_gather"], after["all_gather"]; a != b || a.Read == 0 {
			t.Errorf("%d ranks: all-gather %v, then %v", ranks, a, b)
		}
		reads := before["compute"].Read / after["compute"].Read
		total := func(by map[string]verdict.Moved) (sum float64) {
			for _, c := range []string{"all_gather", "compute", "reduce_scatter"} {
				sum += by[c].Read + by[c].Written
			}
			return sum
		}
		t.Logf("%d ranks: reads of the GEMM %.2f times fewer (published %s), traffic %.0f %% less", ranks, reads, map[int]string{8: "1.2", 16: "2"}[ranks], 100*(1-total(after)/total(before)))
		if reads <= 1.05 || reads > 2.2 {
			t.Errorf("%d ranks: %.2f times fewer reads of the GEMM", ranks, reads)
		}
		if less := 1 - total(after)/total(before); less < 0.1 || less > 0.36 {
			t.Errorf("%d ranks: %.2f less traffic", ranks, less)
		}
	}
}

// Before an all-gather each rank's output is forwarded once around the ring, and is also
// written to local memory.
func TestTriggerGathers(t *testing.T) {
	s := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllGather, Bytes: 256 << 20, Gemm: 304_000, Comm: 600_000, Channels: 16}
	w, m := s.Build(t), plantest.H200(t, 4)
	shard := 2 * float64(s.Bytes) / 4
	got := enginetest.Outcome(t, w, m, "trigger", nil)
	if got.Result == nil {
		t.Fatal(got.Why)
	}
	left, moved := enginetest.Sent(got), enginetest.Memory(got)
	if b := left["all_gather by tracked stores"]; !plantest.Near(b, shard) {
		t.Errorf("%.2f shards stored to the next rank, want 1", b/shard)
	}
	if b := left["all_gather by triggered transfers"]; !plantest.Near(b, 2*shard) {
		t.Errorf("%.2f shards passed on, want 2", b/shard)
	}
	if b := moved["gemm_256x128"]; !plantest.Near(b, shard) {
		t.Errorf("the GEMM moved %.2f shards, want 1", b/shard)
	}
}

// Stored directly, each rank sends a part to every other and nothing is passed on; the own part is written, and what arrives is
// added. An all-to-all is always stored so, and a gather to all (rule K12).
func TestTriggerDirect(t *testing.T) {
	for _, ranks := range []int{2, 4, 8} {
		for _, op := range []trace.CollectiveOp{trace.ReduceScatter, trace.AllToAll, trace.AllGather} {
			s := plantest.Spec{Ranks: ranks, Steps: 2, Op: op, Bytes: 256 << 20, Gemm: 304_000, Comm: 600_000, Channels: 16}
			w, m := s.Build(t), plantest.H200(t, ranks)
			part := 2 * float64(s.Bytes) / float64(ranks)
			got := enginetest.Outcome(t, w, m, "trigger", map[string]string{"mapping": "direct"})
			if got.Result == nil {
				t.Fatal(got.Why)
			}
			left, moved := enginetest.Sent(got), enginetest.Memory(got)
			if b := left[op.String()+" by tracked stores"]; !plantest.Near(b, part*float64(ranks-1)) {
				t.Errorf("%s of %d ranks: %.2f parts stored to others, want %d", op, ranks, b/part, ranks-1)
			}
			if b := left[op.String()+" by triggered transfers"]; b != 0 {
				t.Errorf("%s of %d ranks: %.2f parts passed on", op, ranks, b/part)
			}
			if b := moved["gemm_256x128"]; !plantest.Near(b, part) {
				t.Errorf("%s of %d ranks: the GEMM moved %.2f parts of memory, want 1", op, ranks, b/part)
			}
			links := trace.Time(1e9 * part / 2 * float64(ranks-1) / m.Fabric.Egress.Value)
			if least := max(s.Gemm, links); got.Time < least {
				t.Errorf("%s of %d ranks takes %d ns, the kernels or links %d", op, ranks, got.Time, least)
			}
			ring := enginetest.Outcome(t, w, m, "trigger", map[string]string{"mapping": "ring"})
			switch auto := enginetest.Outcome(t, w, m, "trigger", nil); {
			case op == trace.AllToAll:
				if !strings.Contains(ring.Why, "nothing to pass around a ring") || auto.Time != got.Time {
					t.Errorf("all-to-all: %d ns, stored directly %d; ring: %q", auto.Time, got.Time, ring.Why)
				}
			case ring.Time != auto.Time:
				t.Errorf("%s: %d ns, around a ring %d", op, auto.Time, ring.Time)
			case ranks == 2 && math.Abs(float64(got.Time-ring.Time)) > 0.01*float64(ring.Time): // the other is the neighbour
				t.Errorf("%s of two ranks: %d ns directly, %d around a ring", op, got.Time, ring.Time)
			}
		}
	}
}

// On a mesh a ring uses one link of each rank, stores to all use every one.
func TestTriggerDirectOnMesh(t *testing.T) {
	s := plantest.Spec{Ranks: 8, Steps: 2, Op: trace.ReduceScatter, Bytes: 256 << 20, Gemm: 304_000, Comm: 600_000, Channels: 16}
	w, m := s.Build(t), plantest.Bare(t, 8, machine.Mesh)
	ring := enginetest.Outcome(t, w, m, "trigger", nil)
	direct := enginetest.Outcome(t, w, m, "trigger", map[string]string{"mapping": "direct"})
	if direct.Result == nil || direct.Time >= ring.Time/2 {
		t.Errorf("%d ns directly, %d around a ring: %s", direct.Time, ring.Time, direct.Why)
	}
}

// Each part along K of a tile stores the whole tile, and memory adds it.
func TestTriggerSplits(t *testing.T) {
	w, m := plantest.Scattered.Build(t), plantest.H200(t, 4)
	split := plantest.Scattered.Build(t)
	for i := range split.Ops {
		if op := &split.Ops[i]; op.Collective < 0 { // 256 tiles, each in two parts along K
			op.Shape.M = 2048
			op.Tiling = workload.Tiling{TileM: 256, TileN: 128, Tiles: 512, WGs: 512}
		}
	}
	whole := enginetest.Memory(enginetest.Outcome(t, w, m, "trigger", nil))["gemm_256x128"]
	parts := enginetest.Memory(enginetest.Outcome(t, split, m, "trigger", nil))["gemm_256x128"]
	if !plantest.Near(parts, 2*whole) {
		t.Errorf("two parts along K store %.0f bytes, one %.0f: each is added as a whole", parts, whole)
	}
}
