package lift

import (
	"fmt"
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestOperatorByNesting(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{})
	host := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
	mm := b.AddOperator(trace.Operator{Name: "aten::mm", Dims: [][]int64{{64, 32}, {32, 16}}, Types: []string{"float", "float"}})
	outer := b.Add(trace.Span{Start: 0, End: 90, Name: b.Intern("aten::mm"), Lane: host, Parent: trace.None, Kind: trace.HostCall, Attr: b.AddCall(trace.Call{Op: mm})})
	inner := b.Add(trace.Span{Start: 1, End: 80, Name: b.Intern("mark"), Lane: host, Parent: outer, Attr: trace.None})
	b.Add(trace.Span{Start: 2, End: 3, Name: b.Intern("launch"), Lane: host, Parent: inner, Kind: trace.Launch, Attr: b.AddCall(trace.Call{Correlation: 9, Op: trace.None})})
	b.Add(trace.Span{
		Start: 10, End: 20, Name: b.Intern("sgemm"), Parent: trace.None, Kind: trace.Compute,
		Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None}),
		Attr: b.AddKernel(trace.Kernel{Correlation: 9, Op: trace.None, Comm: trace.None}),
	})
	w := must.Have(Workload(b.Finish(trace.Options{}), Options{}))(t)
	if got := w.Ops[0].Shape.String(); got != "gemm 64x16x32 f32" {
		t.Errorf("got %q", got)
	}
	if w.Ops[0].Issued != 2 {
		t.Errorf("issued at %d, want 2", w.Ops[0].Issued)
	}
}

func TestTilesWithoutSizes(t *testing.T) {
	const name = "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT512x144x32_MI16x16x1_SN"
	w := lift(t, drawing{text: `0 7 | GG |`, parts: map[byte]part{'G': {name: name, grid: 912}}}, Options{})
	g := w.Ops[0].Tiling
	if g.TileM != 144 || g.TileN != 512 || g.Tiles != 912 || g.WGs != 912 || w.Ops[0].Shape.Kind != workload.NoShape {
		t.Errorf("%+v", g)
	}
	if want := "grid; the name's 144×512, one a workgroup, makes an output of 67.2 million elements"; g.Evidence != want {
		t.Errorf("%s", g.Evidence)
	}
}

