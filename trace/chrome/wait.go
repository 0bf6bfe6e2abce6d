package chrome

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A waitInfo is a cuda_sync event whose rank is not yet known.
type waitInfo struct {
	span trace.SpanID
	wait trace.Wait
}

// wait reads a cuda_sync event. Its stream is the waiting one, except for Stream Sync,
// where the host waits for the stream.
func (d *reader) wait(e *event, span trace.SpanID) {
	a := &e.args
	w := trace.Wait{
		Stream:      streamOf(a.stream),
		On:          streamOf(a.waitOn),
		Record:      max(0, number(a.waitRecord)),
		Correlation: number(a.correlation),
	}
	switch name := d.string(e.name); {
	case strings.HasPrefix(name, "Stream Wait"):
	case strings.HasPrefix(name, "Stream"):
		w.Stream, w.On = trace.None, w.Stream
	default:
		w.Stream = trace.None
	}
	d.waits = trace.Append(&d.Builder, d.waits, waitInfo{span, w})
}

// streamOf reads a stream; None for CUPTI's invalid value in any width.
func streamOf(b []byte) int64 {
	const invalid = 1<<32 - 1
	n, ok := lex.Integer(b)
	if !ok || n < 0 || n == invalid {
		return trace.None
	}
	return n
}

// addWaits adds the waits when lanes are final.
func (d *reader) addWaits() {
	for _, i := range d.waits {
		s := d.Builder.Span(i.span)
		if s.Dropped() {
			continue
		}
		l := d.Builder.LaneOf(s.Lane)
		i.wait.Rank, i.wait.Device, i.wait.Start, i.wait.End = l.Rank, l.Device, s.Start, s.End
		d.Builder.AddWait(i.wait)
	}
}
