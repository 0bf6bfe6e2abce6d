package assemble

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
)

// fields are a message: numbers of fields and values, which are numbers, texts or messages.
func fields(list ...any) (m []byte) {
	for i := 0; i < len(list); i += 2 {
		id := protowire.Number(list[i].(int))
		switch v := list[i+1].(type) {
		case int:
			m = protowire.AppendVarint(protowire.AppendTag(m, id, protowire.VarintType), uint64(v))
		case string:
			m = protowire.AppendString(protowire.AppendTag(m, id, protowire.BytesType), v)
		case []byte:
			m = protowire.AppendBytes(protowire.AppendTag(m, id, protowire.BytesType), v)
		}
	}
	return m
}

// TestGroups: the groups of a collective, in each form that XLA has had.
func TestGroups(t *testing.T) {
	axes := func(sizes ...int) (m []byte) {
		for _, n := range sizes {
			m = append(m, fields(1, fields(1, "axis", 2, n))...)
		}
		return m
	}
	for _, c := range []struct {
		name string
		got  [][]int64
		want string
	}{
		{"lists", deviceList(fields(1, fields(1, 0, 1, 2), 1, fields(1, 1, 1, 3))), "[[0 2] [1 3]]"},
		{"iota", deviceList(fields(2, fields(1, 2, 2, 2, 3, 4, 4, 0))), "[[0 1] [2 3]]"},
		{"transposed iota", deviceList(fields(2, fields(1, 4, 2, 2, 3, 2, 3, 4, 4, 1, 4, 0))), "[[0 4] [1 5] [2 6] [3 7]]"},
		{"iota of no such dimension", deviceList(fields(2, fields(1, 4, 2, 2, 3, 8, 4, 5))), "[]"},
		{"last axis", meshGroups(fields(1, axes(2, 4), 2, fields(1, 1))), "[[0 1 2 3] [4 5 6 7]]"},
		{"first axis", meshGroups(fields(1, axes(2, 4), 2, fields(1, 0))), "[[0 4] [1 5] [2 6] [3 7]]"},
		{"major half of an axis", meshGroups(fields(1, axes(8), 2, fields(1, 0, 2, fields(1, 1, 2, 2)))), "[[0 4] [1 5] [2 6] [3 7]]"},
		{"minor half of an axis", meshGroups(fields(1, axes(8), 2, fields(1, 0, 2, fields(1, 4, 2, 2)))), "[[0 1] [2 3] [4 5] [6 7]]"},
		{"devices in another order", meshGroups(fields(1, append(axes(2, 2), fields(2, 3, 2, 1, 2, 2, 2, 0)...), 2, fields(1, 1))), "[[3 1] [2 0]]"},
		{"no such axis", meshGroups(fields(1, axes(2), 2, fields(1, 7))), "[]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestMembers: ids are of devices, or of replicas of each partition.
func TestMembers(t *testing.T) {
	m := &hloModule{replicas: 2, partitions: 2, lists: map[string][][]int64{}, hloUse: &hloUse{}}
	for _, c := range []struct {
		of   hloInstruction
		want string
	}{
		{hloInstruction{}, "[0 1 2 3]"},
		{hloInstruction{global: true, channel: 1, groups: [][]int64{{0, 3}, {1, 2}}}, "[1 2]"},
		{hloInstruction{groups: [][]int64{{1, 0}}}, "[0 2]"},
		{hloInstruction{channel: 1, groups: [][]int64{{0, 1}}}, "[]"},
		{hloInstruction{list: fields(2, fields(1, 1, 2, 2, 3, 2, 4, 0))}, "[0 2]"},
	} {
		if got := fmt.Sprint(m.members(&c.of, 2)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.of, got, c.want)
		}
	}
}

// TestLoops: what the body of a loop returns is what its next iteration, and the instruction behind the loop, read. Of a stack of
// layers an iteration reads a slice.
func TestLoops(t *testing.T) {
	array := func(dims ...int) []byte {
		m := fields(2, 11)
		for _, d := range dims {
			m = append(m, fields(3, d)...)
		}
		return m
	}
	pair := fields(2, 13, 4, array(4), 4, array(8, 4))
	instruction := func(id int, name, opcode string, shape []byte, more ...any) []byte {
		return fields(append([]any{1, name, 2, opcode, 3, shape, 35, id}, more...)...)
	}
	module := fields(1, "jit_loop", 6, 1,
		3, fields(5, 3, 6, 31, 2, instruction(30, "x", "parameter", array(8, 4)), 2, instruction(31, "slice", "dynamic-slice", array(1, 4), 36, 30)),
		3, fields(5, 2, 6, 24,
			2, instruction(20, "state", "parameter", pair),
			2, instruction(21, "x", "get-tuple-element", array(4), 36, 20),
			2, instruction(22, "layers", "get-tuple-element", array(8, 4), 36, 20, 13, 1),
			2, instruction(23, "layer", "fusion", array(4), 36, 22, 36, 21, 38, 3),
			2, instruction(24, "next", "tuple", pair, 36, 23, 36, 22)),
		3, fields(5, 1, 6, 14,
			2, instruction(10, "first", "fusion", array(4)),
			2, instruction(11, "stack", "parameter", array(8, 4)),
			2, instruction(12, "init", "tuple", pair, 36, 10, 36, 11),
			2, instruction(13, "while", "while", pair, 36, 12, 38, 2),
			2, instruction(15, "out", "get-tuple-element", array(4), 36, 13),
			2, instruction(14, "last", "fusion", array(4), 36, 15)))
	m := readHLO(fields(1, module), &hloUse{})
	text := func(name string) string {
		var words []string
		for _, a := range m.accesses(m.byName[name]) {
			words = append(words, fmt.Sprintf("%d.%d-%d %v", a.Storage, a.From, a.To, a.Write))
		}
		return strings.Join(words, ", ")
	}
	state := fmt.Sprint(m.valueOf(m.byName["while"], 0).parts[0].storage)
	own := func(name string) string { return fmt.Sprint(m.valueOf(m.byName[name], 0).storage) }
	for name, want := range map[string][]string{
		"first": {own("first") + ".0-16 true", state + ".0-16 true"},
		"layer": {state + ".0-16 true", state + ".16-144 false", own("layer") + ".0-16 true"},
		"last":  {state + ".0-16 false", own("last") + ".0-16 true"},
	} {
		got := text(name)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %s, want %s", name, got, w)
			}
		}
	}
	if o := m.operator(m.byName["layer"]); fmt.Sprint(o.Dims) != "[[1 4] [4]]" {
		t.Errorf("%v", o)
	}
}

