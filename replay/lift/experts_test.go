package lift

import (
	"strings"
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

// movesOf is an elementwise operator on rows of two-byte elements.
func movesOf(name string, dims ...int64) *trace.Operator {
	return &trace.Operator{Name: name, Dims: [][]int64{dims}, Types: []string{"c10::Half"}}
}

// A gather brings 32 tokens of 64 elements; a scatter sends as much.
func TestExperts(t *testing.T) {
	parts := map[byte]part{
		'A': {comm: &trace.Comm{Op: trace.AllGather, Group: trace.None, In: 2048, Out: 4096, ElemSize: 2, Peer: trace.None}},
		'S': {comm: &trace.Comm{Op: trace.ReduceScatter, Group: trace.None, In: 4096, Out: 2048, ElemSize: 2, Peer: trace.None}},
		'R': {comm: &trace.Comm{Op: trace.AllReduce, Group: trace.None, In: 4096, Out: 4096, ElemSize: 2, Peer: trace.None}},
		'C': {comm: &trace.Comm{Op: trace.AllToAll, Group: trace.None, In: 4096, Out: 4096, ElemSize: 2, Peer: trace.None}},
		'U': {op: grouping(64, 48, 64, 4)},  // two rows a token
		'V': {op: grouping(160, 48, 64, 4)}, // five rows a token, of four experts
		'W': {op: grouping(48, 48, 64, 4)},  // one and a half
		'X': {op: grouping(64, 48, 100, 4)}, // tokens of another width
		'D': {op: grouping(64, 64, 48, 4)},  // makes two rows a token
		'Y': {op: grouping(48, 64, 48, 4)},  // makes one and a half
		'G': {op: gemm(64, 48, 64)},         // two rows a token, one GEMM
		'H': {op: gemm(64, 64, 48)},         // makes two rows a token, one GEMM
		'B': {op: grouping(32, 16, 16, 8)},  // its weights are what was brought
		'N': {op: grouping(64, 16, 64, 2)},  // two rows a token, and weights as large as what was brought
		'P': {name: "P_permute", op: movesOf("aten::permute", 64, 64)},
		'Q': {name: "Q_permute", op: movesOf("aten::permute", 128, 64)},
		'L': {name: "L_layer_norm", op: movesOf("aten::layer_norm", 64, 64)},
		'K': {name: "K_topk_softmax"},
		'M': {name: "M_sum_elementwise_kernel", op: movesOf("aten::sum", 32, 2, 64)},
		'I': {name: "I_silu_elementwise_kernel", op: movesOf("aten::silu", 64, 64)},
		'T': {name: "T_prepare_grouped_gemm_data", op: grouping(64, 48, 64, 4)},
	}
	const (
		brought = "each of 32 rows that were brought is in its first input 2 times"
		sent    = "each of 32 rows that are sent is the sum of 2 of its output"
	)
	for _, c := range []struct{ name, text, uses, want string }{
		{"a grouped GEMM reads through an index", "0 7 |AA UU|", "", "0A→0U 0.80: stream order; " + brought},
		{"as recorded", "0 7 |AA UU|", "A w1[0,8)\nU r1[0,8)", "0A→0U 0.90: recorded accesses; " + brought},
		{"behind the kernel that counts its rows", "0 7 |AA TUU|", "", "0A→0U 0.48: stream order; through T_prepare_grouped_gemm_data; " + brought},
		{"behind a permutation", "0 7 |AA PP UU|", "", "0A→0U 0.64: stream order; through P_permute; " + brought},
		{"behind a permutation, as recorded", "0 7 |AA PP UU|", "A w1[0,8)\nP_permute r1[0,8) w2[0,8)\nU r2[0,8)", "0A→0U 0.95: recorded accesses; " + brought},
		{"one GEMM, as recorded", "0 7 |AA PP GG|", "A w1[0,8)\nP_permute r1[0,8) w2[0,8)\nG r2[0,8)", "0A→0G 0.95: recorded accesses; " + brought},
		{
			"behind the kernels of a router, as recorded", "0 7 |AA K K K PP UU|", "A w1[0,8)\nP_permute r1[0,8) w2[0,8)\nU r2[0,8)",
			"0A→0U 0.95: recorded accesses; " + brought,
		},
		{"which is too far by adjacency", "0 7 |AA K K K PP UU|", "", ""},
		{"one GEMM by adjacency alone is none", "0 7 |AA PP GG|", "", ""},
		{"nor one that does not read it", "0 7 |AA PP GG|", "A w1[0,8)\nP_permute r3[0,8) w2[0,8)\nG r2[0,8)", ""},
		{"nor beside a permutation of other data", "0 7 |AA PP GG|", "A w1[0,8)\nP_permute r3[0,8) w4[0,8)\nG r1[0,8)", ""},
		{"nor with a permutation that it does not read", "0 7 |AA PP GG|", "A w1[0,8)\nP_permute r1[0,8) w4[0,8)\nG r1[0,8)", ""},
		{"nor through a kernel that keeps rows apart from weights", "0 7 |AA LL GG|", "A w1[0,8)\nL_layer_norm r1[0,8) w2[0,8)\nG r2[0,8)", ""},
		{"nor through a permutation of another size", "0 7 |AA QQ GG|", "A w1[0,8)\nQ_permute r1[0,8) w2[0,8)\nG r2[0,8)", ""},
		{"more rows a token than experts", "0 7 |AA VV|", "", ""},
		{"no whole number of rows a token", "0 7 |AA WW|", "", ""},
		{"tokens of another width", "0 7 |AA XX|", "", ""},
		{"before the gather", "0 7 |UU AA|", "", ""},
		{"exchanges bring a row for each expert", "0 7 |CC UU|", "", ""},
		{"gathered weights of all groups", "0 7 |AA BB|", "", "0A→0B 0.95: stream order; its second input is as large as what was brought: 4096 bytes"},
		{"gathered weights, or tokens without a permutation", "0 7 |AA NN|", "", "0A→0N 0.95: stream order; its second input is as large as what was brought: 4096 bytes"},
		{"tokens, as recorded", "0 7 |AA NN|", "A w1[0,8)\nN r1[0,8)", "0A→0N 0.95: stream order; its second input is as large as what was brought: 4096 bytes"},
		{"tokens behind a permutation, not weights", "0 7 |AA PP NN|", "", "0A→0N 0.64: stream order; through P_permute; " + brought},
		{"summed and scattered", "0 7 |DD MM SS|", "", "0D→0S 0.64: stream order; through M_sum_elementwise_kernel, of the same size; " + sent},
		{"summed and scattered, as recorded", "0 7 |DD MM SS|", "D w1[0,8)\nM_sum_elementwise_kernel r1[0,8) w2[0,8)\nS r2[0,8)", "0D→0S 0.95: recorded accesses; " + sent},
		{"summed over ranks and kept", "0 7 |DD MM RR|", "", "0D→0R 0.64: stream order; through M_sum_elementwise_kernel, of the same size; " + sent},
		{"one GEMM, summed as recorded", "0 7 |HH MM SS|", "H w1[0,8)\nM_sum_elementwise_kernel r1[0,8) w2[0,8)\nS r2[0,8)", "0H→0S 0.95: recorded accesses; " + sent},
		{
			"summed through several kernels, as recorded", "0 7 |DD K MM K K SS|", "D w1[0,8)\nM_sum_elementwise_kernel r1[0,8) w2[0,8)\nS r2[0,8)",
			"0D→0S 0.95: recorded accesses; " + sent,
		},
		{"which are too many by adjacency", "0 7 |DD K MM K K SS|", "", ""},
		{"one GEMM whose output is sent beside a sum of it", "0 7 |HH MM SS|", "H w1[0,8)\nM_sum_elementwise_kernel r1[0,8) w2[0,8)\nS r1[0,8)", ""},
		{"one GEMM by adjacency", "0 7 |HH MM SS|", "", ""},
		{"no whole number of rows sent", "0 7 |YY MM SS|", "", ""},
		{"behind the scatter", "0 7 |SS DD|", "", ""},
		{"not past another GEMM", "0 7 |DD GG MM SS|", "", ""},
		{"not where ranks have other numbers of experts a token", "0 7 |AA UU|\n1 7 |AA ZZ|", "", ""},
		{
			"a layer", "0 7 |AA UU I DD MM SS|", "",
			"0A→0U 0.80: stream order; " + brought + `
			0U→0D 0.57: stream order; through I_silu_elementwise_kernel; its 64×48 output has the shape of the other's first input
			0D→0S 0.64: stream order; through M_sum_elementwise_kernel, of the same size; ` + sent,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts['Z'] = part{op: grouping(96, 48, 64, 4)}
			run := drawing{text: c.text, parts: parts}.run(t)
			recordUses(t, run, c.uses)
			w := must.Have(Workload(run, Options{}))(t)
			checkInvariants(t, w)
			sameText(t, "pairs", drawPairs(w), c.want)
			for _, p := range w.Pairs {
				if rows := strings.Contains(strings.Join(p.Evidence, "; "), "each of"); rows && p.Experts != 2 || !rows && p.Experts != 0 {
					t.Errorf("%v: %d experts a token", p.Evidence, p.Experts)
				}
			}
		})
	}
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
