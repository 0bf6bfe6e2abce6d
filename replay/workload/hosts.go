package workload

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Host is what the host of one rank did to issue the rank's ops, as captured (rule H7).
type Host struct {
	Issues []Issue    // by position in Workload.Ranks
	Order  []int32    // positions in order of issue; ops without a host call are not in it
	Syncs  []HostSync // calls in which it waited for the device, by end

	// Latency is the time from the start of a launch call to the start of its op on an idle
	// device, ns: the median of up to 1000 after the first op; 0 if none found the device idle.
	Latency trace.Time

	lanes []trace.LaneID // by position in Order: thread of the call
	call  trace.Time     // median duration of the kernel launch calls, ns; 0: none
	next  int            // first of Order that is issued after the spans read so far
}

// An Issue is the host's work to issue one op: from the start of the call that issued the
// previous one to the start of the call that issues this one. It is zero for the first op,
// for ops without a host call and for all but the first op of a graph.
type Issue struct {
	Work      trace.Time // ns, without the time in which the host waited for the device
	Operators int32      // framework operators and ranges that the profiler recorded in it
	Calls     int32      // runtime and driver calls that it recorded, without launches
	Launches  int32      // calls that enqueued kernels, copies or fills, likewise
}

// A HostSync is a call in which the host waited for the device.
type HostSync struct{ Start, End trace.Time }

// Profiled reports whether a profiler recorded operators or calls of the host, which slows
// the host.
func (w *Workload) Profiled() bool {
	return slices.ContainsFunc(w.Hosts, func(h *Host) bool {
		return slices.ContainsFunc(h.Issues, func(i Issue) bool { return i.Operators > 0 || i.Calls > 0 || i.Launches > 0 })
	})
}

// latencySamples is the maximum number of latencies of which Host.Latency is the median.
const latencySamples = 1000

// host orders the issues of a captured rank. recordHosts adds what the host recorded.
func (src *source) host(run *trace.Run) Host {
	h := Host{Issues: make([]Issue, len(src.ops)), Order: make([]int32, 0, len(src.ops)), call: Median(src.calls)}
	src.calls = nil
	var latencies []trace.Time
	busy := trace.Time(0) // until then
	for i := range src.ops {
		op := &src.ops[i]
		if src.facts[i].launch != trace.None {
			h.Order = append(h.Order, int32(i))
			if i > 0 && op.Issued >= busy && op.Start >= op.Issued && len(latencies) < latencySamples {
				latencies = append(latencies, op.Start-op.Issued)
			}
		}
		busy = max(busy, op.End)
	}
	h.Latency = Median(latencies)
	slices.SortStableFunc(h.Order, func(a, b int32) int {
		return cmp.Compare(src.ops[a].Issued, src.ops[b].Issued)
	})
	h.lanes = make([]trace.LaneID, len(h.Order))
	for n, i := range h.Order {
		h.lanes[n] = run.Spans[src.facts[i].launch].Lane
		if n > 0 {
			h.Issues[i].Work = src.ops[i].Issued - src.ops[h.Order[n-1]].Issued
		}
	}
	return h
}

// queueFull is the duration of a call that enqueues work, relative to the median launch
// call of the rank, from which it waited: the queue of the device was full (1024 launches),
// or the driver loaded a module, which a later step does not repeat.
const queueFull = 10

// recordHosts counts, in one pass, what the hosts of all captured ranks recorded between
// two issues, and subtracts their waits for the device. Other threads than the two that
// issue do not count.
func recordHosts(run *trace.Run, hosts []Host, sources []source) {
	kinds := callNames(run.Names)
	for _, s := range run.Spans { // by start
		if s.Kind.OnDevice() || run.Lanes[s.Lane].Kind != trace.HostThread {
			continue
		}
		row, kind := run.RankOf(s), kinds[s.Name]
		h, ops := &hosts[row], sources[row].ops
		if s.Kind == trace.HostCall && kind.syncs {
			h.Syncs = append(h.Syncs, HostSync{s.Start, s.End})
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
		case kind.call && s.Kind != trace.Marker:
			is.Calls++
		default:
			is.Operators++
		}
		switch {
		case s.Kind == trace.HostCall && kind.syncs:
			is.Work -= min(is.Work, s.Dur())
		case s.Kind == trace.Launch && kind.enqueues && h.call > 0 && s.Dur() > queueFull*h.call:
			is.Work -= min(is.Work, s.Dur()-h.call)
		}
	}
	for i := range hosts {
		hosts[i].lanes = nil
		slices.SortFunc(hosts[i].Syncs, func(a, b HostSync) int { return cmp.Compare(a.End, b.End) })
	}
}
