package lift

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A captured graph has no operators; the same step launched kernel by kernel gives its
// kernels their shapes, its all-reduces their sizes, and pairs.
func TestGraphFromOutside(t *testing.T) {
	read := func(name string) *trace.Run {
		return must.Have(format.Open(filepath.Join(root, stepTraces+name), format.Options{}))(t)
	}
	graph, outside := read("decode_tp_b32_allreducenccl_graphTrue"), read("decode_tp_b32_allreducenccl_graphFalse")
	named := assemble.NameGraphs(graph, []*trace.Run{outside})
	want := "of the 416 in captured graphs are among the launches of a capture: 416 take an operator, 0 a grid, 64 the size of a collective"
	if !slices.ContainsFunc(named.Ledger.Entries, func(e trace.Entry) bool { return e.Reason == want }) {
		t.Errorf("no entry %s", want)
	}
	w := must.Have(Workload(named, Options{}))(t)
	checkInvariants(t, w)
	for i := range w.Collectives {
		if c := &w.Collectives[i]; c.Op != trace.AllReduce || c.Bytes != 32*8192*2 || len(c.Members) != 2 {
			t.Fatalf("collective %d: %s of %d bytes on %d ranks", i, c.Op, c.Bytes, len(c.Members))
		}
	}
	gemms, pairs := 0, 0
	for i := range w.Ops {
		if w.Ops[i].Shape.Kind == workload.GEMM && w.Ops[i].Shape.M == 32 {
			gemms++
		}
	}
	for _, p := range w.Pairs {
		if p.Direction == workload.ComputeThenCollective {
			pairs++
		}
	}
	if gemms != 2*2*8*4 || pairs < 16 {
		t.Errorf("%d GEMMs of 32 rows and %d pairs with an all-reduce, want 128 and at least the 16 without a kernel between", gemms, pairs)
	}
	if again := assemble.NameGraphs(outside, []*trace.Run{graph}); again != outside {
		t.Error("kernels of no graph named")
	}
}
