package operator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A graph is the operators of a file with graph: in the order in which the host issues them.
// Each reads what the one before wrote or, with after, what the operators of these names wrote,
// the last of a name. All run on one stream, as in a framework without overlap, or on the
// named one.
//
//	graph:
//	  - repeat: 2
//	    steps:
//	      - {op: gemm, m: tokens, n: 3*hidden/ways, k: hidden, name: projection}
//	      - {op: all_reduce, count: tokens*hidden, group: tensor, stream: communication}
//	      - {op: gemm, m: tokens, n: hidden, k: hidden, after: projection}
//
// Sizes are products and quotients of numbers and of the names of shape.
type graph []node

// A node is one operator or, with Steps, several that are repeated.
type node struct {
	Op     string
	Sizes  map[string]int64
	Group  string // of a collective; "": all ranks
	Tile   tile   // of a GEMM by a compiled kernel; zero: as the file says
	Split  int    // parts along K of its tiles; 0: as the file says
	Name   string
	After  []string // names of operators; nil: the one before
	Stream string   // "": that of most operators
	Repeat int
	Steps  graph
	line   int
}

// A nodeKind is an operator that a graph can name.
type nodeKind struct {
	sizes []string
	comm  bool // has a group
	steps func(b *bench, size func(string) int64)
}

// nodeKinds are the operators of graphs. Sizes are those of one rank. Those with _backward are
// the gradients of the operator of that name and have its sizes.
var nodeKinds = map[string]nodeKind{
	"gemm": {[]string{"m", "n", "k"}, false, func(b *bench, s func(string) int64) { b.gemm(s("m"), s("n"), s("k")) }},
	// dW[k,n] = A[m,k]ᵀ·dC[m,n], then dA[m,k] = dC[m,n]·W[k,n]ᵀ: a collective of the input's gradient follows its GEMM.
	"gemm_backward": {[]string{"m", "n", "k"}, false, func(b *bench, s func(string) int64) {
		b.gemm(s("k"), s("n"), s("m"))
		b.gemm(s("m"), s("k"), s("n"))
	}},
	// A GEMM in groups of equally many of the m rows, each with weights of its own: the experts of a mixture.
	"grouped_gemm": {
		[]string{"m", "n", "k", "groups"},
		false,
		func(b *bench, s func(string) int64) { b.grouped(s("m"), s("n"), s("k"), s("groups")) },
	},
	"gemv": {[]string{"m", "k"}, false, func(b *bench, s func(string) int64) { b.matvec(s("m"), s("k")) }},
	"attention": {[]string{"m", "width", "context"}, false, func(b *bench, s func(string) int64) {
		b.attention(s("m"),
			s("width"), s("context"))
	}},
	// Five GEMMs of the forward's size instead of two: scores again, and the gradients of both operands of both
	// (FlashAttention-2, section 2.2).
	"attention_backward": {[]string{"m", "width", "context"}, false, func(b *bench, s func(string) int64) {
		b.attention(s("m"), s("width"), s("context"))
		b.attention(s("m"), s("width"), 3*s("context")/2)
	}},
	"conv": {[]string{"batch", "height", "width", "channels", "filter"}, false, func(b *bench, s func(string) int64) {
		b.convolution(s("batch"), s("height"), s("width"), s("channels"), s("filter"))
	}},
	"embedding": {[]string{"batch", "tables", "dim", "pooling"}, false, func(b *bench, s func(string) int64) {
		b.lookup(s("batch"), s("tables"), s("dim"), s("pooling"))
	}},
	"embedding_backward": {[]string{"batch", "tables", "dim", "pooling"}, false, func(b *bench, s func(string) int64) {
		b.update(s("batch")*s("tables"), s("dim"), s("pooling"))
	}},
	// A kernel that reads and writes memory, as a norm, an activation, an optimizer.
	"elementwise": {[]string{"bytes"}, false, func(b *bench, s func(string) int64) {
		b.elementwise(machine.CeilDiv(s("bytes"), 16<<10), float64(s("bytes")))
	}},
	// Count elements in rows of width, each row the weighted sum of so many: of the experts of a token.
	"sum": {
		[]string{"count", "width", "parts"},
		false,
		func(b *bench, s func(string) int64) { b.sum(s("count"), s("width"), s("parts")) },
	},
	"permute":        {[]string{"count"}, false, func(b *bench, s func(string) int64) { b.shuffle(s("count")) }},
	"all_reduce":     collectiveKind(trace.AllReduce),
	"reduce_scatter": collectiveKind(trace.ReduceScatter),
	"all_gather":     collectiveKind(trace.AllGather),
	"all_to_all":     collectiveKind(trace.AllToAll),
	"send_recv":      collectiveKind(trace.SendRecv),
}

