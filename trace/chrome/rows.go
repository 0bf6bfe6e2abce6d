package chrome

import (
	"math"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// number reads an integer argument; 0 if absent or invalid.
func number(b []byte) int64 {
	n, _ := lex.Integer(b)
	return n
}

// small reads an integer argument that fits int32; 0 if absent or invalid.
func small(b []byte) int32 {
	n, ok := lex.Integer(b)
	if !ok || n > math.MaxInt32 || n < math.MinInt32 {
		return 0
	}
	return int32(n)
}

// triple reads [x, y, z]; zeros if absent or invalid.
func triple(b []byte) (t [3]int32) {
	i := 1
	for k := range t {
		if i = lex.SkipSpace(b, i); i >= len(b) || !lex.IsDigit(b[i]) {
			return [3]int32{}
		}
		j := i
		for j < len(b) && lex.IsDigit(b[j]) {
			j++
		}
		t[k] = small(b[i:j])
		if i = lex.SkipSpace(b, j); i < len(b) && b[i] == ',' {
			i++
		}
	}
	return t
}

// kernel adds the side row of a kernel.
func (d *reader) kernel(e *event, span trace.SpanID, stream int64) int32 {
	a := &e.args
	k := trace.Kernel{
		Setup:       d.setup(a, stream),
		Correlation: number(a.correlation),
		Comm:        trace.None,
		Op:          trace.None,
		Origin:      trace.None,
	}
	info := deviceInfo{span: span, issuer: trace.None, external: number(a.external), pos: e.pos, param: trace.None}
	if a.collective != nil {
		c, seq := d.comm(a)
		info.param = int32(len(d.kernelParams))
		d.kernelParams = trace.Append(&d.Builder, d.kernelParams, param{span: span, external: info.external, comm: c, seq: seq})
	}
	d.kernels = trace.Append(&d.Builder, d.kernels, info)
	return d.Builder.AddKernel(k)
}

func (d *reader) setup(a *args, stream int64) int32 {
	return d.Builder.AddSetup(trace.Setup{
		Grid: triple(a.grid), Block: triple(a.block), Priority: small(a.priority), Stream: stream,
		Shared: assemble.Narrow(number(a.shared)), Registers: assemble.Narrow(number(a.registers)),
	})
}

// copy adds the side row of a copy or fill.
func (d *reader) copy(e *event, span trace.SpanID, c category, stream int64) int32 {
	a := &e.args
	row := trace.CopyAttr{
		Bytes:       max(0, number(a.bytes)),
		Correlation: number(a.correlation),
		Stream:      stream,
		Peer:        trace.None,
		Op:          trace.None,
		Origin:      trace.None,
		Dir:         trace.Fill,
	}
	if c == memcpy {
		row.Dir = trace.Direction(string(e.name) + string(a.kind))
	}
	d.copies = trace.Append(&d.Builder, d.copies, deviceInfo{span: span, issuer: trace.None, external: number(a.external), pos: e.pos, param: trace.None})
	return d.Builder.AddCopy(row)
}

// call adds the side row of a host call.
func (d *reader) call(e *event, span trace.SpanID) int32 {
	d.calls = trace.Append(&d.Builder, d.calls, span)
	return d.Builder.AddCall(trace.Call{
		Correlation: number(e.args.correlation),
		External:    number(e.args.external),
		Op:          trace.None,
	})
}

// launch stores the geometry of a call: on AMD, the kernel's event may lack it.
func (d *reader) launch(e *event, call int32) {
	a := &e.args
	if a.grid == nil && a.size == nil && a.bytes == nil && a.kernel == nil {
		return
	}
	kernel := trace.NameID(0)
	if a.kernel != nil {
		kernel = d.name(a.kernel)
	}
	d.launches = trace.Append(&d.Builder, d.launches, launchInfo{
		call:   call,
		kernel: kernel,
		grid:   triple(a.grid),
		block:  triple(a.block),
		shared: assemble.Narrow(number(a.shared)),
		bytes:  max(number(a.size), number(a.bytes)),
	})
}

// operator adds the side row of a framework operator.
func (d *reader) operator(e *event, span trace.SpanID) int32 {
	row := trace.Call{External: number(e.args.external), Op: trace.None, Sequence: sequence(e.args.sequence)}
	if e.args.dims != nil {
		row.Op = d.operands(e)
	}
	if string(e.name) == `"record_param_comms"` {
		c, seq := d.comm(&e.args)
		d.params = trace.Append(&d.Builder, d.params, param{span: span, external: row.External, comm: c, seq: seq})
	}
	d.calls = trace.Append(&d.Builder, d.calls, span)
	at := d.Builder.AddCall(row)
	if d.o.Companion != nil {
		d.operatorCalls = trace.Append(&d.Builder, d.operatorCalls, operatorCall{call: at, pos: e.pos, record: number(e.args.record), index: number(e.args.index)})
	}
	return at
}

// sequence reads the number of an autograd node as Call.Sequence has it.
func sequence(b []byte) int32 {
	n, ok := lex.Integer(b)
	if !ok || n < 0 || n >= math.MaxInt32 {
		return 0
	}
	return int32(n) + 1
}

// operands returns the row of the operator with this name and these inputs.
func (d *reader) operands(e *event) int32 {
	k := append(d.key[:0], e.name...)
	k = append(k, e.args.dims...)
	k = append(k, e.args.types...)
	k = append(k, e.args.strides...)
	causal := assemble.Causal(e.name, e.args.concrete)
	if causal {
		k = append(k, "causal"...)
	}
	d.key = k
	if row, ok := d.ops[string(k)]; ok { // without allocating
		return row
	}
	o := assemble.OperatorOf(d.string(e.name), e.args.dims, e.args.types, e.args.strides)
	o.Causal = causal
	row := d.Builder.AddOperator(o)
	d.ops[string(k)] = row
	return row
}
