package fluid

import (
	"math"
)

// A resource is shared by the paths that cross it.
type resource struct {
	capacity     float64 // units of the resource per unit of time
	headroom     float64 // maximum rate of uncontended flows
	uncontended  float64 // rate of uncontended flows
	used         float64 // rate of flows in classes, since `since`
	since        int64
	moved        float64 // amount moved by flows in classes until since, and by ended uncontended flows
	uncontendedN int32   // number of uncontended flows
	observed     bool    // calls Owner.Demanded when its demand changes; the owner sets its capacity
	noted        bool    // is in System.demanded
	listed       bool    // is in System.contended
	full         bool    // used plus uncontended equal capacity, since `since`

	oversubscribed bool      // demand exceeds capacity, so it may hold its classes back
	changed        bool      // oversubscribed may have changed
	weight         float64   // sum of cost times weight over all classes that cross it
	demand         float64   // maximum rate of its classes
	narrowed       int32     // number of paths whose demand it limits
	crosses        int32     // number of paths with classes that cross it
	paths          []crosser // paths with classes, and some that no longer have classes
	ways           []int32   // paths that cross it and have had uncontended flows
	large          large
}

// A crosser is a path of a resource and the index of their crossing.
type crosser struct{ path, at int32 }

// A residual is the state of a resource during a solve.
type residual struct {
	capacity float64 // residual capacity, not used by settled rows
	weight   float64 // sum of cost times weight over unsettled rows
	open     int32   // unsettled paths
	solved   bool    // it is oversubscribed, so it connects its paths and is solved
	visited  int     // the last search that visited it
}

// NewResource adds a resource. If it is observed, Owner.Demanded is called when its
// demand changes, and the owner can set the capacity.
func (s *System) NewResource(capacity float64, observed bool) int32 {
	r := resource{capacity: capacity, observed: observed}
	r.updateHeadroom()
	s.resources, s.residuals = append(s.resources, r), append(s.residuals, residual{})
	return int32(len(s.resources) - 1)
}

// Demand is the maximum total rate of the flows through a resource, each bounded by the
// narrowest resource of its path.
func (s *System) Demand(id int32) float64 {
	return s.resources[id].demand + s.resources[id].uncontended
}

// Used is the amount that a resource moved until now, all of it metered.
func (s *System) Used(id int32, now int64) (moved float64) {
	r := &s.resources[id]
	s.account(id, r, now)
	return r.moved
}

// SetCapacity changes the capacity of an observed resource from now on. The capacity of
// other resources bounds the demand of paths and is fixed.
func (s *System) SetCapacity(id int32, capacity float64, now int64) {
	r := &s.resources[id]
	if r.capacity == capacity {
		return
	}
	s.account(id, r, now)
	r.capacity = capacity
	r.full = r.isFull()
	s.alterResource(r)
	if r.uncontendedN > 0 {
		s.watch(id)
	}
	for _, x := range r.paths {
		if s.visits[x.path] != none {
			s.change(x.path)
		}
	}
}

// NoteDemand asks for Demanded to be called with the resource.
func (s *System) NoteDemand(id int32) {
	if r := &s.resources[id]; !r.noted {
		r.noted = true
		s.demanded = append(s.demanded, id)
	}
}

// account updates moved to now, and meters the use until now.
func (s *System) account(id int32, r *resource, now int64) {
	r.moved += r.used * float64(now-r.since)
	if s.Meter != nil && now > r.since && (r.used > 0 || r.full) {
		s.Meter(id, r.used*float64(now-r.since), r.full, r.since, now)
	}
	r.since = now
}

// use updates the use of resources by flows in classes.
func (s *System) use(id int32, r *resource, rate float64, now int64) {
	s.account(id, r, now)
	if r.used = rate; r.crosses == 0 {
		r.used = 0 // exactly
	}
	r.full = r.isFull()
}

// isFull reports whether the resource carries its capacity.
func (r *resource) isFull() bool { return r.used+r.uncontended >= r.capacity*(1-1e-6) }

// isOversubscribed reports whether demand exceeds capacity.
func (r *resource) isOversubscribed() bool { return r.uncontended > r.headroom }

// updateHeadroom computes the rate left for uncontended flows. The demand of a path is
// bounded by its narrowest resource, which may be a different one.
func (r *resource) updateHeadroom() {
	if r.headroom = r.capacity*(1+1e-9) - r.demand; r.narrowed > 0 {
		r.headroom = math.Inf(-1)
	}
}

// alterResource records that the demand or capacity of a resource has changed.
func (s *System) alterResource(r *resource) {
	r.updateHeadroom()
	r.changed = true
}

// A priorityQueue returns entries by ascending key, equal keys by seq: a binary heap.
type priorityQueue struct{ heap []entry }

type entry struct {
	key float64
	seq uint64
	id  int64
}

func (e *entry) less(f *entry) bool {
	return e.key < f.key || e.key == f.key && e.seq < f.seq
}

func (q *priorityQueue) empty() bool { return len(q.heap) == 0 }

// reset removes all entries.
func (q *priorityQueue) reset() { q.heap = q.heap[:0] }

// min is the least entry, valid until the next change. The queue must not be empty.
func (q *priorityQueue) min() *entry { return &q.heap[0] }

func (q *priorityQueue) push(e entry) {
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for parent := (i - 1) / 2; i > 0 && e.less(&h[parent]); parent = (i - 1) / 2 {
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop removes the least entry.
func (q *priorityQueue) pop() entry {
	top, last := q.heap[0], len(q.heap)-1
	e, h := q.heap[last], q.heap[:last]
	q.heap = h
	if last == 0 {
		return top
	}
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && h[child+1].less(&h[child]) {
			child++
		}
		if !h[child].less(&e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
	return top
}
