package lift

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

var update = flag.Bool("update", false, "rewrite the goldens")

const root = "../.."

// open lifts a trace that lies alongside or in the checkout; it skips where that is absent.
func open(t testing.TB, path string, o Options) *workload.Workload {
	t.Helper()
	path = filepath.Join(root, path)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s alongside the checkout", path)
	}
	run := must.Have(format.Open(path, format.Options{}))(t)
	run.Name = filepath.Base(path)
	w := must.Have(Workload(run, o))(t)
	checkInvariants(t, w)
	return w
}

// TestTraces compares what is found in real traces with testdata/NAME.golden.
func TestTraces(t *testing.T) {
	for _, c := range []struct {
		path string
		o    Options
	}{
		{path: "samples/moe-ep4"},
		{path: "samples/llama70b-prefill"},
		{path: "samples/llama70b-fc2-allreduce"},
		{path: "samples/measurements/2026-11-20-h200x4/traces/bulk_moe_down_all_to_all"},
		{path: "samples/measurements/2026-11-20-h200x4/traces/holdout_bulk_ag_q3"},
		{path: "samples/measurements/2026-11-20-h200x4/traces/decompose4_llama70b_fc2_tp4_all_reduce"},
		{path: "samples/measurements/2026-11-20-h200x4/traces/pipe_multistream_llama70b_fc2_tp4_all_reduce"},
		{path: "samples/measurements/2026-11-20-h200x4/traces/llama70b_tp4_train"},
		{path: "samples/measurements/2026-11-20-h200x4/traces/bulk_gemv_n8192_k2048"},
		{path: "samples/measurements/2026-11-20-h200x4/traces/dlrm_train"},
		{
			path: "samples/measurements/2026-11-20-h200x4/traces/bulk_triton_moe_down",
			o: Options{
				Shapes: map[string]workload.Shape{"gemm_k": {M: 8192, N: 4096, K: 3584, ElemSize: 2, DType: "bf16"}},
				Tiles:  map[string]workload.Tiling{"gemm_k": {TileM: 128, TileN: 256}},
			},
		},
		{
			path: "samples/measurements/2026-11-20-h200x4/traces/bulk_embsame_b1024_t64_p1056",
			o: Options{
				Shapes: map[string]workload.Shape{"emb_k": {Kind: workload.Embedding, M: 65536, N: 256, K: 64, ElemSize: 4, DType: "f32"}},
				Tiles:  map[string]workload.Tiling{"emb_k": {Tiles: 65536}},
			},
		},
		{
			path: "samples/measurements/2026-11-20-h200x4/traces/stream_mlp_b512",
			o: Options{Shapes: map[string]workload.Shape{
				"sync_k@192": {M: 512, N: 6144, K: 12288, ElemSize: 2, DType: "bf16"},
				"sync_k@384": {M: 512, N: 12288, K: 6144, ElemSize: 2, DType: "bf16"},
			}},
		},
		{path: "../shared/data/traces/astra-sim-mytest/megatron-tp8"},
		{path: "../shared/data/traces/ROCM-sdma-rccl-test/ag_gemm_llama70b_ffn_down_sdma_rank0.json"},
		{path: "../shared/data/traces/HPCTrainingExamples-TraceLens/merged_nccl_only.json.gz"},
		{path: "../shared/data/traces/HTA/negative_queue_length_values_check"},
		{path: "../shared/data/traces/TraceLens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"},
	} {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(c.path), ".gz"), ".json")
		t.Run(name, func(t *testing.T) {
			golden(t, name, report(open(t, c.path, c.o)))
		})
	}
}

// report draws a summary for a golden: everything but bookkeeping kernels and sources.
func report(w *workload.Workload) []byte {
	s := workload.Of(w, nil)
	var b bytes.Buffer
	fmt.Fprintf(&b, "world %d, captured %d, %d ops\n", s.World, s.Captured, len(w.Ops))
	const most = 16
	for i, k := range s.Kernels {
		if i == most {
			fmt.Fprintf(&b, "and %d kernels more\n", len(s.Kernels)-most)
			break
		}
		fmt.Fprintf(&b, "kernel %d× %s %s: median %d ns, %q, %d workgroups, %d tiles %s %s (%s)\n",
			k.Count, k.Kind, workload.FunctionName(k.Name), k.MedianNs, k.Shape, k.Workgroups, k.Tiles, k.Tile, k.Schedule, k.Evidence)
	}
	for _, c := range s.Collectives {
		fmt.Fprintf(&b, "collective %d× %s of %d bytes, %d paired, group %q, %d ranks, %d channels: transfer %d ns, skew %d to %d ns (%s)\n",
			c.Count, c.Op, c.Bytes, c.Paired, c.Group, c.Ranks, c.Channels, c.TransferNs, c.SkewNs, c.MaxSkewNs, c.Evidence)
	}
	for _, p := range s.Pairs {
		fmt.Fprintf(&b, "pair %d× %s: %s, %s; %d bytes, confidence %.2f (%s)\n",
			p.Count, p.Direction, workload.FunctionName(p.First), workload.FunctionName(p.Second), p.Bytes, p.Confidence, strings.Join(p.Evidence, "; "))
	}
	for _, st := range s.Steps {
		fmt.Fprintf(&b, "step %s: %d ops, %d ns\n", st.Name, st.Ops, st.MedianNs)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.Bytes()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		must.Do(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if !bytes.Equal(got, want) {
		g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Fatalf("%s:%d: got\n%s\nwant\n%s", path, i+1, g[i], w[i])
			}
		}
		t.Fatalf("%s: got %d lines, want %d", path, len(g), len(w))
	}
}

