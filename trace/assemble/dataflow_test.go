package assemble

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

// recording makes an execution trace from lines "id caller name(schema); inputs; outputs"
// in which a tensor is object@storage+offset:elements, of 2 bytes each.
func recording(t testing.TB, lines string) *Execution {
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

// Scripts of execution traces: "accesses" shows what the operators of a recording access.
func TestAccesses(t *testing.T) {
	scripttest.Run(t, "testdata/accesses.txt", func(testing.TB) scripttest.Handler {
		return func(t testing.TB, c scripttest.Call) string {
			x := recording(t, c.Input)
			var lines []string
			for i := range x.Operators {
				if list := x.Accesses(x.Owner(int32(i))); len(list) > 0 {
					lines = append(lines, fmt.Sprintf("%d: %s", x.Operators[i].ID, show(list)))
				}
			}
			return strings.Join(lines, "\n")
		}
	})
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
