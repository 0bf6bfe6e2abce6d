package chrome

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

func (w *writer) call(s trace.Span, c *trace.Call) {
	if w.run.Lanes[s.Lane].Rank == w.row {
		w.field("External id", c.External)
	} else {
		w.field("external id", c.External) // as Read takes it too: numbers repeat on each rank
	}
	w.field("correlation", c.Correlation)
	w.optional("op", c.Op)
	w.sequence(c)
}

// sequence writes the number of the autograd node, as PyTorch does.
func (w *writer) sequence(c *trace.Call) {
	if c.Sequence > 0 {
		w.field("Sequence number", int64(c.Sequence)-1)
	}
}

func (w *writer) kernel(k *trace.Kernel) {
	s := w.run.Setup(k)
	w.field("stream", s.Stream)
	w.field("correlation", k.Correlation)
	w.field("priority", int64(s.Priority))
	w.field("registers per thread", int64(s.Registers))
	w.field("shared memory", int64(s.Shared))
	w.triple("grid", s.Grid)
	w.triple("block", s.Block)
	w.optional("op", k.Op)
	w.optional("origin", k.Origin)
	w.optional("uses", k.Uses-1)
	if k.Comm != trace.None {
		w.field("comm", int64(k.Comm))
		w.comm(&w.run.Comms[k.Comm])
	}
}

func (w *writer) triple(name string, t [3]int32) {
	w.b = fmt.Appendf(w.b, `,"%s":[%d,%d,%d]`, name, t[0], t[1], t[2])
}

// kinetoOps are PyTorch's names of collectives, as ProcessGroupNCCL.cpp records them.
var kinetoOps = map[trace.CollectiveOp]string{
	trace.AllReduce: "allreduce", trace.AllGather: "_allgather_base", trace.ReduceScatter: "_reduce_scatter_base",
}

// comm writes a collective's arguments under Kineto's names, for other tools; Read uses
// the header's row.
func (w *writer) comm(c *trace.Comm) {
	w.raw(`,"Collective name":`)
	w.str(cmp.Or(kinetoOps[c.Op], c.Op.String()))
	w.field("Seq", c.Seq)
	w.raw(`,"dtype":`)
	w.str(c.DType)
	if c.ElemSize > 0 {
		w.field("In msg nelems", c.In/int64(c.ElemSize))
		w.field("Out msg nelems", c.Out/int64(c.ElemSize))
	}
	if c.Group == trace.None {
		return
	}
	g := &w.run.Groups[c.Group]
	w.raw(`,"Process Group Name":`)
	w.str(g.Name)
	w.field("Group size", int64(g.Size))
	if g.Ranks != nil {
		w.raw(`,"Process Group Ranks":"`, strings.ReplaceAll(fmt.Sprint(g.Ranks), " ", ", "), `"`)
	}
}

// kindWords are Kineto's on AMD, by direction.
var kindWords = [...]string{
	trace.UnknownDir:     "",
	trace.HostToDevice:   "HtoD",
	trace.DeviceToHost:   "DtoH",
	trace.DeviceToDevice: "DtoD",
	trace.PeerToPeer:     "PtoP",
	trace.HostToHost:     "HtoH",
	trace.Fill:           "fill",
}

func (w *writer) copy(c *trace.CopyAttr) {
	w.field("bytes", c.Bytes)
	w.field("correlation", c.Correlation)
	w.field("stream", c.Stream)
	w.raw(`,"kind":"`, kindWords[c.Dir], `"`)
	w.optional("peer", c.Peer)
	w.optional("op", c.Op)
	w.optional("origin", c.Origin)
	w.optional("uses", c.Uses-1)
}

func (w *writer) workgroup(g *trace.WorkgroupAttr) {
	w.field("workgroup", int64(g.ID))
	w.optional("persistent", g.Persistent)
	w.optional("cu", g.CU)
	w.optional("peer", g.Peer)
	w.optional("row", g.Row)
	w.optional("col", g.Col)
}