// What the user says of a kernel goes before what its name and grid say.
func TestGivenTiling(t *testing.T) {
	tiled := func(name string, tiling workload.Tiling) map[string]workload.Tiling {
		return map[string]workload.Tiling{name: tiling, "emb_k": {Tiles: 7}}
	}
	product := map[string]workload.Shape{"gemm_k": {M: 8192, N: 4096, K: 3584, ElemSize: 2}}
	for _, c := range []struct {
		name string
		k    part
		o    Options
		want string
	}{
		{"a tile", part{name: "gemm_k", grid: 132, block: 256, lds: 147456}, Options{Shapes: product, Tiles: tiled("gemm_k", workload.Tiling{TileM: 128, TileN: 256})}, "132 workgroups, 1024 tiles of 128x256 persistent (given)"},
		{"tiles for one grid", part{name: "emb_k", grid: 1056, block: 64, regs: 38, lds: 1024}, Options{Tiles: tiled("emb_k@1056", workload.Tiling{Tiles: 65536})}, "1056 workgroups, 65536 tiles of 0x0 persistent (given)"},
		{"by the part of the name that people say", part{name: "void at::emb_k<float>(int)", grid: 1056, block: 64}, Options{Tiles: tiled("at::emb_k", workload.Tiling{Tiles: 65536, Dynamic: true})}, "1056 workgroups, 65536 tiles of 0x0 persistent dynamic (given)"},
	} {
		w := lift(t, drawing{text: `0 7 | ABBB |`, device: h200, parts: map[byte]part{'B': c.k}}, c.o)
		if got := asks["tiling"](w); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A list of tensors that is concatenated is read and written once: with the size of another tensor's elements, else
// with that of the kernel's name, else its traffic is unknown.
func TestConcatenated(t *testing.T) {
	list := [][][]int64{{{4, 2048, 5504}, {4, 2048, 5504}}}
	for _, c := range []struct {
		op     trace.Operator
		kernel string
		want   float64
	}{
		{trace.Operator{Name: "aten::cat", Lists: list, Dims: [][]int64{nil, nil}, Types: []string{"TensorList", "Scalar"}}, "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3, 64, 64>", 4 * 2048 * 5504 * 2 * 2},
		{trace.Operator{Name: "aten::cat", Lists: list, Dims: [][]int64{nil, nil}, Types: []string{"TensorList", "Scalar"}}, "CatArray", 0},
		{trace.Operator{Name: "aten::_chunk_cat", Lists: [][][]int64{{{100}, {3, 4}}}, Dims: [][]int64{nil, nil, nil, {2, 56}}, Types: []string{"TensorList", "Scalar", "Scalar", "float"}}, "chunk_cat_cuda_kernel<char, char>", 112 * 4},
	} {
		if got := concatenated(&c.op, c.kernel); got != c.want || !concatenates(&c.op) {
			t.Errorf("%s by %s: %.0f bytes, want %.0f", c.op.Name, c.kernel, got, c.want)
		}
	}
	if concatenates(&trace.Operator{Name: "aten::split_with_sizes_copy", Lists: list}) {
		t.Error("its list is the output")
	}
}

func TestCopyTraffic(t *testing.T) {
	for dir, want := range map[trace.CopyDir]string{
		trace.HostToDevice: "0 8", trace.DeviceToHost: "8 0", trace.DeviceToDevice: "8 8",
		trace.PeerToPeer: "8 0", trace.Fill: "0 8", trace.UnknownDir: "0 0",
	} {
		r, w := copyTraffic(&trace.CopyAttr{Bytes: 8, Dir: dir})
		if got := fmt.Sprint(r, w); got != want {
			t.Errorf("%s: got %s, want %s", dir, got, want)
		}
	}
}

// Older traces number operators and launches apart; then only nesting joins them.

// FlashInfer's norms show the rows and columns that they read by their grids.
func TestNormElements(t *testing.T) {
	for _, c := range []struct {
		name         string
		wgs, threads int
		want         int64
	}{
		{"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", 1021, 896, 1021 * 7168},
		{"void flashinfer::norm::RMSNormKernel<4u, float>(float*)", 2, 128, 2 * 512},
		{"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", 4, 1024, 0}, // threads take turns
		{"void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)", 4, 512, 0},
	} {
		op := workload.Op{Kernel: &workload.Kernel{Name: c.name}}
		op.Tiling.WGs, op.Footprint.Threads = c.wgs, c.threads
		if got := normElements(&op); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if elementSize("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(x)") != 2 || elementSize("void vllm::cross_device_reduce_2stage<float, 4>(x)") != 4 || elementSize("void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, 2>(c10::BFloat16**)") != 2 || elementSize("void reduce<float, c10::BFloat16, 4>(x)") != 4 {
		t.Error("sizes of elements")
	}
}

// GEMMs of captured graphs have the sizes of the program that was captured (samples/capture/steps.py, serving): exactly
// where the sides follow from collectives, norms, elementwise kernels and grids, else within a quarter, by their time.
func TestShapesInGraphs(t *testing.T) {
	m := machinetest.Load(t, "h200:2")
	for _, c := range []struct {
		trace               string
		rows, hidden, inner int64 // inner: of a rank
		guessed             int   // of the four GEMMs of a layer, those with a side by time
	}{
		{"decode32", 32, 4096, 7168, 1},
		{"decode256", 256, 4096, 7168, 1},
		{"prefill1024", 1024, 4096, 7168, 3},
		{"prefill4096", 4096, 4096, 7168, 3},
		{"prefill16384", 16384, 4096, 7168, 3},
		{"prefill4096_h8192", 4096, 8192, 14336, 3},
	} {
		w := open(t, "samples/measurements/2026-11-24-h200x2-serving/traces/serving_"+c.trace+"_batches1_graphTrue", Options{})
		GuessSizes(w, &m)
		truth := [][2]int64{{3 * c.hidden / 2, c.hidden}, {c.hidden, c.hidden / 2}, {2 * c.inner, c.hidden}, {c.hidden, c.inner}}
		guessed, n := map[workload.Shape]bool{}, 0
		for i := range w.Ops {
			op := &w.Ops[i]
			if !workload.Multiplies(op) || op.Dense {
				continue
			}
			s, want := op.Shape, truth[n%4]
			if n++; s.Guessed != 0 {
				guessed[s] = true
			}
			for side, off := range map[byte]float64{'N': float64(s.N)/float64(want[0]) - 1, 'K': float64(s.K)/float64(want[1]) - 1} {
				if s.M != c.rows || s.Guessed != side && off != 0 || math.Abs(off) > 0.25 {
					t.Errorf("%s: %s is %s, want %d columns and a depth of %d", c.trace, op.Name, s, want[0], want[1])
				}
			}
		}
		if len(guessed) != c.guessed || n == 0 {
			t.Errorf("%s: %d of a layer's GEMMs have a side by time, want %d", c.trace, len(guessed), c.guessed)
		}
	}
}

func TestTensileRegisters(t *testing.T) {
	const args = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_"
	for name, want := range map[string]int{
		args + "MT512x144x32_MI16x16x1_SN_LDSB0_ISA942_MIWT8_9_WS64_WG64_4_1.kd": 512, // 288 accumulators: more than half of all registers
		args + "MT256x256x64_MI16x16x1_SN_ISA950_MIAV0_WS64_WG32_8_1":            488,
		args + "MT128x64x128_MI32x32x1_SN_ISA950_MIAV1_WS64_WG128_2_1":           128,
		args + "MT16x16x64_MI16x16x1_SN_WS64_WG16_4_1":                           48,
		args + "MT256x256x64_MI16x16x1_SN":                                       0, // no workgroup
		"Cijk_SB_GG_PostGSU2_VW2":                                                0,
		"gemm_MT256x256x64_WG16_16_1":                                            0,
		args + "MT256x0x64_WG16_16_1":                                            0,
		args + "MT99999x256x64_WG16_16_1":                                        0,
		args + "MT8x8x64_WG256_4_1":                                              0, // less than one accumulator
	} {
		if got := tensileRegisters(name); got != want {
			t.Errorf("%s: %d registers, want %d", name, got, want)
		}
	}
}

// Attention multiplies queries by keys and scores by values: 4 operations for each query, key and column, half of
// them where a query sees the keys up to its own place, and 2.5 times as many backward. The sizes of the first
// and the last are those of Llama on two H200 (FlashAttention-2, section 4.1).
func TestAttentionFlops(t *testing.T) {
	heads := [][]int64{{2, 16, 2048, 128}, {2, 8, 2048, 128}, {2, 8, 2048, 128}}
	tokens := [][]int64{{1, 8192, 32, 128}, {1, 4096, 32, 128}, {1, 4096, 32, 128}}
	grad := func(d [][]int64) [][]int64 { return append([][]int64{d[0]}, d...) }
	for _, c := range []struct {
		name   string
		dims   [][]int64
		causal bool
		want   float64
	}{
		{"aten::_cudnn_attention_forward", heads, true, 2 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_cudnn_attention_forward", heads, false, 4 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_cudnn_attention_backward", grad(heads), true, 5 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_scaled_dot_product_flash_attention", heads, true, 2 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_scaled_dot_product_efficient_attention_backward", grad(heads), false, 10 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_flash_attention_forward", tokens, false, 4 * 32 * 8192 * 4096 * 128},
		{"aten::_flash_attention_backward", grad(tokens), false, 10 * 32 * 8192 * 4096 * 128},
		{"aten::_flash_attention_forward", [][]int64{{8192, 32, 128}, {8192, 32, 128}}, true, 0}, // of several lengths
		{"aten::cudnn_convolution", [][]int64{{64, 3, 224, 224}, {64, 3, 7, 7}}, false, 0},
		{"aten::_flash_attention_backward", nil, false, 0},
	} {
		if got := attentionFlops(&trace.Operator{Name: c.name, Dims: c.dims, Causal: c.causal}); got != c.want {
			t.Errorf("%s%v, causal %v: %g operations, want %g", c.name, c.dims, c.causal, got, c.want)
		}
	}
}

var hopper = trace.Device{
	Name: "H200", CUs: 132, WaveSize: 32, ThreadsPerCU: 2048, RegistersPerCU: 65536,
	SharedPerCU: 233472, SharedPerWG: 232448, ComputeMajor: 9,
}

func TestResidents(t *testing.T) {
	kernel := func(threads, regs, shared int32) trace.Setup {
		return trace.Setup{Block: [3]int32{threads, 1, 1}, Registers: regs, Shared: shared}
	}
	mi300 := trace.Device{CUs: 304, WaveSize: 64, ThreadsPerCU: 2048, SharedPerCU: 65536}
	for _, c := range []struct {
		device trace.Device
		k      trace.Setup
		want   int
	}{
		{hopper, kernel(384, 168, 213188), 132}, // shared memory: one a CU
		{hopper, kernel(256, 64, 0), 132 * 4},   // registers
		{hopper, kernel(1024, 0, 0), 132 * 2},   // threads
		{hopper, kernel(32, 16, 0), 132 * 32},   // workgroups
		{hopper, kernel(128, 0, 116224), 132},   // two but for the driver's kilobyte each
		{hopper, kernel(1024, 255, 0), 132},     // at least one: it did run
		{mi300, kernel(256, 0, 32768), 304 * 2}, // AMD reserves none
		{mi300, kernel(65, 0, 0), 304 * 16},     // whole waves
		{trace.Device{}, kernel(256, 32, 0), 0}, // unknown
		{hopper, trace.Setup{}, 0},
	} {
		if got := residents(&c.device, c.k, int(c.k.Registers)); got != c.want {
			t.Errorf("%+v on %s: %d, want %d", c.k, c.device.Name, got, c.want)
		}
	}
}
