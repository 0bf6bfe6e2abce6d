package workload

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// The longest stretch that repeats a sequence is found with its shortest period, and the rest of it that is cut short.
func TestRepeated(t *testing.T) {
	for _, c := range []struct {
		things           string
		from, to, period int
	}{
		{"eABCABCABCAh", 1, 11, 3}, // the last sequence is cut short
		{"ABABxABCABCABC", 5, 14, 3},
		{"AAAA", 0, 4, 1},
		{"ABCDEF", 0, 0, 0},
		{"ABCABxABCAB", 0, 0, 0}, // once and most of it again is no repetition
		{"", 0, 0, 0},
	} {
		var lengths []int
		for p := 1; p <= len(c.things); p++ {
			lengths = append(lengths, p)
		}
		from, to, period := Repeated(len(c.things), lengths, func(i, j int) bool { return c.things[i] == c.things[j] })
		if from != c.from || to != c.to || period != c.period {
			t.Errorf("%s: %d to %d by %d, want %d to %d by %d", c.things, from, to, period, c.from, c.to, c.period)
		}
	}
}

// Values are computed once while they fit into the bound, and again where they do not.
func TestGetBounded(t *testing.T) {
	var m Memo
	computed := map[string]int{}
	get := func(key string, size int) {
		x, err := m.GetBounded(key, 10, func() (any, int, error) {
			computed[key]++
			return key, size, nil
		})
		if x != key || err != nil {
			t.Errorf("%s: %v, %v", key, x, err)
		}
	}
	for range 3 {
		get("first", 6)
		get("large", 5)
		get("small", 4)
	}
	if computed["first"] != 1 || computed["large"] != 3 || computed["small"] != 1 {
		t.Error(computed)
	}
}

func TestClassOf(t *testing.T) {
	for name, want := range map[string]Class{
		"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT":                             ClassMatrix,
		"void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)":                ClassLight,
		"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16":                ClassDense,
		"void at::native::vectorized_elementwise_kernel<8, add>(int)":                ClassSweep,
		"void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel":    ClassLookup,
		"void split_embedding_codegen_forward_unweighted_kernel<fbgemm_gpu::x>(...)": ClassLookup,
		"void split_embedding_backward_codegen_rowwise_kernel(...)":                  classOther,
		"Memcpy DtoD (Device -> Device)":                                             ClassSweep,
		"sync_k":                                                                     ClassUnknown,
	} {
		if got := ClassOf(name); got != want {
			t.Errorf("%s: class %d, want %d", name, got, want)
		}
	}
}

// Steps are apart where they run other kernels and both take longer and work longer by more than half; the classes are by time.
func TestClassify(t *testing.T) {
	type step struct {
		kernel     string
		took, work trace.Time
		phase      Phase
	}
	for _, c := range []struct {
		name  string
		steps []step
		want  []int
	}{
		{"alike", []step{{"a", 10, 9, NoPhase}, {"a", 11, 9, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"the same kernels, one step disturbed", []step{{"a", 10, 9, NoPhase}, {"a", 30, 27, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"other kernels, 1.4 times", []step{{"a", 10, 9, NoPhase}, {"b", 14, 13, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"other kernels, twice the time and the work", []step{{"a", 10, 9, NoPhase}, {"b", 20, 18, NoPhase}, {"a", 10, 9, NoPhase}}, []int{1, 2, 1}},
		{"other kernels, the host is late", []step{{"a", 10, 9, NoPhase}, {"b", 30, 9, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"a program's start", []step{{"b", 30, 27, NoPhase}, {"a", 10, 9, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"in steps of less than half", []step{{"a", 10, 9, Prefill}, {"b", 14, 13, Prefill}, {"c", 20, 19, Prefill}}, []int{0, 0, 0}},
		{"prompts of two lengths, and decodes", []step{{"b", 30, 27, Prefill}, {"a", 2, 2, Decode}, {"a", 2, 2, Decode}, {"c", 300, 270, Prefill}}, []int{1, 0, 0, 2}},
	} {
		w := &Workload{World: 1, Copies: []bool{false}}
		kernels, now := map[string]*Kernel{}, trace.Time(0)
		for i, s := range c.steps {
			k := kernels[s.kernel]
			if k == nil {
				k = &Kernel{Name: s.kernel}
				kernels[s.kernel] = k
			}
			end := now + s.took
			w.Ops = append(w.Ops, Op{ID: int32(i), Kernel: k, Kind: trace.Compute, Collective: -1, Step: int32(i), Start: end - s.work, End: end})
			w.Steps = append(w.Steps, Step{Batch: Batch{Phase: s.phase}})
			now = end
		}
		w.TimeSteps()
		w.Classify()
		for i, s := range w.Steps {
			if s.Class != c.want[i] {
				t.Errorf("%s: step %d is of class %d, want %d", c.name, i, s.Class, c.want[i])
			}
		}
	}
}

func TestTraffic(t *testing.T) {
	for _, c := range []struct {
		shape       Shape
		read, write float64
	}{
		{Shape{Kind: GEMM, M: 4, N: 8, K: 16, ElemSize: 2}, 2 * (4*16 + 16*8), 2 * 4 * 8},
		{Shape{Kind: GEMM, M: 4, N: 8, K: 16, ElemSize: 1}, 4*16 + 16*8, 2 * 4 * 8}, // bytes in, two out
		{Shape{Kind: Embedding, M: 4, N: 8, K: 16, ElemSize: 4}, 4 * 4 * 8 * 16, 4 * 4 * 8},
		{Shape{Kind: GEMM, M: 4, N: 8, K: 16}, 0, 0},
		{Shape{}, 0, 0},
	} {
		if r, w := c.shape.Traffic(); r != c.read || w != c.write {
			t.Errorf("%v: reads %g, writes %g, want %g and %g", c.shape, r, w, c.read, c.write)
		}
	}
}

func TestFlops(t *testing.T) {
	for kind, want := range map[ShapeKind]float64{GEMM: 2 * 4 * 8 * 16, GEMV: 2 * 4 * 8 * 16, Embedding: 0, Elementwise: 0, NoShape: 0} {
		if got := (Shape{Kind: kind, M: 4, N: 8, K: 16}).Flops(); got != want {
			t.Errorf("%q: %g, want %g", kind, got, want)
		}
	}
}
