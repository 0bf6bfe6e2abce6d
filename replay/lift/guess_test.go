package lift

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// sequence is a run of one rank of a node of 8 GPUs, with a kernel of the length a name on
// one stream.
func sequence(t testing.TB, length trace.Time, kernels ...string) *workload.Workload {
	t.Helper()
	return must.Have(Workload(sequenceOf(t, trace.None, length, kernels...), Options{}))(t)
}

func sequenceOf(t testing.TB, id int, length trace.Time, kernels ...string) *trace.Run {
	t.Helper()
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: id, NodeGPUs: 8, Device: trace.Device{Name: "AMD Instinct MI300X"}})
	lane := b.Lane(trace.Lane{Rank: rank, Kind: trace.Queue, ID: 7, Peer: trace.None})
	for i, name := range kernels {
		k, grid := trace.Kernel{Launch: trace.None, Comm: trace.None, Op: trace.None, Origin: trace.None}, int32(304)
		s := trace.Span{Start: trace.Time(i) * length, End: trace.Time(i+1) * length, Name: b.Intern(name), Lane: lane, Parent: trace.None, Kind: trace.Compute}
		if trace.Communicates(name) {
			grid = 32
			k.Comm = b.AddComm(trace.Comm{Op: trace.KernelOp(name), Group: trace.None, Peer: trace.None, Seq: int64(i)})
			s.Kind = trace.Collective
		}
		k.Setup = b.AddSetup(trace.Setup{Grid: [3]int32{grid, 1, 1}, Block: [3]int32{256, 1, 1}})
		s.Attr = b.AddKernel(k)
		b.Add(s)
	}
	return b.Finish(trace.Options{Name: t.Name()})
}

// A kernel that is compiled for its columns and depth has the tokens of its step as rows.
func TestSizeByName(t *testing.T) {
	w := sequence(t, 10_000, "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u, 1u, 256u, 112u, 128u, 32u, 3u, 1u, 128u, 256u, 2u, true, 128u, (deep_gemm::GemmType)0, deep_gemm::EpilogueIdentity>(float*)", "sgemm")
	r := newKernelReader(w.Run, nil, nil)
	for i := range w.Ops {
		r.SizeByName(&w.Ops[i], 1021)
	}
	op, other := &w.Ops[0], &w.Ops[1]
	if got := fmt.Sprint(op.Shape, " ", op.Tiling.TileM, "×", op.Tiling.TileN, " ", other.Shape); got != "gemm 1021x7168x2048 f8 256×112 " {
		t.Error(got)
	}
	before := *op
	if r.SizeByName(op, 7); op.Shape != before.Shape {
		t.Errorf("a known size becomes %v", op.Shape)
	}
}

const generic = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"

