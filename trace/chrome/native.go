package chrome

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A nativeReader reads the events of a trace that Write wrote.
type nativeReader struct {
	head  nativeHeader
	spans []trace.SpanID // by number of the X event, for parents
}

// setOwn sets the header of a trace that Write wrote.
func (d *reader) setOwn(v []byte) error {
	var o nativeReader
	if err := json.Unmarshal(v, &o.head); err != nil {
		return err
	}
	h := &o.head
	switch {
	case h.Version > nativeVersion:
		return fmt.Errorf("version %d, newer than this program", h.Version)
	case d.Builder.Len() > 0:
		return fmt.Errorf("it comes after events")
	}
	for i := range h.Comms {
		c := &h.Comms[i]
		c.Group, c.Collective = d.reference(c.Group, len(h.Groups)), trace.None
	}
	for i := range h.Waits {
		h.Waits[i].Call, h.Waits[i].Recorded = trace.None, trace.None
	}
	rows := h.Run
	rows.Depends, rows.Nodes = nil, nil // of spans that are not read yet
	if err := trace.Validate(&rows); err != nil {
		return err
	}
	for _, r := range h.Ranks {
		d.Builder.AddRank(r)
	}
	for i, l := range h.Lanes {
		if d.Builder.Lane(l) != trace.LaneID(i) {
			return fmt.Errorf("lane %d twice", i)
		}
	}
	for i, g := range h.Groups {
		if d.Builder.AddGroup(g) != int32(i) {
			return fmt.Errorf("group %d twice", i)
		}
	}
	t := &d.Builder.Run
	t.Operators, t.Comms, t.Waits, t.Uses, t.Accesses = h.Operators, h.Comms, h.Waits, h.Uses, h.Accesses
	d.native = &o
	return nil
}

func within(i int32, n int) bool { return i >= 0 && int(i) < n }

// reference returns an index, or None. A dangling index becomes None.
func (d *reader) reference(i int32, n int) int32 {
	if within(i, n) {
		return i
	}
	if i != trace.None {
		d.note(trace.Repaired, "dangling index", d.w.At(d.w.Pos))
	}
	return trace.None
}

// index reads an argument that is an index below n; None if absent.
func (d *reader) index(b []byte, n int) int32 {
	if b == nil {
		return trace.None
	}
	i, ok := lex.Integer(b)
	if !ok || i < 0 || i >= int64(n) {
		return d.reference(-2, n)
	}
	return int32(i)
}

// either reads an integer argument; None if absent.
func either(b []byte) int32 {
	if b == nil {
		return trace.None
	}
	return max(small(b), trace.None)
}

// nativeEvent adds an event that Write wrote.
func (d *reader) nativeEvent(e *event) {
	if e.ph != 'X' {
		return // names and arrows are redundant with the header and the spans
	}
	o := d.native
	lane, ok := lex.Integer(e.tid)
	if !ok || lane < 1 || lane > int64(len(o.head.Lanes)) {
		d.note(trace.Skipped, "on no lane of the header", e.pos)
		o.spans = append(o.spans, trace.None)
		return
	}
	start, ok1 := d.start(e)
	end, ok2 := start, false
	if ok1 {
		end, ok2 = d.end(e, start)
	}
	if !ok2 {
		o.spans = append(o.spans, trace.None)
		return
	}
	s := trace.Span{
		Start:  start,
		End:    end,
		Name:   d.name(e.name),
		Lane:   trace.LaneID(lane - 1),
		Parent: trace.None,
	}
	if p := d.index(e.args.parent, len(o.spans)); p != trace.None {
		s.Parent = d.nativeParent(o.spans[p], &s, e.pos)
	}
	s.Kind, s.Attr = d.nativeRow(e)
	o.spans = append(o.spans, d.Builder.Add(s))
}

