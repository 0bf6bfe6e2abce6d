package lift

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// What kernels read and write is what their operators record, and nothing where these do not.
func TestOperandTraffic(t *testing.T) {
	const (
		multi   = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
		copies  = multi + "TensorListMetadata<2>, at::native::(anonymous namespace)::CopyFunctor<c10::BFloat16, float, 2, 1, 1>, at::native::Copy<c10::BFloat16, float> >(at::native::(anonymous namespace)::TensorListMetadata<2>)"
		adds    = multi + "TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>()"
		zeros   = multi + "TensorListMetadata<1>, at::native::(anonymous namespace)::ZeroFunctor<c10::BFloat16, 1, 1, 0> >()"
		norms   = multi + "TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>, float*>()"
		adam    = multi + "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*>()"
		reduces = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >()"
		gammas  = "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u, 256u, false, false, false>()"
		chunks  = "void at::native::detail::chunk_cat_cuda_kernel<float, c10::BFloat16>(c10::BFloat16**, float*)"
		triton  = "triton_poi_fused_mul_silu_4"
	)
	lists := func(types ...string) []string { return append([]string{"TensorList"}, types...) }
	two := [][]int64{{100, 1000}, {50_000}} // chunks of 65,536 elements: 2 and 1
	for name, c := range map[string]struct {
		kernel      string
		wgs         int
		operator    trace.Operator
		read, write float64
	}{
		"copies":                    {copies, 3, trace.Operator{Dims: make([][]int64, 3), Lists: [][][]int64{two, two}, Types: lists("TensorList", "Scalar")}, 600_000, 300_000},
		"copies, of two launches":   {copies, 2, trace.Operator{Dims: make([][]int64, 3), Lists: [][][]int64{two, two}, Types: lists("TensorList", "Scalar")}, 400_000, 200_000},
		"a list of one":             {copies, 2, trace.Operator{Dims: [][]int64{{100_000}, {100_000}}, Types: lists("TensorList")}, 400_000, 200_000},
		"more chunks than the list": {copies, 4, trace.Operator{Dims: make([][]int64, 2), Lists: [][][]int64{two, two}, Types: lists("TensorList")}, 0, 0},
		"list not recorded":         {adam, 320, trace.Operator{Dims: make([][]int64, 6), Types: lists("TensorList", "TensorList")}, 0, 0},
		"sums":                      {adds, 3, trace.Operator{Dims: make([][]int64, 2), Lists: [][][]int64{two, two}, Types: lists("TensorList")}, 1_200_000, 600_000},
		"fills":                     {zeros, 3, trace.Operator{Dims: make([][]int64, 1), Lists: [][][]int64{two}, Types: lists()}, 0, 300_000},
		"norms":                     {norms, 3, trace.Operator{Dims: make([][]int64, 1), Lists: [][][]int64{two}, Types: lists()}, 600_000, 0},
		"Adam":                      {adam, 3, trace.Operator{Dims: make([][]int64, 4), Lists: [][][]int64{two, two, two, two}, Types: lists("TensorList")}, 2_400_000, 1_800_000},
		"mean":                      {reduces, 256, trace.Operator{Name: "aten::mean", Dims: [][]int64{{2, 1000}, nil}, Types: []string{"float", "ScalarList"}}, 8000, 0},
		"mean of unknown type":      {reduces, 256, trace.Operator{Name: "aten::mean", Dims: [][]int64{{2, 1000}}}, 0, 0},
		"gamma and beta":            {gammas, 32, trace.Operator{Dims: [][]int64{{10, 100}, {10, 100}, nil, {10, 1}}, Types: []string{"float", "float", "ScalarList", "float"}}, 8000, 0},
		"concatenation":             {chunks, 9, trace.Operator{Dims: [][]int64{nil, nil, nil, {2, 75_000}}, Lists: [][][]int64{two}, Types: lists("Scalar", "Scalar", "float")}, 300_000, 600_000},
		"Inductor":                  {triton, 9, trace.Operator{Name: triton, Dims: [][]int64{{10, 100}, {10, 100}, {1, 10, 100}, nil}, Types: []string{"c10::BFloat16", "c10::BFloat16", "float", "Scalar"}}, 4000, 4000},
		"compiled graph":            {triton, 9, trace.Operator{Name: "## Call CompiledFxGraph 0 ##", Dims: [][]int64{{1 << 20}}, Types: []string{"float"}}, 0, 0},
		"another kernel":            {"void cub::DeviceScanKernel<float>()", 9, trace.Operator{Name: "aten::cumsum", Dims: [][]int64{{1 << 20}}, Types: []string{"float"}}, 0, 0},
	} {
		if got := operandTraffic(&c.operator, c.kernel, c.wgs); got != (traffic{c.read, c.write}) {
			t.Errorf("%s: reads %.0f and writes %.0f, want %.0f and %.0f", name, got.read, got.write, c.read, c.write)
		}
	}
}

