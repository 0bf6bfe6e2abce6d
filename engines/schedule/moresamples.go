package schedule

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A samplesKernels has the kernels that captured micro-batches of one sample do not run, and those of several do, for the order of
// samples in memory (views.go): by captured op, copies in front of it, and the addition of a bias behind it.
type samplesKernels struct {
	before, behind map[int32]matrix
	rate           float64 // bytes that copies which change the order of axes read and write a second; 0: none was captured
}

// A matrix is rows of columns of elements of so many bytes, of one sample.
type matrix struct {
	rows, columns int64
	size          int
}

// onlyForMore finds them by the layouts of operators' inputs, where the stride of an axis of size 1 tells where it lies: linear
// whose input is transposed, products in autograd of what it reshapes to rows, and the backward of a norm, which reads a
// contiguous gradient.
func (rd *reading) onlyForMore() samplesKernels {
	k := samplesKernels{before: map[int32]matrix{}, behind: map[int32]matrix{}}
	var rates []float64
	run := rd.w.Run
	for rank := range rd.w.World {
		reshapes, last, size := rd.reshapes(rank), (*trace.Operator)(nil), 0 // of an element of the last GEMM
		for _, id := range rd.w.IssueOrder(rank) {
			op := &rd.w.Ops[id]
			at := append(rd.operators(op), nil, nil)
			inner, around, reshaped := at[0], at[1], (*trace.Operator)(nil)
			for len(reshapes) > 0 && run.Spans[reshapes[0]].Start < op.Issued {
				reshaped, reshapes = &run.Operators[run.Calls[run.Spans[reshapes[0]].Attr].Op], reshapes[1:]
			}
			if op.Shape.Kind == workload.GEMM {
				size = op.Shape.ElemSize
			}
			switch {
			case inner == nil || op.Kind != trace.Compute:
			case reorders(inner, around) && op.Read*op.Write > 0:
				rates = append(rates, (op.Read+op.Write)/float64(op.DurAlone())*1e9)
			case isLinear(op, inner, around) && ordersSample(around):
				k.before[id], k.behind[id] = matrix{op.Shape.M, op.Shape.K, size}, matrix{op.Shape.M, op.Shape.N, size}
			case inner.Name == "aten::mm" && readsRows(inner, reshaped) && ordersSample(reshaped):
				k.before[id] = matrix{inner.Dims[0][0], inner.Dims[0][1], size}
			case inner.Name == "aten::native_layer_norm_backward" && inner != last && ordersSample(inner): // the first of its kernels
				rows := rowsOfTensor(inner)
				k.before[id] = matrix{rows[0], rows[1], size}
			}
			last = inner
		}
	}
	k.rate = overlap.Median(rates)
	return k
}

// reorders reports whether a kernel of an operator within another changes the order of axes in memory.
func reorders(inner, around *trace.Operator) bool {
	return inner.Name == "aten::copy_" && around != nil && around.Name == "aten::clone" && inner.Strides != nil
}

// isLinear reports whether a kernel is the product of torch.nn.functional.linear, with the bias in it.
func isLinear(op *workload.Op, inner, around *trace.Operator) bool {
	return inner.Name == "aten::addmm" && around != nil && around.Name == "aten::linear" && op.Shape.Kind == workload.GEMM
}

// readsRows reports whether an operator's first input is what the last reshape in front of it makes, rows of its last axis.
func readsRows(inner, reshaped *trace.Operator) bool {
	if reshaped == nil || len(reshaped.Dims) == 0 || len(reshaped.Dims[0]) == 0 || len(inner.Dims) == 0 {
		return false
	}
	return slices.Equal(rowsOfTensor(reshaped), inner.Dims[0])
}

// ordersSample reports whether the first input of an operator is contiguous, and would not be with several samples in place of
// its only axis of size 1.
func ordersSample(o *trace.Operator) bool {
	if len(o.Dims) == 0 || len(o.Dims[0]) < 3 || o.Dims[0][len(o.Dims[0])-1] == 1 || slices.Min(o.Dims[0]) < 1 {
		return false
	}
	return reordered(o, 0, -1, 1)
}

// rowsOfTensor are the sides of the first input of an operator as a matrix: as many columns as its last axis is long.
func rowsOfTensor(o *trace.Operator) []int64 {
	columns, rows := o.Dims[0][len(o.Dims[0])-1], int64(1)
	for _, n := range o.Dims[0][:len(o.Dims[0])-1] {
		rows *= n
	}
	return []int64{rows, columns}
}

// reshapes are the calls of reshape on a rank's host that are of no linear, by start.
func (rd *reading) reshapes(rank int) (list []trace.SpanID) {
	run, row := rd.w.Run, int(rd.w.Rows[rank])
	name := func(id trace.SpanID) string { return run.NameOf(run.Spans[id]) }
	for i, s := range run.Spans {
		id := trace.SpanID(i)
		if s.Kind != trace.HostCall || s.Attr == trace.None || name(id) != "aten::reshape" {
			continue
		}
		if run.RankOf(s) != row || run.Calls[s.Attr].Op == trace.None {
			continue
		}
		within := false
		for at := s.Parent; at != trace.None && !within; at = run.Spans[at].Parent {
			within = name(at) == "aten::linear"
		}
		if !within {
			list = append(list, id)
		}
	}
	return list
}

// forSamples are the pieces of so many captured micro-batches of one sample in one, with the kernels that several samples need.
func (p *pipelinePlan) forSamples(list []pipelinePiece, samples int64) (all []pipelinePiece) {
	if len(p.more.before)+len(p.more.behind) == 0 {
		return list
	}
	moved := func(x pipelinePiece, what string, m matrix) pipelinePiece {
		m.rows *= samples
		added := p.added(x, fmt.Sprintf("%s %d x %d", what, m.rows, m.columns), m.rows, m.columns, m.size)
		if p.more.rate > 0 {
			added.Part.Alone = max(added.Part.Alone, trace.Time(1e9*(added.Part.Read+added.Part.Write)/p.more.rate))
		}
		launch := &p.pl.Machine.Launch
		added.Host = trace.Time(1e9 * launch.Host.Value * p.w.HostPace(x.Op.Rank, launch.Call.Or(0)))
		return added
	}
	for _, x := range list {
		if m, ok := p.more.before[x.Op.ID]; ok {
			all = append(all, moved(x, "copy of", m))
		}
		all = append(all, x)
		if m, ok := p.more.behind[x.Op.ID]; ok {
			all = append(all, moved(x, "bias added to", m))
		}
	}
	return all
}
