package tiles_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A gather of tokens, a permutation and a grouped GEMM of four experts, and a grouped GEMM,
// a sum and a scatter; two rows a token, compiled tiles of 128×256.
const (
	gatherExperts = `
machine: h200:4
iterations: 3
type: bf16
shape: {tokens: %d, hidden: 4096, inner: 1536}
graph:
  - {op: all_gather, count: tokens*hidden, name: gather}
  - {op: permute, count: 2*tokens*hidden, after: gather, name: rows}
  - {op: grouped_gemm, m: 2*tokens, n: inner, k: hidden, groups: 4, tile: 128x256, after: rows}
`
	scatterExperts = `
machine: h200:4
iterations: 3
type: bf16
shape: {tokens: %d, hidden: 4096, inner: 1536}
graph:
  - {op: grouped_gemm, m: 2*tokens, n: hidden, k: inner, groups: 4, tile: 128x256}
  - {op: sum, count: tokens*hidden, width: hidden, parts: 2}
  - {op: reduce_scatter, count: tokens*hidden}
`
)

// kernels counts the launches on rank 0 by name.
func kernels(out compare.Outcome) map[string]int {
	n := map[string]int{}
	for _, s := range out.Result.Run.Spans {
		if out.Result.Run.RankOf(s) == 0 && out.Result.Run.Kernel(s) != nil && s.Kind.OnDevice() {
			n[out.Result.Run.NameOf(s)]++
		}
	}
	return n
}

// Where the rows that each expert has of a rank are whole tiles, every tile needs one shard, and
// the pipeline takes as long as that of one GEMM whose rows are sorted by rank. Where they are
// not, tiles wait for the later one of two shards, and nothing gets faster (rule O20).
func TestTilesOfExperts(t *testing.T) {
	one := func(w *workload.Workload) *workload.Workload {
		for i := range w.Ops {
			if w.Ops[i].Shape.Groups > 1 {
				k := *w.Ops[i].Kernel
				k.Shape.Groups = 0
				w.Ops[i].Kernel = &k
			}
		}
		return w
	}
	m := plantest.Bare(t, 4, machine.Switch)
	for _, c := range []struct {
		tokens int
		whole  bool
	}{{4096, true}, {8192, true}, {4096 - 4*32, false}} {
		text := fmt.Sprintf(gatherExperts, c.tokens)
		w, _ := plantest.OperatorOf(t, text)
		experts := enginetest.Outcome(t, w, m, "onesided", enginetest.Settings("graph=on"))
		if experts.Result == nil {
			t.Fatal(experts.Why)
		}
		w, _ = plantest.OperatorOf(t, text)
		sorted := enginetest.Outcome(t, one(w), m, "onesided", enginetest.Settings("graph=on"))
		if sorted.Result == nil {
			t.Fatal(sorted.Why)
		}
		if c.whole && experts.Time != sorted.Time || experts.Time < sorted.Time {
			t.Errorf("%d tokens: %d ns, rows sorted by rank %d", c.tokens, experts.Time, sorted.Time)
		}
	}
}

// The permutation is part of the kernel that reads rows through an index; chunks have one each.
// Every strategy sends the tokens once.
func TestGatheredExperts(t *testing.T) {
	w, m := plantest.OperatorOf(t, fmt.Sprintf(gatherExperts, 8192))
	base := enginetest.Outcome(t, w, m, "bulk", nil)
	m.Fabric.StoreRing, m.Fabric.StoreSpread = m.Fabric.Egress, m.Fabric.Egress // stores count as their bytes
	bytes := 3 * 0.75 * 2 * 8192 * 4096.0
	for _, c := range []struct {
		strategy, set    string
		permutes, chunks int
	}{
		{"onesided", "", 0, 1},
		{"onesided", "impl=push", 0, 1},
		{"decompose", "chunks=4", 4, 4},
	} {
		got := enginetest.Outcome(t, w, m, c.strategy, enginetest.Settings(c.set))
		if got.Result == nil {
			t.Fatalf("%s %s: %s", c.strategy, c.set, got.Why)
		}
		if n := kernels(got); n["permute"] != 3*c.permutes || n["grouped_gemm_tile_128x256"] != 3*c.chunks {
			t.Errorf("%s %s: %v", c.strategy, c.set, n)
		}
		if b := enginetest.Sum(enginetest.Sent(got)); !plantest.Near(b, bytes) {
			t.Errorf("%s %s: rank 0 sent %.0f bytes, want %.0f", c.strategy, c.set, b, bytes)
		}
		if c.strategy == "onesided" && got.Time >= base.Time {
			t.Errorf("%s %s: %d ns, bulk %d", c.strategy, c.set, got.Time, base.Time)
		}
	}
}

