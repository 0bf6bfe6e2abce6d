package lift

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// grouping is a grouped GEMM of m rows in groups.
func grouping(m, n, k, groups int64) *trace.Operator {
	return &trace.Operator{Name: "aten::_grouped_mm", Dims: [][]int64{{m, k}, {groups, k, n}, {groups}}, Types: []string{"c10::Half", "c10::Half", "int"}}
}

// Of random sizes the pair is there if and only if the rows are the tokens of the gather
// times a whole number of experts, of which there are as many.
func TestExpertsOfRandomSizes(t *testing.T) {
	rapidtest.Check(t, func(r *rapid.T) {
		tokens, width := rapid.Int64Range(9, 40).Draw(r, "tokens"), rapid.Int64Range(9, 40).Draw(r, "width")
		rows, groups := rapid.Int64Range(9, 200).Draw(r, "rows"), rapid.Int64Range(2, 8).Draw(r, "groups")
		if rapid.Bool().Draw(r, "whole") {
			rows = tokens * rapid.Int64Range(1, 9).Draw(r, "experts")
		}
		bytes := 2 * tokens * width
		parts := map[byte]part{
			'A': {comm: &trace.Comm{Op: trace.AllGather, Group: trace.None, In: bytes / 2, Out: bytes, ElemSize: 2, Peer: trace.None}},
			'S': {comm: &trace.Comm{Op: trace.ReduceScatter, Group: trace.None, In: bytes, Out: bytes / 2, ElemSize: 2, Peer: trace.None}},
			'U': {op: grouping(rows, 50, width, groups)},
			'D': {op: grouping(rows, width, 50, groups)},
		}
		times := int64(0)
		for k := int64(2); k <= groups; k++ {
			if rows == k*tokens {
				times = k
			}
		}
		w := must.Have(Workload(drawing{text: "0 7 |AA UU|\n0 9 |         DD SS|", parts: parts}.run(t), Options{}))(r)
		found := 0
		for _, p := range w.Pairs {
			if p.Experts > 0 {
				found++
				if int64(p.Experts) != times {
					r.Fatalf("%d experts a token, want %d", p.Experts, times)
				}
			}
		}
		if want := map[bool]int{true: 2}[times > 0]; found != want {
			r.Fatalf("%d pairs of %d rows with %d tokens, want %d", found, rows, tokens, want)
		}
	})
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
