package chrome

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// A param has the parameters of a collective, from a kernel or from record_param_comms on the host.
type param struct {
	span     trace.SpanID
	external int64
	comm     trace.Comm
	seq      int64 // or None
}

// comm reads the collective's arguments, and its number in the file, or None.
func (d *reader) comm(a *args) (c trace.Comm, seq int64) {
	c = d.kindOfComm(a)
	c.In = assemble.Elements(a.inElems) * int64(c.ElemSize)
	c.Out = assemble.Elements(a.outElems) * int64(c.ElemSize)
	switch string(lex.Unquote(a.collective)) { // which state both
	case "send":
		c.Out = 0
	case "recv":
		c.In = 0
	}
	c.Even = c.Op == trace.AllToAll && string(lex.Unquote(a.inSplit)) == "[]" && string(lex.Unquote(a.outSplit)) == "[]"
	if c.Op == trace.AllToAll && !c.Even && c.Group != trace.None {
		c.Sent = d.sent(a, &c)
	}
	seq = trace.None
	if n, ok := lex.Integer(a.seq); ok && n >= 0 {
		seq = n
	}
	return c, seq
}

// sent is the bytes of an all-to-all that go to other ranks: those of all parts but the rank's own; 0 if that is not known.
func (d *reader) sent(a *args, c *trace.Comm) int64 {
	parts, own := lex.Elements(lex.Unquote(a.inSplit)), slices.Index(d.groups[c.Group].Ranks, d.header.rank)
	if own < 0 || len(parts) != len(d.groups[c.Group].Ranks) {
		return 0
	}
	kept, ok := lex.Integer(parts[own])
	elements := assemble.Elements(a.inElems)
	if !ok || kept < 0 || kept > elements { // parts of a tensor with columns are rows
		return 0
	}
	var all int64
	for _, part := range parts {
		n, ok := lex.Integer(part)
		if !ok || n < 0 || n > elements {
			return 0
		}
		all += n
	}
	if all == 0 || elements%all != 0 {
		return 0
	}
	return (all - kept) * (elements / all) * int64(c.ElemSize)
}

// kindOfComm reads the arguments that most collectives of a job have in common, and
// caches the result.
func (d *reader) kindOfComm(a *args) trace.Comm {
	k := d.key[:0]
	for _, v := range [...][]byte{a.collective, a.dtype, a.group, a.groupSize, a.groupRanks, a.src, a.dst, lastOf(a.concrete)} {
		k = append(append(k, v...), 0)
	}
	d.key = k
	if c, ok := d.comms[string(k)]; ok {
		return c
	}
	c, group := assemble.Collective(func(key string) string {
		if v := *a.field([]byte(`"` + key + `"`)); v != nil {
			return d.string(v)
		}
		return ""
	})
	c.Group = d.group(a, group)
	d.comms[string(k)] = c
	return c
}

// group returns the row in d.groups of the process group, or None.
func (d *reader) group(a *args, g trace.Group) int32 {
	if a.group == nil && a.groupSize == nil {
		size, ok := worldOf(a.concrete)
		if !ok {
			return trace.None
		}
		return d.groupRow(trace.Group{Size: size})
	}
	return d.groupRow(g)
}

