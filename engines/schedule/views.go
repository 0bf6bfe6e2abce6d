package schedule

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
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
