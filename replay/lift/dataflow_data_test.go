package lift

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

const steps = "../shared/data/steps/h200x2/traces/h200x2_"

// products lists the GEMMs that a walk along a relation meets first. It passes through
// elementwise kernels, copies and fills, and through the first kernels of a GEMM.
func products(w *workload.Workload, op int32, next func(int32) []int32) []int32 {
	seen, found := map[int32]bool{}, map[int32]bool{}
	var walk func(int32)
	walk = func(id int32) {
		for _, n := range next(id) {
			switch o := &w.Ops[n]; {
			case seen[n] || o.Kind == trace.Collective:
			case o.Matrix() && o.Kind == trace.Compute:
				found[n] = true
			case strings.Contains(o.Name, "elementwise") || strings.Contains(o.Name, "split_with_sizes") || strings.Contains(o.Name, "CatArray") || o.Kind == trace.Copy:
				seen[n] = true
				walk(n)
			}
		}
	}
	walk(op)
	return slices.Sorted(maps.Keys(found))
}

// TestFlowDDP: a bucket's all-reduce sums what backward GEMMs wrote, and the optimizer
// reads it, whether DDP overlapped it or the program copied gradients to buckets behind
// backward.
func TestFlowDDP(t *testing.T) {
	var graphs []map[string]int
	for _, overlap := range []string{"True", "False"} {
		w := open(t, steps+"ddp_h4096_bucket_mb25_channels0_priorityFalse_overlap"+overlap, Options{})
		if share := exactShare(w); share != 1 {
			t.Errorf("%v exact", share)
		}
		graph := anyOrder(w)
		maps.DeleteFunc(graph, func(edge string, _ int) bool { return bucketed.MatchString(edge) })
		consumers := consumersOf(w)
		for i := range w.Ops {
			op := &w.Ops[i]
			if op.Kind != trace.Collective {
				continue
			}
			bytes := int64(0)
			for _, p := range products(w, op.ID, func(op int32) []int32 { return producers(w, op) }) {
				s := w.Ops[p].Shape
				bytes += s.M * s.N * int64(s.ElemSize)
				graph[fmt.Sprint("all-reduced: ", s)]++
			}
			all := w.Collectives[op.Collective].Bytes
			const embedding = 262144000 // its gradient is of no GEMM
			if all > embedding && bytes == 0 {
				bytes = embedding
			}
			if bytes > all || bytes*100 < all*99 {
				t.Errorf("overlap %s, op %d: an all-reduce of %d bytes, of GEMMs that wrote %d", overlap, i, all, bytes)
			}
			if !optimized(w, consumers, op.ID) {
				t.Errorf("overlap %s, op %d: no optimizer reads the all-reduce", overlap, i)
			}
		}
		graphs = append(graphs, graph)
	}
	if d := diff.Diff(graphs[0], graphs[1]); d != "" {
		t.Error("overlapped and serial: ", d)
	}
}

// bucketed finds edges from or to what the two programs do in different ways: copies of
// gradients to and from buckets.
var bucketed = regexp.MustCompile("nccl|CatArrayBatchedCopy_vectorized|Memcpy|multi_tensor| vectorized_elementwise_kernel|::vectorized_elementwise_kernel")

// optimized reports whether an optimizer's kernel reads what an op wrote, or a copy of it.
func optimized(w *workload.Workload, consumers [][]int32, op int32) bool {
	return slices.ContainsFunc(consumers[op], func(c int32) bool {
		return strings.Contains(w.Ops[c].Name, "multi_tensor_apply") || w.Ops[c].Kind == trace.Copy && optimized(w, consumers, c)
	})
}

