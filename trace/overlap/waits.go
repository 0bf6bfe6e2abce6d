package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A queueKey names a stream of a rank.
type queueKey struct {
	device int32
	stream int64
}

// orders are the dependencies of the work of a rank, as far as the file has them.
type orders struct {
	before map[trace.SpanID]trace.SpanID   // the operation before it on its stream
	events map[trace.SpanID][]trace.SpanID // operations of other streams, whose events its stream waits for
	queues map[queueKey][]trace.SpanID     // operations by launch
	ends   map[queueKey][]trace.SpanID     // the same by end
	waits  map[trace.LaneID][]trace.Wait   // of the host by thread, by end
}

// ordersOf follows the waits of a rank: what a stream is given after a wait
// starts after all that the other stream had been given when its event was
// recorded.
func ordersOf(run *trace.Run, w *rankWork) *orders {
	o := &orders{
		before: map[trace.SpanID]trace.SpanID{},
		events: map[trace.SpanID][]trace.SpanID{},
		queues: map[queueKey][]trace.SpanID{},
		ends:   map[queueKey][]trace.SpanID{},
		waits:  map[trace.LaneID][]trace.Wait{},
	}
	issued := map[trace.SpanID]trace.Time{}
	for _, id := range w.ops {
		s := run.Spans[id]
		stream, ok := run.StreamOf(s)
		call := spanAt(run, run.LaunchOf(s))
		if !ok || call == nil {
			continue
		}
		issued[id] = call.Start
		key := queueKey{run.Lanes[s.Lane].Device, stream}
		o.queues[key] = append(o.queues[key], id)
	}
	for key, q := range o.queues {
		o.ends[key] = slices.Clone(q)
		slices.SortFunc(o.ends[key], func(a, b trace.SpanID) int {
			return cmp.Or(cmp.Compare(run.Spans[a].End, run.Spans[b].End), cmp.Compare(a, b))
		})
		slices.SortStableFunc(q, func(a, b trace.SpanID) int { return cmp.Compare(issued[a], issued[b]) })
		for i := range q[1:] {
			o.before[q[i+1]] = q[i]
		}
	}
	for _, x := range w.waits {
		call, recorded := spanAt(run, x.Call), spanAt(run, x.Recorded)
		if x.Stream == trace.None && call != nil {
			o.waits[call.Lane] = append(o.waits[call.Lane], x)
		}
		if x.Stream == trace.None || x.On == trace.None || call == nil || recorded == nil {
			continue
		}
		last := lastBy(o.queues[queueKey{x.Device, x.On}], recorded.Start, func(id trace.SpanID) trace.Time { return issued[id] })
		waits := o.queues[queueKey{x.Device, x.Stream}]
		first, _ := slices.BinarySearchFunc(waits, call.Start,
			func(id trace.SpanID, t trace.Time) int { return cmp.Compare(issued[id], t) })
		if last != trace.None && first < len(waits) {
			o.events[waits[first]] = append(o.events[waits[first]], last)
		}
	}
	for _, waits := range o.waits {
		slices.SortStableFunc(waits, func(a, b trace.Wait) int { return cmp.Compare(a.End, b.End) })
	}
	return o
}

// heldBack returns what an operation was waiting for, where the file has it: of
// the operation before it on its stream and those whose events its stream
// waits for, the one that ended last, unless the host was later still; then
// the last that the thread had waited for. It is trace.None where the file
// does not have it.
func (o *orders) heldBack(run *trace.Run, op trace.SpanID) trace.SpanID {
	s := run.Spans[op]
	last := trace.SpanID(trace.None)
	take := func(id trace.SpanID) {
		if e := run.Spans[id].End; e <= s.Start && id < op && (last == trace.None || e > run.Spans[last].End) {
			last = id
		}
	}
	if before, ok := o.before[op]; ok {
		take(before)
	}
	for _, id := range o.events[op] {
		take(id)
	}
	call := spanAt(run, run.LaunchOf(s))
	if call == nil || last != trace.None && call.Start <= run.Spans[last].End {
		return last
	}
	return o.awaited(run, op, call)
}

// awaited returns the operation that the thread was waiting for when it last
// waited before a call, if the wait names a stream.
func (o *orders) awaited(run *trace.Run, op trace.SpanID, call *trace.Span) trace.SpanID {
	waits := o.waits[call.Lane]
	n, _ := slices.BinarySearchFunc(waits, call.Start, func(x trace.Wait, t trace.Time) int { return upTo(x.End, t) })
	if n == 0 || waits[n-1].On == trace.None {
		return trace.None
	}
	x := &waits[n-1]
	ends := o.ends[queueKey{x.Device, x.On}]
	at, _ := slices.BinarySearchFunc(ends, min(x.End, run.Spans[op].Start), func(id trace.SpanID, t trace.Time) int {
		return upTo(run.Spans[id].End, t)
	})
	for at > 0 && ends[at-1] >= op {
		at-- // of no length
	}
	if at == 0 {
		return trace.None
	}
	return ends[at-1]
}

// upTo compares so that a search finds the first time after t.
func upTo(x, t trace.Time) int {
	if x <= t {
		return -1
	}
	return 1
}
