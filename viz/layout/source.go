package layout

import "github.com/overlapse/overlapse/trace"

// A source is what the ids of a row's spans stand for: the spans of a run, or the states of its
// ranks.
type source struct {
	run     *trace.Run
	classes []Class // of the run's spans
	strip   *strip  // not nil: its states instead
}

// span is a span, in its run's own time.
func (f *source) span(id trace.SpanID) trace.Span {
	if f.strip != nil {
		return f.strip.span(id)
	}
	return f.run.Spans[id]
}

func (f *source) start(id trace.SpanID) trace.Time {
	if f.strip != nil {
		return f.strip.start(id)
	}
	return f.run.Spans[id].Start
}

func (f *source) end(id trace.SpanID) trace.Time {
	if f.strip != nil {
		return f.strip.start(id + 1)
	}
	return f.run.Spans[id].End
}

// drawnEnd is where a span ends in a picture: one of no length takes a
// nanosecond when it is counted, and none when time is added up.
func (f *source) drawnEnd(id trace.SpanID) trace.Time { return max(f.end(id), f.start(id)+1) }

func (f *source) class(id trace.SpanID) Class {
	if f.strip != nil {
		return f.strip.classes[f.strip.name(id)]
	}
	return f.classes[id]
}

// within is the span of the same row that a span is drawn on top of, or None.
func (f *source) within(id trace.SpanID) trace.SpanID {
	if f.strip != nil {
		return trace.None
	}
	return within(f.run, id)
}

// within is source.within of the spans of a run.
func within(r *trace.Run, id trace.SpanID) trace.SpanID {
	s := &r.Spans[id]
	if !s.Kind.InKernel() || s.Parent == trace.None {
		return trace.None
	}
	p := &r.Spans[s.Parent]
	if !p.Kind.InKernel() || p.Lane != s.Lane || s.Start < p.Start || s.End > p.End {
		return trace.None
	}
	return s.Parent
}
