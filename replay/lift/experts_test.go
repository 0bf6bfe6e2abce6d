package lift

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// grouping is a grouped GEMM of m rows in groups.
func grouping(m, n, k, groups int64) *trace.Operator {
	return &trace.Operator{Name: "aten::_grouped_mm", Dims: [][]int64{{m, k}, {groups, k, n}, {groups}}, Types: []string{"c10::Half", "c10::Half", "int"}}
}

// A grouped GEMM has weights, and tiles, for each of its groups.
func TestGroupedShape(t *testing.T) {
	w := lift(t, drawing{text: "0 7 |UU|", parts: map[byte]part{'U': {name: "gemm_128x128", op: grouping(1000, 512, 256, 4), grid: 4 * 2 * 4, block: 256}}}, Options{})
	op := &w.Ops[0]
	if s := op.Shape; s.Kind != workload.GEMM || s.M != 1000 || s.N != 512 || s.K != 256 || s.Groups != 4 {
		t.Errorf("shape %+v", s)
	}
	if op.Read != 2*(1000*256+4*256*512) || op.Write != 2*1000*512 {
		t.Errorf("reads %g, writes %g", op.Read, op.Write)
	}
	if op.Tiling.Tiles != 32 || op.Tiling.Persistent {
		t.Errorf("tiling %+v: 250 rows of a group are two tiles, 512 columns four", op.Tiling)
	}
}
