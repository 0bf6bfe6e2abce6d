package assemble

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
)

// recording makes an execution trace from lines "id caller name(schema); inputs; outputs"
// in which a tensor is object@storage+offset:elements, of 2 bytes each.
func recording(t *testing.T, lines string) *Execution {
	t.Helper()
	x := NewExecution("et.json")
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		parts := strings.Split(line, ";")
		var n Node
		var rest string
		if _, err := fmt.Sscan(parts[0], &n.ID, &n.Caller, &n.Name); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, rest, _ = strings.Cut(parts[0], "("); rest != "" {
			n.Name, _, _ = strings.Cut(n.Name, "(")
			n.Schema = n.Name + "(" + strings.TrimSpace(rest)
		}
		n.Name = strings.Replace(n.Name, "##Call", "## Call CompiledFxGraph x ##", 1) // names in lines have no spaces
		n.Triton = strings.HasPrefix(n.Name, "triton")
		for i, to := range []*Values{&n.Inputs, &n.Outputs} {
			var list []string
			for _, f := range strings.Fields(parts[1+i]) {
				var object, storage, offset, count int
				if _, err := fmt.Sscanf(f, "%d@%d+%d:%d", &object, &storage, &offset, &count); err != nil {
					list = append(list, fmt.Sprintf("%q", f))
					continue
				}
				list = append(list, fmt.Sprintf(`[%d,%d,%d,%d,2,"cuda:0"]`, object, storage, offset, count))
			}
			to.Values = []byte("[" + strings.Join(list, ", ") + "]")
		}
		x.Add(n)
	}
	x.Finish()
	return x
}

// show writes accesses as "r 10.1[0,8)": the mode, the storage, its life, and the bytes.
func show(list []trace.Access) string {
	var words []string
	for _, a := range list {
		mode := ""
		if a.Read {
			mode += "r"
		}
		if a.Write {
			mode += "w"
		}
		if a.Inferred {
			mode += "?"
		}
		words = append(words, fmt.Sprintf("%s %d.%d[%d,%d)", mode, a.Storage, a.Life, a.From, a.To))
	}
	return strings.Join(words, ", ")
}

