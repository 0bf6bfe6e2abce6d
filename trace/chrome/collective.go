package chrome

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A param is what a kernel, or record_param_comms on the host, tells about a collective.
type param struct {
	span     trace.SpanID
	external int64
	comm     trace.Comm
	seq      int64 // or None
}

// comm reads the collective's arguments, and its number in the file, or None.
func (d *reader) comm(a *args) (c trace.Comm, seq int64) {
	c = d.kindOfComm(a)
	c.In = elements(a.inElems) * int64(c.ElemSize)
	c.Out = elements(a.outElems) * int64(c.ElemSize)
	seq = trace.None
	if n, ok := integer(a.seq); ok && n >= 0 {
		seq = n
	}
	return c, seq
}

// kindOfComm reads what a job's collectives mostly have in common.
func (d *reader) kindOfComm(a *args) trace.Comm {
	k := d.key[:0]
	for _, v := range [...][]byte{a.collective, a.dtype, a.group, a.groupSize, a.groupRanks, a.src, a.dst, lastOf(a.concrete)} {
		k = append(append(k, v...), 0)
	}
	d.key = k
	if c, ok := d.comms[string(k)]; ok {
		return c
	}
	c := trace.Comm{
		Op:    trace.CollectiveOpIn(d.string(a.collective)),
		Group: d.group(a),
		DType: d.string(a.dtype),
		Peer:  trace.None,
	}
	c.ElemSize = elemSize(c.DType)
	switch string(a.collective) {
	case `"send"`:
		c.Peer = peer(a.dst)
	case `"recv"`, `"broadcast"`:
		c.Peer = peer(a.src)
	}
	d.comms[string(k)] = c
	return c
}

// elements reads a number of elements; 0 for what no memory could hold.
func elements(b []byte) int64 {
	if n := number(b); n > 0 && n < 1<<50 {
		return n
	}
	return 0
}

func peer(b []byte) int32 {
	if n, ok := integer(b); ok && n >= 0 && n < maxRanks {
		return int32(n)
	}
	return trace.None
}

// group returns the row in d.groups of the process group, or None.
func (d *reader) group(a *args) int32 {
	if a.group == nil && a.groupSize == nil {
		size, ok := worldOf(a.concrete)
		if !ok {
			return trace.None
		}
		return d.groupRow(trace.Group{Size: size})
	}
	g := trace.Group{Name: d.string(a.group), Ranks: rankList(a.groupRanks)}
	g.Size = min(max(int(small(a.groupSize)), len(g.Ranks)), maxRanks)
	return d.groupRow(g)
}

// groupRow returns the row in d.groups, adding the group if it is new. A list of
// ranks that was cut, and is nil, may be any of that name and size.
func (d *reader) groupRow(g trace.Group) int32 {
	key := groupKey{g.Name, g.Size}
	for _, row := range d.groupRows[key] {
		h := &d.groups[row]
		if h.Ranks == nil {
			h.Ranks = g.Ranks
		}
		if g.Ranks == nil || slices.Equal(h.Ranks, g.Ranks) {
			return row
		}
	}
	row := int32(len(d.groups))
	d.groups = append(d.groups, g)
	d.groupRows[key] = append(d.groupRows[key], row)
	return row
}

type groupKey struct {
	name string
	size int
}

// worldOf reads the size of the group from the "Concrete Inputs" of a
// record_param_comms before 2024, whose last is just that.
func worldOf(concrete []byte) (size int, ok bool) {
	n, ok := integer(lastOf(concrete))
	return int(n), ok && n > 0 && n < maxRanks
}

// lastOf is the last element of a list of scalars, or nil.
func lastOf(list []byte) []byte {
	i := bytes.LastIndexByte(list, ',')
	if i < 0 {
		return nil
	}
	return bytes.Trim(list[i+1:], " ]")
}

