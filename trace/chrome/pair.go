package chrome

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A boundary is a B or E event, or the begin or end of an asynchronous one.
type boundary struct {
	at    trace.Time
	track trace.LaneID
	name  trace.NameID
	id    int32 // of asynchronous events: their identity; -1 for B and E
	begin bool
	pos   int64
}

// boundary stores one end of a span for pairing.
func (d *reader) boundary(e *event) {
	at, ok := d.start(e)
	if !ok {
		return
	}
	m := boundary{
		at:    at,
		id:    -1,
		name:  d.name(e.name),
		begin: e.ph == 'B' || e.ph == 'b' || e.ph == 'S',
		pos:   e.pos,
	}
	if e.ph == 'B' || e.ph == 'E' {
		m.track = d.track(e, elsewhere)
	} else {
		m.track, m.id = d.async(e)
	}
	d.boundaries = trace.Append(&d.Builder, d.boundaries, m)
}

// async returns the track of an asynchronous event, one per category, and the number of
// its identity: category, scope, id, and for a local id the process.
func (d *reader) async(e *event) (trace.LaneID, int32) {
	pid, cat := lex.Unquote(e.pid), lex.Unquote(e.cat)
	k := append(d.key[:0], "async\x00"...)
	k = append(k, pid...)
	k = append(k, 0)
	k = append(k, cat...)
	track := d.named(k, func() track {
		return track{place: elsewhere, rank: trace.None, pid: string(pid), category: string(cat)}
	})
	k = append(d.key[:0], "id\x00"...)
	k = append(k, cat...)
	k = append(k, 0)
	k = append(k, e.scope...)
	k = append(k, 0)
	k = append(k, lex.Unquote(e.id)...)
	k = append(k, e.id2...)
	if e.id == nil {
		k = append(k, pid...)
	}
	return track, d.number(k)
}

// number returns the number of what a key identifies.
func (d *reader) number(key []byte) int32 {
	d.key = key
	id, ok := d.trackOf[string(key)]
	if !ok {
		id = int32(len(d.trackOf))
		d.trackOf[string(key)] = id
	}
	return id
}

// named returns the track with the key; add creates a new one.
func (d *reader) named(key []byte, add func() track) trace.LaneID {
	d.key = key
	id, ok := d.trackOf[string(key)]
	if !ok {
		id = int32(len(d.tracks))
		d.trackOf[string(key)] = id
		d.tracks = append(d.tracks, add())
	}
	return trace.LaneID(id)
}

// pair makes spans of the boundaries. On one track, or under one identity, they nest:
// an end closes the latest begin still open.
func (d *reader) pair() {
	slices.SortStableFunc(d.boundaries, func(a, b boundary) int {
		return cmp.Or(cmp.Compare(a.track, b.track), cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at))
	})
	last := d.latest()
	var open []boundary
	for i, m := range d.boundaries {
		if m.begin {
			open = append(open, m)
		} else if len(open) == 0 {
			d.note(trace.Skipped, "end without a begin", m.pos)
		} else {
			d.addPair(open[len(open)-1], m.at)
			open = open[:len(open)-1]
		}
		if i+1 < len(d.boundaries) && d.boundaries[i+1].track == m.track && d.boundaries[i+1].id == m.id {
			continue
		}
		for _, m := range slices.Backward(open) {
			d.Builder.NoteSpan(trace.SpanID(d.Builder.Len()), trace.Repaired, d.o.File, "begin without an end: lasts until the end of the trace", "byte", m.pos)
			d.addPair(m, last)
		}
		open = open[:0]
	}
	d.boundaries = nil
}

func (d *reader) addPair(begin boundary, end trace.Time) {
	d.Builder.Add(trace.Span{
		Start:  begin.at,
		End:    end,
		Name:   begin.name,
		Lane:   begin.track,
		Parent: trace.None,
		Attr:   trace.None,
	})
}

// latest is the last time in the file.
func (d *reader) latest() trace.Time {
	var last trace.Time
	for i := range d.Builder.Len() {
		last = max(last, d.Builder.Span(trace.SpanID(i)).End)
	}
	for _, m := range d.boundaries {
		last = max(last, m.at)
	}
	return last
}

// recognise finds the rows of GPUs in traces of other tools: rocprof v1 and
// rocmProfileData name processes GPU0, GPU1, COPY. Their events become kernels
// and copies, API calls become host calls, and everything else remains a marker.
func (d *reader) recognise() {
	for _, u := range d.unread {
		note := d.Builder.Note
		if _, _, gpu := gpuOf(d.processNames[u.pid]); gpu {
			note = d.Builder.NoteKernel
		}
		note(trace.Skipped, d.o.File, u.reason, "byte", u.pos)
	}
	gpus := false
	for i := range d.tracks {
		t := &d.tracks[i]
		if t.place != elsewhere || t.category != "" {
			continue
		}
		n, numbered, gpu := gpuOf(d.processNames[t.pid])
		if numbered && t.device < 0 {
			t.device = int32(n)
		}
		if gpu {
			t.place, gpus = onDevice, true
		}
	}
	if !gpus {
		return
	}
	for i := range d.Builder.Len() {
		id := trace.SpanID(i)
		s := d.Builder.Span(id)
		if s.Kind != trace.Marker {
			continue
		}
		switch t := &d.tracks[s.Lane]; t.place {
		case onDevice:
			d.onGPU(id, s, t)
		case elsewhere:
			if isAPI(d.Builder.NameOf(s.Name)) {
				s.Kind = trace.HostCall
				s.Attr = d.Builder.AddCall(trace.Call{Op: trace.None})
				d.calls = trace.Append(&d.Builder, d.calls, id)
			}
		}
	}
}

// gpuOf is the number of the GPU that a process is named after, and whether it is one's or that
// of copies.
func gpuOf(process string) (n int64, numbered, gpu bool) {
	name := strings.TrimSpace(process)
	n, numbered = lex.Trailing(name)
	numbered = numbered && strings.EqualFold(strings.TrimRight(name, "0123456789 "), "GPU")
	return n, numbered, numbered || name == "COPY"
}

// An unread is a skipped event without a category: a kernel or copy if its process, which may be
// named later, is a GPU.
type unread struct {
	pid, reason string
	pos         int64 // byte
}

// onGPU changes the marker on a GPU's row to a kernel or a copy.
func (d *reader) onGPU(id trace.SpanID, s *trace.Span, t *track) {
	name := d.Builder.NameOf(s.Name)
	info := deviceInfo{span: id, issuer: trace.None, param: trace.None}
	if dir := trace.Direction(name); strings.HasPrefix(name, "Copy") || dir != trace.UnknownDir {
		s.Kind = trace.Copy
		s.Attr = d.Builder.AddCopy(trace.CopyAttr{Stream: t.stream, Peer: trace.None, Op: trace.None, Origin: trace.None, Dir: dir})
		d.copies = trace.Append(&d.Builder, d.copies, info)
		return
	}
	s.Kind = trace.Compute
	if d.IsCollective(s.Name) {
		s.Kind = trace.Collective
	}
	s.Attr = d.Builder.AddKernel(trace.Kernel{Setup: d.Builder.AddSetup(trace.Setup{Stream: t.stream}), Comm: trace.None, Op: trace.None, Origin: trace.None})
	d.kernels = trace.Append(&d.Builder, d.kernels, info)
}

// isAPI reports whether a name is a call of a GPU runtime.
func isAPI(name string) bool {
	return slices.ContainsFunc([]string{"hip", "hsa_", "cuda", "roctx"}, func(p string) bool { return strings.HasPrefix(name, p) })
}