// With the gather on a stream of its own the permutation of a chunk runs on the stream of
// compute, and chunks of the gather alongside.
func TestGatheredExpertsOnTwoStreams(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(gatherExperts, 8192), "name: gather}", "name: gather, stream: communication}", 1)
	w, m := plantest.OperatorOf(t, text)
	if len(w.Pairs) != 3 || w.Pairs[0].Experts != 2 {
		t.Fatalf("pairs %+v", w.Pairs)
	}
	for _, set := range []string{"decompose", "onesided"} {
		got := enginetest.Outcome(t, w, m, set, nil)
		if got.Result == nil {
			t.Fatal(got.Why)
		}
		want := map[string]int{"decompose": 12, "onesided": 0}[set]
		if n := kernels(got); n["permute"] != want {
			t.Errorf("%s: %v", set, n)
		}
	}
}

// The sums over the experts of a token are stored by a kernel of 16 workgroups, or of as many as
// the user says, which reads two rows for each that it stores (rule O21).
func TestScatteredExperts(t *testing.T) {
	w, _ := plantest.OperatorOf(t, fmt.Sprintf(scatterExperts, 8192))
	m := plantest.Bare(t, 4, machine.Switch)
	const tokens = 2 * 8192 * 4096.0 // bytes
	for _, set := range []string{"", "blocks=32", "swizzle=mesh"} {
		got := enginetest.Outcome(t, w, m, "onesided", enginetest.Settings(set))
		if got.Result == nil {
			t.Fatal(got.Why)
		}
		n := kernels(got)
		if n["sum_elementwise_kernel"] != 0 || n["reduce_scatter"] != 3 || n["sum of 4 partial results"] != 3 {
			t.Errorf("%q: %v", set, n)
		}
		if b := enginetest.Sum(enginetest.Sent(got)); !plantest.Near(b, 3*0.75*tokens) {
			t.Errorf("%q: rank 0 sent %.0f bytes, want %.0f", set, b, 3*0.75*tokens)
		}
		blocks := 16
		if set == "blocks=32" {
			blocks = 32
		}
		for _, s := range got.Result.Run.Spans {
			if k := got.Result.Run.Setup(got.Result.Run.Kernel(s)); got.Result.Run.NameOf(s) == "reduce_scatter" && s.Kind.OnDevice() && k.WGs() != blocks {
				t.Fatalf("%q: %d workgroups, want %d", set, k.WGs(), blocks)
			}
		}
	}
}

// The communication kernel is launched before the GEMM that waits for it, so it finds its slots
// (rule O9).
func TestCommKernelFindsSlots(t *testing.T) {
	w, m := plantest.OperatorOf(t, fmt.Sprintf(scatterExperts, 8192))
	out := enginetest.Outcome(t, w, m, "onesided", nil)
	if out.Result == nil {
		t.Fatal(out.Why)
	}
	first := map[trace.Kind]trace.Time{}
	for _, x := range out.Result.Run.Spans {
		if _, seen := first[x.Kind]; !seen && out.Result.Run.RankOf(x) == 0 {
			first[x.Kind] = x.Start
		}
	}
	if first[trace.Collective] > first[trace.Compute] {
		t.Errorf("the communication kernel starts at %d ns, the GEMM at %d", first[trace.Collective], first[trace.Compute])
	}
}