// Every GEMM whose output a collective of bulk_moe_down sends, as its program has them.
func TestBulkPairs(t *testing.T) {
	w := open(t, "samples/measurements/2026-11-20-h200x4/traces/bulk_moe_down_all_to_all", Options{})
	if len(w.Pairs) != 5 {
		t.Fatalf("%d pairs, want 5", len(w.Pairs))
	}
	for i, p := range w.Pairs {
		c := &w.Collectives[p.Collective]
		if p.Direction != workload.ComputeThenCollective || len(p.First) != 4 || p.Step != int32(i) || c.Bytes != 67108864 || c.Channels != 32 || c.Op.String() != "all_to_all" {
			t.Errorf("pair %d: %+v of %+v", i, p, c)
		}
		for k, id := range p.First {
			op := &w.Ops[id]
			tl := op.Tiling
			if op.Rank != k || op.Shape.M != 8192 || op.Shape.N != 4096 || op.Shape.K != 3584 ||
				tl.TileM != 128 || tl.TileN != 256 || tl.Tiles != 1024 || tl.WGs != 132 || !tl.Persistent || !tl.Dynamic {
				t.Errorf("pair %d: %s %+v %+v", i, op.Name, op.Shape, tl)
			}
		}
	}
}

// TestMegatron counts what eight ranks of one training step must show.
func TestMegatron(t *testing.T) {
	w := open(t, "../shared/data/traces/astra-sim-mytest/megatron-tp8", Options{})
	if w.World != 8 || w.Captured != 8 {
		t.Errorf("world %d, captured %d, want 8 and 8", w.World, w.Captured)
	}
	for rank, ids := range w.Ranks {
		gemms := 0
		for _, id := range ids {
			if w.Ops[id].Shape.Kind == workload.GEMM {
				gemms++
			}
		}
		if gemms != 241 {
			t.Errorf("rank %d: %d GEMMs, want 241", rank, gemms)
		}
	}
	if len(w.Collectives) != 84 {
		t.Errorf("%d collectives, want 84", len(w.Collectives))
	}
	reduced := 0
	for _, p := range w.Pairs {
		if p.Direction == workload.ComputeThenCollective {
			reduced++
		}
	}
	if reduced != 80 { // two of each of 40 layers
		t.Errorf("%d GEMMs before a collective, want 80", reduced)
	}
}

// Hints for a program that is not PyTorch's name nothing of PyTorch's, and a profile that has its programs needs no other.
func TestRecorder(t *testing.T) {
	for name, want := range map[string]string{
		"aten::mm": "torch", "ProfilerStep#3": "torch", "void tensorflow::functor::Fill<float>(float*)": "tf.",
		"void genericReformat::copy<float>(int)": "NVTX", "saxpy(int, float*)": "NVTX",
	} {
		run := &trace.Run{Names: []string{"", name}, Ranks: []trace.Rank{{}}}
		r := RecorderOf(run)
		if r.XLA || r.Torch != (want == "torch") || r.Torch != strings.Contains(fmt.Sprint(r), "torch") || !strings.Contains(r.Steps, want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for source, want := range map[string]string{"host.xplane.pb": "", "host.trace.json.gz": "the *.xplane.pb that JAX's profiler wrote beside this file"} {
		r := RecorderOf(&trace.Run{Names: []string{"triton_gemm"}, Ranks: []trace.Rank{{Source: source, Compiler: trace.XLA}}})
		if !r.XLA || r.Shapes != want || r.Dataflow != want || strings.Contains(fmt.Sprint(r), "torch") {
			t.Errorf("%s: %+v", source, r)
		}
	}
}

func TestSummary(t *testing.T) {
	w := lift(t, drawing{
		text: `0 mark |<s#0 ><s#1 >|
		       0 host |g  r  h  s  |
		       0 7    | GGGRR HHSS |
		       1 7    | GGGRR HHSS |`,
		parts: map[byte]part{
			'G': {name: "sgemm_16x16_x", op: gemm(32, 64, 16), grid: 8, block: 128},
			'H': {name: "sgemm_16x16_x", op: gemm(32, 64, 16), grid: 8, block: 128},
			'R': comm(trace.AllReduce, 0, 0, 4096),
			'S': comm(trace.AllReduce, 0, 1, 4096),
		},
		groups: []trace.Group{{Name: "tp", Ranks: []int{0, 1, 2}, Size: 3}},
		ranks:  []trace.Rank{{ID: 0, World: 3, Source: "rank0.json"}, {ID: 1, World: 3, Source: "rank1.json", Uncertainty: 7}},
		device: trace.Device{Name: "GPU"},
	}, Options{})
	got := must.Have(json.MarshalIndent(workload.Of(w, nil), "", "  "))(t)
	golden(t, "summary", append(got, '\n'))
}

func TestEmptyRuns(t *testing.T) {
	var none, idle trace.Builder
	idle.AddRank(trace.Rank{World: 4})
	for name, run := range map[string]*trace.Run{"no rank": none.Finish(trace.Options{}), "no span": idle.Finish(trace.Options{})} {
		w := must.Have(Workload(run, Options{}))(t)
		checkInvariants(t, w)
		if len(w.Notes) == 0 || w.Notes[len(w.Notes)-1] != "the run holds no device operation" {
			t.Errorf("%s: notes %q", name, w.Notes)
		}
		workload.Of(w, nil)
	}
}
