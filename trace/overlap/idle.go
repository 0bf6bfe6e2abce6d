package overlap

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// Causes splits the idle time of a rank by the reason for which the next device
// work did not start. Their sum is Breakdown.Idle. The cause of a gap is that of the work that ends it; of
// several that start together, the first issued.
type Causes struct {
	// Host: the host issued the next work only after the device had run dry.
	Host trace.Time `json:"host_ns"`
	// Sync is like Host, but when the device ran dry the issuing thread was
	// synchronizing with it (cudaStreamSynchronize, hipMemcpy), and so had nothing queued.
	Sync trace.Time `json:"sync_ns"`
	// Launch: the next work was issued and on its way to the device.
	Launch trace.Time `json:"launch_ns"`
	// Queued: the next work had been issued before the device ran dry, and
	// still did not start: an event, a dispatch, or another queue delayed it.
	Queued trace.Time `json:"queued_ns"`
	// Unknown: the file does not say when the next work was issued.
	Unknown trace.Time `json:"unknown_ns"`
}

// A causedIdle is the idle time that has one cause.
type causedIdle struct {
	Name string
	Time trace.Time
}

// list is the causes in the order in which they follow each other in a gap.
func (c *Causes) list() []causedIdle {
	return []causedIdle{
		{"host", c.Host},
		{"host synchronization", c.Sync},
		{"launch", c.Launch},
		{"dependency or dispatch", c.Queued},
		{"unknown", c.Unknown},
	}
}

// issued returns the call that issued the work that ends a gap, or nil. next is the first
// of ops that starts at the end of the gap before, or later.
func (w *rankWork) issued(run *trace.Run, gap Interval, next *int) *trace.Span {
	for *next < len(w.ops) && run.Spans[w.ops[*next]].Start < gap.End {
		*next++
	}
	return w.firstIssued(run, *next)
}

// add adds a gap of the rank before work that a call issued, or nil.
func (c *Causes) add(w *rankWork, gap Interval, call *trace.Span) {
	if call == nil {
		c.Unknown += gap.Length()
		return
	}
	if call.Start <= gap.Start {
		c.Queued += gap.Length()
		return
	}
	issued := min(call.Start, gap.End)
	c.Launch += gap.End - issued
	if w.waiting(call.Lane, gap.Start) {
		c.Sync += issued - gap.Start
	} else {
		c.Host += issued - gap.Start
	}
}

// spanAt returns the span, or nil for trace.None.
func spanAt(run *trace.Run, id trace.SpanID) *trace.Span {
	if id == trace.None {
		return nil
	}
	return &run.Spans[id]
}

// firstIssued returns the earliest call that issued one of the operations that
// start together with ops[next], or nil if no call is known for any.
func (w *rankWork) firstIssued(run *trace.Run, next int) *trace.Span {
	var first *trace.Span
	start := run.Spans[w.ops[next]].Start
	for ; next < len(w.ops) && run.Spans[w.ops[next]].Start == start; next++ {
		call := spanAt(run, run.LaunchOf(run.Spans[w.ops[next]]))
		if call != nil && (first == nil || call.Start < first.Start) {
			first = call
		}
	}
	return first
}

// A sync is a call in which a host thread waits for the device.
type sync struct {
	thread     trace.LaneID
	start, end trace.Time
}

// waiting reports whether a host thread was in a synchronising call at a time.
func (w *rankWork) waiting(thread trace.LaneID, at trace.Time) bool {
	i, ok := slices.BinarySearchFunc(w.syncs, sync{thread: thread, start: at}, compareSyncs)
	if !ok {
		i-- // the last to start before
	}
	return i >= 0 && w.syncs[i].thread == thread && w.syncs[i].end >= at
}

func compareSyncs(a, b sync) int {
	return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.start, b.start))
}

// syncNames reports by name id whether a call makes the host wait for the device.
func syncNames(names []string) []bool {
	waits := make([]bool, len(names))
	for i, n := range names {
		runtime := strings.HasPrefix(n, "cu") || strings.HasPrefix(n, "hip")
		blockingCopy := strings.Contains(n, "Memcpy") && !strings.Contains(n, "Async")
		waits[i] = runtime && (blockingCopy || strings.Contains(n, "Synchronize")) || strings.HasPrefix(n, "hsa_signal_wait")
	}
	return waits
}
