package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func graphRun(t *testing.T, text string) *trace.Run {
	t.Helper()
	f := must.Have(Parse(strings.NewReader(text), "graph.yaml", nil))(t)
	m := must.Have(machine.Load("h200"))(t)
	return must.Have(f.Run(m))(t)
}

// A repeated layer with its collective in a group of two of four ranks: sizes are products and
// quotients of names, each group is its own, and rank 3 communicates with rank 2 alone.
func TestGraph(t *testing.T) {
	run := graphRun(t, `
machine: h200:4
type: bf16
shape: {tokens: 4096, hidden: 2048, ways: 4}
groups: {tensor: 2}
graph:
  - repeat: 3
    steps:
      - {op: gemm, m: tokens, n: 3*hidden/ways, k: hidden, tile: 128x128}
      - {op: all_reduce, count: tokens*hidden, group: tensor}
  - {op: reduce_scatter, count: tokens*hidden}
`)
	if len(run.Ranks) != 4 {
		t.Fatalf("%d ranks", len(run.Ranks))
	}
	var gemms, sums, scatters int
	for _, s := range run.Spans {
		if run.RankOf(s) != 3 || !s.Kind.OnDevice() {
			continue
		}
		k := run.Kernel(s)
		switch c := run.Comm(s); {
		case c == nil:
			gemms++
			if d := run.Operator(k).Dims; d[0][0] != 4096 || d[1][1] != 3*2048/4 || run.Setup(k).WGs() != 4096/128*1536/128 {
				t.Errorf("GEMM %v of %d workgroups", d, run.Setup(k).WGs())
			}
		case c.Op == trace.AllReduce:
			if g := run.Groups[c.Group]; len(g.Ranks) != 2 || g.Ranks[0] != 2 || g.Ranks[1] != 3 || c.Seq != int64(sums) || c.In != 4096*2048*2 {
				t.Errorf("all-reduce %+v in %+v", c, g)
			}
			sums++
		default:
			scatters++
			if g := run.Groups[c.Group]; len(g.Ranks) != 4 || c.In != 4*c.Out || c.Seq != 0 {
				t.Errorf("reduce-scatter %+v in %+v", c, g)
			}
		}
	}
	if gemms != 3 || sums != 3 || scatters != 1 {
		t.Errorf("%d GEMMs, %d all-reduces, %d reduce-scatters", gemms, sums, scatters)
	}
}

// On a stream of its own a collective runs beside the next GEMM, and what names it waits for it.
func TestGraphStreams(t *testing.T) {
	run := graphRun(t, `
machine: h200:2
type: bf16
shape: {size: 4096}
graph:
  - {op: gemm, m: size, n: size, k: size, name: first}
  - {op: all_reduce, count: size*size, stream: communication, name: sum}
  - {op: gemm, m: size, n: size, k: size, after: first}
  - {op: elementwise, bytes: 4*size*size, after: [first, sum]}
`)
	var at []trace.Span
	for _, s := range run.Spans {
		if run.RankOf(s) == 0 && (s.Kind == trace.Compute || s.Kind == trace.Collective) {
			at = append(at, s)
		}
	}
	if len(at) != 4 {
		t.Fatalf("%d operations", len(at))
	}
	first, sum, second, last := at[0], at[1], at[2], at[3]
	if sum.Kind != trace.Collective { // both start as the first GEMM ends
		sum, second = second, sum
	}
	if sum.Lane == first.Lane || second.Lane != first.Lane {
		t.Error("the all-reduce alone has a stream of its own")
	}
	if sum.Start < first.End || second.Start >= sum.End || sum.Start >= second.End {
		t.Errorf("all-reduce %d to %d beside %d to %d", sum.Start, sum.End, second.Start, second.End)
	}
	if last.Start < max(sum.End, second.End) {
		t.Errorf("starts at %d, before the all-reduce ended at %d or its stream's GEMM at %d", last.Start, sum.End, second.End)
	}
	reads := func(s trace.Span) (n int) {
		for _, a := range run.AccessesOf(run.UsesOf(s)) {
			if a.Read {
				n++
			}
		}
		return n
	}
	if reads(second) != 1 || reads(last) != 2 {
		t.Errorf("reads %d and %d outputs", reads(second), reads(last))
	}
}