// collectiveKind is a collective of count elements: the larger of a rank's input and output.
func collectiveKind(op trace.CollectiveOp) nodeKind {
	return nodeKind{[]string{"count"}, true, func(b *bench, s func(string) int64) { b.collective(op, s("count")) }}
}

const (
	maxSteps  = 100_000 // operators of an iteration
	maxRepeat = 10_000
)

// run appends the steps of a graph.
func (g graph) run(b *bench) {
	for _, n := range g {
		for range max(1, n.Repeat) {
			if n.Steps != nil {
				n.Steps.run(b)
				continue
			}
			b.node(n)
		}
	}
	b.group, b.tile, b.split = "", tile{}, 0
}

// node appends the steps of one operator.
func (b *bench) node(n node) {
	from := len(b.steps)
	b.group, b.tile, b.split = n.Group, n.Tile, n.Split
	nodeKinds[n.Op].steps(b, func(key string) int64 { return n.Sizes[key] })
	var reads []int
	for _, name := range n.After {
		reads = append(reads, b.named[name])
	}
	if n.After == nil && from > 0 {
		reads = []int{from - 1}
	}
	for i := from; i < len(b.steps); i++ {
		s := &b.steps[i]
		s.line, s.stream, s.reads = n.line, n.Stream, reads
	}
	if n.Name != "" && len(b.steps) > from { // a collective of one rank is no step
		b.named[n.Name] = len(b.steps) - 1
	}
}

// accesses are what a step of the graph reads and writes: each step has a storage of its own, and
// another in each iteration.
func (b *bench) accesses(k int, iteration int32) []trace.Access {
	own := func(i int) trace.Access {
		return trace.Access{Storage: int32(i), Life: iteration + 1, To: max(1, b.steps[i].out)}
	}
	out := own(k)
	out.Write = true
	list := []trace.Access{out}
	for _, i := range b.steps[k].reads {
		in := own(i)
		in.Read = true
		list = append(list, in)
	}
	return list
}

// count is the number of operators of a graph, at most maxSteps+1.
func (g graph) count() int {
	n := 0
	for _, x := range g {
		each := 1
		if x.Steps != nil {
			each = x.Steps.count()
		}
		if n += each * max(1, x.Repeat); n > maxSteps {
			return maxSteps + 1
		}
	}
	return n
}

// elementwise is a kernel that is bound by memory: its workgroups move bytes in total.
func (b *bench) elementwise(wgs int64, bytes float64) {
	out := int64(bytes) / 2
	b.move("elementwise_kernel", b.plain(int(min(wgs, 1<<20)), 256, 32, 0),
		b.operator("add", []int64{out / b.f.elements().bytes}), out, bytes)
}

// sum adds rows of width elements, so many parts for each row of the result.
func (b *bench) sum(count, width, parts int64) {
	out := count * b.f.elements().bytes
	wgs := min(machine.CeilDiv(out, 16<<10), 1<<20)
	b.move("sum_elementwise_kernel", b.plain(int(wgs), 256, 32, 0), b.operator("sum", []int64{count / width, parts, width}),
		out, float64((parts+1)*out))
}

// update adds gradients to the rows of an embedding's tables: every gradient is read, and every
// row that was looked up read and written. A workgroup takes one gradient.
func (b *bench) update(sums, dim, pooling int64) {
	o, out := b.operator("_embedding_bag_dense_backward", []int64{sums, dim}, []int64{sums * pooling}), sums*dim*b.f.elements().bytes
	o.Types[1] = "long"
	b.move("embedding_backward", b.block(int(sums), 256, 64, 0), o, out, float64((2*pooling+1)*out))
}

