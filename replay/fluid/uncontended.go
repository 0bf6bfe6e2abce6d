package fluid

// Uncontended flows
//
// A flow that no resource holds back takes exactly as long as when it runs alone. It
// needs no class, only a timer of its owner. This holds as long as the capacity of every
// resource on its path is at least the maximum rate of all flows:
//
//	resource  |#### classes, at most ####|== uncontended ==|......|
//	          0                                               capacity
//
// When the demand on a resource exceeds its capacity, the uncontended flows through it
// join classes. A flow does so at most once, so a resource near its capacity costs little.
//
// Without it BenchmarkEmbedding/gpus=32/even=false of package replay takes 7 times as long.

// Admit adds an uncontended flow of the given rate to the path's resources, if none
// of them is oversubscribed.
func (s *System) Admit(id int32, rate float64, now int64) bool {
	resources, costs := s.crossed(&s.states[id])
	for _, at := range resources {
		if s.resources[at].isOversubscribed() {
			return false
		}
	}
	for i, at := range resources {
		r := &s.resources[at]
		r.uncontendedN++
		r.uncontended += costs[i] * rate
		s.alterUncontended(at, r, now)
		s.watch(at)
	}
	if p := &s.paths[id]; !p.uncontended { // first uncontended flow of the path
		p.uncontended = true
		for _, at := range resources {
			r := &s.resources[at]
			r.ways = append(r.ways, id)
		}
	}
	return true
}

// Dismiss removes a flow that was admitted at since.
func (s *System) Dismiss(id int32, rate float64, since, now int64) {
	resources, costs := s.crossed(&s.states[id])
	for i, at := range resources {
		r := &s.resources[at]
		by := costs[i] * rate
		r.moved += by * float64(now-since)
		if s.Meter != nil && now > since {
			s.Meter(at, by*float64(now-since), false, since, now)
		}
		r.uncontended -= by
		if r.uncontendedN--; r.uncontendedN == 0 {
			r.uncontended = 0 // exactly
		}
		s.alterUncontended(at, r, now)
	}
}

// alterUncontended updates a resource after uncontended flows have begun or ended. The
// amount that they moved is added when they end, so the resource is accounted only if
// it becomes full or stops being full.
func (s *System) alterUncontended(id int32, r *resource, now int64) {
	if full := r.isFull(); full != r.full {
		s.account(id, r, now)
		r.full = full
	}
	if r.observed {
		s.NoteDemand(id)
	}
}

// watch marks a resource with uncontended flows for a check when all demand is known.
func (s *System) watch(id int32) {
	if r := &s.resources[id]; !r.listed && r.isOversubscribed() {
		r.listed = true
		s.contended = append(s.contended, id)
	}
}

// resolveContention moves the uncontended flows through oversubscribed resources to
// classes. In a class the narrowest resource bounds the demand of a flow, so a move can
// lower demand on other resources. Demand is final when no marked resource is left.
func (s *System) resolveContention(now int64) {
	for s.tallyAll(now); len(s.contended) > 0; s.tallyAll(now) {
		last := len(s.contended) - 1
		id := s.contended[last]
		s.contended = s.contended[:last]
		r := &s.resources[id]
		r.listed = false
		if !r.isOversubscribed() {
			continue
		}
		for _, path := range r.ways {
			s.owner.Contended(path)
		}
	}
}