// elemSize is the number of bytes an element of the type takes, as PyTorch
// (Float, BFloat16, c10::Half) or NCCL (f32, bf16) names it; 0 where unknown.
func elemSize(dtype string) int32 {
	switch s := strings.ToLower(strings.TrimPrefix(dtype, "c10::")); s {
	case "float", "f32", "fp32", "float32", "int", "i32", "int32", "u32", "uint32", "qint32":
		return 4
	case "half", "f16", "fp16", "bfloat16", "bf16", "short", "int16":
		return 2
	case "double", "f64", "fp64", "long", "long int", "i64", "int64", "u64", "uint64", "complexfloat":
		return 8
	case "byte", "char", "bool", "i8", "int8", "u8", "uint8", "unsigned char", "signed char", "qint8", "quint8":
		return 1
	case "complexdouble":
		return 16
	default:
		if strings.HasPrefix(s, "float8") || strings.HasPrefix(s, "f8e") || strings.HasPrefix(s, "fp8") {
			return 1
		}
		return 0
	}
}

// fromKernelName completes what a collective's arguments left open: NCCL's
// kernels are called ncclDevKernel_AllReduce_Sum_bf16_RING_LL or, before 2.19,
// ncclKernel_AllReduce_RING_LL_Sum_half. RCCL's Generic tells nothing.
func fromKernelName(c *trace.Comm, name string) {
	if i := strings.IndexAny(name, "(<"); i >= 0 {
		name = name[:i]
	}
	if c.Op == trace.UnknownOp {
		c.Op = trace.CollectiveOpIn(name)
	}
	if c.ElemSize > 0 {
		return
	}
	for _, w := range strings.Split(name, "_") {
		if n := elemSize(w); n > 0 && c.ElemSize == 0 {
			c.DType, c.ElemSize = w, n
		}
	}
}

// complete fills the side of the buffer that the file left open.
func complete(c *trace.Comm, ranks int64) {
	switch {
	case c.In > 0 && c.Out > 0 || c.In == 0 && c.Out == 0:
		return
	case c.Op == trace.AllGather && c.Out == 0:
		c.Out = c.In * ranks
	case c.Op == trace.AllGather && ranks > 0:
		c.In = c.Out / ranks
	case c.Op == trace.ReduceScatter && c.In == 0:
		c.In = c.Out * ranks
	case c.Op == trace.ReduceScatter && ranks > 0:
		c.Out = c.In / ranks
	default:
		c.In, c.Out = max(c.In, c.Out), max(c.In, c.Out)
	}
}

// collectives settles what every collective kernel communicates: as its own
// arguments say, else as record_param_comms on the host says, else as its name does.
func (d *reader) collectives() {
	var kernels []int32
	for row, info := range d.kernels {
		if d.b.Span(info.span).Kind == trace.Collective {
			kernels = append(kernels, int32(row))
		}
	}
	slices.SortFunc(kernels, func(a, b int32) int {
		x, y := d.b.Span(d.kernels[a].span), d.b.Span(d.kernels[b].span)
		return cmp.Or(
			cmp.Compare(d.b.LaneOf(x.Lane).Rank, d.b.LaneOf(y.Lane).Rank),
			cmp.Compare(x.Start, y.Start),
			cmp.Compare(d.b.Kernel(a).Correlation, d.b.Kernel(b).Correlation),
			cmp.Compare(a, b))
	})
	groups := d.addGroups()
	find := d.paramFinder()
	type operation struct {
		rank     int32
		external int64
	}
	shared := map[operation]int32{} // Comm row of an operation that took several kernels
	var seqs []int64                // by Comm row, the file's own number or None
	var of []int32                  // by Comm row, the rank
	for _, row := range kernels {
		k, info := d.b.Kernel(row), d.kernels[row]
		name := d.b.NameOf(d.b.Span(info.span).Name)
		op := operation{d.rankOf(info.span), info.external}
		byEngine := !strings.Contains(name, "nccl") && !strings.Contains(name, "rccl") && info.external != 0 // batchMemOp, then copyBufferBatch
		if r, ok := shared[op]; ok && byEngine {
			k.Comm = r
			continue
		}
		p, ok := find(info)
		if !ok {
			p = param{comm: trace.Comm{Group: trace.None, Peer: trace.None}, seq: trace.None}
		}
		c := p.comm
		if c.Group != trace.None {
			c.Group = groups(c.Group)
		}
		fromKernelName(&c, name)
		d.fromOperator(&c, k.Op)
		if c.Group != trace.None {
			complete(&c, int64(d.b.Group(c.Group).Size))
		}
		k.Comm = d.b.AddComm(c)
		seqs, of = append(seqs, p.seq), append(of, op.rank)
		if byEngine {
			shared[op] = k.Comm
		}
	}
	d.sequence(seqs, of)
}

