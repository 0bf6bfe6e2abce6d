package fluid

import "math"

// A resource is shared by the paths that cross it.
type resource struct {
	capacity     float64 // units of the resource a unit of time
	headroom     float64 // that uncontended flows may have
	uncontended  float64 // that they have
	used         float64 // by flows in classes, since `since`
	since        int64
	moved        float64 // by flows in classes until since, and by uncontended ones that have ended
	uncontendedN int32   // flows
	observed     bool    // calls Owner.Demanded when its demand changes; the owner sets its capacity
	noted        bool    // is in System.demanded
	listed       bool    // is in System.contended
	full         bool    // used and uncontended are capacity, since `since`

	oversubscribed bool      // demand exceeds capacity, so it may hold its classes back
	changed        bool      // oversubscribed may have, since
	weight         float64   // costs times weights of all classes that cross it
	demand         float64   // most that its classes could take
	narrowed       int32     // paths of which it is the narrowest and that could send more
	crosses        int32     // paths with classes that cross it
	paths          []crosser // those, and some that have no classes any more
	ways           []int32   // paths that cross it and have had uncontended flows
	saturated      int64     // time until since in which it was full
	large          large
}

// A crosser is a path of a resource, and the place of the crossing in System.crossings.
type crosser struct{ path, at int32 }

// A residual is the state of a resource during a solve.
type residual struct {
	capacity float64 // that nothing settled takes
	weight   float64 // costs times weights of everything unsettled
	open     int32   // unsettled paths
	solved   bool    // it is oversubscribed, so that it connects its paths and is solved
	visited  int     // the last search that visited it
}

// NewResource adds a resource. If it is observed, the owner is told when its demand
// changes, so that it can set the capacity.
func (s *System) NewResource(capacity float64, observed bool) int32 {
	r := resource{capacity: capacity, observed: observed}
	r.updateHeadroom()
	s.resources, s.residuals = append(s.resources, r), append(s.residuals, residual{})
	return int32(len(s.resources) - 1)
}

// Demand is the most that all flows through a resource could take, with the
// narrowest resource of their path as a bound.
func (s *System) Demand(id int32) float64 {
	return s.resources[id].demand + s.resources[id].uncontended
}

// Used is how much of a resource was taken until now, and for how long it was full.
func (s *System) Used(id int32, now int64) (moved float64, full int64) {
	r := &s.resources[id]
	s.account(id, r, now)
	return r.moved, r.saturated
}

// SetCapacity changes what an observed resource can carry from now on. The capacity
// of others bounds the demand of paths, and is fixed.
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

// account brings moved and saturated up to now.
func (s *System) account(id int32, r *resource, now int64) {
	dt := now - r.since
	if dt == 0 {
		return
	}
	r.moved += r.used * float64(dt)
	if r.full {
		r.saturated += dt
		s.owner.Full(id, r.since, now)
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

// isFull reports whether as much flows through as can.
func (r *resource) isFull() bool { return r.used+r.uncontended >= r.capacity*(1-1e-6) }

// isOversubscribed reports whether more could flow through than it can carry.
func (r *resource) isOversubscribed() bool { return r.uncontended > r.headroom }

// updateHeadroom finds what is left for uncontended flows. The demand of a path that
// another resource narrows more is bounded by that one.
func (r *resource) updateHeadroom() {
	if r.headroom = r.capacity*(1+1e-9) - r.demand; r.narrowed > 0 {
		r.headroom = math.Inf(-1)
	}
}

// alterResource notes that a resource has another demand or capacity.
func (s *System) alterResource(r *resource) {
	r.updateHeadroom()
	r.changed = true
}