// What a forward pass communicates last are logits, but for the sums that a norm reads.
func TestGuessedLogits(t *testing.T) {
	const head, norm = "Cijk_Alik_Bljk_BBS_MT128x64x128", "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>()"
	for _, c := range []struct {
		phase workload.Phase
		last  []string
		want  trace.CollectiveOp
	}{
		{workload.Decode, []string{head, generic}, trace.AllGather},
		{workload.NoPhase, []string{head, generic}, trace.AllReduce},
		{workload.Prefill, []string{head, generic, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"}, trace.AllReduce}, // a stage of a pipeline
	} {
		w := sequence(t, 10_000, append([]string{head, generic, norm}, c.last...)...)
		w.Steps = []workload.Step{{Batch: workload.Batch{Phase: c.phase}}}
		for i := range w.Ops {
			w.Ops[i].Step = 0
		}
		for i := range w.Collectives[:2] {
			w.Collectives[i].Op = trace.UnknownOp
		}
		guessOperations(w)
		if first, last := w.Collectives[0].Op, w.Collectives[1].Op; first != trace.AllReduce || last != c.want {
			t.Errorf("%v, %d kernels: %v and %v, want %v", c.phase, len(w.Ops), first, last, c.want)
		}
	}
}

// The guessed size takes the captured time, by the law that it was guessed with.
func TestGuessSizes(t *testing.T) {
	m := must.Have(machine.Load("mi300x"))(t)
	for _, name := range []string{"ncclDevKernel_AllGather_RING", "ncclDevKernel_AllReduce_Sum_bf16_RING", "ncclDevKernel_AllToAll"} {
		w := sequence(t, 100_000, "gemm", name)
		note := GuessSizes(w, &m)
		c := &w.Collectives[0]
		took := m.Library.Time(c.Op, c.Bytes, len(c.Members), c.Channels)
		if c.Bytes == 0 || math.Abs(took*1e9/float64(c.Transfer())-1) > 0.01 {
			t.Errorf("%s: %d bytes, which take %.1f µs of %d ns", name, c.Bytes, took*1e6, c.Transfer())
		}
		if !c.Guessed || !strings.Contains(note, "1 collective") {
			t.Errorf("%s: guessed %v, note %q", name, c.Guessed, note)
		}
		if again := GuessSizes(w, &m); again != "" {
			t.Errorf("%s: guessed twice: %s", name, again)
		}
	}
	if w := sequence(t, 100_000, "deep_ep::intranode::notify_dispatch<8>"); GuessSizes(w, &m) != "" {
		t.Error("a barrier has a size")
	}
	if w := sequence(t, 2_000_000_000, "gemm", "ncclDevKernel_AllGather_RING"); GuessSizes(w, &m) != "" {
		t.Errorf("a collective of 2 s has %d bytes, more than the memory of the GPU", w.Collectives[0].Bytes)
	}
	w := sequence(t, 100_000, "gemm", "ncclDevKernel_AllGather_RING")
	w.Collectives[0].Depart, w.Collectives[0].Shortest = w.Collectives[0].Arrive+1, 1
	if GuessSizes(w, &machine.Machine{Library: m.Library}) != "" {
		t.Error("a collective shorter than one of no bytes has a size")
	}
}

// An all-reduce has the size of the product that it adds up, as has the next one of the same kernel, which adds up experts.
func TestSizesByProducts(t *testing.T) {
	const reduce = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)"
	w := sequence(t, 10_000, "sgemm", reduce, "norm", "fused_moe_kernel", reduce, "norm2")
	k := *w.Ops[slices.IndexFunc(w.Ops, func(op workload.Op) bool { return op.Name == "sgemm" })].Kernel
	k.Shape = workload.Shape{Kind: workload.GEMM, M: 4, N: 7168, K: 512}
	for i := range w.Ops {
		if w.Ops[i].Name == "sgemm" {
			w.Ops[i].Kernel = &k
		}
	}
	if n := sizesByProducts(w); n != 2 || w.Collectives[0].Bytes != 4*7168*2 || w.Collectives[1].Bytes != 4*7168*2 {
		t.Errorf("%d sizes: %d and %d bytes", n, w.Collectives[0].Bytes, w.Collectives[1].Bytes)
	}
}

// Kernels at one place of the iterations of a loop have the operation that most of them seem to have, or that the trace names.
func TestOperationsOfTwins(t *testing.T) {
	const cat, add = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<float>", "add"
	w := sequence(t, 10_000, cat, generic, add, cat, generic, add, add, generic, add)
	w.Steps = make([]workload.Step, 3)
	for i := range w.Ops {
		w.Ops[i].Step = int32(i / 3)
	}
	for named, want := range []trace.CollectiveOp{trace.ReduceScatter, trace.AllReduce} {
		for i := range w.Collectives {
			c := &w.Collectives[i]
			c.Op, c.Bytes, c.Guessed = trace.UnknownOp, 0, false
			if i == 0 && named > 0 {
				c.Op, c.Bytes, c.In, c.Out = trace.AllReduce, 4096, 4096, 4096
			}
		}
		guessOperations(w)
		for i, c := range w.Collectives {
			if c.Op != want || c.Bytes != int64(4096*named) {
				t.Errorf("named %d, iteration %d: %v of %d bytes, want %v", named, i, c.Op, c.Bytes, want)
			}
		}
	}
}

// A guessed size never needs more bandwidth than the machine's links have, within a node and
// between nodes, and has the shortest time of its iterations: what is longer waited for ranks
// that nobody captured.
func TestGuessedSizesFit(t *testing.T) {
	for _, name := range []string{"mi300x:2", "mi300x:8", "mi300x:16", "h100:8", "h100:16"} {
		m := must.Have(machine.Load(name))(t)
		w := sequence(t, 30_000_000, "gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING", "gemm", "ncclDevKernel_AllGather_RING")
		for i := range w.Collectives { // as many members as the machine has GPUs
			c := &w.Collectives[i]
			c.Members = slices.Repeat(c.Members[:1], m.GPUs)
		}
		GuessSizes(w, &m)
		for _, c := range w.Collectives {
			rate := float64(c.Op.WireBytes(c.Bytes, m.GPUs)) / (float64(c.Transfer()) / 1e9)
			if c.Bytes == 0 || rate > 1.001*m.LinkRate(m.GPUs) {
				t.Errorf("%s: %s of %d bytes at %.0f GB/s, the links have %.0f", name, c.Op, c.Bytes, rate/1e9, m.LinkRate(m.GPUs)/1e9)
			}
		}
	}
	m := must.Have(machine.Load("mi300x"))(t)
	var names []string
	for range 3 {
		names = append(names, "gemm", "add", "ncclDevKernel_AllReduce_Sum_bf16_RING", "mul")
	}
	w := sequence(t, 1_000_000, names...)
	if _, n := workload.IterationsOf(w); n != 3 {
		t.Fatalf("%d iterations, want 3", n)
	}
	w.Collectives[1].Depart -= 900_000
	w.Collectives[1].Shortest -= 900_000
	GuessSizes(w, &m)
	for i := range w.Collectives {
		if got, want := w.Collectives[i].Bytes, w.Collectives[1].Bytes; got != want {
			t.Errorf("collective %d has %d bytes, that of the shortest iteration %d", i, got, want)
		}
	}
}

// The tokens of a step of inference whose range does not name them are the commonest rows of its GEMMs,
// or where no size of a GEMM is known, of its norms.
func TestTokens(t *testing.T) {
	gemm := &workload.Kernel{Name: "nvjet", Shape: workload.Shape{Kind: workload.GEMM, M: 96, N: 64, K: 64}}
	norm := func(name string) *workload.Kernel {
		return &workload.Kernel{Name: name, Tiling: workload.Tiling{WGs: 32}}
	}
	layer, vllm := norm("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16>"), norm("void vllm::rms_norm_kernel<c10::BFloat16>")
	for _, c := range []struct {
		kernels  []*workload.Kernel
		backward bool
		want     int64
	}{{[]*workload.Kernel{layer, layer, gemm}, false, 96}, {[]*workload.Kernel{layer, norm("a")}, false, 32}, {[]*workload.Kernel{vllm}, false, 32}, {[]*workload.Kernel{norm("a")}, false, 0}, {[]*workload.Kernel{gemm}, true, 0}} {
		w := &workload.Workload{Steps: make([]workload.Step, 1)}
		for _, k := range c.kernels {
			w.Ops = append(w.Ops, workload.Op{Kernel: k, Kind: trace.Compute, Launched: workload.Launched{Backward: c.backward}})
		}
		if tokens(w); w.Steps[0].Batch.Tokens != c.want {
			t.Errorf("%s: %d tokens, want %d", c.kernels[0].Name, w.Steps[0].Batch.Tokens, c.want)
		}
	}
}

// An all-reduce on a stream of its own has the size of what the kernel that waits for it reads, if the
// library's time for it is near.
func TestSizeBehindOnAnotherStream(t *testing.T) {
	run := must.Have(format.Open("../../samples/measurements/2026-11-24-h200x2-serving/traces/serving_prefill4096_batches1_graphTrue", format.Options{}))(t)
	w := must.Have(Workload(run, Options{}))(t)
	m := must.Have(machine.Load("h200"))(t)
	GuessSizes(w, &m)
	exact := 0
	for i := range w.Collectives {
		if w.Collectives[i].Bytes == 32<<20 {
			exact++
		}
	}
	if exact < 6 || len(w.Collectives) != 12 { // the others waited for their peers
		t.Errorf("%d of %d all-reduces have 32 MiB", exact, len(w.Collectives))
	}
}