// paramFinder returns the look-up of what is said about a kernel's collective.
func (d *reader) paramFinder() func(deviceInfo) (param, bool) {
	var byExternal trace.Index
	bySpan := map[trace.SpanID]int32{}
	for i, p := range d.params {
		bySpan[p.span] = int32(i)
		byExternal.Add(d.rankOf(p.span), p.external, int32(i))
	}
	byExternal.Sort()
	return func(info deviceInfo) (param, bool) {
		if info.said != trace.None {
			return d.said[info.said], true
		}
		for id := info.issuer; id != trace.None; id = d.b.Span(id).Parent {
			if i, ok := bySpan[id]; ok {
				return d.params[i], true
			}
		}
		if i := byExternal.Find(d.rankOf(info.span), info.external); i != trace.None {
			return d.params[i], true
		}
		return param{}, false
	}
}

// fromOperator takes the size from the shape of the operator's first input, as
// files before 2024 need it.
func (d *reader) fromOperator(c *trace.Comm, op int32) {
	if op == trace.None || c.In > 0 || c.Out > 0 {
		return
	}
	o := d.b.Operator(op)
	if c.ElemSize == 0 && len(o.Types) > 0 {
		c.DType, c.ElemSize = o.Types[0], elemSize(o.Types[0])
	}
	if len(o.Dims) == 0 || len(o.Dims[0]) == 0 {
		return
	}
	n := int64(c.ElemSize)
	for _, d := range o.Dims[0] {
		if n *= d; n < 0 || n > 1<<50 {
			return
		}
	}
	c.In = n
}

// addGroups adds the groups of the header, and returns what gives the row of one
// of d.groups, adding it when it is first used. The header lists a group's ranks
// where an event's list may be cut.
func (d *reader) addGroups() func(row int32) int32 {
	listed := map[groupKey][]int{}
	for _, g := range d.header.groups {
		d.b.AddGroup(g)
		listed[groupKey{g.Name, g.Size}] = g.Ranks
	}
	rows := map[int32]int32{}
	return func(row int32) int32 {
		if r, ok := rows[row]; ok {
			return r
		}
		g := d.groups[row]
		if g.Ranks == nil {
			g.Ranks = listed[groupKey{g.Name, g.Size}]
		}
		if g.Ranks == nil && g.Size == d.header.world {
			for r := range g.Size {
				g.Ranks = append(g.Ranks, r)
			}
		}
		rows[row] = d.b.AddGroup(g)
		return rows[row]
	}
}

// sequence numbers the operations of every group on every rank: as the file
// does where it numbers them all, each once, else in order of start.
func (d *reader) sequence(seqs []int64, ranks []int32) {
	type team struct{ rank, group int32 }
	members := map[team][]int32{}
	for row := range seqs {
		t := team{ranks[row], d.b.Comm(int32(row)).Group}
		members[t] = append(members[t], int32(row))
	}
	for _, rows := range members {
		seen := map[int64]bool{}
		for _, row := range rows {
			seen[seqs[row]] = true
		}
		own := len(seen) == len(rows) && !seen[trace.None]
		for i, row := range rows {
			c := d.b.Comm(row)
			if c.Seq = int64(i); own {
				c.Seq = seqs[row]
			}
		}
	}
}
