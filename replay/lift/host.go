package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An edge is a dependency between ops shown by host calls.
type edge struct {
	op  int32
	dep workload.Dep
}

// An issue is one host call in host order: the launch of an op, or a call that makes a
// stream wait.
type issue struct {
	at     trace.Time
	thread trace.LaneID
	op     int32 // -1: a wait
	comm   bool  // the framework waits for a collective
}

// A thread is the state of one host thread while its calls are followed.
type thread struct {
	current int32 // queue of its last compute op: the framework's current stream; or -1
	pending []wait
}

// A wait is a stream that waits for an op until its next launch. The call does not name
// the op: it is found when the start of the waiting op is known.
type wait struct {
	at   int   // number of launches so far
	comm bool  // must be a collective
	op   int32 // -1: not yet found
}

// waitScan is the number of earlier launches searched for the op that a stream waits for.
const waitScan = 64

// maxPending bounds the waits stored for a thread that launches nothing on the waiting
// stream.
const maxPending = 16

// A hostOrder follows the calls of one rank's host.
type hostOrder struct {
	*rankOps
	run      *trace.Run
	issued   []int32                  // ops in order of launch
	last     []int32                  // by queue: the last op launched, or -1
	ordered  map[int32]int32          // by group whose collectives run one after another: the last one launched
	waited   []int                    // by queue: index up to which a stream has waited for it
	threads  map[trace.LaneID]*thread // by lane
	started  []*thread                // in order of their first call
	current  int32                    // the last thread's
	refuted  int
	edges    []edge
	comms    map[trace.SpanID]bool // framework calls that launched a collective
	external map[int64]bool        // their ids
}

// followHost finds dependencies between queues from the order of host calls: a
// collective's stream waits for the stream that is current at its launch, and a stream
// waits for a collective when the host makes it. It returns edges by op and the number of
// edges that times contradict.
func (r *rankOps) followHost(run *trace.Run) (edges []edge, refuted int) {
	h := &hostOrder{
		rankOps:  r,
		run:      run,
		issued:   again(&r.room.issued, len(r.Ops))[:0],
		last:     make([]int32, r.queues),
		ordered:  map[int32]int32{},
		waited:   make([]int, r.queues),
		threads:  map[trace.LaneID]*thread{},
		current:  -1,
		comms:    map[trace.SpanID]bool{},
		external: map[int64]bool{},
	}
	for q := range h.last {
		h.last[q], h.waited[q] = -1, -1
	}
	for _, is := range h.issues() {
		t := h.threads[is.thread]
		if t == nil {
			t = &thread{current: -1}
			h.threads[is.thread] = t
			h.started = append(h.started, t)
		}
		if is.op < 0 {
			t.pending = append(t.pending, wait{at: len(h.issued), comm: is.comm, op: -1})
			t.pending = t.pending[max(0, len(t.pending)-maxPending):]
		} else {
			h.launch(t, is.op)
		}
	}
	slices.SortStableFunc(h.edges, func(a, b edge) int { return cmp.Compare(a.op, b.op) })
	return h.edges, h.refuted
}

// issues lists launches and waits in host order. Graph launches of several ops give no
// order among them and are excluded.
func (h *hostOrder) issues() []issue {
	list := again(&h.room.issues, len(h.Ops)+len(h.waits))[:0]
	for i := range h.Ops {
		f := &h.Facts[i]
		if f.Launch == trace.None || f.shared {
			continue
		}
		list = append(list, issue{h.Ops[i].Issued, h.run.Spans[f.Launch].Lane, int32(i), false})
		if h.Ops[i].Kind == trace.Collective {
			if c := h.commCall(f.Launch); c != trace.None {
				h.comms[c] = true
			}
			if e := external(h.run, f.Launch); e != 0 {
				h.external[e] = true
			}
		}
	}
	known := map[trace.SpanID]bool{}
	for _, w := range h.events {
		known[w.Call] = true
	}
	for _, id := range h.waits {
		if known[id] {
			continue
		}
		c := h.commCall(id)
		if c != trace.None && h.comms[c] || h.external[external(h.run, id)] {
			continue // part of enqueueing a collective
		}
		s := h.run.Spans[id]
		list = append(list, issue{s.Start, s.Lane, -1, c != trace.None})
	}
	slices.SortStableFunc(list, func(a, b issue) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op, b.op))
	})
	return list
}