// TestFlowFSDP: a gather's block reads it, in forward and in backward.
func TestFlowFSDP(t *testing.T) {
	var graphs []map[string]int
	for _, overlap := range []string{"True", "False"} {
		w := open(t, steps+"fsdp_h4096_channels0_priorityFalse_overlap"+overlap+"_reshardTrue", Options{})
		consumers := consumersOf(w)
		counts := map[string]int{}
		for i := range w.Ops {
			op := &w.Ops[i]
			if op.Kind != trace.Collective || op.Rank != 0 {
				continue
			}
			c := &w.Collectives[op.Collective]
			if c.Op == trace.AllGather {
				n := len(products(w, op.ID, func(id int32) []int32 { return consumers[id] }))
				counts[fmt.Sprint(c.Bytes, " bytes gathered for GEMMs: ", n)]++
				continue
			}
			if len(products(w, op.ID, func(op int32) []int32 { return producers(w, op) })) == 0 && len(producers(w, op.ID)) == 0 {
				t.Errorf("op %d: nothing produces the gradients", i)
			}
		}
		graphs = append(graphs, counts, anyOrder(w))
		want := map[string]int{"404766720 bytes gathered for GEMMs: 4": 24, "524296192 bytes gathered for GEMMs: 1": 4}
		if d := diff.Diff(want, counts); d != "" {
			t.Errorf("overlap %s: %s", overlap, d)
		}
	}
	if d := diff.Diff(graphs[:2], graphs[2:]); d != "" {
		t.Error("overlapped and serial: ", d)
	}
}

// TestFlowAnnotated: without an execution trace, ranges of frameworks tell the same about
// collectives: each graph implies the other one's dependencies of data.
func TestFlowAnnotated(t *testing.T) {
	for _, name := range []string{
		"ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue",
		"fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardTrue",
		"fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardFalse",
	} {
		exact := open(t, steps+name, Options{})
		bare := *exact.Run
		bare.Kernels, bare.Copies = slices.Clone(bare.Kernels), slices.Clone(bare.Copies)
		for i := range bare.Kernels {
			bare.Kernels[i].Uses = 0
		}
		for i := range bare.Copies {
			bare.Copies[i].Uses = 0
		}
		annotated := must.Have(Workload(&bare, Options{}))(t)
		for i := range exact.Ops {
			implies(t, name, "execution trace", annotated, exact, int32(i))
			implies(t, name, "annotations", exact, annotated, int32(i))
		}
	}
}

// implies checks the reads of one graph that have a collective at one end.
func implies(t *testing.T, name, what string, given, in *workload.Workload, op int32) {
	t.Helper()
	for _, e := range given.Flow[op] {
		oneEnd := (given.Ops[op].Kind == trace.Collective) != (given.Ops[e.Op].Kind == trace.Collective)
		if oneEnd && e.Kind == workload.ReadAfterWrite && e.Evidence >= workload.Annotated && !reaches(in, op, e.Op) {
			t.Errorf("%s: %s does not show that op %d, %.30s, reads what %d, %.30s, wrote", name, what, op, given.Ops[op].Name, e.Op, given.Ops[e.Op].Name)
		}
	}
}

func reaches(w *workload.Workload, from, to int32) bool {
	seen := map[int32]bool{}
	for next := []int32{from}; len(next) > 0; {
		op := next[len(next)-1]
		next = next[:len(next)-1]
		if op == to {
			return true
		}
		if seen[op] || op < to {
			continue
		}
		seen[op] = true
		for _, e := range w.Flow[op] {
			if !e.Reused {
				next = append(next, e.Op)
			}
		}
	}
	return false
}

// anyOrder counts the edges of data by the names and sizes at their ends.
func anyOrder(w *workload.Workload) map[string]int {
	name := func(id int32) string {
		op := &w.Ops[id]
		s := fmt.Sprint(op.Rank, " ", op.Step, " ", workload.FunctionName(op.Name))
		if op.Collective >= 0 {
			s += fmt.Sprint(" ", w.Collectives[op.Collective].Bytes)
		}
		return s
	}
	counts := map[string]int{}
	for i := range w.Ops {
		for _, e := range w.Flow[i] {
			if e.Kind == workload.ReadAfterWrite {
				counts[fmt.Sprint(name(int32(i)), " reads ", e.Bytes, " of ", name(e.Op))]++
			}
		}
	}
	return counts
}