func TestAccesses(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"a result is written", `
10 1 aten::mm(Tensor self, Tensor mat2) -> Tensor; 1@2+0:4 3@4+0:4; 5@6+0:4`, "10: r 2.0[0,8), r 4.0[0,8), w 6.1[0,8)"},
		{"a view is not", `
10 1 aten::view(Tensor(a) self, int[] size) -> Tensor(a); 1@2+0:4; 3@2+0:4`, "10: r 2.0[0,8)"},
		{"a slice has a range", `
10 1 aten::mul(Tensor self, Tensor other) -> Tensor; 1@2+3:4 1@2+8:2; 5@6+0:4`, "10: r 2.0[6,14), r 2.0[16,20), w 6.1[0,8)"},
		{"in place reads and writes", `
10 1 aten::add_(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!); 1@2+0:4 3@4+0:4 1; 1@2+0:4`, "10: rw 2.0[0,8), r 4.0[0,8)"},
		{"in place without a declaration, by the name", `
10 1 aten::add_; 1@2+0:4 3@4+0:4; 1@2+0:4`, "10: rw 2.0[0,8), r 4.0[0,8)"},
		{
			"a copy only writes, and out does, behind the star", `
10 1 aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!); 1@2+0:4 3@4+0:4 x; 1@2+0:4
11 1 aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!); 1@2+0:4 3@4+0:4 5@6+0:4; 5@6+0:4`,
			"10: w 2.0[0,8), r 4.0[0,8)\n11: r 2.0[0,8), r 4.0[0,8), w 6.0[0,8)",
		},
		{
			"an address is used again: the next life", `
10 1 aten::neg(Tensor self) -> Tensor; 1@2+0:4; 3@4+0:4
11 1 aten::neg(Tensor self) -> Tensor; 3@4+0:4; 5@6+0:4
12 1 aten::neg(Tensor self) -> Tensor; 1@2+0:4; 7@4+0:8`,
			"10: r 2.0[0,8), w 4.1[0,8)\n11: r 4.1[0,8), w 6.1[0,8)\n12: r 2.0[0,8), w 4.2[0,16)",
		},
		{
			"a caller returns what its callee made: the same life", `
10 1 aten::linear(Tensor input, Tensor weight) -> Tensor; 1@2+0:4 3@4+0:4; 5@6+0:4
11 10 aten::mm(Tensor self, Tensor mat2) -> Tensor; 1@2+0:4 3@4+0:4; 5@6+0:4
12 1 aten::neg(Tensor self) -> Tensor; 5@6+0:4; 7@8+0:4`,
			"10: r 2.0[0,8), r 4.0[0,8), rw 6.1[0,8)\n11: r 2.0[0,8), r 4.0[0,8), w 6.1[0,8)\n12: r 6.1[0,8), w 8.1[0,8)",
		},
		{"temporary storage of a callee", `
10 1 aten::sum(Tensor self) -> Tensor; 1@2+0:4; 3@4+0:1
11 10 aten::empty(int[] size) -> Tensor; x; 5@6+0:2`, "10: r 2.0[0,8), w 4.1[0,2), rw 6.1[0,4)\n11: w 6.1[0,4)"},
		{
			"a buffer of the recording that is overwritten as a whole is another value", `
10 1 aten::empty(int[] size) -> Tensor; x; 1@2+0:4
11 1 aten::neg(Tensor self) -> Tensor; 1@2+0:4; 3@4+0:4
12 1 aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!); 5@6+0:4 7@8+0:4 1@2+0:4; 1@2+0:4
13 1 aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!); 9@2+0:2 5@6+0:2; 9@2+0:2`,
			"10: w 2.1[0,8)\n11: r 2.1[0,8), w 4.1[0,8)\n12: w 2.2[0,8), r 6.0[0,8), r 8.0[0,8)\n13: w 2.2[0,4), r 6.0[0,4)",
		},
		{
			"collectives: in place, out of place, one way", `
10 1 record_param_comms; 1@2+0:4 allreduce; 1@2+0:4
11 10 nccl:all_reduce; 1@2+0:4; 
12 1 record_param_comms; 1@2+0:4 _allgather_base; 3@4+0:8
13 1 record_param_comms; 1@2+0:4 send; 1@2+0:4
14 1 record_param_comms; 1@2+0:4 recvAnySource; 1@2+0:4`,
			"10: rw 2.0[0,8)\n11: rw 2.0[0,8)\n12: r 2.0[0,8), w 4.0[0,16)\n13: r 2.0[0,8)\n14: w 2.0[0,8)",
		},
		{
			"FSDP's copy of what it gathered goes to new memory", `
10 1 aten::neg(Tensor self) -> Tensor; 1@2+0:4; 3@4+0:4
11 1 fsdp::split_with_sizes_copy(Tensor all_gather_output, SymInt[] sizes, int dim, *, Tensor(a!)[] out) -> (); 5@6+0:4 x x 7@4+0:4; `,
			"10: r 2.0[0,8), w 4.1[0,8)\n11: w 4.2[0,8), r 6.0[0,8)",
		},
		{
			"Inductor: the last argument is new, the first may change", `
9 1 aten::neg(Tensor self) -> Tensor; 9@8+0:4; 1@2+0:4
10 1 triton_poi; 1@2+0:4 9@8+0:4 5@6+0:4 64; 
11 1 triton_poi; 9@8+0:4 5@6+0:4; `,
			"9: w 2.1[0,8), r 8.0[0,8)\n10: rw? 2.1[0,8), w 6.1[0,8), r 8.0[0,8)\n11: rw? 6.1[0,8), rw? 8.0[0,8)",
		},
		{"Inductor gives an operator a buffer that it just allocated, a program one that it has", `
8 1 ##Call; ; 
9 1 aten::mm.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!); 1@2+0:4 3@4+0:4; 3@4+0:4
10 8 aten::mm.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!); 3@4+0:4 5@6+0:4; 5@6+0:4`, "9: r 2.0[0,8), w 4.0[0,8)\n10: r 4.0[0,8), w 6.1[0,8)"},
		{
			"callees write all results: nothing is known of the operator's own kernels", `
10 1 symm_mem::fused(Tensor a) -> Tensor; 1@2+0:4; 5@6+0:4
11 10 fused; ; 
12 11 aten::empty(int[] size) -> Tensor; x; 3@6+0:4
13 11 aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!); 1@2+0:4 1@2+0:4 3@6+0:4; 3@6+0:4`,
			"12: w 6.1[0,8)\n13: r 2.0[0,8), w 6.2[0,8)",
		},
		{"an operator that declares nothing", `
10 1 MyFunction; 1@2+0:4; 5@6+0:4`, "10: r? 2.0[0,8), w? 6.1[0,8)"},
		{"no bytes, no storage, a number too large", `
10 1 aten::neg(Tensor self) -> Tensor; 1@2+0:0 1@0+0:4 1@99999999999+0:4 1@2+4611686018427387904:9; 5@6+0:4`, "10: w 6.1[0,8)"},
	} {
		x := recording(t, c.lines)
		var got []string
		for i := range x.Operators {
			if list := x.Accesses(x.Owner(int32(i))); len(list) > 0 {
				got = append(got, fmt.Sprintf("%d: %s", x.Operators[i].ID, show(list)))
			}
		}
		if d := cmp.Diff(c.want, strings.Join(got, "\n")); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// TestExtent: strides say how far a tensor reaches.
func TestExtent(t *testing.T) {
	for _, c := range []struct {
		shape, strides string
		want           int64
	}{
		{"[2,3]", "[3,1]", 6},
		{"[2,3]", "[10,1]", 13},
		{"[4,3]", "[0,1]", 3},
		{"[]", "[]", 7},
		{"[2]", "[-1]", 7},
		{"[2]", "[1,1]", 7},
		{"[9223372036854775807]", "[9223372036854775807]", 7},
	} {
		if got := extent(7, []byte(c.shape), []byte(c.strides)); got != c.want {
			t.Errorf("%s by %s: %d, want %d", c.shape, c.strides, got, c.want)
		}
	}
}

func TestSchema(t *testing.T) {
	s := parseSchema("aten::x", "aten::x(Tensor(a!)[] self, (int, int) y, *, Tensor(b!)? out=None) -> (Tensor(a!), Tensor)")
	if d := cmp.Diff([]bool{true, false, true}, s.written); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]bool{false, false, true}, s.out); d != "" {
		t.Error(d)
	}
	if s := parseSchema("mine::x", "mine::x(Tensor! out) -> ()"); !s.written[0] || s.out[0] {
		t.Errorf("%+v", s)
	}
}

