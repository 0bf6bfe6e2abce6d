package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Axes in memory, outermost first. An axis of size 1 is where it would be if it were longer.
func TestAxesInMemory(t *testing.T) {
	for _, c := range []struct {
		dims, strides []int64
		want          string
	}{
		{[]int64{4, 2, 8}, nil, "[0 1 2]"},
		{[]int64{4, 2, 8}, []int64{8, 32, 1}, "[1 0 2]"},
		{[]int64{4, 1, 8}, []int64{8, 32, 1}, "[1 0 2]"},
		{[]int64{1, 4, 8}, []int64{8, 8, 1}, "[1 0 2]"},
		{[]int64{3, 4, 2, 8}, []int64{8, 48, 24, 1}, "[1 2 0 3]"},
		{[]int64{4, 2, 8}, []int64{16, 64, 1}, "[]"}, // half of a longer row
		{[]int64{4, 2, 8}, []int64{0, 8, 1}, "[]"},   // expanded
	} {
		if got := fmt.Sprint(axesOf(c.dims, c.strides)); got != c.want {
			t.Errorf("%v with strides %v: %s, not %s", c.dims, c.strides, got, c.want)
		}
	}
}

// Operators around kernels of nn.TransformerEncoderLayer with two samples a micro-batch (profiles of torch 2.11), innermost first,
// and whether one sample needs the kernel.
func TestKernelsOnlyForSamples(t *testing.T) {
	transposed := []int64{3072, 3145728, 1}
	two := func(name string, dims, first, second []int64) *trace.Operator {
		return &trace.Operator{Name: name, Dims: [][]int64{dims, dims, nil}, Strides: [][]int64{first, second, nil}}
	}
	named := func(names ...string) (list []*trace.Operator) {
		for _, name := range names {
			list = append(list, &trace.Operator{Name: name})
		}
		return list
	}
	linear := func(strides []int64) *trace.Operator {
		return &trace.Operator{Name: "aten::linear", Dims: [][]int64{{1024, 2, 3072}, {9216, 3072}, {9216}}, Strides: [][]int64{strides, nil, nil}}
	}
	tokens, samples := []int64{1024, 2, 3072}, []int64{2, 1024, 3072}
	for name, c := range map[string]struct {
		at   []*trace.Operator
		want bool
	}{
		"the reshape of linear's input":       {append([]*trace.Operator{two("aten::copy_", tokens, nil, transposed)}, named("aten::clone", "aten::reshape", "aten::matmul", "aten::linear")...), true},
		"linear's bias":                       {[]*trace.Operator{{Name: "aten::add_"}, linear(transposed)}, true},
		"the gradient of a norm's output":     {append([]*trace.Operator{two("aten::copy_", samples, nil, []int64{3072, 6144, 1})}, named("aten::clone", "aten::contiguous")...), true},
		"queries, keys and values apart":      {append([]*trace.Operator{two("aten::copy_", []int64{3, 1024, 2, 3072}, nil, []int64{3072, 18432, 9216, 1})}, named("aten::clone", "aten::contiguous")...), false},
		"a copy that the program asks for":    {append([]*trace.Operator{two("aten::copy_", tokens, nil, nil)}, named("aten::clone")...), false},
		"a copy into a tensor":                {append([]*trace.Operator{two("aten::copy_", tokens, nil, transposed)}, named("aten::select_backward")...), false},
		"a bias behind a contiguous input":    {[]*trace.Operator{{Name: "aten::add_"}, linear(nil)}, false},
		"a bias behind a half of longer rows": {[]*trace.Operator{{Name: "aten::add_"}, linear([]int64{6144, 6291456, 1})}, false},
		"two axes of two":                     {append([]*trace.Operator{two("aten::copy_", []int64{2, 2, 8}, nil, []int64{8, 16, 1})}, named("aten::clone")...), false},
	} {
		if got := onlyForSamples(c.at, 2); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The samples of a micro-batch are those of every tensor that stages send.
func TestSamples(t *testing.T) {
	for want, dims := range map[int64][][]int64{2: {{2, 8, 4}, {2, 8, 4}}, 0: {{2, 8, 4}, {4}}, 4: {{4, 8}}} {
		run := &trace.Run{Operators: []trace.Operator{{Name: "aten::mm", Dims: [][]int64{{9, 9}}}}}
		for _, d := range dims {
			run.Operators = append(run.Operators, trace.Operator{Name: "c10d::send", Dims: [][]int64{d, nil}})
		}
		if got := (&reading{w: &workload.Workload{Run: run}}).samples(); got != want {
			t.Errorf("%v: %d samples, not %d", dims, got, want)
		}
	}
}

// record gives a workload the run of its operations on one thread and one queue, each launched within the operators of its name,
// outermost first, and behind others that launch nothing.
func record(w *workload.Workload, around, before map[string][]trace.Operator) {
	b := &trace.Builder{}
	b.AddRank(trace.Rank{World: 1})
	host := b.Lane(trace.Lane{Kind: trace.HostThread, Peer: trace.None})
	device := b.Lane(trace.Lane{Kind: trace.Queue, ID: 7, Peer: trace.None})
	call := func(name string, attr trace.Call, start, end trace.Time, parent trace.SpanID) trace.SpanID {
		kind := trace.HostCall
		if attr.Correlation > 0 {
			kind = trace.Launch
		}
		return b.Add(trace.Span{Kind: kind, Lane: host, Name: b.Intern(name), Start: start, End: end, Attr: b.AddCall(attr), Parent: parent})
	}
	rows := map[string]int32{} // of operators
	row := func(o trace.Operator) int32 {
		return trace.Memo(rows, fmt.Sprint(o), func() int32 { return b.AddOperator(o) })
	}
	w.Rows, w.Ranks = []int32{0}, [][]int32{nil}
	for i := range w.Ops {
		op, at, parent := &w.Ops[i], trace.Time(100*i), trace.SpanID(trace.None)
		for k, o := range before[op.Name] {
			call(o.Name, trace.Call{Op: row(o)}, at+trace.Time(k), at+trace.Time(k)+1, parent)
		}
		for k, o := range around[op.Name] {
			parent = call(o.Name, trace.Call{Op: row(o)}, at+10+trace.Time(k), at+50-trace.Time(k), parent)
		}
		call("cudaLaunchKernel", trace.Call{Op: trace.None, Correlation: int64(i + 1)}, at+20, at+30, parent)
		k := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Stream: 7}), Correlation: int64(i + 1), Comm: trace.None, Op: trace.None, Origin: trace.None, Launch: trace.None})
		b.Add(trace.Span{Kind: trace.Compute, Lane: device, Name: b.Intern(op.Name), Start: at + 60, End: at + 70, Attr: k, Parent: trace.None})
		op.Issued, w.Ranks[0] = at+20, append(w.Ranks[0], op.ID)
	}
	w.Run = b.Finish(trace.Options{Name: "samples"})
	for i, s := range w.Run.Spans {
		if s.Kind == trace.Compute {
			w.Ops[s.Start/100].Span = trace.SpanID(i)
		}
	}
}

