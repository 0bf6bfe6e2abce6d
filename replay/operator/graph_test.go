package operator

import (
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
