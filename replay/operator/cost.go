package operator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// elements describes how one element is stored.
type elements struct {
	bytes int64
	torch string // as a framework writes it
}

func (f *File) elements() elements {
	return map[string]elements{"f32": {4, "float"}, "bf16": {2, "c10::BFloat16"}, "f16": {2, "c10::Half"}}[f.Type]
}

// rest records that a duration depends on a number of the profile.
func (b *bench) rest(key string, q machine.Quantity) {
	b.restOn(key, q.String()+": ", q.Mark, q.Source)
}

func (b *bench) restTable(key string, t machine.Table) { b.restOn(key, "", t.Mark, t.Source) }

func (b *bench) restOn(key, value string, mark machine.Mark, source string) {
	if mark == machine.Sourced {
		return
	}
	note := fmt.Sprintf("%s of %s is assumed: %s%s", key, b.m.Name, value, source)
	if mark == machine.Unknown {
		note = fmt.Sprintf("%s of %s is unknown: %s", key, b.m.Name, source)
	}
	if !slices.Contains(b.rests, note) {
		b.rests = append(b.rests, note)
	}
}

// laws are those of the machine for operations of all ranks, by rank.
func (b *bench) laws() *cost.Laws {
	w := &workload.Workload{Ops: make([]workload.Op, b.ranks)}
	for i := range w.Ops {
		w.Ops[i].Rank = i
	}
	return &cost.Laws{Machine: &b.m, Workload: w}
}

// take sets the time of a step by the law: that of a kernel of a shape and tiles that moves bytes. why is how it is
// computed, where memory does not bound it.
func (b *bench) take(s *step, sh workload.Shape, t workload.Tiling, bytes float64, why string) {
	t.WGs = s.kernel.WGs()
	seconds, burst, byMemory := b.laws().Unseen(&workload.Op{Read: bytes, Step: -1, Kernel: &workload.Kernel{
		Name: s.name, Shape: sh, Tiling: t, Footprint: footprint(&s.kernel),
	}})
	s.seconds, s.why = seconds, why
	switch {
	case byMemory:
		s.why = fmt.Sprintf("bound by memory: %.1f MB at %.0f GB/s", bytes/1e6, bytes/seconds/1e9)
	case burst > 0:
		s.why = fmt.Sprintf("%s, and %.3g µs of writes", why, burst*1e6)
	}
}

// operator is a framework's operator on tensors of the file's type.
func (b *bench) operator(name string, dims ...[]int64) trace.Operator {
	return trace.Operator{Name: "aten::" + name, Dims: dims, Types: slices.Repeat([]string{b.f.elements().torch}, len(dims))}
}

// GEMM is C[m,n] = A[m,k]·B[k,n] by the matrix library, or in tiles given by the
// file. The time is a whole number of waves of tiles; memory is a second roof.
func (b *bench) gemm(m, n, k int64) {
	b.multiply("", product{m, n, k, 1}, m*k+k*n+m*n, b.operator("mm", []int64{m, k}, []int64{k, n}))
}

// grouped is C[m,n] = A[m,k]·B[k,n] with a B for each of groups parts of the rows, in one
// kernel. Its tiles are those of every group, in common waves (rule G22).
func (b *bench) grouped(m, n, k, groups int64) {
	o := b.operator("_grouped_mm", []int64{m, k}, []int64{groups, k, n}, []int64{groups})
	o.Types[2] = "int"
	b.multiply("grouped_", product{m, n, k, groups}, m*k+groups*k*n+m*n, o)
}

// convolution is computed as an implicit GEMM. The input is read once, not once per
// filter position.
func (b *bench) convolution(batch, height, width, channels, filter int64) {
	m, k := batch*height*width, channels*filter*filter
	b.multiply("conv_", product{m, channels, k, 1}, 2*m*channels+k*channels,
		b.operator("conv2d", []int64{batch, channels, height, width}, []int64{channels, channels, filter, filter}))
}

// attention is two GEMMs per head, scores and weighted values. The scores are not
// written to memory.
func (b *bench) attention(m, width, context int64) {
	b.multiply("attention_", product{m, width, 2 * context, 1}, 2*(m+context)*width,
		b.operator("scaled_dot_product_attention", []int64{m, width}, []int64{context, width}, []int64{context, width}))
}

// A product is the sizes of a GEMM, in groups of equally many rows.
type product struct{ m, n, k, groups int64 }

