package fluid

// Uncontended flows
//
// A flow that nothing holds back takes exactly its time alone. It needs no class, only
// a timer of its owner. That holds as long as every resource of its path could carry
// all that may flow:
//
//	resource  |#### classes, at most ####|== uncontended ==|......|
//	          0                                               capacity
//
// When a resource cannot any more, the uncontended flows through it join classes. A
// flow does so once, so that a resource near its capacity costs little.
//
// Without it BenchmarkEmbedding/gpus=32/even=false of package replay takes 7 times as long.

// Admit adds an uncontended flow of the given rate to the path's resources, if none
// of them holds flows back.
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
	if p := &s.paths[id]; !p.uncontended { // the first ever
		p.uncontended = true
		for _, at := range resources {
			r := &s.resources[at]
			r.ways = append(r.ways, id)
		}
	}
	return true
}

// Dismiss takes a flow away that was admitted at since.
func (s *System) Dismiss(id int32, rate float64, since, now int64) {
	resources, costs := s.crossed(&s.states[id])
	for i, at := range resources {
		r := &s.resources[at]
		by := costs[i] * rate
		r.moved += by * float64(now-since)
		r.uncontended -= by
		if r.uncontendedN--; r.uncontendedN == 0 {
			r.uncontended = 0 // exactly
		}
		s.alterUncontended(at, r, now)
	}
}

// alterUncontended notes that uncontended flows have begun or ended. What they take
// is counted when they end, so that only what begins or ends to fill the resource
// costs more.
func (s *System) alterUncontended(id int32, r *resource, now int64) {
	if full := r.isFull(); full != r.full {
		s.account(id, r, now)
		r.full = full
	}
	if r.observed {
		s.NoteDemand(id)
	}
}

// watch notes a resource that has uncontended flows, to look at it when all demand is known.
func (s *System) watch(id int32) {
	if r := &s.resources[id]; !r.listed && r.isOversubscribed() {
		r.listed = true
		s.contended = append(s.contended, id)
	}
}

// resolveContention moves the uncontended flows through resources that have become
// oversubscribed to classes. What a flow may send at most is less in a class, where
// the narrowest resource bounds it, so that demand is known when no resource is noted
// any more.
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
