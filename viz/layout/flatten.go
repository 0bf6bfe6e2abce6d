package layout

import "github.com/overlapse/overlapse/trace"

// Flatten cuts a row's spans, which nest, into what is seen of them: the
// innermost at every time. A span interrupted by its children gives several segments.
func Flatten(r *trace.Run, ids []trace.SpanID, emit func(id trace.SpanID, from, to trace.Time)) {
	var open []trace.SpanID
	var at trace.Time
	until := func(id trace.SpanID, to trace.Time) {
		if to > at || r.Spans[id].Dur() == 0 {
			emit(id, at, max(at, to))
		}
		at = max(at, to)
	}
	leave := func(before trace.Time) {
		for len(open) > 0 && r.Spans[open[len(open)-1]].End <= before {
			until(open[len(open)-1], r.Spans[open[len(open)-1]].End)
			open = open[:len(open)-1]
		}
	}
	for _, id := range ids {
		s := r.Spans[id]
		leave(s.Start)
		if len(open) > 0 {
			until(open[len(open)-1], s.Start)
		}
		open = append(open, id)
		at = max(at, s.Start)
	}
	leave(trace.Infinity)
}
