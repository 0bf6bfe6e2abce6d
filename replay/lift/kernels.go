package lift

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A sized is the shape of one operator and its batch size.
type sizedOperator struct {
	shape workload.Shape
	batch int64
}

// A Reader finds the properties of a run's kernels.
type kernelReader struct {
	run     *trace.Run
	shapes  map[string]workload.Shape // given by the user
	tiles   map[string]workload.Tiling
	names   []kernelName                         // by id; read on demand
	sizes   map[int32]sizedOperator              // by row of Run.Operators: computed once
	kernels map[workload.Kernel]*workload.Kernel // of all ops
	known   map[launch]measured
	own     workload.Kernel // of the current op
}

// newKernelReader returns a Reader of a run; shapes and tiles are what the user gives, as in lift.Options.
func newKernelReader(run *trace.Run, shapes map[string]workload.Shape, tiles map[string]workload.Tiling) *kernelReader {
	return &kernelReader{
		run: run, shapes: shapes, tiles: tiles,
		names: make([]kernelName, len(run.Names)), sizes: map[int32]sizedOperator{}, kernels: map[workload.Kernel]*workload.Kernel{}, known: map[launch]measured{},
	}
}

// A launch is what the properties of a kernel follow from.
type launch struct {
	name     trace.NameID
	kind     trace.Kind
	reset    bool
	rank     int
	operator int32
	setup    int32 // number in Run.Setups
}

// A measured is the properties of an op.
type measured struct {
	kernel      *workload.Kernel
	read, write float64
}

// A kernelName is the information derived from a kernel's name.
type kernelName struct {
	class workload.Class
	tile  namedTile
	tiled bool // the name gives a tile
	read  bool // the name has been read

	registers int // of a thread; 0: not known from the name
}

// name reads the name of an op; each name of a run is read once.
func (r *kernelReader) name(op *workload.Op) *kernelName {
	i := r.run.Spans[op.Span].Name
	n := &r.names[i]
	if !n.read {
		n.read = true
		n.class = workload.ClassOf(r.run.Names[i])
		n.tile, n.tiled = nameTile(r.run.Names[i])
		n.registers = tensileRegisters(r.run.Names[i])
	}
	return n
}

// measure sets the sizes, tiles and traffic of an op. Ops with equal Kernel values share
// one. operator is the row of Run.Operators that launched it, or None; reset: a counter was reset
// before it.
func (r *kernelReader) measure(op *workload.Op, operator int32, reset bool) {
	span := r.run.Spans[op.Span]
	k := r.run.Kernel(span)
	var l launch
	if k != nil {
		l = launch{span.Name, op.Kind, reset, r.run.RankOf(span), operator, k.Setup}
		if m, ok := r.known[l]; ok {
			op.Kernel, op.Read, op.Write = m.kernel, m.read, m.write
			return
		}
	}
	r.own = workload.Kernel{Name: r.run.NameOf(span), Footprint: footprint(r.run.Setup(k))}
	if r.own.Footprint.Threads > 0 && r.own.Footprint.Registers == 0 {
		r.own.Footprint.Registers = r.name(op).registers
	}
	op.Kernel = &r.own
	r.sizesOf(op, operator, reset)
	shared := r.kernels[r.own]
	if shared == nil {
		shared = new(r.own)
		r.kernels[r.own] = shared
	}
	op.Kernel = shared
	if k != nil {
		r.known[l] = measured{shared, op.Read, op.Write}
	}
}

// SizeByName sets the sizes and tiles of a GEMM whose kernel is compiled for its columns and depth, in a step of so many
// tokens: those are its rows (rule V2). Of a layer of experts in one kernel it is the GEMM inside (rule V35).
func (r *kernelReader) SizeByName(op *workload.Op, tokens int64) {
	if op.Kind != trace.Compute || op.Shape.Kind != workload.NoShape || tokens <= 0 {
		return
	}
	if layer := expertLayer(op.Name, []int64{tokens, 0}, r.ranks(op)); layer.M > 0 && op.Unfused.M == 0 {
		r.change(op, func() { op.Unfused = layer })
	}
	n, k, _, ok := deepGEMM(op.Name)
	if !ok || n*k == 0 || !r.name(op).tiled {
		return
	}
	r.resize(op, workload.Shape{Kind: workload.GEMMKind(tokens, n), M: tokens, N: n, K: k, ElemSize: 1, DType: "f8", Evidence: "the kernel's name, and the tokens of the step"}, false)
}

// resize gives an op whose size the trace does not show the sizes of a GEMM, and its tiles and traffic. reset: as of Measure.
func (r *kernelReader) resize(op *workload.Op, s workload.Shape, reset bool) {
	r.change(op, func() {
		op.Shape = s
		op.Read, op.Write = op.Shape.Traffic()
		op.Tiling = r.tiling(op, r.run.Setup(r.run.Kernel(r.run.Spans[op.Span])), 1, reset)
	})
}

// change gives an op a kernel of its own, or of those that are changed alike.
func (r *kernelReader) change(op *workload.Op, set func()) {
	r.own = *op.Kernel
	op.Kernel = &r.own
	set()
	if r.kernels[r.own] == nil {
		r.kernels[r.own] = new(r.own)
	}
	op.Kernel = r.kernels[r.own]
}

