package assemble

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Kernels of one name but other grids are not those of a graph, also where a source has no captures.
func TestNameGraphsByGrid(t *testing.T) {
	run := func(graph bool, grids ...int32) *trace.Run {
		var b trace.Builder
		lane := b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{}), Kind: trace.Queue, Peer: trace.None})
		for i, g := range grids {
			k := trace.Kernel{Correlation: 7, Launch: trace.None, Comm: trace.None, Op: trace.None, Origin: trace.None, Setup: b.AddSetup(trace.Setup{Grid: [3]int32{g, 1, 1}})}
			if !graph {
				k.Correlation, k.Op = int64(i+1), b.AddOperator(trace.Operator{Name: "aten::mm"})
			}
			b.Add(trace.Span{Start: trace.Time(i * 10), End: trace.Time(i*10 + 5), Name: b.Intern("k"), Lane: lane, Parent: trace.None, Kind: trace.Compute, Attr: b.AddKernel(k)})
		}
		return b.Finish(trace.Options{})
	}
	for _, c := range []struct {
		grids [2]int32
		want  bool
	}{{[2]int32{1, 2}, true}, {[2]int32{3, 4}, false}} {
		named := NameGraphs(run(true, 1, 2), []*trace.Run{run(false, c.grids[:]...)})
		if got := named.Kernels[0].Op != trace.None; got != c.want {
			t.Errorf("grids %v: the kernels take operators: %v, want %v", c.grids, got, c.want)
		}
	}
}
