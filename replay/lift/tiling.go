package lift

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// grid is the tiling of a kernel of which nothing but the grid counts.
func grid(k trace.Setup) workload.Tiling {
	n := k.WGs()
	if n == 0 {
		return workload.Tiling{}
	}
	return workload.Tiling{Tiles: n, WGs: n, Evidence: "grid"}
}

// tiling finds the logical workgroups of a compute kernel: those of the grid, or,
// for a persistent kernel, the tiles that its workgroups share (rule G8).
func (r *kernelReader) tiling(op *workload.Op, k trace.Setup, batch int64, reset bool) workload.Tiling {
	t := grid(k)
	slots := residents(&r.run.Ranks[r.run.RankOf(r.run.Spans[op.Span])].Device, k, op.Footprint.Registers)
	if given, ok := lookUp(r.tiles, op.Name, k); ok {
		take(&t, given, op.Shape, batch, slots)
		return t
	}
	name := r.name(op)
	if op.Shape.Kind == workload.NoShape && name.class == workload.ClassMatrix && name.tiled {
		byNamedTile(&t, name.tile, slots)
	}
	if op.Shape.Kind != workload.GEMM && op.Shape.Kind != workload.GEMV || !name.tiled {
		return t
	}
	tile := name.tile.orient(op.Shape, batch, t.WGs)
	t.Depth = name.tile.depth
	tiles := tile.count(op.Shape, batch)
	if tiles > mostTiles {
		return t
	}
	settle(&t, tile.rows, tile.cols, tiles, slots)
	if n := tile.down * tile.across; n > 1 && t.WGs%n == 0 {
		t.Cluster = n
		t.Evidence += fmt.Sprintf("; %d workgroups a cluster", n)
	}
	if t.Persistent && machine.CeilDiv(t.Tiles, t.WGs) > 2 && reset {
		t.Dynamic = true
		t.Evidence += "; a counter is reset before it: tiles beyond the second are handed out"
	}
	return t
}

// byNamedTile notes the tile that a GEMM's name gives where its sizes are unknown: its output has
// about as many elements as the grid times the tile, unless it is split along K or
// persistent (rule G8).
func byNamedTile(t *workload.Tiling, tile namedTile, slots int) {
	laid := laidTile{rows: tile.first, cols: tile.second}
	if tile.transposed {
		laid = laid.turned()
	}
	t.TileM, t.TileN = laid.rows, laid.cols
	if t.WGs == 0 {
		t.Evidence = fmt.Sprintf("the name's %d×%d; the trace has no grid", laid.rows, laid.cols)
		return
	}
	if slots > 0 && t.WGs <= slots {
		t.Evidence = fmt.Sprintf("grid; the name's %d×%d; all workgroups are resident at once, and may have several tiles each", laid.rows, laid.cols)
		return
	}
	elements := float64(t.WGs) * float64(laid.rows) * float64(laid.cols)
	t.Evidence = fmt.Sprintf("grid; the name's %d×%d, one a workgroup, makes an output of %.3g million elements", laid.rows, laid.cols, elements/1e6)
}

// take lets what the user said of a kernel's tiles stand for what was found.
func take(t *workload.Tiling, given workload.Tiling, s workload.Shape, batch int64, slots int) {
	tiles := cmp.Or(given.Tiles, count(s, batch, given.TileM, given.TileN))
	t.Persistent = given.Persistent || t.WGs > 0 && tiles > t.WGs && fits(t.WGs, slots)
	t.Dynamic = given.Dynamic
	t.TileM, t.TileN = given.TileM, given.TileN
	if tiles > 0 {
		t.Tiles = tiles
	}
	t.Evidence = "given"
}

// settle decides between a plain and a persistent kernel, given the tile of the
// kernel's name and how many of it the output needs.
func settle(t *workload.Tiling, rows, cols, tiles, slots int) {
	shape := fmt.Sprintf("the name's %d×%d", rows, cols)
	switch {
	case t.WGs == 0:
		t.TileM, t.TileN, t.Tiles = rows, cols, tiles
		t.Evidence = shape + " over the output: the trace has no grid"
	case tiles <= t.WGs:
		t.TileM, t.TileN = rows, cols
		t.Evidence = shape + ", one a workgroup"
		if tiles < t.WGs {
			t.Evidence = fmt.Sprintf("%s would make %d; the grid has more: split along K, or padded", shape, tiles)
		}
	case fits(t.WGs, slots):
		t.TileM, t.TileN, t.Tiles, t.Persistent = rows, cols, tiles, true
		t.Evidence = fmt.Sprintf("%s over the output, shared by a grid that fits on the device at once", shape)
	default: // a workgroup covers more than the name says
		t.Evidence = fmt.Sprintf("grid; %s would make %d tiles", shape, tiles)
	}
}