// TestBuffersInLoops: kernels of a command buffer in a loop are of the same instructions in each iteration, not of those of their name
// behind the loop.
func TestBuffersInLoops(t *testing.T) {
	array := fields(2, 11, 3, 4)
	instruction := func(id int, name, opcode string, more ...any) []byte {
		return fields(append([]any{1, name, 2, opcode, 3, array, 35, id}, more...)...)
	}
	m := readHLO(fields(1, fields(1, "jit_loop", 6, 1,
		3, fields(5, 2, 6, 22, 2, instruction(20, "loop_fusion.1", "fusion"), 2, instruction(21, "custom-call.2", "custom-call"), 2, instruction(22, "all-reduce.3", "all-reduce")),
		3, fields(5, 1, 6, 12, 2, instruction(10, "while.4", "while", 38, 2), 2, instruction(11, "loop_fusion.5", "fusion"), 2, instruction(12, "custom-call.6", "custom-call")),
		7, append(fields(1, fields(1, 1, 2, fields(1, 10, 1, 11, 1, 12))), fields(1, fields(1, 2, 2, fields(1, 20, 1, 21, 1, 22)))...))), &hloUse{})
	var d xlaDevice
	kernel := func(correlation int64, name, instruction string) {
		d.work = append(d.work, XLAEvent{Name: name, instruction: instruction, correlation: correlation, kernel: "grid:1,1,1"})
	}
	for i := range int64(2) {
		kernel(10*i+1, "loop_fusion", "command_buffer_7")
		kernel(10*i+1, "nvjet_sm90", "command_buffer_7")
		kernel(10*i+1, "cublasLt::splitKreduce_kernel", "command_buffer_7")
		kernel(10*i+2, "ncclDevKernel_AllReduce", "all-reduce.3")
	}
	kernel(30, "loop_fusion_5", "command_buffer_8")
	kernel(30, "nvjet_sm90", "command_buffer_8")
	all, list := make([]xlaWork, len(d.work)), make([]int, len(d.work))
	for k := range all {
		all[k].in, all[k].of, list[k] = m, m.byName[d.work[k].instruction], k
	}
	d.unnamed(all, make([]int32, len(all)), list)
	var got []string
	for _, w := range all {
		got = append(got, w.of.name)
	}
	layer := "loop_fusion.1 custom-call.2 custom-call.2 all-reduce.3 "
	if want := layer + layer + "loop_fusion.5 custom-call.6"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestProducts: the sides of a product in the order of rows and columns, whatever dimensions it contracts.
func TestProducts(t *testing.T) {
	for _, c := range []struct {
		dims, batch, contracted []int64
		right                   bool
		want                    string
	}{
		{[]int64{8, 4}, nil, []int64{1}, false, "[8 4]"},
		{[]int64{4, 8}, nil, []int64{0}, false, "[8 4]"},
		{[]int64{16, 4}, nil, []int64{1}, true, "[4 16]"},
		{[]int64{2, 3, 8, 4}, []int64{0, 1}, []int64{3}, false, "[6 8 4]"},
		{[]int64{2, 8, 5, 4}, []int64{0}, []int64{3}, true, "[2 4 40]"},
		{[]int64{2}, []int64{9}, []int64{7}, false, "[1 2 1]"},
	} {
		if got := fmt.Sprint(matrix(c.dims, c.batch, c.contracted, c.right)); got != c.want {
			t.Errorf("%v contracted %v: %s, want %s", c.dims, c.contracted, got, c.want)
		}
	}
}

// TestSends: a permutation has the other rank of a device, and a start in the form before async-start no operand as its result.
func TestSends(t *testing.T) {
	m := &hloModule{replicas: 1, partitions: 4, byID: map[int64]*hloInstruction{}, lists: map[string][][]int64{}, hloUse: &hloUse{}}
	array := &hloShape{dtype: "float32", size: 4, dims: []int64{16}}
	m.byID[1] = &hloInstruction{shape: array}
	c, g := m.comm(&hloInstruction{
		opcode: "collective-permute-start", operands: []int64{1}, pairs: [][]int64{{0, 1}, {1, 2}},
		shape: &hloShape{parts: []*hloShape{array, array}},
	}, 1)
	if c.Op != trace.SendRecv || c.Peer != 2 || c.In != 64 || c.Out != 64 || c.DType != "float32" || g.Size != 4 {
		t.Errorf("%+v in %+v", c, g)
	}
	if c, _ := m.comm(&hloInstruction{opcode: "fusion", shape: array}, 1); c != nil {
		t.Errorf("%+v", c)
	}
}

func TestBaseName(t *testing.T) {
	for name, want := range map[string]string{
		"loop_multiply_rsqrt_fusion.9": "loop_multiply_rsqrt_fusion", "loop_multiply_rsqrt_fusion_12": "loop_multiply_rsqrt_fusion",
		"all-reduce.67.0-fusion.1": "all_reduce_67_0_fusion", "fusion_443": "fusion", "12": "12", "_1": "_1",
	} {
		if got := baseName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