// nativeParent is the parent of a span, or None if the span does not lie in it.
func (d *reader) nativeParent(id trace.SpanID, s *trace.Span, pos int64) trace.SpanID {
	if id == trace.None {
		return id
	}
	p := d.Builder.Span(id)
	if p.Start > s.Start || p.End < s.End || d.Builder.LaneOf(p.Lane).Rank != d.Builder.LaneOf(s.Lane).Rank {
		d.note(trace.Repaired, "a span outside of its parent: parent removed", pos)
		return trace.None
	}
	return id
}

// nativeRow adds the side row of an event, if it has one.
func (d *reader) nativeRow(e *event) (trace.Kind, int32) {
	a, head := &e.args, &d.native.head
	kind := trace.Marker
	if string(lex.Unquote(e.cat)) == callCategory {
		kind = trace.HostCall
	}
	if k := slices.Index(categories[:], string(lex.Unquote(e.cat))); k >= 0 {
		kind = trace.Kind(k)
	}
	switch {
	case kind == trace.HostCall || kind == trace.Launch:
		if a.external == nil {
			break
		}
		return kind, d.Builder.AddCall(trace.Call{
			Correlation: number(a.correlation),
			External:    number(a.external),
			Op:          d.index(a.op, len(head.Operators)),
			Sequence:    sequence(a.sequence),
		})
	case kind == trace.Compute:
		if a.collective != nil {
			kind = trace.Collective
		}
		if a.stream == nil {
			break
		}
		return kind, d.Builder.AddKernel(trace.Kernel{
			Setup:       d.setup(a, number(a.stream)),
			Correlation: number(a.correlation),
			Comm:        d.index(a.comm, len(head.Comms)),
			Op:          d.index(a.op, len(head.Operators)),
			Origin:      either(a.origin),
			Uses:        d.index(a.uses, len(head.Uses)) + 1,
		})
	case kind == trace.Copy || kind == trace.Transfer || string(e.cat) == `"`+fillCategory+`"`:
		if kind == trace.Marker {
			kind = trace.Copy
		}
		if a.bytes == nil {
			break
		}
		return kind, d.Builder.AddCopy(trace.CopyAttr{
			Bytes:       max(0, number(a.bytes)),
			Correlation: number(a.correlation),
			Stream:      number(a.stream),
			Peer:        either(a.peer),
			Op:          d.index(a.op, len(head.Operators)),
			Origin:      either(a.origin),
			Uses:        d.index(a.uses, len(head.Uses)) + 1,
			Dir:         trace.CopyDir(max(0, slices.Index(kindWords[:], string(lex.Unquote(a.kind))))),
		})
	case kind.InKernel():
		if a.workgroup == nil {
			break
		}
		return kind, d.Builder.AddWorkgroup(trace.WorkgroupAttr{
			ID:         either(a.workgroup),
			Persistent: either(a.persistent),
			CU:         either(a.cu),
			Peer:       either(a.peer),
			Row:        either(a.row),
			Col:        either(a.col),
		})
	}
	return kind, trace.None
}

// finishNative returns the run that was written.
func (d *reader) finishNative() *trace.Run {
	h := &d.native.head
	at := func(id trace.SpanID) trace.SpanID {
		if !within(int32(id), len(d.native.spans)) || d.native.spans[id] == trace.None || !d.Builder.Span(d.native.spans[id]).Kind.OnDevice() {
			d.note(trace.Repaired, "dangling index", 0)
			return trace.None
		}
		return d.native.spans[id]
	}
	for _, p := range h.Depends {
		if to, from := at(p.To), at(p.From); to != trace.None && from != trace.None {
			d.Builder.Run.Depends = append(d.Builder.Run.Depends, trace.Dependency{To: to, From: from})
		}
	}
	for _, n := range h.Nodes {
		if n.Span = at(n.Span); n.Span != trace.None {
			d.Builder.Run.Nodes = append(d.Builder.Run.Nodes, n)
		}
	}
	return d.Builder.Finish(trace.Options{Name: h.Name, Epoch: h.Epoch, Simulated: h.Simulated, Estimated: h.Estimated, KeepZero: true})
}
