package plan

import (
	"slices"
	"sort"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Blocked is what collectives that wait on streams of their own add to the gaps of one rank's kernels. While a
// stream holds a kernel that waits for another stream, the kernels of the streams that share its hardware channel
// group start about a microsecond later (rule S23). The driver decides which streams share a group when it creates
// them, so the gaps of a capture tell which of its streams of collectives delay the others.
type Blocked struct {
	By     map[int64]trace.Time   // by queue: what a waiting collective of it adds to a gap, ns; absent: the capture does not tell
	queues map[int32][]int64      // by op: the queues that held an issued collective that had not begun when the op started
	before map[int32]*workload.Op // by op: the one before it on its queue
	last   map[int64]trace.Time   // by queue: when its last collective began
}

// enoughGaps is how many gaps make their median one of the stream.
const enoughGaps = 30

// Blocked is that of a captured rank.
func (pl *Planner) Blocked(rank int) *Blocked {
	return pl.blocked.Of(rank, func() *Blocked {
		b := &Blocked{By: map[int64]trace.Time{}, before: map[int32]*workload.Op{}, last: map[int64]trace.Time{}}
		b.queues = waitingCollectives(pl.Workload, rank)
		on := map[int64]*workload.Op{}
		for _, id := range pl.Workload.Ranks[rank] {
			op := &pl.Workload.Ops[id]
			b.before[id], on[op.Queue] = on[op.Queue], op
			if op.Collective >= 0 && !op.Graph {
				b.last[op.Queue] = max(b.last[op.Queue], op.Start)
			}
		}
		b.read(pl, rank)
		return b
	})
}

// read reads the delays off the rank's gaps.
func (b *Blocked) read(pl *Planner, rank int) {
	var free []trace.Time                                              // gaps while no collective waits
	alone, among := map[int64][]trace.Time{}, map[int64][]trace.Time{} // gaps while those of one queue wait, and those of others too
	for _, id := range pl.Workload.Ranks[rank] {
		op := &pl.Workload.Ops[id]
		if !pl.LaunchedAhead(op, b.before[id]) {
			continue
		}
		gap, queues := op.Start-b.before[id].End, b.queues[id]
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
	undelayed := Duration(pl.Machine.Launch.Gap.Value)
	if len(free) >= enoughGaps {
		undelayed = overlap.Median(free)
	}
	for q, gaps := range among {
		if len(alone[q]) >= enoughGaps {
			gaps = alone[q]
		}
		if len(gaps) >= enoughGaps {
			b.By[q] = max(0, overlap.Median(gaps)-undelayed)
		}
	}
}

// Captured is what collectives that waited added to the captured gap before an operation, ns.
func (b *Blocked) Captured(op *workload.Op) (by trace.Time) {
	for _, q := range b.queues[op.ID] {
		by = max(by, b.By[q])
	}
	return by
}

// ahead is what they add where the host has issued everything: those that came later wait already, ns.
func (b *Blocked) ahead(op *workload.Op) (by trace.Time) {
	for q, last := range b.last {
		if q != op.Queue && last > op.Start {
			by = max(by, b.By[q])
		}
	}
	return by
}

// GapChange is what collectives that wait add to the gap of a captured kernel that keeps its place, ns, where the hosts
// run ahead of their devices: the captured hosts were late, so that fewer collectives waited.
func (pl *Planner) GapChange(op *workload.Op) trace.Time {
	if !pl.Ahead || op.Kind != trace.Compute || op.Graph {
		return 0
	}
	b := pl.Blocked(op.Rank)
	switch before := b.before[op.ID]; {
	case pl.LaunchedAhead(op, before):
		return b.ahead(op) - b.Captured(op)
	case pl.HostWasLate(op, before):
		return b.ahead(op)
	}
	return 0
}

// LaunchedAhead reports whether the device alone decided when a captured kernel started behind the
// one before it on its stream: the host had issued it, and it waited for no other stream.
func (pl *Planner) LaunchedAhead(op, before *workload.Op) bool {
	launched, known := pl.launched(op)
	return before != nil && before.Kind == trace.Compute && op.Kind == trace.Compute && !op.Graph &&
		known && launched <= before.End && op.Start >= before.End &&
		op.Start-before.End <= Duration(pl.Machine.Launch.Event.Value) && !waitedFor(pl.Workload, op, before.End)
}

// launched is when the device could start a captured operation by the host's launch; false: the trace does not show that.
func (pl *Planner) launched(op *workload.Op) (at trace.Time, known bool) {
	if op.Issued == trace.Infinity || op.Rank >= len(pl.Workload.Hosts) {
		return 0, false
	}
	return op.Issued + pl.Workload.Hosts[op.Rank].Latency, true
}

// HostWasLate reports whether a captured kernel started when its host had issued it: the one before it on its
// stream had ended, and so had all that it waits for. Its gap says nothing of the device. Kernels of a graph are issued by one call,
// which hands them over one by one: the host is late where the stream was idle before that call had ended. Hosts that wait for the
// device do not run ahead: what a graph takes to start counts in each iteration, and is left as captured.
func (pl *Planner) HostWasLate(op, before *workload.Op) bool {
	w := pl.Workload
	ready, known := pl.launched(op)
	if !known || op.Graph && (before == nil || len(w.Hosts[op.Rank].Syncs) > 0) {
		return false
	}
	if op.Graph {
		before = pl.lastOf(op, before)
		if before.Issued == op.Issued {
			ready = 0
		}
		launch := w.Run.LaunchOf(w.Run.Spans[op.Span])
		if launch != trace.None && op.Start-before.End > Duration(pl.Machine.Launch.Event.Value) {
			ready = max(ready, min(op.Start, w.Run.Spans[launch].End))
		}
	}
	return (before == nil || before.End < ready) && !waitedFor(w, op, ready-1)
}

// waitedFor reports whether something that an operation depends on ended after a time and before the operation started.
func waitedFor(w *workload.Workload, op *workload.Op, after trace.Time) bool {
	return slices.ContainsFunc(op.After, func(d workload.Dep) bool { end := w.Ops[d.Op].End; return after < end && end <= op.Start })
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