// multiply is 2·m·n·k flop on tiles of an m by n output, with the given number of
// elements moved through memory.
func (b *bench) multiply(name string, p product, elements int64, o trace.Operator) {
	bytes := float64(elements) * float64(b.f.elements().bytes)
	s := step{name: name, kind: trace.Compute, operator: o, out: p.m * p.n * b.f.elements().bytes}
	sh := workload.Shape{Kind: workload.GEMM, M: p.m, N: p.n, K: p.k, Groups: p.groups, ElemSize: int(b.f.elements().bytes)}
	var t workload.Tiling
	var why string
	if tile := cmp.Or(b.tile, at(b.f.Kernel.Tiles, b.gemms)); tile.M > 0 {
		split := int64(max(1, cmp.Or(b.split, at(b.f.Kernel.Splits, b.gemms))))
		t, why = b.tiles(&s, tile, split, p)
		// Part after part adds to the output: each but the last writes it, and the next reads it.
		bytes += float64(2*(split-1)*p.m*p.n) * float64(b.f.elements().bytes)
	} else {
		why = b.library(&s, sh)
	}
	b.gemms++
	b.rest("gpu.memory", b.m.GPU.Memory)
	b.take(&s, sh, t, bytes, why)
	b.steps = append(b.steps, s)
}

// library is a GEMM of the machine's matrix library: persistent workgroups, one per CU, or one per
// tile (machine.Matmul).
func (b *bench) library(s *step, sh workload.Shape) (why string) {
	mm := &b.m.Matmul
	t := b.laws().Tiling(&workload.Op{Kernel: &workload.Kernel{Shape: sh}})
	if mm.Rate.Known() {
		b.rest("matmul.rate", mm.Rate)
	} else {
		b.restTable("matmul.tiles", mm.Tiles)
		b.rest("gpu.flops", b.m.GPU.Flops)
	}
	cus := int(b.m.GPU.CUs.Value)
	s.name += fmt.Sprintf("gemm_%dx%d", t.Columns, t.Rows) // the library's rows lie along N
	wgs := t.Tiles
	if mm.Persistent.Or(1) > 0 {
		wgs = min(wgs, cus)
	}
	s.kernel = b.block(wgs, 256, 0, int(b.m.GPU.Shared.Value-b.m.GPU.SharedSpare.Value))
	if sh.Groups == 1 && b.m.Dynamic(t) { // a fill clears the tile counter of the dynamic schedule
		fill := step{name: "fill", kind: trace.Copy, why: "the launch gap that such a fill adds"}
		fill.seconds = max(0, b.m.Launch.MemsetGap.Value-b.m.Launch.Gap.Value)
		b.steps = append(b.steps, fill)
	}
	why = fmt.Sprintf("%d tiles of %d×%d in %d waves of %d CUs", t.Tiles, t.Columns, t.Rows, t.Waves, cus)
	if t.Measured {
		why += "; the profile has the time of this very shape"
	}
	return why
}

// tiles is a GEMM by a compiled kernel, one workgroup per tile and part along K. Tiles on
// the same CU share its pipes; a single tile does not saturate them (rules D11 and G10).
func (b *bench) tiles(s *step, t tile, split int64, p product) (tiling workload.Tiling, why string) {
	tm, tn := int64(t.M), int64(t.N)
	tiles := p.groups * machine.CeilDiv(machine.CeilDiv(p.m, p.groups), tm) * machine.CeilDiv(p.n, tn)
	count := tiles * split
	rate, key := b.m.Matmul.Compiled, "matmul.compiled"
	if !rate.Known() {
		b.rest(key, rate)
		rate, key = b.m.GPU.Flops, "gpu.flops"
	}
	b.rest(key, rate)
	s.name += fmt.Sprintf("gemm_tile_%dx%d", tm, tn)
	if t.Depth > 0 {
		s.name += fmt.Sprintf("x%d", t.Depth)
	}
	s.kernel = b.block(int(count), 256, 128, t.shared(b.f.elements().bytes))
	slots := b.laws().Slots(footprint(&s.kernel))
	parts := ""
	if split > 1 {
		parts = fmt.Sprintf(", %d parts of each tile along K", split)
	}
	s.parts = split
	why = fmt.Sprintf("%d workgroups of %d×%d%s on %d slots, %.2f waves, at %.0f TFLOP/s",
		count, tm, tn, parts, slots, float64(count)/float64(slots), rate.Value/1e12)
	return workload.Tiling{TileM: t.M, TileN: t.N, Depth: t.Depth, Tiles: int(tiles)}, why
}

// vectorRows is the rows of a matrix that one workgroup multiplies by a vector, as
// the measured matrix-vector kernels do (rule G14).
const vectorRows = 32

// matvec is y[m] = A[m,k]·x[k]: every weight is read once.
func (b *bench) matvec(m, k int64) {
	e := b.f.elements()
	rows := int64(vectorRows)
	if t := at(b.f.Kernel.Tiles, 0); t.M > 0 {
		rows = int64(t.M)
	}
	s := step{
		name: fmt.Sprintf("gemv_%dx1", rows), kind: trace.Compute,
		kernel:   b.block(int(machine.CeilDiv(m, rows)), 1024, 0, 0),
		operator: b.operator("mv", []int64{m, k}, []int64{k}),
		out:      m * e.bytes,
	}
	b.rest("gpu.read", b.m.GPU.Read)
	b.take(&s, workload.Shape{Kind: workload.GEMV}, workload.Tiling{}, float64((m*k+k+m)*e.bytes), "")
	b.steps = append(b.steps, s)
}