// commCall is the framework's call for a collective, or for waiting for one, around a host call; or None.
func (h *hostOrder) commCall(id trace.SpanID) trace.SpanID {
	for p := h.run.Spans[id].Parent; p != trace.None; p = h.run.Spans[p].Parent {
		if h.run.NameOf(h.run.Spans[p]) == "record_param_comms" {
			return p
		}
	}
	return trace.None
}

// external is the framework's id of a host call, 0 where unknown.
func external(run *trace.Run, id trace.SpanID) int64 {
	if a := run.Spans[id].Attr; a != trace.None {
		return run.Calls[a].External
	}
	return 0
}

// launch processes the launch of an op.
func (h *hostOrder) launch(t *thread, id int32) {
	op, queue := &h.Ops[id], h.Facts[id].Queue
	current := t.current
	if current < 0 {
		current = h.current
	}
	h.waitAll(t, id)
	for _, other := range h.started { // autograd's thread makes the stream wait; the program's thread launches on it next
		if other != t && other.current == queue && op.Kind == trace.Compute {
			h.waitAll(other, id)
			other.pending = other.pending[:0]
		}
	}
	if op.Kind == trace.Collective {
		if current >= 0 && h.last[current] >= 0 {
			h.depend(id, h.last[current], workload.EnqueuedAfter)
		}
		h.follow(id)
	} else if op.Kind == trace.Compute || queue == current {
		t.pending = t.pending[:0]
		t.current, h.current = queue, queue
	}
	h.issued = append(h.issued, id)
	h.last[queue] = id
}

// follow makes a collective wait for the one that its host launched before with the same communicator, whatever
// their streams (rule S24). Messages have a communicator for each pair of ranks.
func (h *hostOrder) follow(id int32) {
	c := h.run.Comm(h.run.Spans[h.Ops[id].Span])
	if c == nil || c.Group < 0 || c.Op == trace.SendRecv || trace.OfAnotherLibrary(h.run.NameOf(h.run.Spans[h.Ops[id].Span])) {
		return
	}
	if before, ok := h.ordered[c.Group]; ok {
		h.depend(id, before, workload.EnqueuedAfter)
	}
	h.ordered[c.Group] = id
}

// waitAll makes an op wait for what a thread's pending calls wait for.
func (h *hostOrder) waitAll(t *thread, id int32) {
	for i := range t.pending {
		p := &t.pending[i]
		if p.op < 0 {
			p.op = h.awaited(p, id)
		}
		if p.op >= 0 {
			h.depend(id, p.op, workload.HostWait)
		}
	}
}

// awaited is the op of another queue launched last before the wait, among those that had
// ended when the waiting op started and that were not yet waited for; or -1.
func (h *hostOrder) awaited(p *wait, waiting int32) int32 {
	for i := p.at - 1; i >= max(0, p.at-waitScan); i-- {
		id := h.issued[i]
		q := h.Facts[id].Queue
		switch {
		case q == h.Facts[waiting].Queue,
			p.comm && h.Ops[id].Kind != trace.Collective,
			i <= h.waited[q],
			!h.ended(id, waiting):
			continue
		}
		h.waited[q] = i
		return id
	}
	return -1
}

// ended reports whether a had ended when b started. Of two instants at the same time, the
// op with the lower id is first.
func (r *rankOps) ended(a, b int32) bool {
	return a < b && r.Ops[a].End <= r.Ops[b].Start
}

// statesFor reports whether the file states what an op waits for on a queue.
func (r *rankOps) statesFor(id, queue int32) bool {
	at, _ := slices.BinarySearchFunc(r.Stated, statedEdge{Op: id, On: -1}, compareStated)
	for _, s := range r.Stated[at:] {
		if s.Op != id {
			break
		}
		if r.Facts[s.On].Queue == queue {
			return true
		}
	}
	return false
}

// depend adds an edge unless stream order implies it, the file states another one between the two
// queues, or times contradict it.
func (h *hostOrder) depend(id, on int32, why workload.Reason) {
	switch {
	case h.Facts[id].Queue == h.Facts[on].Queue, h.statesFor(id, h.Facts[on].Queue):
	case !h.ended(on, id):
		h.refuted++
	default:
		h.edges = append(h.edges, edge{id, workload.Dep{Op: on, Why: why}})
	}
}