// c copies because of two samples: with one a micro-batch it is not run, nor issued.
func TestOneSample(t *testing.T) {
	p := drawn(t, "AcB", "AgcBg")
	record(p.w, map[string][]trace.Operator{"c": {
		{Name: "aten::clone", Dims: [][]int64{{8, 2, 4}}},
		{Name: "aten::copy_", Dims: [][]int64{{8, 2, 4}, {8, 2, 4}}, Strides: [][]int64{nil, {4, 32, 1}}},
	}}, nil)
	p.Issues = slices.Repeat([]trace.Time{1000}, len(p.w.Ops))
	p.shape.micros = 4
	p.leaveOut(2)
	p.take(place{pipelineChunk: pipelineChunk{Part: backwardPart}})
	for micro, want := range []string{"A6 B6", "A6 g10 B6 g10", "A6 g10 B6 g10", "A6 g10 B6 g10"} {
		if got := piecesOf(p, micro); got != want {
			t.Errorf("micro-batch %d: %s, not %s", micro, got, want)
		}
	}
	for i := range p.w.Ops {
		want := 1.0
		if p.w.Ops[i].Name == "c" {
			want = 0
		}
		if got := p.pl.IssueShares[i]; got != want || float64(p.Issues[i]) != want*1000 {
			t.Errorf("%s is issued for %.1f of its time, %d ns", p.w.Ops[i].Name, got, p.Issues[i])
		}
	}
}