// fits reports whether a grid is resident as a whole; slots is 0 where the device is unknown.
func fits(wgs, slots int) bool { return slots == 0 || wgs <= slots }

// mostTiles is more than an output in the memory of a GPU has: of 128×128 elements of two bytes 550 GB. An operator of which a
// trace says so has wrong sizes.
const mostTiles = 1 << 24

// count is the number of tiles of rows×cols that a batch of outputs needs; 0 where unknown.
func count(s workload.Shape, batch int64, rows, cols int) int {
	if rows <= 0 || cols <= 0 || s.M <= 0 || s.N <= 0 {
		return 0
	}
	n, ok := volume([]int64{batch, max(1, machine.CeilDiv(s.M/batch, int64(rows))), machine.CeilDiv(s.N, int64(cols))})
	if !ok {
		return 0
	}
	return int(n)
}

// maxResidents is the most workgroups that one CU holds, on NVIDIA since 2016
// but for some small parts; AMD's limit by waves is reached through threads.
const maxResidents = 32

// residents is how many workgroups of the kernel, with so many registers a thread, fit on
// the device at once; 0 where unknown.
func residents(d *trace.Device, k trace.Setup, registers int) int {
	if d.CUs <= 0 || k.Threads() <= 0 {
		return 0
	}
	threads := k.Threads()
	if d.WaveSize > 0 {
		threads = machine.CeilDiv(threads, d.WaveSize) * d.WaveSize
	}
	has := func(n int) machine.Quantity { return machine.Quantity{Value: float64(n)} }
	g := machine.GPU{Threads: has(d.ThreadsPerCU), Registers: has(d.RegistersPerCU), Shared: has(d.SharedPerCU), WGs: has(maxResidents)}
	if d.ComputeMajor >= 8 && d.WaveSize == 32 {
		g.SharedSpare = has(1024) // the driver's, of every workgroup, since compute capability 8.0
	}
	return d.CUs * max(1, g.Residents(threads, registers, int(k.Shared)))
}

// A laidTile is one as it lies on the output, and the tiles of its cluster.
type laidTile struct{ rows, cols, down, across int }

// orient says how a tile lies on the output: as its library lays it, unless
// only the other way gives the number of workgroups. A workload file states its tiles, which
// may be split along K.
func (t namedTile) orient(s workload.Shape, batch int64, wgs int) laidTile {
	laid := laidTile{t.first, t.second, max(1, t.along1st), max(1, t.along2nd)}
	if t.transposed {
		laid = laid.turned()
	}
	if other := laid.turned(); !t.stated && laid.count(s, batch) != wgs && other.count(s, batch) == wgs {
		return other
	}
	return laid
}

func (t laidTile) turned() laidTile { return laidTile{t.cols, t.rows, t.across, t.down} }

// count is the number of tiles that a batch of outputs needs, those of clusters
// that stick out included.
func (t laidTile) count(s workload.Shape, batch int64) int {
	return count(s, batch, t.rows*t.down, t.cols*t.across) * t.down * t.across
}

// Roles of kernels by their names are in names.go of package workload. Sizes and tiles by names of kernels are in this file,
// names of host calls and of serving engines' ranges in calls.go, ranges of frameworks in annotate.go.

// elements is the number of elements that one of PyTorch's elementwise kernels covers, to a workgroup: a vector a thread, or
// as many elements a thread as its template says (aten/src/ATen/native/cuda/CUDALoops.cuh).
func elements(op *workload.Op) int64 {
	if _, each, ok := strings.Cut(op.Name, "::elementwise_kernel<128, "); ok {
		return vectorElements(op, op.Name[:len(op.Name)-len(each)])
	}
	return vectorElements(op, "vectorized_elementwise_kernel<")
}

// normElements is the rows times columns of one of FlashInfer's norms, which has a workgroup a row and
// as many threads as the row has vectors, in whole warps and at most 1024, where they take turns
// (flashinfer, include/flashinfer/norm.cuh); 0 for another kernel.
func normElements(op *workload.Op) int64 {
	const most = 1024
	if !strings.Contains(op.Name, "flashinfer::norm::") || op.Footprint.Threads >= most {
		return 0
	}
	return vectorElements(op, "RMSNormKernel<")
}

