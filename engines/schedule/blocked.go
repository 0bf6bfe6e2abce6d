package schedule

import (
	"slices"
	"sort"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// While a stream holds a kernel that waits for another stream, the kernels of the streams that share
// its hardware channel group start about a microsecond later (rule S23). The driver decides which
// streams share a group when it creates them. So the gaps of a capture tell which of its streams of
// collectives delay the others, and launch.blocked is the delay of a stream that the capture lacks.

// delays are what collectives that wait on other streams add to the gaps of one rank's kernels.
type delays struct {
	waiting map[int32][]int64         // by op: the queues that held an issued collective that had not begun when the op started
	of      map[int64]trace.Time      // by queue: what a waiting collective of it adds to a gap, ns; absent: the capture does not tell
	typical trace.Time                // launch.blocked, ns
	issued  map[streamOf][]trace.Time // by stream and item: when the host issued the next exchange, ns of the capture
}

// A streamOf is a stream of exchanges: a captured queue, or one that the schedule adds for what ran on that queue.
type streamOf struct {
	queue int64
	name  string
}

// enoughGaps is how many gaps make their median one of the stream.
const enoughGaps = 30

// findDelays reads the delays off the rank's captured gaps, and finds when the host issues the
// exchanges of the new schedule.
func (rw *rankWriter) findDelays() {
	d := &rw.delays
	d.typical = plan.Duration(rw.pl.Machine.Launch.Blocked.Or(0))
	d.waiting, d.of = waitingCollectives(rw.w, rw.ID), map[int64]trace.Time{}
	var free []trace.Time                                              // gaps while no collective waits
	alone, among := map[int64][]trace.Time{}, map[int64][]trace.Time{} // gaps while those of one queue wait, and those of others too
	for _, id := range rw.w.Ranks[rw.ID] {
		op := &rw.w.Ops[id]
		if !rw.launchedAhead(op) {
			continue
		}
		gap, queues := op.Start-rw.queued(op).before.End, d.waiting[id]
		if len(queues) == 0 {
			free = append(free, gap)
		}
		for _, q := range queues {
			among[q] = append(among[q], gap)
			if len(queues) == 1 {
				alone[q] = append(alone[q], gap)
			}
		}
	}
	undelayed := plan.Duration(rw.pl.Machine.Launch.Gap.Value)
	if len(free) >= enoughGaps {
		undelayed = lowerMedian(free)
	}
	for q, gaps := range among {
		if len(alone[q]) >= enoughGaps {
			gaps = alone[q]
		}
		if len(gaps) >= enoughGaps {
			d.of[q] = max(0, lowerMedian(gaps)-undelayed)
		}
	}
	d.issued = map[streamOf][]trace.Time{}
	items := rw.items[rw.ID]
	for _, x := range rw.exchanges {
		m := x.member(rw.ID)
		if m == nil || m.place < 0 || x.message {
			continue
		}
		on := streamOf{m.op.Queue, x.name}
		if d.issued[on] == nil {
			d.issued[on] = slices.Repeat([]trace.Time{trace.Infinity}, len(items))
		}
		d.issued[on][m.place] = min(d.issued[on][m.place], items[m.place].op.Issued)
	}
	for _, at := range d.issued {
		for i := len(at) - 2; i >= 0; i-- {
			at[i] = min(at[i], at[i+1])
		}
	}
}

// launchedAhead reports whether the device alone decided when a captured kernel started behind the
// one before it on its stream: the host had issued it, and it waited for no other stream.
func (rw *rankWriter) launchedAhead(op *workload.Op) bool {
	before := rw.queued(op).before
	return before != nil && before.Kind == trace.Compute && op.Kind == trace.Compute && !op.Graph &&
		op.Issued != trace.Infinity && rw.ID < len(rw.w.Hosts) && op.Issued+rw.w.Hosts[rw.ID].Latency <= before.End &&
		op.Start >= before.End && op.Start-before.End <= plan.Duration(rw.pl.Machine.Launch.Event.Value) &&
		!slices.ContainsFunc(op.After, func(d workload.Dep) bool { return rw.w.Ops[d.Op].End > before.End })
}

// delay is what the schedule changes of the gap before a captured kernel, ns: without the
// collectives that waited on other streams when it was captured, and with those that wait now.
func (rw *rankWriter) delay(op *workload.Op) trace.Time {
	if rw.keep || rw.loop || !rw.launchedAhead(op) {
		return 0
	}
	var was, is trace.Time
	for _, q := range rw.delays.waiting[op.ID] {
		was = max(was, rw.delays.of[q])
	}
	for on, issued := range rw.delays.issued {
		if at := rw.at[op.ID]; at < 0 || rw.serial || issued[at] >= op.Start || on == (streamOf{op.Queue, ""}) {
			continue
		}
		by, known := rw.delays.of[on.queue]
		if !known || on.name != "" {
			by = rw.delays.typical
		}
		is = max(is, by)
	}
	return is - was
}

// waitingCollectives are, by op of a rank, the other queues that held a collective which the host had
// issued and which had not begun when the op started.
func waitingCollectives(w *workload.Workload, rank int) map[int32][]int64 {
	type queue struct{ issued, began []trace.Time }
	queues := map[int64]*queue{}
	var numbers []int64
	for _, id := range w.Ranks[rank] {
		op := &w.Ops[id]
		if op.Collective < 0 || op.Issued >= op.Start || op.Graph {
			continue
		}
		q := queues[op.Queue]
		if q == nil {
			q = &queue{}
			queues[op.Queue], numbers = q, append(numbers, op.Queue)
		}
		q.issued, q.began = append(q.issued, op.Issued), append(q.began, op.Start)
	}
	for _, q := range queues {
		slices.Sort(q.issued)
		slices.Sort(q.began)
	}
	waiting := map[int32][]int64{}
	for _, id := range w.Ranks[rank] {
		op := &w.Ops[id]
		for _, number := range numbers {
			q := queues[number]
			issued := sort.Search(len(q.issued), func(i int) bool { return q.issued[i] >= op.Start })
			began := sort.Search(len(q.began), func(i int) bool { return q.began[i] > op.Start })
			if number != op.Queue && issued > began {
				waiting[id] = append(waiting[id], number)
			}
		}
	}
	return waiting
}

// lowerMedian is the middle of times, the lower one of two.
func lowerMedian(times []trace.Time) trace.Time {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)/2]
}