// groupRow returns the row in d.groups, adding the group if it is new. A truncated list
// of ranks is nil and matches any group of that name and size.
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
// record_param_comms before 2024, whose last element is the size.
func worldOf(concrete []byte) (size int, ok bool) {
	n, ok := lex.Integer(lastOf(concrete))
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

// collectives finds the operation and group of every collective kernel: from its
// arguments, else from record_param_comms on the host, else from its name.
func (d *reader) collectives() {
	kernels := int32(len(d.kernels)) // copies follow
	d.copiesOfCollectives()
	n := 0
	for _, info := range d.kernels {
		if d.Builder.Span(info.span).Kind == trace.Collective {
			n++
		}
	}
	all := make([]assemble.CollectiveKernel, 0, n)
	for row, info := range d.kernels {
		if d.Builder.Span(info.span).Kind == trace.Collective {
			all = append(all, assemble.CollectiveKernel{Row: int32(row), Span: info.span, Seq: trace.None, Same: trace.None})
		}
	}
	slices.SortFunc(all, func(a, b assemble.CollectiveKernel) int {
		x, y := d.Builder.Span(a.Span), d.Builder.Span(b.Span)
		return cmp.Or(
			cmp.Compare(d.Builder.LaneOf(x.Lane).Rank, d.Builder.LaneOf(y.Lane).Rank),
			cmp.Compare(x.Start, y.Start),
			cmp.Compare(d.Builder.Run.Kernels[a.Row].Correlation, d.Builder.Run.Kernels[b.Row].Correlation),
			cmp.Compare(a.Row, b.Row))
	})
	groups := d.addGroups()
	find := d.paramFinder()
	type operation struct {
		rank     int32
		external int64
	}
	first := map[operation]int32{} // first kernel of an operation with several
	for i := range all {
		k := &all[i]
		info := d.kernels[k.Row]
		name := d.Builder.NameOf(d.Builder.Span(k.Span).Name)
		k.Engines = strings.HasPrefix(name, "__amd_rocclr_") || k.Row >= kernels
		if info.external != 0 && k.Engines {
			// A collective by copy engines: NCCL's copies, RCCL's batchMemOp, then copyBufferBatch.
			op := operation{d.rankOf(k.Span), info.external}
			if at, ok := first[op]; ok {
				k.Same = at
				continue
			}
			first[op] = int32(i)
		}
		k.Comm = trace.Comm{Group: trace.None, Peer: trace.None}
		if p, ok := find(info); ok {
			k.Comm, k.Seq = p.comm, p.seq
		}
		if k.Comm.Group != trace.None {
			k.Comm.Group = groups(k.Comm.Group)
		}
	}
	assemble.AddCollectives(&d.Builder, all)
	d.captures(find, groups)
}

// copiesOfCollectives makes the copies that a collective itself issued parts of it: those of a
// collective without workgroups (NCCL 2.28, CTA policy zero). Copies of operators within a
// collective's (aten::copy_) stay copies.
func (d *reader) copiesOfCollectives() {
	group := map[trace.SpanID]int32{}
	for _, p := range d.params {
		group[p.span] = p.comm.Group
	}
	for row, info := range d.copies {
		c := &d.Builder.Run.Copies[row]
		if c.Dir != trace.DeviceToDevice && c.Dir != trace.PeerToPeer || info.issuer == trace.None {
			continue
		}
		at := info.issuer
		if s := d.Builder.Span(at); isAPI(d.Builder.NameOf(s.Name)) {
			at = s.Parent
		}
		g, ok := group[at]
		if ok && (g == trace.None || d.groups[g].Size != 1) {
			assemble.CopyAsKernel(&d.Builder, info.span)
			d.kernels = append(d.kernels, info)
		}
	}
}

// coalesced is the range in which PyTorch launches the kernel of a group of operations that it
// recorded before.
const coalesced = "nccl:coalesced"

// messages returns the parameters of the kernel that is launched in each coalesced range of sends and
// receives: those recorded on its thread since the range before. Bytes add up by direction; the peer is
// None where there are several.
//
//	thread |send to 1|recv from 1|coalesced      |send to 1|coalesced      |
//	                             |launch k1: both|         |launch k2: send|
func (d *reader) messages() map[trace.SpanID]param {
	type event struct {
		span  trace.SpanID
		param int32 // or None: a coalesced range
	}
	byThread := map[trace.LaneID][]event{}
	for id := range d.Builder.Len() {
		if s := d.Builder.Span(trace.SpanID(id)); s.Kind == trace.Marker && d.Builder.NameOf(s.Name) == coalesced {
			byThread[s.Lane] = append(byThread[s.Lane], event{trace.SpanID(id), trace.None})
		}
	}
	if len(byThread) == 0 {
		return nil
	}
	for i, p := range d.params {
		if lane := d.Builder.Span(p.span).Lane; byThread[lane] != nil && p.comm.Op == trace.SendRecv {
			byThread[lane] = append(byThread[lane], event{p.span, int32(i)})
		}
	}
	found := map[trace.SpanID]param{}
	for _, events := range byThread {
		slices.SortFunc(events, func(a, b event) int {
			return cmp.Or(cmp.Compare(d.Builder.Span(a.span).Start, d.Builder.Span(b.span).Start), cmp.Compare(a.span, b.span))
		})
		var group *param
		for _, e := range events {
			switch {
			case e.param == trace.None && group != nil:
				found[e.span], group = *group, nil
			case e.param == trace.None:
			case group == nil:
				first := d.params[e.param]
				group = &first
			default:
				next := &d.params[e.param].comm
				group.comm.In, group.comm.Out, group.seq = group.comm.In+next.In, group.comm.Out+next.Out, trace.None
				if next.Peer != group.comm.Peer {
					group.comm.Peer = trace.None
				}
			}
		}
	}
	return found
}

// paramFinder returns a function that looks up a kernel's collective parameters.
func (d *reader) paramFinder() func(deviceInfo) (param, bool) {
	var byExternal trace.Index
	messages := d.messages()
	bySpan := map[trace.SpanID]int32{}
	for i, p := range d.params {
		bySpan[p.span] = int32(i)
		byExternal.Add(d.rankOf(p.span), p.external, int32(i))
	}
	byExternal.Sort()
	return func(info deviceInfo) (param, bool) {
		if info.param != trace.None {
			return d.kernelParams[info.param], true
		}
		for id := info.issuer; id != trace.None; id = d.Builder.Span(id).Parent {
			if i, ok := bySpan[id]; ok {
				return d.params[i], true
			}
			if p, ok := messages[id]; ok {
				return p, true
			}
		}
		if i := byExternal.Find(d.rankOf(info.span), info.external); i != trace.None {
			return d.params[i], true
		}
		return param{}, false
	}
}

// addGroups adds the groups of the header. It returns a function that gives the row of
// a group of d.groups and adds it on first use. The header lists all of a group's
// ranks; an event's list may be truncated.
func (d *reader) addGroups() func(row int32) int32 {
	listed := map[groupKey][]int{}
	for _, g := range d.header.groups {
		d.Builder.AddGroup(g)
		listed[groupKey{g.Name, g.Size}] = g.Ranks
	}
	rows := map[int32]int32{}
	return func(row int32) int32 {
		return trace.Memo(rows, row, func() int32 {
			g := d.groups[row]
			if g.Ranks == nil {
				g.Ranks = listed[groupKey{g.Name, g.Size}]
			}
			if g.Ranks == nil && g.Size == d.header.world {
				for r := range g.Size {
					g.Ranks = append(g.Ranks, r)
				}
			}
			return d.Builder.AddGroup(g)
		})
	}
}
