package chrome

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// An arrow is one end of a flow between two rows. rocprof v1 and rocmProfileData link
// calls to launched work only by flows; Kineto also has correlations.
type arrow struct {
	id    int32 // number of the flow
	track trace.LaneID
	at    trace.Time
	from  bool // the flow starts here
	pos   int64
}

// flow adds an arrow.
func (d *reader) flow(e *event) {
	if d.graphFlow(e) {
		return
	}
	switch string(e.cat) {
	case `"ac2g"`, `"fwdbwd"`, `"async"`, `"async_cpu_to_gpu"`:
		d.note(trace.Noted, "flow arrow: launches are joined by correlation instead", e.pos)
		return
	}
	at, ok := d.start(e)
	if !ok {
		return
	}
	k := append(d.key[:0], "flow\x00"...)
	k = append(append(k, lex.Unquote(e.cat)...), 0)
	id := d.number(append(k, lex.Unquote(e.id)...))
	d.arrows = trace.Append(&d.Builder, d.arrows, arrow{id: id, track: d.track(e, elsewhere), at: at, from: e.ph == 's', pos: e.pos})
}

// follow gives calls and device work that arrows connect a common correlation if they
// have none: the number of the flow in order of time.
func (d *reader) follow() {
	rows := d.rowsUnder(d.arrows)
	for i, flow := range d.flows() {
		from := trace.SpanID(trace.None)
		for _, a := range flow {
			reason := "flow arrow: joins no call to device work"
			switch to := rows.at(d, a); {
			case a.from:
				if from = to; from != trace.None && d.isCall(from) {
					reason = "flow arrow: from a call"
				}
			case from != trace.None && to != trace.None && d.join(from, to, int64(i)+1):
				reason = "flow arrow: to what a call launched"
			}
			d.note(trace.Noted, reason, a.pos)
		}
	}
	d.arrows = nil
}

// flows returns the arrows of each flow, in order of time.
func (d *reader) flows() [][]arrow {
	slices.SortFunc(d.arrows, func(a, b arrow) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at), cmp.Compare(a.pos, b.pos))
	})
	flows := trace.Alike(d.arrows, func(a, b arrow) bool { return a.id == b.id })
	slices.SortStableFunc(flows, func(a, b []arrow) int {
		return cmp.Or(
			cmp.Compare(a[0].at, b[0].at),
			cmp.Compare(d.tracks[a[0].track].lane, d.tracks[b[0].track].lane),
			cmp.Compare(a[len(a)-1].at, b[len(b)-1].at))
	})
	return flows
}

func (d *reader) isCall(id trace.SpanID) bool {
	s := d.Builder.Span(id)
	return s.Kind == trace.HostCall && s.Attr != trace.None
}

// join sets the correlation of the call and the work to the call's, or to the given
// one.
func (d *reader) join(from, to trace.SpanID, offered int64) bool {
	work := d.Builder.Span(to)
	if !d.isCall(from) || !work.Kind.OnDevice() {
		return false
	}
	call := &d.Builder.Run.Calls[d.Builder.Span(from).Attr]
	var correlation *int64
	if work.Kind == trace.Copy {
		correlation = &d.Builder.Run.Copies[work.Attr].Correlation
	} else {
		correlation = &d.Builder.Run.Kernels[work.Attr].Correlation
	}
	if *correlation != 0 {
		return false
	}
	call.Correlation = cmp.Or(call.Correlation, offered)
	*correlation = call.Correlation
	return true
}

// rowSpans are the spans of some lanes in order of start.
type rowSpans map[trace.LaneID][]trace.SpanID

// rowsUnder lists the spans on the rows that arrows touch.
func (d *reader) rowsUnder(arrows []arrow) rowSpans {
	rows := rowSpans{}
	for _, a := range arrows {
		rows[d.tracks[a.track].lane] = nil
	}
	if len(rows) == 0 {
		return rows
	}
	for i := range d.Builder.Len() {
		id := trace.SpanID(i)
		s := d.Builder.Span(id)
		if spans, ok := rows[s.Lane]; ok && !s.Dropped() {
			rows[s.Lane] = append(spans, id)
		}
	}
	for _, spans := range rows {
		slices.SortFunc(spans, func(a, b trace.SpanID) int {
			x, y := d.Builder.Span(a), d.Builder.Span(b)
			return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End), cmp.Compare(a, b))
		})
	}
	return rows
}

// at returns the innermost span that the arrow touches, or None. Arrows may be
// truncated to microseconds, unlike spans.
func (rows rowSpans) at(d *reader, a arrow) trace.SpanID {
	const cut = 999
	spans := rows[d.tracks[a.track].lane]
	i, _ := slices.BinarySearchFunc(spans, a.at+cut+1, func(id trace.SpanID, t trace.Time) int {
		return cmp.Compare(d.Builder.Span(id).Start, t)
	})
	if i == 0 {
		return trace.None
	}
	id := spans[i-1]
	for id != trace.None && d.Builder.Span(id).End < a.at {
		id = d.Builder.Span(id).Parent
	}
	return id
}