// rowwise finds the norms that have a workgroup a row, or a number of rows that their template states: in
// PyTorch, vLLM and FlashInfer (aten/src/ATen/native/cuda/layer_norm_kernel.cu; csrc/layernorm_kernels.cu and
// csrc/quantization/fused_kernels; include/flashinfer/norm.cuh), in aiter (csrc/kernels/rmsnorm_quant_kernels.cu) and
// CK Tile (include/ck_tile/ops/{rmsnorm2d,layernorm2d,add_rmsnorm2d_rdquant}: the first side of the block's shape).
var rowwise = regexp.MustCompile(`vectorized_layer_norm_kernel|rms_norm_\w*kernel<|flashinfer::norm::|add_rmsnorm_quant_kernel<(?:.*, (\d{1,2})>)?|(?:norm2dFwd|Rmsnorm2dRdquantFwd)<.*?BlockShape<ck_tile::sequence<(\d{1,2}), `)

// normRows is the rows of a norm that has a workgroup for each or for a stated number; 0 for another kernel.
func normRows(op *workload.Op) int64 {
	if !strings.Contains(op.Name, "norm") { // millions of kernels have names without it
		return 0
	}
	m := rowwise.FindStringSubmatch(op.Name)
	if m == nil {
		return 0
	}
	each, err := strconv.Atoi(m[1] + m[2])
	if err != nil {
		each = 1
	}
	return int64(op.Tiling.WGs * each)
}

// vectorElements is the elements of a kernel whose first template argument is the length of a vector.
func vectorElements(op *workload.Op, name string) int64 {
	_, rest, ok := strings.Cut(op.Name, name)
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	vector, err := strconv.Atoi(strings.TrimSuffix(digits, "u"))
	if err != nil || vector <= 0 || vector > 16 {
		return 0
	}
	return int64(op.Tiling.WGs) * int64(op.Footprint.Threads) * int64(vector)
}

// elementSize is the bytes of an element of the first type in a kernel's name: Sum_bf16, <__nv_bfloat16, 8>, or PyTorch's <c10::BFloat16, 16> and
// CUDAFunctor_add<c10::BFloat16>.
func elementSize(kernel string) (size int64) {
	first := len(kernel)
	for name, n := range map[string]int64{"bfloat16,": 2, "::BFloat16,": 2, "_add<c10::BFloat16>": 2, "__half,": 2, "<c10::Half,": 2, "_add<c10::Half>": 2, "<float,": 4, "_add<float>": 4, "_bf16": 2, "_f16": 2, "_f32": 4, "_f64": 8, "_i8": 1, "_u8": 1, "_i32": 4, "_u32": 4, "_i64": 8, "_u64": 8} {
		if at := strings.Index(kernel, name); at >= 0 && at < first {
			first, size = at, n
		}
	}
	return size
}

// A namedTile is the tile that a kernel's name gives, first and second side, and
// how many such tiles a cluster of workgroups computes along each; 0 where the
// name does not say.
type namedTile struct {
	first, second      int
	along1st, along2nd int
	transposed         bool // the first side lies along N: BLAS, which counts by columns, sees the transpose
	stated             bool // the first side lies along M for certain
	depth              int  // elements along K of a step, where stated; 0: unknown
}

// nameTile reads the tile off a kernel's name, in the forms that libraries write:
//
//	nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT     cuBLAS, compute capability 9.0 on
//	ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn     cuBLAS, and CUTLASS in it
//	sm80_xmma_gemm_f16f16_..._tilesize192x128x32_...   cuBLAS
//	Cijk_Ailk_Bljk_BBS_BH_..._MT256x128x64_...         Tensile: rocBLAS, hipBLASLt
//	ck::kernel_gemm_xdl_cshuffle_v3<...>               Composable Kernel: see trace.Tile
//	deep_gemm::sm90_fp8_gemm_1d2d_impl<...>            DeepGEMM: see deepGEMM
//	gemm_tile_64x256x32                                workload files, rows first, and the depth of a step
//
// A cluster stands behind cuBLAS's depth and stages (64x4_1x2: one by two), and
// right behind CUTLASS 3's tile (128x256x64_2x1x1).
func nameTile(kernel string) (t namedTile, ok bool) {
	if m, n, k, ok := trace.Tile(kernel); ok {
		return namedTile{first: m, second: n, depth: k}, true
	}
	if _, _, t, ok := deepGEMM(kernel); ok {
		return namedTile{first: t[0], second: t[1], depth: t[2], stated: true}, true
	}
	if i := strings.IndexByte(kernel, '('); i > 0 {
		kernel = kernel[:i]
	}
	nvjet := strings.HasPrefix(kernel, "nvjet")
	gemm := nvjet
	words := strings.Split(kernel, "_")
	for i, word := range words {
		sides := word
		switch {
		case strings.HasPrefix(word, "tilesize"):
			sides = word[len("tilesize"):]
		case strings.HasPrefix(word, "MT"):
			sides = word[len("MT"):]
		case strings.Contains(word, "gemm"):
			gemm = true
			continue
		case !gemm:
			continue
		}
		if t.first, t.second, ok = twoSides(sides); ok {
			t.transposed = nvjet || strings.HasPrefix(word, "MT")
			if t.stated = words[max(0, i-1)] == "tile"; t.stated && strings.Count(sides, "x") == 2 {
				t.depth, _ = strconv.Atoi(sides[strings.LastIndexByte(sides, 'x')+1:]) // a number, as twoSides read it
			}
			behind := i + 1
			if nvjet {
				behind++
			}
			if nvjet || strings.HasPrefix(kernel, "cutlass3x") {
				t.along1st, t.along2nd = nameCluster(words, behind)
			}
			return t, true
		}
	}
	return namedTile{}, false
}

