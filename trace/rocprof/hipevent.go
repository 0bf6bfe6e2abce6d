package rocprof

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// hipEventTable is what rocpd has from 3.0.4 on, with rocprofv3 --hip-trace.
const hipEventTable = "rocpd_hip_event"

// A hipEvent is a barrier on a queue: a recorded event, or a wait for one, which names the queue
// that the event was recorded on.
type hipEvent struct {
	process, agent        int32 // rows
	queue, source, stream int64
	handle                int64 // of the event; 0: unknown
	correlation           int64 // of the call
	start, end            trace.Time
}

// addHIPEvents adds the waits among the barriers of a file: each is for the last recording of its
// event before it, in the order of the calls.
func addHIPEvents(s *assemble.Session, all []hipEvent) {
	type recording struct {
		process       int32
		queue, handle int64
	}
	recorded := map[recording]*hipEvent{}
	slices.SortStableFunc(all, func(a, b hipEvent) int { return cmp.Compare(a.correlation, b.correlation) })
	for i := range all {
		e := &all[i]
		if e.queue == e.source {
			recorded[recording{e.process, e.queue, e.handle}] = e
			continue
		}
		w := trace.Wait{Start: e.start, End: e.end, Stream: e.stream, On: trace.None, Correlation: e.correlation}
		if of := recorded[recording{e.process, e.source, e.handle}]; of != nil {
			w.On, w.Record = of.stream, of.correlation
		}
		if e.agent != trace.None {
			s.AddWait(e.process, e.agent, w)
		}
	}
}

func (g *rocpdReader) readHIPEvents() {
	var all []hipEvent
	g.Timed(hipEventTable+g.suffix, slices.Concat([]string{"start", "end"}, trackColumns, []string{"source_queue_id", "hip_event_handle", "event_id"}), func(r lex.Row, start, end trace.Time) {
		on := g.trackOf(r)
		all = append(all, hipEvent{on.process, on.agent, on.queue, r.Int(8), on.stream, r.Int(9), g.events[r.Int(10)].stack, start, end})
	})
	addHIPEvents(g.Session, all)
}
