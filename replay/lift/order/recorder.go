package order

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// latencySamples is the maximum number of latencies of which Host.Latency is the median.
const latencySamples = 1000

// A Recorder fills in a captured rank's host.
type Recorder struct {
	*workload.Host
	lanes []trace.LaneID // by position in Order: thread of the call
	Call  trace.Time     // median duration of the kernel launch calls, ns; 0: none
	next  int            // first of Order that is issued after the spans read so far
}

// Host orders the issues of a captured rank. recordHosts adds what the host recorded.
func (r *Rank) Host(run *trace.Run) Recorder {
	h := Recorder{Host: &workload.Host{Issues: make([]workload.Issue, len(r.Ops)), Order: make([]int32, 0, len(r.Ops))}, Call: overlap.UpperMedian(r.calls)}
	var latencies []trace.Time
	busy := trace.Time(0) // until then
	for i := range r.Ops {
		op := &r.Ops[i]
		if r.Facts[i].Launch != trace.None {
			h.Order = append(h.Order, int32(i))
			if i > 0 && op.Issued >= busy && op.Start >= op.Issued && len(latencies) < latencySamples {
				latencies = append(latencies, op.Start-op.Issued)
			}
		}
		busy = max(busy, op.End)
	}
	h.Latency = overlap.UpperMedian(latencies)
	slices.SortStableFunc(h.Order, func(a, b int32) int {
		return cmp.Compare(r.Ops[a].Issued, r.Ops[b].Issued)
	})
	h.lanes = make([]trace.LaneID, len(h.Order))
	for n, i := range h.Order {
		h.lanes[n] = run.Spans[r.Facts[i].Launch].Lane
		if n > 0 {
			h.Issues[i].Work = r.Ops[i].Issued - r.Ops[h.Order[n-1]].Issued
		}
	}
	return h
}

// queueFull is the duration of a call that enqueues work, relative to the median launch
// call of the rank, from which it waited: the queue of the device was full (1024 launches),
// or the driver loaded a module, which a later step does not repeat.
const queueFull = 10

// RecordHosts counts, in one pass, what the hosts of all captured ranks recorded between
// two issues, and subtracts their waits for the device. Other threads than the two that
// issue do not count.
func RecordHosts(run *trace.Run, hosts []Recorder, ranks []Rank) {
	kinds := kernel.Calls(run.Names)
	for _, s := range run.Spans { // by start
		if s.Kind.OnDevice() || run.Lanes[s.Lane].Kind != trace.HostThread {
			continue
		}
		row, kind := run.RankOf(s), kinds[s.Name]
		h, ops := &hosts[row], ranks[row].Ops
		if s.Kind == trace.HostCall && kind.Syncs {
			h.Syncs = append(h.Syncs, workload.HostSync{Start: s.Start, End: s.End})
		}
		for h.next < len(h.Order) && ops[h.Order[h.next]].Issued <= s.Start {
			h.next++
		}
		if h.next == 0 || h.next == len(h.Order) || s.Lane != h.lanes[h.next] && s.Lane != h.lanes[h.next-1] {
			continue
		}
		is := &h.Issues[h.Order[h.next]]
		switch {
		case s.Kind == trace.Launch:
			is.Launches++
		case kind.Call && s.Kind != trace.Marker:
			is.Calls++
		default:
			is.Operators++
		}
		switch {
		case s.Kind == trace.HostCall && kind.Syncs:
			is.Work -= min(is.Work, s.Dur())
		case s.Kind == trace.Launch && kind.Enqueues && h.Call > 0 && s.Dur() > queueFull*h.Call:
			is.Work -= min(is.Work, s.Dur()-h.Call)
			if h.next < 2 || ops[h.Order[h.next-2]].End <= s.Start { // the device had nothing queued before its own op
				h.Loads += s.Dur() - h.Call
			}
		}
	}
	for i := range hosts {
		slices.SortFunc(hosts[i].Syncs, func(a, b workload.HostSync) int { return cmp.Compare(a.End, b.End) })
	}
}