// In chunks of tokens each has its own GEMM, sum and scatter, and the bytes are those of the whole;
// a layer of both is one pipeline.
func TestExpertsInChunks(t *testing.T) {
	w, m := plantest.OperatorOf(t, fmt.Sprintf(scatterExperts, 8192))
	got := enginetest.Outcome(t, w, m, "decompose", nil)
	if got.Result == nil {
		t.Fatal(got.Why)
	}
	for name, n := range kernels(got) {
		if n != 3*4 {
			t.Errorf("%d of %s, want four in each of three steps", n, name)
		}
	}
	if b, want := enginetest.Sum(enginetest.Sent(got)), 3*0.75*2*8192*4096.0; !plantest.Near(b, want) {
		t.Errorf("rank 0 sent %.0f bytes, want %.0f", b, want)
	}
	w, m = plantest.SampleOperator(t, "td-moe")
	got = enginetest.Outcome(t, w, m, "decompose", enginetest.Settings("chunks=2"))
	if got.Result == nil {
		t.Fatal(got.Why)
	}
	if b, want := enginetest.Sum(enginetest.Sent(got)), 3*2*7.0/8*2*8192*4096; !plantest.Near(b, want) {
		t.Errorf("layer: rank 0 sent %.0f bytes, want %.0f", b, want)
	}
}

// A row is stored when the tiles of all of its experts are there. On a machine on which only tiles
// and links take time, the first of four shards is computed in a quarter of the GEMM's eight waves
// of two workgroups a compute unit. Workgroups that sum take slots of its own, but on their compute
// units one tile takes half as long as two. Of 16 of these, the links' 100 µs for each of three shards
// follow, and 64 rounds of 630 ns for the own one; four take 256 rounds for each of the four.
func TestScatteredExpertsByHand(t *testing.T) {
	w, _ := plantest.OperatorOf(t, fmt.Sprintf(scatterExperts, 8192))
	wave := w.Ops[0].Dur() / 8 // of 2048 tiles in 264 slots
	for blocks, want := range map[int]trace.Time{16: 2*wave + 3*100_000 + 64*630, 4: 2*wave + 4*256*630} {
		got := enginetest.Outcome(t, w, plantest.Bare(t, 4, machine.Switch), "onesided", enginetest.Settings(fmt.Sprintf("graph=on:blocks=%d", blocks)))
		if got.Result == nil {
			t.Fatal(got.Why)
		}
		if compare.Abs(got.Simulated-want) > want/100 {
			t.Errorf("%d workgroups: %d ns, want %d", blocks, got.Simulated, want)
		}
	}
}

// What cannot send sums of rows says so.
func TestScatteredExpertsRefused(t *testing.T) {
	w, m := plantest.OperatorOf(t, fmt.Sprintf(scatterExperts, 8192))
	for strategy, want := range map[string]string{
		"onesided:impl=store":     "impl=push",
		"onesided:impl=pull":      "impl=push",
		"onesided:blocks=132":     "leaves the GEMM none of 132 compute units",
		"onesided:gemm=chunks":    "gemm=chunks sends what a GEMM makes",
		"fused":                   "sums of 2 rows each of grouped_gemm_tile_128x256",
		"trigger":                 "sums of 2 rows each",
		"decompose:variant=waves": "sums of 2 rows each",
		"decompose:variant=ring":  "sums of 2 rows each",
	} {
		name, set, _ := strings.Cut(strategy, ":")
		if got := enginetest.Outcome(t, w, m, name, enginetest.Settings(set)); got.Result != nil || !strings.Contains(got.Why, want) {
			t.Errorf("%s: %q, want %q", strategy, got.Why, want)
		}
	}
}
