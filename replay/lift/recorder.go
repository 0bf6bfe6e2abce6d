package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// latencySamples is the maximum number of latencies of which Host.Latency is the median.
const latencySamples = 1000

// A recorder fills in a captured rank's host.
type recorder struct {
	*workload.Host
	lanes []trace.LaneID // by position in Order: thread of the call
	calls []trace.SpanID // likewise: the call
	Call  trace.Time     // median duration of the kernel launch calls, ns; 0: none
	next  int            // first of Order that is issued after the spans read so far

	woke   int                 // place in Order of the last op of Host.Wakes
	busy   trace.Time          // until then the thread that issued the op before it recorded calls and operators
	others []workload.HostSync // waits of threads that issue nothing, while those that issue record nothing
}

// Host orders the issues of a captured rank. recordHosts adds what the host recorded.
func (r *rankOps) Host(run *trace.Run) recorder {
	h := recorder{Host: &workload.Host{Issues: make([]workload.Issue, len(r.Ops)), Order: make([]int32, 0, len(r.Ops))}, Call: overlap.UpperMedian(r.calls)}
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
	h.lanes, h.calls = make([]trace.LaneID, len(h.Order)), make([]trace.SpanID, len(h.Order))
	type graph struct{ first, kernels int } // place of its first kernel in Order
	var graphs []graph
	took := map[int][]trace.Time{} // launches of graphs of so many kernels
	call := func(n int) trace.Time { return run.Spans[h.calls[n]].Dur() }
	for n, i := range h.Order {
		h.calls[n] = r.Facts[i].Launch
		if h.lanes[n] = run.Spans[h.calls[n]].Lane; n > 0 {
			h.Issues[i].Work = r.Ops[i].Issued - r.Ops[h.Order[n-1]].Issued
			h.Issues[i].Handed = h.lanes[n] != h.lanes[n-1]
		}
		if r.Ops[i].Graph {
			if n == 0 || h.Issues[i].Work > 0 {
				graphs = append(graphs, graph{first: n})
			}
			graphs[len(graphs)-1].kernels++
		}
	}
	for _, g := range graphs {
		took[g.kernels] = append(took[g.kernels], call(g.first))
	}
	for _, g := range graphs { // what a graph's first launch uploads, later ones do not
		slices.Sort(took[g.kernels])
		if next := g.first + g.kernels; next < len(h.Order) {
			is := &h.Issues[h.Order[next]]
			is.Work -= min(is.Work, max(0, call(g.first)-took[g.kernels][(len(took[g.kernels])-1)/2]))
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
// issue count only where they wait for the device while these do nothing, as an engine's thread
// for outputs does.
func recordHosts(run *trace.Run, hosts []recorder, ranks []rankOps) {
	kinds := readCalls(run.Names)
	for _, s := range run.Spans { // by start
		if s.Kind.OnDevice() || run.Lanes[s.Lane].Kind != trace.HostThread {
			continue
		}
		row, kind := run.RankOf(s), kinds[s.Name]
		h, ops := &hosts[row], ranks[row].Ops
		for h.next < len(h.Order) && ops[h.Order[h.next]].Issued <= s.Start {
			h.next++
		}
		syncs := s.Kind == trace.HostCall && kind.Syncs
		if h.next == 0 || h.next == len(h.Order) || s.Lane != h.lanes[h.next] && s.Lane != h.lanes[h.next-1] {
			if syncs {
				h.others = append(h.others, workload.HostSync{Start: s.Start, End: s.End})
			}
			continue
		}
		if s.Kind != trace.Marker && h.lanes[h.next] != h.lanes[h.next-1] {
			h.wakes(run, s)
		}
		h.others = slices.DeleteFunc(h.others, func(o workload.HostSync) bool { return o.Start < s.Start && s.Start < o.End })
		is := &h.Issues[h.Order[h.next]]
		switch {
		case s.Kind == trace.Launch:
			is.Launches++
		case kind.Call && s.Kind != trace.Marker:
			is.Calls++
		default:
			is.Operators++
		}
		if kind.Sets {
			if h.Sets == nil {
				h.Sets = map[int32]trace.Time{}
			}
			h.Sets[h.Order[h.next]] += s.Dur()
		}
		before := &ops[h.Order[h.next-1]]
		long := s.Kind == trace.Launch && kind.Enqueues && h.Call > 0 && s.Dur() > queueFull*h.Call
		switch {
		case syncs, s.Kind == trace.Launch && blocks(before, s, kind.Copies, long):
			h.waits(ops, h.next, workload.HostSync{Start: s.Start, End: s.End})
		case long:
			is.Work -= min(is.Work, s.Dur()-h.Call)
			if h.next < 2 || ops[h.Order[h.next-2]].End <= s.Start { // the device had nothing queued before its own op
				h.Loads += s.Dur() - h.Call
			}
		}
	}
	for i := range hosts {
		h := &hosts[i]
		for _, o := range h.others {
			next, _ := slices.BinarySearchFunc(h.Order, o.End, func(at int32, end trace.Time) int { return cmp.Compare(ranks[i].Ops[at].Issued, end) })
			if next > 0 && next < len(h.Order) {
				h.waits(ranks[i].Ops, next, o)
			}
		}
		slices.SortFunc(h.Syncs, func(a, b workload.HostSync) int { return cmp.Compare(a.End, b.End) })
		h.share(ranks[i].Ops)
	}
}

// blocks reports whether a call issued an operation for which it waited (rule H1): a copy by a call that copies and returns behind
// it, or by a long one from pageable memory of the host.
func blocks(op *workload.Op, call trace.Span, copies, long bool) bool {
	if op.Issued != call.Start || op.Kind != trace.Copy {
		return false
	}
	return copies && op.End <= call.End || long && workload.HostMemory(op.Name) == workload.Pageable
}

// wakes follows the calls and operators between the issues of two threads, and notes when the second one wakes.
func (h *recorder) wakes(run *trace.Run, s trace.Span) {
	switch first := s.Lane == h.lanes[h.next-1]; {
	case h.woke == h.next:
	case first:
		h.busy = max(h.busy, s.End)
	default:
		for id := h.calls[h.next-1]; id != trace.None; id = run.Spans[id].Parent {
			if around := run.Spans[id]; around.Kind != trace.Marker && around.End <= s.Start {
				h.busy = max(h.busy, around.End)
			}
		}
		if h.Wakes == nil {
			h.Wakes = map[int32]trace.Time{}
		}
		h.woke, h.Wakes[h.Order[h.next]] = h.next, max(1, s.Start-h.busy)
		h.busy = 0
	}
}

// waits adds a wait for the device before the next issue: it is no work.
func (h *recorder) waits(ops []workload.Op, next int, s workload.HostSync) {
	is := &h.Issues[h.Order[next]]
	s.Start = max(s.Start, ops[h.Order[next-1]].Issued)
	is.Work -= min(is.Work, s.End-s.Start)
	h.Syncs = append(h.Syncs, s)
}

// share sets the part of the work of the next issue that the host did before each wait.
func (h *recorder) share(ops []workload.Op) {
	next, done, from := 0, trace.Time(0), trace.Time(0)
	for i := range h.Syncs {
		s := &h.Syncs[i]
		for next < len(h.Order) && ops[h.Order[next]].Issued <= s.Start {
			done, from = 0, ops[h.Order[next]].Issued
			next++
		}
		if next == 0 || next == len(h.Order) {
			continue
		}
		if left := h.Issues[h.Order[next]].Work - done; left > 0 && s.Start > from {
			before := min(left, s.Start-from)
			s.Before = float64(before) / float64(left)
			done += before
		}
		from = max(from, s.End)
	}
}