// lookup is batch·tables sums of pooling rows of dim elements, one workgroup per sum.
func (b *bench) lookup(batch, tables, dim, pooling int64) {
	e := b.f.elements()
	sums, launches := batch*tables, max(1, int64(b.f.Kernel.Launches))
	s := step{
		name: "embedding_bag", kind: trace.Compute,
		kernel: b.block(int(sums), 256, 64, 0),
		operator: trace.Operator{
			Name: "aten::_embedding_bag", Dims: [][]int64{{0, dim}, {sums * pooling}, {sums}},
			Types: []string{e.torch, "long", "long"},
		},
		out: sums * dim * e.bytes,
	}
	g := &b.m.GPU
	b.restTable("gpu.gather", g.Gather)
	if !g.Gather.Known() {
		b.rest("gpu.memory", g.Memory)
		b.restTable("gpu.crowding", g.Crowding)
	}
	each, slots := machine.CeilDiv(sums, launches), b.laws().Slots(footprint(&s.kernel))
	one := s
	one.kernel.Grid[0] = int32(min(each, math.MaxInt32))
	b.take(&one, workload.Shape{Kind: workload.Embedding}, workload.Tiling{}, float64(each*(pooling+1)*dim*e.bytes),
		fmt.Sprintf("%d sums on %d slots, %.2f waves, bound by memory", sums, slots, float64(each)/float64(slots)))
	s.seconds, s.why = one.seconds, one.why
	if launches > 1 {
		s.why = fmt.Sprintf("%d kernels of %d sums one after another, shown as one", launches, each) + s.why[strings.IndexByte(s.why, ','):]
		s.seconds = float64(launches)*s.seconds + float64(launches-1)*b.m.Launch.Gap.Value
	}
	b.steps = append(b.steps, s)
}

// shuffle permutes the output of an all-to-all, ordered by rank, into the final order.
func (b *bench) shuffle(count int64) {
	out := count * b.f.elements().bytes
	wgs := min(machine.CeilDiv(count, 1024), 4*int64(b.m.GPU.CUs.Value))
	b.move("permute", b.plain(int(wgs), 256, 32, 0), b.operator("permute", []int64{count}), out, 2*float64(out))
}

// collective is an operation of the library on a buffer with the given number of
// elements: the larger of a rank's input and output.
func (b *bench) collective(op trace.CollectiveOp, count int64) {
	ranks := b.ranks
	if n, ok := b.f.groups[b.group]; ok {
		ranks = n
	}
	if ranks < 2 {
		return
	}
	e, lib := b.f.elements(), &b.m.Library
	bytes := count * e.bytes
	c := trace.Comm{Op: op, DType: b.f.Type, ElemSize: int32(e.bytes), Peer: trace.None}
	c.In, c.Out = op.Sides(bytes, ranks)
	laws, among := b.laws(), &workload.Collective{Op: op, Bytes: bytes}
	for i := range ranks {
		among.Members = append(among.Members, int32(i))
	}
	channels, law, sent := cmp.Or(b.f.Channels, laws.Channels(among)), op, bytes
	if op == trace.SendRecv { // to the next rank, another node's if there is one: half of what a pair exchanges in an all-to-all
		law, sent, among.Members = trace.AllToAll, 2*bytes, []int32{0, 1}
		if ranks > b.m.PerNode() {
			among.Members[1] = int32(b.m.PerNode())
		}
	}
	of := lib.Of(op)
	b.rest("library."+op.String()+".link", of.Link)
	b.rest("library."+op.String()+".send", of.Send)
	if ranks > b.m.PerNode() {
		b.rest("network.egress", b.m.Network.Egress)
	}
	s := step{name: op.String(), kind: trace.Collective, comm: &c, group: b.group, seconds: laws.Time(among, law, sent, channels)}
	s.out = c.Out
	s.kernel = b.plain(channels, int(lib.Threads.Value), int(lib.Registers.Value), int(lib.Shared.Value))
	s.why = fmt.Sprintf("%s of %.1f MB over %d ranks, %d channels", lib.Name, float64(bytes)/1e6, ranks, channels)
	b.steps = append(b.steps, s)
}

// block is a kernel's launch with the footprint of the file, or these defaults.
func (b *bench) block(wgs, threads, registers, shared int) trace.Setup {
	k := b.f.Kernel
	return b.plain(wgs, cmp.Or(k.Threads, threads), cmp.Or(k.Registers, registers), cmp.Or(at(k.Shared, b.gemms), shared))
}

func (b *bench) plain(wgs, threads, registers, shared int) trace.Setup {
	return trace.Setup{
		Grid: [3]int32{int32(min(wgs, math.MaxInt32)), 1, 1}, Block: [3]int32{int32(threads), 1, 1},
		Registers: int32(registers), Shared: int32(shared),
	}
}

// footprint is what a workgroup of a launch takes of a CU.
func footprint(k *trace.Setup) program.Footprint {
	return program.Footprint{Threads: k.Threads(), Registers: int(k.Registers), Shared: int(k.Shared)}
}
