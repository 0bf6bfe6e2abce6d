package lift

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A place is where GEMMs of unknown size lie in the layers of a model: their kernel, the kernel before them, and their rows.
type place struct {
	kernel, before *workload.Kernel
	m              int64
}

// Shapes gives GEMMs of unknown size in steps of inference, as captured graphs have them, the sizes that follow from
// what is around them (rule V26): as many rows as the norm in front, else as the step has
// tokens; as many columns as a collective that adds up their output, else as their tiles have; as deep as the sum
// that they read through a norm, or as the output of an elementwise kernel in front is wide. A third side that nothing
// shows is that with which the machine's law takes their time.
func Shapes(w *workload.Workload, m *machine.Machine) {
	f, kernels := newFinder(w), newKernelReader(w.Run, nil, nil)
	adds := f.addedBy()
	alike, seen, places := map[place][]int32{}, map[place][]matrixSides{}, []place(nil)
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Kind != trace.Compute || op.Shape.Kind != workload.NoShape || op.Step < 0 || w.Steps[op.Step].Batch.Tokens == 0 ||
			workload.ClassOf(op.Name) != workload.ClassMatrix || workload.NameHas(op.Name, bytewise...) {
			continue
		}
		p, depth := f.placeOf(op, w.Steps[op.Step].Batch.Tokens)
		s := matrixSides{0, depth}
		if row, ok := adds[op.ID]; ok {
			s.n = f.columns(row, p.m)
		}
		if alike[p] == nil {
			places = append(places, p)
		}
		alike[p], seen[p] = append(alike[p], op.ID), append(seen[p], s)
	}
	shapes := map[place]workload.Shape{}
	law, took := 0.0, 0.0 // of those of which all sides are known
	laws := cost.Laws{Machine: m, Workload: w}
	for _, p := range places {
		ids := alike[p]
		slices.SortFunc(seen[p], func(a, b matrixSides) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.k, b.k)) })
		s := seen[p][len(ids)/2] // what most show
		if s == (matrixSides{}) {
			continue
		}
		columns := cmp.Or(s.n, kernels.columns(&w.Ops[ids[0]], p.m))
		shape := workload.Shape{M: p.m, N: columns, K: s.k, ElemSize: 2, Evidence: "the kernels around it"}
		shape.Kind = workload.GEMMKind(p.m, cmp.Or(columns, math.MaxInt64))
		switch {
		case shape.N == 0:
			shape.Guessed = 'N'
		case shape.K == 0:
			shape.Guessed = 'K'
		case workload.GEMMKind(math.MaxInt64, columns) == workload.GEMM: // one of few columns takes its launch, and shows no clock
			law, took = law+m.Preferred(p.m, shape.N, shape.K).Seconds, took+f.typical(ids)
		}
		shapes[p] = shape
	}
	for p, s := range shapes {
		if guessed := map[byte]*int64{'N': &s.N, 'K': &s.K}[s.Guessed]; guessed != nil {
			s.Evidence += ", and its time"
			seconds := f.typical(alike[p])
			if took > 0 { // at the clock of the others
				seconds *= law / took
			}
			*guessed = laws.Side(seconds, func(side int64) (m, n, k int64) {
				*guessed = side
				return s.M, s.N, s.K
			})
		}
		for _, id := range alike[p] {
			before := f.before(id)
			kernels.resize(&w.Ops[id], s, before >= 0 && f.role(&w.Ops[before]) == ignored)
		}
	}
}

// A matrixSides is the columns and the depth of a GEMM; 0: unknown.
type matrixSides struct{ n, k int64 }

// typical is the median duration of ops in seconds.
func (f *finder) typical(ids []int32) float64 {
	all := make([]trace.Time, len(ids))
	for i, id := range ids {
		all[i] = f.Ops[id].Dur()
	}
	return float64(overlap.UpperMedian(all)) / 1e9
}

// bytewise are words in names of GEMMs whose elements have less than two bytes: the law is of those of two.
var bytewise = []string{"f8", "fp8", "e4m3", "_qq", "i8", "int8", "fp4", "f4"}

// addedBy is the collective that adds up an op's output, by op.
func (f *finder) addedBy() map[int32]int32 {
	adds := map[int32]int32{}
	for row := range f.Collectives {
		c := &f.Collectives[row]
		if c.Op != trace.AllReduce && c.Op != trace.ReduceScatter {
			continue
		}
		for _, id := range c.Members {
			at, _ := f.sent(&f.Ops[id])
			f.walk(at, &f.Ops[id], maxSteps, f.before, func(op *workload.Op, r opRole) bool {
				if r == heavy {
					adds[op.ID] = int32(row)
				}
				return r != heavy
			})
		}
	}
	return adds
}

// placeOf is the place of a GEMM in a step of so many tokens, and its depth by what it reads through light kernels:
// the result of a collective, or what an elementwise kernel made.
func (f *finder) placeOf(op *workload.Op, tokens int64) (p place, depth int64) {
	p = place{kernel: op.Kernel, m: tokens}
	for at, n := op.ID, 0; n < maxSteps; n++ {
		for _, d := range f.Ops[at].After {
			if c := f.Ops[d.Op].Collective; c >= 0 {
				return p, cmp.Or(depth, f.columns(c, p.m))
			}
		}
		if at = f.before(at); at < 0 {
			break
		}
		before := &f.Ops[at]
		role := f.role(before)
		if p.before == nil && role != ignored {
			p.before = before.Kernel
		}
		if role == heavy {
			break
		}
		if rows := normRows(before); rows > 0 {
			p.m = rows
		} else if elements := elements(before); depth == 0 && elements%p.m == 0 {
			depth = elements / p.m
		}
	}
	return p, depth
}

// columns is the columns of a collective of so many rows; 0 if they do not divide it.
func (f *finder) columns(row int32, rows int64) int64 {
	c := &f.Collectives[row]
	each := cmp.Or(int64(c.ElemSize), elementSize(f.Ops[c.Members[0]].Name))
	if each*rows == 0 || c.Bytes%(each*rows) != 0 {
		return 0
	}
	return c.Bytes / (each * rows)
}