// move appends a kernel that takes as long as memory for its bytes, of which it writes so many.
func (b *bench) move(name string, k trace.Setup, o trace.Operator, out int64, bytes float64) {
	s := step{name: name, kind: trace.Compute, kernel: k, operator: o, out: out}
	b.rest("gpu.memory", b.m.GPU.Memory)
	b.take(&s, workload.Shape{}, workload.Tiling{}, bytes, "")
	b.steps = append(b.steps, s)
}

// graphOf reads the list below graph:.
func (p *reader) graphOf(n ast.Node) graph {
	p.file.dataflow = true
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		p.Fail(n, "write a list of {op: NAME, ...}", "no list of operators")
		return nil
	}
	var g graph
	for _, v := range list.Values {
		if x, ok := p.node(v); ok {
			g = append(g, x)
		}
	}
	return g
}

// node reads an operator or a repeated list.
func (p *reader) node(n ast.Node) (x node, ok bool) {
	fields := machine.Pairs(n)
	if fields == nil {
		p.Fail(n, "write {op: NAME, ...}", "no operator")
		return x, false
	}
	x = node{line: n.GetToken().Position.Line, Sizes: map[string]int64{}, Repeat: 1}
	given := map[string]ast.Node{}
	for _, f := range fields {
		given[machine.Key(f)] = f.Value
	}
	take := func(key string) (ast.Node, bool) {
		v, ok := given[key]
		delete(given, key)
		return v, ok
	}
	before := p.Len()
	if v, ok := take("repeat"); ok {
		if x.Repeat = int(p.size(v)); x.Repeat > maxRepeat {
			p.Fail(v, fmt.Sprintf("at most %d", maxRepeat), "repeat: %d", x.Repeat)
		}
	}
	if v, ok := take("steps"); ok {
		x.Steps = p.graphOf(v)
	} else {
		if !p.operatorOf(n, &x, take) {
			return x, false
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		p.Fail(given[key], "", "unknown key %s", key)
	}
	return x, p.Len() == before
}

// operatorOf reads the fields of one operator, if it is known.
func (p *reader) operatorOf(n ast.Node, x *node, take func(string) (ast.Node, bool)) (known bool) {
	cure := "one of " + strings.Join(slices.Sorted(maps.Keys(nodeKinds)), ", ")
	v, ok := take("op")
	if !ok {
		p.Fail(n, cure, "op is missing")
		return false
	}
	x.Op = v.GetToken().Value
	kind, known := nodeKinds[x.Op]
	if !known {
		p.Fail(v, cure, "unknown operator %q", x.Op)
		return false
	}
	for _, key := range kind.sizes {
		if v, ok := take(key); ok {
			x.Sizes[key] = p.size(v)
		} else {
			p.Fail(n, x.Op+" has "+strings.Join(kind.sizes, ", "), "%s is missing", key)
		}
	}
	p.whole(n, x)
	if v, ok := take("tile"); ok {
		if x.Tile, ok = tileOf(v.GetToken().Value); !ok {
			p.Fail(v, "write rows x columns, as in 128x256, or with the depth along K, as in 128x256x32", "tile: %q", v.GetToken().Value)
		}
	}
	if v, ok := take("split"); ok {
		if x.Split = int(p.size(v)); x.Split > maxSplit || x.Tile.M == 0 {
			p.Fail(v, fmt.Sprintf("write 1 to %d parts along K, beside a tile", maxSplit), "split: %d", x.Split)
		}
	}
	p.orderOf(x, take)
	if kind.comm {
		if v, ok := take("group"); ok {
			x.Group = v.GetToken().Value
			if _, ok := p.file.groups[x.Group]; !ok {
				p.Fail(v, "add it below groups:, with its number of ranks", "no group %q", x.Group)
			}
		}
	}
	return true
}

// whole checks sizes of an operator that have to fit each other.
func (p *reader) whole(n ast.Node, x *node) {
	switch s := x.Sizes; {
	case x.Op == "grouped_gemm" && s["groups"] > s["m"] && s["m"] > 0:
		p.Fail(n, "give each group at least one row", "%d groups of %d rows", s["groups"], s["m"])
	case x.Op == "sum" && s["width"] > 0 && s["count"]%s["width"] != 0:
		p.Fail(n, "give a multiple", "%d elements are no whole number of rows of %d", s["count"], s["width"])
	}
}

// orderOf reads the name of an operator, its stream and what it comes after.
func (p *reader) orderOf(x *node, take func(string) (ast.Node, bool)) {
	if v, ok := take("stream"); ok {
		x.Stream = v.GetToken().Value
	}
	if v, ok := take("after"); ok {
		names := []ast.Node{v}
		if list, ok := v.(*ast.SequenceNode); ok {
			names = list.Values
		}
		x.After = []string{}
		for _, n := range names {
			name := n.GetToken().Value
			if !p.named[name] {
				p.Fail(n, "write name: "+name+" at an operator above", "no operator %q above", name)
			}
			x.After = append(x.After, name)
		}
	}
	if v, ok := take("name"); ok {
		x.Name = v.GetToken().Value
		p.named[x.Name] = true
	}
}

// size evaluates a product or quotient of whole numbers and names of shape: 3*hidden/ways.
func (p *reader) size(n ast.Node) int64 {
	text, why := n.GetToken().Value, "no size"
	if _, ok := n.(ast.ScalarNode); ok {
		size, no := p.file.sizeOf(text)
		if no == "" {
			return size
		}
		why = no
	}
	p.Fail(n, "write products and quotients of whole numbers and names of shape, as 3*hidden/ways; shape has "+
		strings.Join(slices.Sorted(maps.Keys(p.file.shape)), ", "), "%s", why)
	return 1
}

// sizeOf evaluates a size, or says what is wrong with it.
func (f *File) sizeOf(text string) (size int64, why string) {
	above, below := int64(1), int64(1)
	for i, word := range strings.FieldsFunc(strings.NewReplacer("*", " *", "/", " /").Replace(text),
		func(r rune) bool { return r == ' ' }) {
		name := strings.TrimLeft(word, "*/")
		v, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			v = f.shape[name]
		}
		if v < 1 || v >= maxSize || i == 0 && name != word {
			return 0, fmt.Sprintf("size %q: %q", text, word)
		}
		if word[0] == '/' {
			below *= v
		} else {
			above *= v
		}
		if above >= maxBytes || below >= maxBytes {
			return 0, fmt.Sprintf("size %q is too large", text)
		}
	}
	if above%below != 0 || above == 0 {
		return 0, fmt.Sprintf("size %q: %d does not divide %d", text, below, above)
	}
	return above / below, ""
}