// Micro-batches of one sample in others of two: linear L, whose input is transposed in the axis of samples, copies it and adds its
// bias apart; P multiplies what autograd has reshaped to rows; a norm's backward N, two kernels, copies the gradient once. Nothing
// changes for l, whose input has its samples outermost, and for p, which multiplies something else. c changes the order of axes
// with one sample too, at 1.5 TB/s.
func TestSeveralSamples(t *testing.T) {
	const us = 1000
	tokens, transposed := []int64{1024, 1, 3072}, [][]int64{{3072, 3145728, 1}, nil, nil}
	tensor := func(name string, dims []int64, strides [][]int64) trace.Operator {
		return trace.Operator{Name: name, Dims: [][]int64{dims, {3072, 3072}, {3072}}, Strides: strides}
	}
	mm := func(rows int64) trace.Operator {
		return trace.Operator{Name: "aten::mm", Dims: [][]int64{{rows, 3072}, {3072, 3072}}}
	}
	text := "LlPpNNc"
	p := drawn(t, text, text)
	for i := range p.w.Ops {
		op := &p.w.Ops[i]
		op.Start, op.End = trace.Time(10*us*i), trace.Time(10*us*(i+1))
		if strings.Contains("LlPp", op.Name) {
			op.Kernel = &workload.Kernel{Name: op.Name, Shape: workload.Shape{Kind: workload.GEMM, M: 1024, N: 3072, K: 3072, ElemSize: 2}}
		}
		if op.Read, op.Write = 0, 0; op.Name == "c" {
			op.Read, op.Write = 7.5e6, 7.5e6
		}
	}
	record(p.w, map[string][]trace.Operator{
		"L": {tensor("aten::linear", tokens, transposed), {Name: "aten::addmm", Dims: [][]int64{{3072}, {1024, 3072}}}},
		"l": {tensor("aten::linear", []int64{1, 1024, 3072}, nil), {Name: "aten::addmm", Dims: [][]int64{{3072}, {1024, 3072}}}},
		"P": {{Name: "AddmmBackward0", Dims: [][]int64{{1024, 3072}}}, mm(1024)},
		"p": {{Name: "AddmmBackward0", Dims: [][]int64{{512, 3072}}}, mm(512)},
		"N": {tensor("aten::native_layer_norm_backward", []int64{1, 1024, 3072}, [][]int64{{3072, 3072, 1}, nil, nil})},
		"c": {{Name: "aten::clone", Dims: [][]int64{{3, 1024, 1, 3072}}}, {Name: "aten::copy_", Dims: [][]int64{{3, 1024, 1, 3072}}, Strides: [][]int64{{3072, 9216, 9216, 1}}}},
	}, map[string][]trace.Operator{"P": {tensor("aten::reshape", tokens, transposed)}, "p": {tensor("aten::reshape", tokens, transposed)}})
	p.shape.micros = 1
	p.more = p.onlyForMore()
	p.take(place{pipelineChunk: pipelineChunk{Part: backwardPart}})
	var got []string
	for _, x := range p.pieces[place{pipelineChunk: pipelineChunk{Part: backwardPart}}] {
		name := x.Part.Name
		if x.Added {
			name += fmt.Sprintf(" in %.1f us", float64(x.Part.Alone)/us)
			if took := float64(x.Host); took < us || took > 10*us {
				t.Errorf("%s: the host takes %.0f ns", name, took)
			}
		}
		got = append(got, name)
	}
	want := []string{"copy of 2048 x 3072 in 16.8 us", "L", "bias added to 2048 x 3072 in 16.8 us", "l", "copy of 2048 x 3072 in 16.8 us", "P", "p", "copy of 2048 x 3072 in 16.8 us", "N", "N", "c"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nnot\n%q", got, want)
	}
}
