package lift

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A finder walks from an operation along the dataflow to the nearest heavy one: the one
// search by which compute is joined with the collectives that it feeds or reads (rule V3).
type finder struct {
	*workload.Workload
	next   []int32 // by op: the first whose data come from it, or -1
	reader []int32 // by op: the first op but a collective that waited for it or reads its output, or -1

	evidence map[string][]string // of all candidates, by line
	key      []byte              // scratch: of evidence
}

func newFinder(w *workload.Workload) *finder {
	f := &finder{Workload: w, next: filled(len(w.Ops)), reader: filled(len(w.Ops)), evidence: map[string][]string{}}
	for i := range w.Ops {
		op := &w.Ops[i]
		first(f.next, f.before(op.ID), op.ID)
		if op.Kind == trace.Collective {
			continue
		}
		for _, e := range f.Edges(op.ID) {
			if e.Recorded() {
				first(f.reader, e.Op, op.ID)
			}
		}
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		for _, d := range op.After {
			if op.Kind != trace.Collective {
				first(f.reader, d.Op, op.ID)
			}
		}
	}
	return f
}

func filled(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

// first notes an op in the row of an earlier one, if none is there.
func first(rows []int32, earlier, op int32) {
	if earlier >= 0 && rows[earlier] < 0 {
		rows[earlier] = op
	}
}

// before is the op that another's data come from: the last of those whose output it is known to
// read, else the last that it depends on and that is on its stream; or -1.
func (f *finder) before(id int32) int32 {
	at, reads := int32(-1), false
	for _, e := range f.Edges(id) {
		if e.Recorded() || !reads && !e.Reused && f.Ops[e.Op].Queue == f.Ops[id].Queue {
			at, reads = e.Op, reads || e.Recorded()
		}
	}
	return at
}

// queued is the op that another followed on its stream, or -1.
func (f *finder) queued(id int32) int32 {
	for _, d := range f.Ops[id].After {
		if d.Why == workload.StreamOrder {
			return d.Op
		}
	}
	return -1
}

// beforeAlone is before, but -1 if the op waited for a collective too.
func (f *finder) beforeAlone(id int32) int32 {
	if f.waitsForCollective(id) {
		return -1
	}
	return f.before(id)
}

// after is the first op whose data come from another one, or -1.
func (f *finder) after(id int32) int32 { return f.next[id] }

func (f *finder) waitsForCollective(id int32) bool {
	return slices.ContainsFunc(f.Ops[id].After, func(d workload.Dep) bool { return f.Ops[d.Op].Kind == trace.Collective })
}

// walk shows visit at most so many ops in turn, from one on, until it returns false. It never
// leaves the iteration of an op, if the program marked it, and ends in front of a collective.
func (f *finder) walk(at int32, within *workload.Op, most int, to func(int32) int32, visit func(*workload.Op, opRole) bool) {
	for range most {
		if at < 0 {
			return
		}
		op := &f.Ops[at]
		role := f.role(op)
		if role == boundary || op.Step != within.Step && op.Step >= 0 && within.Step >= 0 || !visit(op, role) {
			return
		}
		at = to(at)
	}
}

// sent is the op that a collective's data come from, and what shows it: of those whose output
// it is known to read, else of those that it waited for, the last to end; -1: none.
func (f *finder) sent(c *workload.Op) (at int32, why workload.Reason) {
	at = -1
	last := func(op int32) {
		if f.Ops[op].Kind != trace.Collective && (at < 0 || f.Ops[op].End >= f.Ops[at].End) {
			at = op
		}
	}
	for _, e := range f.Edges(c.ID) {
		if e.Recorded() {
			last(e.Op)
		}
	}
	if at < 0 {
		for _, d := range c.After {
			last(d.Op)
		}
	}
	return at, f.waited(c, at)
}

// waited is what shows that an op waited for another one.
func (f *finder) waited(op *workload.Op, on int32) workload.Reason {
	for _, d := range op.After {
		if d.Op == on {
			return d.Why
		}
	}
	for _, e := range f.Edges(op.ID) {
		if e.Op == on && e.Evidence == workload.Annotated {
			return workload.Marked
		}
	}
	return workload.Recorded
}

// A opRole is how an op counts on a walk.
type opRole uint8

const (
	ignored     opRole = iota // a fill: it belongs to the kernel behind it
	transparent               // light: data go through it
	heavy
	boundary // a collective: ops behind it are not adjacent
)

func (f *finder) role(op *workload.Op) opRole {
	switch kind := op.Shape.Kind; {
	case op.Kind == trace.Collective:
		return boundary
	case op.Kind == trace.Copy && f.IsFill(op):
		return ignored
	case op.Kind == trace.Copy || kind == workload.Elementwise:
		return transparent
	case kind != workload.NoShape:
		return heavy
	}
	switch c := workload.ClassOf(op.Name); {
	case c == workload.ClassLight, c == workload.ClassSweep, c == workload.ClassUnknown && op.Dur() < tiny:
		return transparent
	}
	return heavy
}

// Heavy tells kernels that compute, such as GEMMs and lookups, from light ones around them.
func Heavy(w *workload.Workload) func(*workload.Op) bool {
	f := &finder{Workload: w}
	return func(op *workload.Op) bool { return f.role(op) == heavy }
}

// A size is how much data an op leaves or takes; zero fields are unknown.
type size struct{ elements, bytes int64 }

func (s size) known() bool { return s.bytes > 0 }

// sizeOf is that of a matrix of elements of so many bytes.
func sizeOf(each int, dims ...int64) size {
	n, ok := volume(dims)
	switch {
	case !ok:
		return size{}
	case n > math.MaxInt64/int64(max(1, each)):
		return size{n, 0}
	}
	return size{n, n * int64(each)}
}

// output is the size of an op's output.
func output(op *workload.Op) size {
	s := op.Shape
	switch {
	case s.Kind != workload.NoShape && s.ElemSize > 0:
		return sizeOf(s.ElemSize, s.M, s.N)
	case op.Kind == trace.Copy:
		return size{0, int64(op.Write)}
	}
	return size{}
}

// operands are the sizes of a GEMM's inputs, and of the gradients that an embedding's tables take.
func operands(op *workload.Op) (a, b size) {
	switch s := op.Shape; s.Kind {
	case workload.EmbeddingGrad:
		return sizeOf(s.ElemSize, s.M, s.N), size{}
	case workload.GEMM, workload.GEMV:
		return sizeOf(s.ElemSize, s.M, s.K), sizeOf(s.ElemSize, max(1, s.Groups), s.K, s.N)
	}
	return size{}, size{}
}

// communicated is a size that the trace gives of a collective, or else the larger one.
func communicated(c *trace.Comm, bytes int64) size {
	if bytes <= 0 {
		bytes = c.Bytes()
	}
	s := size{bytes: bytes}
	if c.ElemSize > 0 {
		s.elements = bytes / int64(c.ElemSize)
	}
	return s
}

// agree is 1 for equal sizes, less if only the number of elements is equal, else 0.
func (s size) agree(t size) float64 {
	switch {
	case !s.known() || !t.known():
		return 0
	case s.bytes == t.bytes:
		return 1
	case s.elements > 0 && s.elements == t.elements:
		return otherType
	}
	return 0
}
