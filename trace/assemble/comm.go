package assemble

import (
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A CollectiveKernel is a kernel of a collective library and the file's attributes of
// its operation.
type CollectiveKernel struct {
	Row  int32 // of the builder's kernels
	Span trace.SpanID
	Comm trace.Comm // its Group is a row of the builder, or trace.None
	Seq  int64      // the file's number of the operation in its group, or trace.None

	// Same is the index of an earlier kernel of the same operation, or trace.None.
	Same int32

	Engines bool // it is a copy, or drives copy engines
}

// AddCollectives adds the Comm row of every kernel. Attributes that the file lacks come
// from the name of the kernel, the shapes of its operator and the size of the group.
// Kernels are in order of rank, then start.
func AddCollectives(b *trace.Builder, kernels []CollectiveKernel) {
	kernels = joinSymmetricCopies(b, kernels)
	all := make([]numbered, 0, len(kernels))
	named := kernelNames{b, map[kernelName]kernelName{}}
	for _, k := range kernels {
		row := &b.Run.Kernels[k.Row]
		s, c := b.Span(k.Span), k.Comm
		if k.Same != trace.None {
			row.Comm = b.Run.Kernels[kernels[k.Same].Row].Comm
			b.Run.Comms[row.Comm].Engines = b.Run.Comms[row.Comm].Engines || k.Engines
			continue
		}
		c.Engines = k.Engines
		named.complete(&c, s.Name)
		if row.Op != trace.None {
			fromOperator(&c, &b.Run.Operators[row.Op])
		}
		if c.Group != trace.None {
			complete(&c, int64(b.Run.Groups[c.Group].Size))
		}
		row.Comm = b.AddComm(c)
		all = append(all, numbered{row.Comm, b.LaneOf(s.Lane).Rank, k.Seq})
	}
	number(b, all)
}

// numbered is a Comm row with its rank and the file's own number, or trace.None.
type numbered struct {
	comm, rank int32
	seq        int64
}

// number numbers the operations of every group on every rank: with the file's numbers
// if all are present and unique, else in order.
func number(b *trace.Builder, all []numbered) {
	type member struct{ rank, group int32 }
	members := map[member][]numbered{}
	for _, n := range all {
		m := member{n.rank, b.Run.Comms[n.comm].Group}
		members[m] = append(members[m], n)
	}
	for _, rows := range members {
		seen := map[int64]bool{}
		for _, n := range rows {
			seen[n.seq] = true
		}
		byFile := len(seen) == len(rows) && !seen[trace.None]
		for i, n := range rows {
			c := &b.Run.Comms[n.comm]
			if c.Seq = int64(i); byFile {
				c.Seq = n.seq
			}
		}
	}
}

// kernelNames completes attributes from names of kernels, each once.
type kernelNames struct {
	b    *trace.Builder
	done map[kernelName]kernelName
}

// A kernelName is a name with the attributes that it may complete.
type kernelName struct {
	name  trace.NameID
	op    trace.CollectiveOp
	dtype string
	size  int32
}

func (k *kernelNames) complete(c *trace.Comm, name trace.NameID) {
	from := kernelName{name, c.Op, c.DType, c.ElemSize}
	to := trace.Memo(k.done, from, func() kernelName {
		fromKernelName(c, k.b.NameOf(name))
		return kernelName{name, c.Op, c.DType, c.ElemSize}
	})
	c.Op, c.DType, c.ElemSize = to.op, to.dtype, to.size
}

// fromKernelName completes attributes that the arguments lack: NCCL's kernels are
// called ncclDevKernel_AllReduce_Sum_bf16_RING_LL or, before 2.19,
// ncclKernel_AllReduce_RING_LL_Sum_half. RCCL's Generic has neither operation nor type; a
// kernel that adds nothing is compiled for bytes, ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t,
// whatever the type.
func fromKernelName(c *trace.Comm, name string) {
	if c.Op == trace.UnknownOp {
		c.Op = trace.KernelOp(name)
	}
	if i := strings.IndexAny(name, "(<"); i >= 0 {
		name = name[:i]
	}
	switch sums := c.Op == trace.AllReduce || c.Op == trace.ReduceScatter || c.Op == trace.Reduce; {
	case c.ElemSize > 0, strings.HasPrefix(name, "nccl") && c.Op != trace.UnknownOp && !sums:
		return
	}
	for _, w := range strings.Split(name, "_") {
		if n := ElemSize(w); n > 0 && c.ElemSize == 0 {
			c.DType, c.ElemSize = w, n
		}
	}
}

// fromOperator takes the size from the shape of the operator's first tensor, which Kineto
// files before 2024 and the kernels of other libraries than NCCL need: an operator such as
// record_param_comms, symm_mem::one_shot_all_reduce, _C_custom_ar::all_reduce or
// deep_ep::dispatch. The operator of compute that a collective is launched within
// (aten::linear) does not have its size. The operator also says which operation a kernel of
// sends and receives is part of (nccl:all_to_all, c10d::scatter_).
func fromOperator(c *trace.Comm, o *trace.Operator) {
	if !communicates(o.Name) {
		return
	}
	if op := trace.CollectiveOpIn(o.Name); op != trace.UnknownOp &&
		(c.Op == trace.UnknownOp || c.Op == trace.SendRecv && c.Peer == trace.None) {
		c.Op = op
	}
	if c.In > 0 || c.Out > 0 || c.Op == trace.Barrier {
		return
	}
	input := slices.IndexFunc(o.Dims, func(dims []int64) bool { return len(dims) > 0 })
	if input < 0 {
		return
	}
	if c.ElemSize == 0 && input < len(o.Types) {
		c.DType, c.ElemSize = o.Types[input], ElemSize(o.Types[input])
	}
	n := int64(c.ElemSize)
	for _, d := range o.Dims[input] {
		if d < 0 || d > 0 && n > MaxBytes/d {
			return
		}
		n *= d
	}
	c.In = n
}

// communicates reports whether an operator of a framework is one of communication.
func communicates(operator string) bool {
	name := strings.ToLower(operator)
	for _, word := range [...]string{
		"record_param_comms", "c10d::", "nccl", "symm_mem", "custom_ar", "deep_ep",
		"allreduce", "all_reduce", "allgather", "all_gather", "reducescatter", "reduce_scatter",
		"alltoall", "all_to_all", "dispatch", "combine", "broadcast", "send", "recv",
	} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// MaxBytes is larger than any buffer: larger sizes are errors of the file.
const MaxBytes = 1 << 50

// complete computes the missing side of the buffer. A send has no output, a receive no input.
func complete(c *trace.Comm, ranks int64) {
	larger := max(c.In, c.Out)
	switch part := c.Op == trace.AllGather && c.Out == 0 || c.Op == trace.ReduceScatter && c.In == 0; {
	case c.In > 0 && c.Out > 0 || larger == 0 || c.Op == trace.SendRecv || part && ranks < 1:
		return
	case part:
		larger *= ranks
	}
	c.In, c.Out = c.Op.Sides(larger, int(ranks))
}

// ElemSize returns the bytes per element of a type in the spelling of PyTorch (Float,
// BFloat16, c10::Half), NCCL's kernels (f32, bf16) or NCCL's API (ncclFloat32, or its
// number); 0 if unknown.
func ElemSize(dtype string) int32 {
	s := strings.ToLower(strings.TrimPrefix(dtype, "c10::"))
	switch strings.TrimPrefix(s, "nccl") {
	case "float", "f32", "fp32", "float32", "int", "i32", "int32", "u32", "uint32", "qint32":
		return 4
	case "half", "f16", "fp16", "float16", "bfloat16", "bf16", "short", "int16":
		return 2
	case "double", "f64", "fp64", "float64", "long", "long int", "i64", "int64", "u64", "uint64", "complexfloat":
		return 8
	case "byte", "char", "bool", "i8", "int8", "u8", "uint8", "unsigned char", "signed char", "qint8", "quint8":
		return 1
	case "complexdouble":
		return 16
	}
	for _, prefix := range [...]string{"float8", "f8e", "fp8"} {
		if strings.HasPrefix(strings.TrimPrefix(s, "nccl"), prefix) {
			return 1
		}
	}
	return 0
}

// comm returns the operation of a call, without its group.
func (a *Arguments) comm(op trace.CollectiveOp) trace.Comm {
	c := trace.Comm{Op: op, Group: trace.None, Peer: a.Peer, DType: a.DType, ElemSize: ElemSize(a.DType)}
	switch {
	case a.Bytes <= 0 || a.Bytes > MaxBytes:
	case op == trace.ReduceScatter:
		c.Out = a.Bytes
	case op == trace.AllGather:
		c.In = a.Bytes
	default:
		c.In, c.Out = a.Bytes, a.Bytes
	}
	return c
}

// MaxRanks is larger than any job.
const MaxRanks = 1 << 20

// Collective reads what PyTorch writes about a collective beside its kernels and in
// record_param_comms: arg returns an argument by its name, or "". The Group and sizes of the
// result are not set.
func Collective(arg func(string) string) (trace.Comm, trace.Group) {
	name := arg("Collective name")
	c := trace.Comm{Op: trace.CollectiveOpIn(name), DType: arg("dtype"), Group: trace.None, Peer: trace.None}
	c.ElemSize = ElemSize(c.DType)
	switch name {
	case "send":
		c.Peer = rankID(arg("Dst Rank"))
	case "recv", "broadcast":
		c.Peer = rankID(arg("Src Rank"))
	}
	g := trace.Group{
		Name: arg("Process Group Name"), Doc: GroupDoc(arg("Process Group Description")),
		Ranks: RankList([]byte(arg("Process Group Ranks"))),
	}
	size, _ := lex.Integer([]byte(arg("Group size")))
	g.Size = int(min(max(size, int64(len(g.Ranks))), MaxRanks))
	return c, g
}

func rankID(s string) int32 {
	if n, ok := lex.Integer([]byte(s)); ok && n >= 0 && n < MaxRanks {
		return int32(n)
	}
	return trace.None
}

// Elements reads a number of elements; 0 if it exceeds any memory.
func Elements(b []byte) int64 {
	if n, ok := lex.Integer(b); ok && n > 0 && n < MaxBytes {
		return n
	}
	return 0
}

// GroupDoc is what the program calls a group; "" if it has no word for it.
func GroupDoc(doc string) string {
	if doc == "undefined" { // PyTorch's default
		return ""
	}
	return doc
}

// RankList reads [0, 1], or the same in quotes, ascending. It returns nil for a
// truncated list.
func RankList(b []byte) []int {
	var ranks []int
	for _, e := range lex.Elements(lex.Unquote(b)) {
		n, ok := lex.Integer(e)
		if !ok || n < 0 {
			return nil
		}
		ranks = append(ranks, int(n))
	}
	slices.Sort(ranks)
	return ranks
}