// The experts of a mixture in one kernel: tiles of each group of rows, weights of all; and the sum
// of the rows of a token. 250 rows of a group are two tiles of 128, or four of 64.
func TestGraphOfExperts(t *testing.T) {
	run := graphRun(t, `
machine: h200:2
type: bf16
shape: {rows: 1000, width: 512, inner: 256}
graph:
  - {op: grouped_gemm, m: rows, n: width, k: inner, groups: 4, tile: 128x128}
  - {op: grouped_gemm, m: rows, n: width, k: inner, groups: 4}
  - {op: sum, count: rows*width/2, width: width, parts: 2}
`)
	var kernels []string
	for _, s := range run.Spans {
		if k := run.Kernel(s); k != nil && run.RankOf(s) == 1 {
			o := run.Operator(k)
			kernels = append(kernels, fmt.Sprint(run.NameOf(s), " ", run.Setup(k).WGs(), " ", o.Name, o.Dims))
		}
	}
	want := []string{
		"grouped_gemm_tile_128x128 32 aten::_grouped_mm[[1000 256] [4 256 512] [4]]",
		"grouped_gemm_64x64 128 aten::_grouped_mm[[1000 256] [4 256 512] [4]]",
		"sum_elementwise_kernel 32 aten::sum[[500 2 512]]",
	}
	if !slices.Equal(kernels, want) {
		t.Errorf("got  %q\nwant %q", kernels, want)
	}
}

func TestGraphErrors(t *testing.T) {
	for _, c := range []struct{ graph, want string }{
		{"[{op: gemm, m: 1024, n: 1024}]", "graph.yaml:4:9: k is missing (gemm has m, n, k)"},
		{"[{op: grouped_gemm, m: 1024, n: 1024, k: 1024}]", "groups is missing (grouped_gemm has m, n, k, groups)"},
		{"[{op: grouped_gemm, m: 8, n: 1024, k: 1024, groups: 16}]", "16 groups of 8 rows (give each group at least one row)"},
		{"[{op: sum, count: 1000, width: 512, parts: 2}]", "1000 elements are no whole number of rows of 512 (give a multiple)"},
		{"[{op: gem, m: 1024, n: 1024, k: 1024}]", `graph.yaml:4:14: unknown operator "gem" (one of `},
		{"[{m: 1024}]", "op is missing"},
		{"[{op: gemm, m: token, n: 1024, k: 1024}]", `size "token": "token" (write products and quotients of whole numbers and names of shape, as 3*hidden/ways; shape has tokens)`},
		{"[{op: gemm, m: tokens/3, n: 1024, k: 1024}]", `size "tokens/3": 3 does not divide 4096`},
		{"[{op: gemm, m: tokens*tokens*tokens*tokens, n: 1024, k: 1024}]", "is too large"},
		{"[{op: all_reduce, count: tokens, group: tensor}]", `no group "tensor" (add it below groups:`},
		{"[{op: gemm, m: 1, n: 1, k: 1, tile: 0x1}]", `tile: "0x1"`},
		{"[{op: gemm, m: 1, n: 1, k: 1, split: 4}]", "split: 4 (write 1 to 64 parts along K, beside a tile)"},
		{"[{op: gemm, m: 1, n: 1, k: 1, after: other}]", `no operator "other" above (write name: other at an operator above)`},
		{"[{op: gemm, m: 1, n: 1, k: 1, colour: red}]", "unknown key colour"},
		{"[{repeat: 20000, steps: [{op: elementwise, bytes: 1024}]}]", "repeat: 20000 (at most 10000)"},
		{"[{repeat: 10000, steps: [{repeat: 10000, steps: [{op: elementwise, bytes: 1024}]}]}]", "more than 100000 operators"},
		{"[]", "no list of operators"},
		{"[7]", "no operator"},
	} {
		_, err := Parse(strings.NewReader("machine: h200\ntype: bf16\nshape: {tokens: 4096}\ngraph: "+c.graph+"\n"), "graph.yaml", nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngot  %v\nwant %s", c.graph, err, c.want)
		}
	}
	f, err := Parse(strings.NewReader("machine: h200:4\ntype: bf16\ngroups: {odd: 3}\ngraph: [{op: all_reduce, count: 1024, group: odd}]\n"), "graph.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := must.Have(machine.Load("h200"))(t)
	if _, err := f.Run(m); err == nil || !strings.Contains(err.Error(), "group odd of 3 ranks does not divide") {
		t.Errorf("got %v", err)
	}
	f = must.Have(Parse(strings.NewReader("machine: h200:1\ntype: bf16\ngraph: [{op: all_reduce, count: 1024}]\n"), "graph.yaml", nil))(t)
	if alone, err := m.Sized(1); err != nil {
		t.Error(err)
	} else if _, err := f.Run(alone); err == nil || err.Error() != "graph.yaml:line 1: nothing runs on the 1 GPU of h200:1: a collective of one rank moves nothing (choose one with more GPUs)" {
		t.Errorf("got %v", err)
	}
	f, err = Parse(strings.NewReader("machine: h200:4\niterations: 1000\ntype: bf16\ngraph: [{repeat: 10000, steps: [{op: elementwise, bytes: 1024}]}]\n"), "graph.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(m); err == nil || !strings.Contains(err.Error(), "40000000 operations") {
		t.Errorf("got %v", err)
	}
}
