package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Copies and additions that depend on the samples of a micro-batch (rule W18). PyTorch's reshape and contiguous copy a tensor
// whose places lie in another order in memory than its axes do, and torch.nn.functional.linear adds the bias by a kernel of its
// own then (aten/src/ATen/native/TensorShape.cpp and Linear.cpp). With one sample the axis of samples has no order, and
// what is transposed only in it is contiguous:
//
//	samples  axes in memory           reshape to rows  linear
//	2        sample, token, width     a copy           product, addition of the bias
//	1        (sample) token, width    a view           product with bias
//
// samples are those of a captured micro-batch: the first axis of each tensor that a stage sends, along which PyTorch's schedules
// divide the batch; 0: tensors differ, or are unknown.
func (rd *reading) samples() (n int64) {
	for i := range rd.w.Run.Operators {
		o := &rd.w.Run.Operators[i]
		if o.Name != "c10d::send" && o.Name != "c10d::recv_" {
			continue
		}
		if len(o.Dims) == 0 || len(o.Dims[0]) < 2 || n != 0 && n != o.Dims[0][0] {
			return 0
		}
		n = o.Dims[0][0]
	}
	return n
}

// operators are those around the launch of an operation, innermost first.
func (rd *reading) operators(op *workload.Op) (list []*trace.Operator) {
	run := rd.w.Run
	for at := run.LaunchOf(run.Spans[op.Span]); at != trace.None; at = run.Spans[at].Parent {
		s := run.Spans[at]
		if s.Kind != trace.HostCall && s.Kind != trace.Launch || s.Attr == trace.None {
			continue
		}
		if row := run.Calls[s.Attr].Op; row != trace.None {
			list = append(list, &run.Operators[row])
		}
	}
	return list
}

// leaveOut finds what runs with several samples a micro-batch, so many as captured, and not with one.
func (p *pipelinePlan) leaveOut(samples int64) {
	p.without = map[int32]bool{}
	shares := p.issueShares()
	for i := range p.w.Ops {
		op := &p.w.Ops[i]
		if op.Kind == trace.Collective {
			continue
		}
		if at := p.operators(op); len(at) > 1 && onlyForSamples(at, samples) {
			p.without[op.ID], p.Issues[op.ID], shares[op.ID] = true, 0, 0
		}
	}
}

// onlyForSamples reports whether a kernel runs only because of the order of so many samples in memory: of the operators around
// its launch.
func onlyForSamples(at []*trace.Operator, samples int64) bool {
	switch inner := at[0]; {
	case inner.Name == "aten::copy_" && at[1].Name == "aten::clone" && len(inner.Dims) > 1 && slices.Equal(inner.Dims[0], inner.Dims[1]):
		return reordered(inner, 0, 1, samples)
	case inner.Name == "aten::add_" && at[1].Name == "aten::linear" && len(at[1].Dims) > 0:
		return reordered(at[1], 0, -1, samples)
	}
	return false
}

// reordered reports whether two inputs of an operator, or one (other: -1) and a contiguous tensor, differ in the order of their
// axes in memory, and would not with one sample.
func reordered(o *trace.Operator, input, other int, samples int64) bool {
	dims := o.Dims[input]
	axis := slices.Index(dims, samples)
	if axis < 0 || slices.Contains(dims[axis+1:], samples) {
		return false
	}
	of := func(input int) []int {
		if input < 0 || input >= len(o.Strides) {
			return axesOf(dims, nil)
		}
		return axesOf(dims, o.Strides[input])
	}
	x, y := of(input), of(other)
	if x == nil || y == nil || slices.Equal(x, y) {
		return false
	}
	rest := func(axes []int) []int { return slices.DeleteFunc(axes, func(i int) bool { return i == axis }) }
	return slices.Equal(rest(x), rest(y))
}

// axesOf is the order of a tensor's axes in memory, outermost first; nil: it has gaps, or places that it reads twice. An axis of
// size 1 is inside of one with its stride.
func axesOf(dims, strides []int64) (axes []int) {
	for i := range dims {
		axes = append(axes, i)
	}
	if strides == nil {
		return axes
	}
	slices.SortStableFunc(axes, func(i, j int) int {
		return cmp.Or(cmp.Compare(strides[j], strides[i]), cmp.Compare(dims[j], dims[i]))
	})
	next := int64(1)
	for _, i := range slices.Backward(axes) {
		if dims[i] > 1 && strides[i] != next {
			return nil
		}
		next *= dims[i]
	}
	return axes
}

// A samplesKernels has the kernels that captured micro-batches of one sample do not run, and those of several do, for the order of
// samples in memory: by captured op, copies in front of it, and the addition of a bias behind it.
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