// TestMemory compares segments with a twin that follows every byte.
func TestMemory(t *testing.T) {
	type cell struct {
		life, writer int32
		readers      []int32
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := memory{storages: map[int32]*storage{}}
		cells := map[[2]int64]*cell{}
		lives, present := map[int32]int32{}, map[int32]int32{}
		for op := range int32(40) {
			var list []trace.Access
			for range 1 + r.IntN(3) {
				from := r.Int64N(12)
				list = append(list, trace.Access{Storage: r.Int32N(3), From: from, To: from + 1 + r.Int64N(8), Read: r.IntN(2) == 0, Write: r.IntN(3) == 0})
			}
			if r.IntN(6) == 0 {
				list[0].Life = 1 + op
			}
			var want []workload.Edge
			for _, write := range []bool{false, true} {
				for _, a := range list {
					if write && !a.Write || !write && !a.Read {
						continue
					}
					if a.Life > 0 && present[a.Storage] != a.Life {
						present[a.Storage] = a.Life
						lives[a.Storage]++
					}
					for at := a.From; at < a.To; at++ {
						key := [2]int64{int64(a.Storage), at}
						c := cells[key]
						if c == nil {
							c = &cell{life: lives[a.Storage], writer: -1}
							cells[key] = c
						}
						stale := c.life != lives[a.Storage]
						others := slices.ContainsFunc(c.readers, func(r int32) bool { return r != op })
						switch {
						case !write:
							if !stale && c.writer >= 0 && c.writer != op {
								want = append(want, workload.Edge{Op: c.writer, Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: 1})
							}
							if !slices.Contains(c.readers, op) {
								c.readers = append(c.readers, op)
							}
							continue
						case others:
							for _, r := range c.readers {
								if r != op {
									want = append(want, workload.Edge{Op: r, Kind: workload.WriteAfterRead, Evidence: workload.Exact, Reused: stale, Bytes: 1})
								}
							}
						case c.writer >= 0 && c.writer != op:
							want = append(want, workload.Edge{Op: c.writer, Kind: workload.WriteAfterWrite, Evidence: workload.Exact, Reused: stale, Bytes: 1})
						}
						*c = cell{life: lives[a.Storage], writer: op}
					}
				}
			}
			m.found = nil
			m.access(op, list, 0, -1)
			for i := range m.found { // the twin knows nothing of inferred writes
				m.found[i].Evidence = workload.Exact
			}
			if d := diff.Diff(sum(want), sum(m.found)); d != "" {
				t.Fatalf("seed %d, op %d %+v: %s", seed, op, list, d)
			}
		}
	}
}

// sum adds the bytes of equal edges.
func sum(edges []workload.Edge) []workload.Edge {
	bytes := map[workload.Edge]int64{}
	for _, e := range edges {
		n := e.Bytes
		e.Bytes = 0
		bytes[e] += n
	}
	var list []workload.Edge
	for e, n := range bytes {
		e.Bytes = n
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b workload.Edge) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Kind, b.Kind), cmp.Compare(fmt.Sprint(a.Reused), fmt.Sprint(b.Reused)))
	})
	return list
}

// TestManyPieces: a storage in too many pieces is followed as a whole, and no order is
// lost.
func TestManyPieces(t *testing.T) {
	m := memory{storages: map[int32]*storage{}}
	const n = maxSegments + 10
	for i := range int32(n) {
		m.access(i, []trace.Access{{Storage: 1, From: 2 * int64(i), To: 2*int64(i) + 1, Write: true}}, 0, -1)
	}
	m.found = nil
	m.access(n, []trace.Access{{Storage: 1, From: 0, To: 1, Write: true}}, 0, -1)
	if len(m.found) == 0 || m.found[0].Op != n-1 || len(m.storages[1].segments) != 1 {
		t.Errorf("%d segments, %v", len(m.storages[1].segments), m.found)
	}
}