// TestAlign compares with the textbook's table.
func TestAlign(t *testing.T) {
	sequence := func(s string) []issued {
		var list []issued
		for _, c := range s {
			list = append(list, issued{key: c})
		}
		return list
	}
	words := []string{"", "a", "abc", "abcabba", "cbabac", "xaxbxc", "aaaa", "abcdefgh", "abdefxgh", "hgfedcba"}
	for _, a := range words {
		for _, b := range words {
			pairs := align(sequence(a), sequence(b))
			for i, p := range pairs {
				if a[p[0]] != b[p[1]] || i > 0 && (p[0] <= pairs[i-1][0] || p[1] <= pairs[i-1][1]) {
					t.Errorf("%s, %s: %v", a, b, pairs)
				}
			}
			if want := common(a, b); len(pairs) != want {
				t.Errorf("%s, %s: %d pairs, want %d", a, b, len(pairs), want)
			}
		}
	}
}

// common is the length of the longest common subsequence.
func common(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			rows[i+1][j+1] = max(rows[i][j+1], rows[i+1][j])
			if a[i] == b[j] {
				rows[i+1][j+1] = rows[i][j] + 1
			}
		}
	}
	return slices.Max(rows[len(a)])
}

// FuzzTensors: whatever the values, ranges are in order and within bounds.
func FuzzTensors(f *testing.F) {
	f.Add(`[[1,2,0,4,2,"cuda:0"],[[3,4,5,6,7,"cpu"]],"x\"]"]`, `[[4],[[6]]]`, `[[1],[[2]]]`)
	f.Add(`[[1,2,99999999999999999,4,2,"cuda:0"]]`, `[[[[[[]]]]]]`, `[1`)
	f.Fuzz(func(t *testing.T, values, shapes, strides string) {
		v := Values{Values: []byte(values), Shapes: []byte(shapes), Strides: []byte(strides)}
		for _, x := range v.tensors(func(int) (bool, bool) { return true, true }) {
			if x.From < 0 || x.To <= x.From || x.Storage <= 0 {
				t.Errorf("%+v", x)
			}
		}
	})
}