// nameCluster reads the cluster that one of the words gives, no larger than any GPU has.
func nameCluster(words []string, at int) (along1st, along2nd int) {
	const most = 16
	if at < len(words) {
		if a, b, ok := twoSides(words[at]); ok && a*b <= most {
			return a, b
		}
	}
	return 0, 0
}

// twoSides reads 256x128, or 256x128x64.
func twoSides(s string) (first, second int, ok bool) {
	a, rest, ok := strings.Cut(s, "x")
	if !ok {
		return 0, 0, false
	}
	b, c, three := strings.Cut(rest, "x")
	first, errA := strconv.Atoi(a)
	second, errB := strconv.Atoi(b)
	if three {
		if _, err := strconv.Atoi(c); err != nil {
			return 0, 0, false
		}
	}
	ok = errA == nil && errB == nil && first > 0 && second > 0 && first <= maxSide && second <= maxSide
	return first, second, ok
}

// sharesTiles finds names of GEMMs of which several workgroups compute one tile, each a part of K. Tensile writes the number of
// parts as GSU, and the kind of stream-K as SK, where 0 is none (Tensile/SolutionStructs: GlobalSplitU, StreamK).
var sharesTiles = regexp.MustCompile(`splitk|streamk|_gsu([2-9]|\d\d)|_sk[1-9]`)

// maxSide is more than any tile's side; beyond it, a name means something else.
const maxSide = 4096

// tensileRegisters is the number of 32-bit vector registers of a thread of a Tensile kernel
// (rocBLAS, hipBLASLt), from its name; 0 for other kernels. Traces seldom have it, and it
// decides how many workgroups fit on a compute unit, and whether a channel of a collective
// fits next to one. It follows from the accumulators of a thread, which are the macro tile
// over the workgroup's threads (rule D1):
//
//	Cijk_Ailk_Bljk_BBS_BH_..._MT512x144x32_MI16x16x1_..._WG64_4_1   288 accumulators, 512 registers
func tensileRegisters(kernel string) int {
	if !strings.HasPrefix(kernel, "Cijk_") {
		return 0
	}
	tile := strings.Split(fieldsOf(kernel, "_MT", 1), "x")
	threads := product(strings.SplitN(fieldsOf(kernel, "_WG", 3), "_", 3))
	if len(tile) != 3 || threads == 0 {
		return 0
	}
	accumulators := float64(product(tile[:2])) / float64(threads)
	if accumulators < 1 {
		return 0
	}
	const granule, most = 8, 512 // of a wave
	for i, row := range tensileTable[1:] {
		if before := tensileTable[i]; accumulators <= row.accumulators || i == len(tensileTable)-2 {
			slope := (row.registers - before.registers) / (row.accumulators - before.accumulators)
			registers := before.registers + slope*(accumulators-before.accumulators)
			return min(most, machine.CeilDiv(max(1, int(registers)), granule)*granule)
		}
	}
	return 0
}

// tensileTable is the median registers of 4,051 Tensile kernels of the code objects that a
// rocprofv3 capture on MI350X lists (AMD-AGI/TraceLens, tests/rocprof/908_results.json:
// arch_vgpr_count, and the accumulators of kernels that keep them in accumulation
// registers), by accumulators.
var tensileTable = [...]struct{ accumulators, registers float64 }{
	{0, 40}, {8, 56}, {16, 84}, {32, 128}, {64, 192}, {96, 248}, {128, 320}, {192, 416}, {256, 488},
}

// fieldsOf is n parts of a name behind a key, joined by underscores: 64_4_1 behind _WG.
func fieldsOf(kernel, key string, n int) string {
	_, rest, ok := strings.Cut(kernel, key)
	words := strings.Split(strings.TrimSuffix(rest, ".kd"), "_")
	if !ok || len(words) < n {
		return ""
	}
	return strings.Join(words[:n], "_")
}

// product is the product of numbers; 0 if one is none, or implausibly large.
func product(words []string) int {
	p := 1
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n <= 0 || n > maxSide {
			return 0
		}
		p *= n
	}
	return p
}