// The rate of a row is its bytes by its time. A collective by copy engines takes from the start of its first copy to the end of
// its last command; the command in front of the copy waits.
func TestRatesAreOfTheirTimes(t *testing.T) {
	gather := func(name string) part {
		return part{name: name, comm: &trace.Comm{Op: trace.AllGather, Group: 0, Seq: 5, Out: 64, Peer: trace.None, Engines: true}}
	}
	reduce := func(seq int64) part {
		return part{name: "ncclDevKernel_AllReduce", comm: &trace.Comm{Op: trace.AllReduce, Group: 0, Seq: seq, In: 48 + 4*seq, Out: 48 + 4*seq, Peer: trace.None}}
	}
	const barrier = "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)"
	for _, c := range []struct{ name, text, want string }{
		{"copy engines", `0 7 | WWWWCC DDD |`, "all_gather 64 bytes: 6 µs, 10.7 MB/s"},
		{"copies between barriers", `0 7 | BBBBMM NNN |`, "all_gather 64 bytes: 6 µs, 10.7 MB/s"},
		{"several sizes", `0 7 | EEEEEEE FF GGGG |`, "all_reduce 52 bytes: 2 µs, 28.0 MB/s"}, // of 56 bytes; E and F take 2 µs beyond their waits
	} {
		w := lift(t, drawing{
			text: c.text, ranks: []trace.Rank{{World: 2}}, groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			parts: map[byte]part{
				'W': gather("__amd_rocclr_batchMemOp.kd"), 'C': gather("__amd_rocclr_copyBufferBatch.kd"), 'D': gather("__amd_rocclr_batchMemOp.kd"),
				'B': gather(barrier), 'M': gather("Memcpy PtoP (Device -> Device)"), 'N': gather(barrier),
				'E': reduce(1), 'F': reduce(2), 'G': reduce(3),
			},
		}, Options{})
		r := workload.Of(w, nil).Collectives[0]
		if got := fmt.Sprintf("%s %d bytes: %d µs, %.1f MB/s", r.Op, r.Bytes, r.TransferNs/1000, r.Algorithm/1e6); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What the files of many ranks say alike is one note, of all of them.
func TestNotesOfManyFiles(t *testing.T) {
	d := drawing{text: "0 7 | A |\n1 7 | A |", ranks: []trace.Rank{{World: 2}, {ID: 1, World: 2}}}
	run := d.run(t)
	for _, file := range []string{"rank0.et", "rank1.et"} {
		run.Ledger.Entries = append(run.Ledger.Entries, trace.Entry{Action: trace.Noted, File: file, Reason: "without start times", Count: 3, Kernels: 3})
	}
	w, err := Workload(run, Options{})
	if err != nil || fmt.Sprint(w.Notes) != "[6 operations without start times]" {
		t.Errorf("%v, notes %q", err, w.Notes)
	}
}

// A kernel's share of the time is of the iterations that the time is of, and a collective that only copies of captured ranks
// have was not captured.
func TestWhatIsCountedWasCaptured(t *testing.T) {
	w := lift(t, drawing{
		text:  "0 7 | GG  GGGG R |",
		parts: map[byte]part{'G': {name: "sgemm_16x16_x", op: gemm(32, 64, 16), grid: 8, block: 128}, 'R': {name: "ncclDevKernel_AllReduce", comm: &trace.Comm{Op: trace.AllReduce, Group: trace.None, In: 64, Out: 64, Peer: trace.None}}},
		ranks: []trace.Rank{{World: 4}},
	}, Options{})
	s := workload.Of(w, [][]overlap.Interval{{{Start: 4000, End: 10_000}}})
	if k := s.Kernels[0]; k.Count != 2 || k.TotalNs != 6000 || k.InNs != 4000 {
		t.Errorf("%d kernels of %d ns, %d in the iteration: want 2, 6000 and 4000", k.Count, k.TotalNs, k.InNs)
	}
	for _, c := range s.Collectives {
		if c.Count != 1 {
			t.Errorf("%d collectives of %d ranks: one was captured", c.Count, c.Ranks)
		}
	}
}