// graphOfOperator are the nodes of an operator.
func (p *reader) graphOfOperator(o operation) (g graph) {
	for text := range strings.SplitSeq(o.graph, "; ") {
		words := strings.Fields(text)
		x := node{Op: words[0], Sizes: map[string]int64{}}
		for i, key := range nodeKinds[x.Op].sizes {
			var why string
			if x.Sizes[key], why = p.file.sizeOf(words[1+i]); why != "" {
				p.fail("shape", "is a size mistyped?", "%s", why)
			}
		}
		g = append(g, x)
	}
	return g
}

const maxBytes = 1 << 42 // of one operand, exclusive: 2^31 times that fits into 64 bits

// groupSizes reads groups: {tensor: 8}. A group is that many neighbouring ranks.
func (p *reader) groupSizes() {
	n, ok := p.nodes["groups"]
	if !ok {
		return
	}
	delete(p.nodes, "groups")
	sizes := machine.Pairs(n)
	if sizes == nil {
		p.Fail(n, "write groups: {NAME: NUMBER}", "no list of groups")
		return
	}
	for _, f := range sizes {
		p.file.groups[machine.Key(f)] = int(p.size(f.Value))
	}
}

// checkGroups reports groups that do not divide the ranks.
func (f *File) checkGroups(ranks int, m machine.Machine) error {
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		if n := f.groups[name]; ranks%n != 0 {
			return f.fault("groups", "choose divisors of the number of ranks",
				"group %s of %d ranks does not divide %d ranks of %s", name, n, ranks, m.Name)
		}
	}
	return nil
}