// ranks is how many ranks the job of an op's rank has.
func (r *kernelReader) ranks(op *workload.Op) int64 {
	return int64(max(len(r.run.Ranks), r.run.Ranks[r.run.RankOf(r.run.Spans[op.Span])].World))
}

// columns is the columns of a GEMM of so many rows by its tiles, to a tile: with fewer workgroups than fit, each has
// one. It is 0 where they fit exactly, as those of a persistent kernel do, or share tiles along K.
func (r *kernelReader) columns(op *workload.Op, rows int64) int64 {
	k, t := r.run.Setup(r.run.Kernel(r.run.Spans[op.Span])), op.Tiling
	tile := r.name(op).tile
	cluster := max(1, tile.along1st*tile.along2nd)
	down := machine.CeilDiv(int(rows), max(1, t.TileM))
	slots := residents(&r.run.Ranks[r.run.RankOf(r.run.Spans[op.Span])].Device, k, op.Footprint.Registers)
	if t.TileM == 0 || t.WGs >= slots/cluster*cluster || t.WGs%down != 0 || sharesTiles.MatchString(strings.ToLower(op.Name)) {
		return 0
	}
	return int64(t.WGs / down * t.TileN)
}

// footprint is the CU resources of a kernel's workgroup, as far as the trace shows them.
func footprint(k trace.Setup) program.Footprint {
	return program.Footprint{Threads: k.Threads(), Registers: max(0, int(k.Registers)), Shared: max(0, int(k.Shared))}
}

func (r *kernelReader) sizesOf(op *workload.Op, operator int32, reset bool) {
	run := r.run
	if op.Kind == trace.Copy {
		op.Read, op.Write = copyTraffic(run.Copy(run.Spans[op.Span]))
		return
	}
	k := run.Setup(run.Kernel(run.Spans[op.Span]))
	if op.Kind != trace.Compute {
		op.Tiling = grid(k)
		return
	}
	batch := int64(1)
	var known traffic
	if operator != trace.None {
		known = operandTraffic(&run.Operators[operator], op.Name, k.WGs())
	}
	switch given, ok := lookUp(r.shapes, op.Name, k); {
	case ok:
		op.Shape = completed(given)
		op.Read, op.Write = op.Shape.Traffic()
		if operator != trace.None {
			op.Shape.Like = gemmLike(run.Operators[operator].Name)
		}
	case known.read+known.write > 0:
		if r.name(op).class == workload.ClassSweep {
			op.Shape, _, _ = elementwise(&run.Operators[operator])
		}
		op.Read, op.Write = known.read, known.write
	case operator == trace.None, r.name(op).class == workload.ClassLight:
	case concatenates(&run.Operators[operator]):
		op.Inputs = concatenated(&run.Operators[operator], op.Name)
	case r.name(op).class == workload.ClassSweep:
		op.Shape, op.Read, op.Write = elementwise(&run.Operators[operator])
	default:
		o := &run.Operators[operator]
		p, ok := r.sizes[operator]
		if !ok {
			p.shape, p.batch = shapeOf(o)
			r.sizes[operator] = p
		}
		op.Shape, batch = p.shape, max(1, p.batch)
		op.Read, op.Write = op.Shape.Traffic()
		if op.Shape.Like = gemmLike(o.Name); op.Shape.Like != "" {
			op.Read = inputs(o)
		}
		if r.name(op).class == workload.ClassDense && op.Read == 0 {
			op.Inputs = inputs(o)
		}
		if r.name(op).class == workload.ClassDense {
			op.Flops = attentionFlops(o)
		}
	}
	if reads, sends, fused := trace.Fused(op.Name); fused != "" {
		switch layer := reads == trace.AllToAll && sends == reads; {
		case op.Shape.Kind != workload.NoShape || operator == trace.None:
		case layer:
			op.Shape = expertLayer(op.Name, widest(&run.Operators[operator]), r.ranks(op))
		default:
			op.Shape = factorsAmong(&run.Operators[operator])
		}
		op.Unfused, op.Shape, op.Read, op.Write = op.Shape, workload.Shape{}, 0, 0
	}
	class := r.name(op).class
	op.Dense, op.Moves = class == workload.ClassDense, class == workload.ClassSweep || class == workload.ClassLight || class == workload.ClassLookup || known.read+known.write > 0
	op.Tiling = r.tiling(op, k, batch, reset)
}

// lookUp finds the user's entry for a kernel: by its whole name or as messages or tables have it, and
// first for launches with the same number of workgroups.
func lookUp[T any](given map[string]T, name string, k trace.Setup) (v T, ok bool) {
	if len(given) == 0 {
		return v, false
	}
	wgs := fmt.Sprint("@", k.WGs())
	for _, called := range [...]string{name, workload.FunctionName(name), trace.Short(name)} {
		for _, key := range [...]string{called + wgs, called} {
			if v, ok = given[key]; ok {
				return v, true
			}
		}
	}
	return v, false
}

// completed is a shape given by the user, with its kind if that is not set.
func completed(s workload.Shape) workload.Shape {
	if s.Kind == workload.NoShape {
		s.Kind = workload.GEMMKind(s.M, s.N)
	}
	s.Evidence = cmp.Or(s.Evidence, "given")
	return s
}
