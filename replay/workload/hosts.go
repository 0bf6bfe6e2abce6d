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

	// Wakes are, by position of the op in Workload.Ranks, of issues that are Handed, how long it took until a thread ran that
	// another one woke, ns: from the end of the last call or operator that this one recorded to the start of the first that the
	// woken one did. It is at least 1.
	Wakes map[int32]trace.Time

	// Sets are, by position of the op in Workload.Ranks, ns of the work for its issue in which the host set the kernels of a
	// captured graph, one by one.
	Sets map[int32]trace.Time

	// Loads is what launches took to load kernels, ns: several times longer than others, with
	// nothing queued. Later iterations do not repeat it.
	Loads trace.Time
}

// An Issue is the host's work to issue one op: from the start of the call that issued the
// previous one to the start of the call that issues this one. It is zero for the first op,
// for ops without a host call and for all but the first op of a graph.
type Issue struct {
	Work      trace.Time // ns, without the time in which the host waited for the device
	Operators int32      // framework operators and ranges that the profiler recorded in it
	Calls     int32      // runtime and driver calls that it recorded, without launches
	Launches  int32      // calls that enqueued kernels, copies or fills, likewise
	Handed    bool       // another thread issued the previous op, and woke the one that issues this
}

// A HostSync is a call in which the host waited for the device.
type HostSync struct {
	Start, End trace.Time
	Before     float64 // share of the work for the next issue that is done before it, of what earlier waits leave
}

// Profiled reports whether a profiler recorded operators or calls of the host, which slows
// the host.
func (w *Workload) Profiled() bool {
	return slices.ContainsFunc(w.Hosts, func(h *Host) bool {
		return slices.ContainsFunc(h.Issues, func(i Issue) bool { return i.Operators > 0 || i.Calls > 0 || i.Launches > 0 })
	})
}

// HostPace is the issue time of a rank's host relative to a host whose launch calls take so many seconds with the same
// profiler. It is 1 if the trace shows none, or that is not known (rule H3).
func (w *Workload) HostPace(rank int, call float64) float64 {
	if call <= 0 || rank >= len(w.Calls) || w.Calls[rank] == 0 {
		return 1
	}
	return float64(w.Calls[rank]) / 1e9 / call
}

// IssuedBefore is, by a rank's waits for its device, how many operations its host had issued when the wait began.
func (w *Workload) IssuedBefore(rank int) []int {
	h, ids, n := w.Hosts[rank], w.Ranks[rank], 0
	before := make([]int, len(h.Syncs)) // which are by end, and ops by issue
	for i, s := range h.Syncs {
		for n < len(h.Order) && w.Ops[ids[h.Order[n]]].Issued <= s.Start {
			n++
		}
		before[i] = n
	}
	return before
}

// IssueOrder returns a rank's operations in the order in which its host issued them; without
// host calls, in order of start. A stream runs in the order of issue, so an operation was issued
// by when the next one of its stream was, whatever the trace knows of its launch.
func (w *Workload) IssueOrder(rank int) []int32 {
	if w.Order != nil {
		return slices.Clone(w.Order[rank])
	}
	order := slices.Clone(w.Ranks[rank])
	at, next := make(map[int32]trace.Time, len(order)), map[int64]trace.Time{} // by op; by queue: of the operation behind
	for _, id := range slices.Backward(order) {
		op := &w.Ops[id]
		issued := min(op.Issued, op.Start)
		if behind, ok := next[op.Queue]; ok {
			issued = min(issued, behind)
		}
		at[id], next[op.Queue] = issued, issued
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a, b)) })
	return order
}
