package fluid

import "math"

// Water-filling. Only components that may have changed are solved. Paths influence
// each other only through oversubscribed resources:
//
//	path A ── resource 1 (oversubscribed) ── path B ── resource 2 ── path C
//
// A change of A affects B but not C. The cost of a solve is proportional to the paths of
// the component plus their classes at their limit. Classes held back cost nothing.

// solve finds the levels of the paths whose rates may have changed.
func (s *System) solve(now int64) {
	s.tallyAll(now)
	for i := 0; i < len(s.changed); i++ {
		id := s.changed[i]
		s.paths[id].changed = false
		if s.visits[id] < s.search && !s.keepsRate(id, now) {
			s.solveFrom(id, now)
		}
		if i == len(s.changed)-1 {
			s.scheduleRecompute(now)
		}
	}
	s.changed = s.changed[:0]
	if s.approx.due {
		s.recomputeAll(now)
	}
	s.endSolve()
	s.search += 2
}

// tallyAll updates the demand of altered classes on their resources.
func (s *System) tallyAll(now int64) {
	for _, id := range s.altered {
		c := &s.classes[id]
		c.altered = false
		if c.n != c.talliedN || c.limit != c.tallied {
			s.tally(id, c, now)
		}
	}
	s.altered = s.altered[:0]
	for _, id := range s.dirty {
		s.paths[id].dirty = false
		s.change(id)
		s.enterDemand(id)
	}
	s.dirty = s.dirty[:0]
	if len(s.demanded) == 0 {
		return
	}
	for _, id := range s.demanded {
		s.resources[id].noted = false
	}
	s.owner.Demanded(s.demanded)
	s.demanded = s.demanded[:0]
}

// change marks a path to be solved.
func (s *System) change(id int32) {
	if p := &s.paths[id]; !p.changed {
		p.changed = true
		s.changed = append(s.changed, id)
	}
}

// enterDemand updates in a path's resources whether the path has classes and their
// maximum rate.
func (s *System) enterDemand(id int32) {
	p, st := &s.paths[id], &s.states[id]
	crosses := int32(0)
	if len(p.table.rows) > 0 {
		if s.visits[id] == none {
			s.visits[id], crosses = 0, 1
			s.list(id, st)
		}
	} else if s.visits[id] != none {
		s.visits[id], crosses = none, -1
	}
	var rate float64
	weight := -st.weight
	rate, st.weight = p.table.sum()
	weight += st.weight
	st.saturates = len(p.table.rows) > 0 && p.table.rows[0].level <= p.bound/st.weight*(1+1e-9)
	if narrowed := rate > p.bound; p.narrowest != none && narrowed != p.narrowed {
		p.narrowed = narrowed
		if narrowed {
			s.resources[p.narrowest].narrowed++
		} else {
			s.resources[p.narrowest].narrowed--
		}
	}
	demand := min(rate, p.bound)
	by := demand - p.demand
	p.demand = demand
	resources, costs := s.crossed(st)
	for i, at := range resources {
		r := &s.resources[at]
		r.demand += costs[i] * by
		r.weight += costs[i] * weight
		if r.crosses += crosses; r.crosses == 0 {
			r.demand, r.weight = 0, 0
		}
		s.alterResource(r)
		if r.observed {
			s.NoteDemand(at)
		}
		if r.uncontendedN > 0 {
			s.watch(at)
		}
	}
}

// list adds a path with classes to its resources' paths. A path that loses its classes
// is removed later, by purge, because it may get classes again.
func (s *System) list(id int32, st *state) {
	for at := st.from; at < st.to; at++ {
		if !s.listed[at] {
			s.listed[at] = true
			r := &s.resources[s.ways[at]]
			r.paths = append(r.paths, crosser{id, at})
		}
	}
}

// solveFrom solves the component of the path.
func (s *System) solveFrom(id int32, now int64) {
	s.begin(false)
	if s.visits[id] != none {
		s.visits[id] = s.search
	}
	s.component = append(s.component, id)
	s.solveComponent(0, now)
}

// begin begins a component.
func (s *System) begin(known bool) {
	s.component, s.members, s.open, s.known = s.component[:0], s.members[:0], 0, known
	s.nextLimits.reset()
}

// solveComponent adds the rest of the component, beginning at the resources of its paths
// from one on, and solves it.
func (s *System) solveComponent(from int, now int64) {
	for ; from < len(s.component); from++ {
		s.enter(s.component[from])
	}
	large := s.markComponent(now)
	s.fill()
	if large {
		s.measure(now)
	}
	for _, id := range s.members {
		r := &s.resources[id]
		s.use(id, r, r.capacity-r.uncontended-s.residuals[id].capacity, now)
		if large && r.large.level == 0 && r.full { // another resource was full at the same level
			r.large.level = (r.capacity - r.uncontended) / r.weight
		}
	}
	for _, id := range s.component {
		st := &s.states[id]
		s.setLevel(id, st.level, st.next, now)
		if st.unsolved {
			s.enterUse(st, now)
		}
		st.out = st.sends
	}
}

// enter adds a path to the component: it visits the path's resources and adds its
// weight to them.
func (s *System) enter(id int32) {
	st := &s.states[id]
	open := s.unsettle(id, st)
	s.open += int(open)
	resources, costs := s.crossed(st)
	residuals, search, weight, unsolved := s.residuals, s.search, st.weight, false
	if s.known { // residuals begin with all paths
		open, weight = 0, 0
	}
	for i, at := range resources {
		b := &residuals[at]
		if b.visited != search {
			s.visit(at)
		}
		b.weight += costs[i] * weight
		b.open += open
		unsolved = unsolved || !b.solved
	}
	st.unsolved = unsolved
}

// unsettle makes all rows of a path unsettled and returns the number of its open paths: 1,
// or 0 if it has no rows.
func (s *System) unsettle(id int32, st *state) (open int32) {
	st.next, st.rest, st.sends, st.level = 0, st.weight, 0, 0
	if st.saturates {
		s.nextLimits.push(entry{key: s.paths[id].table.rows[0].level, seq: uint64(id), id: int64(id)})
	}
	if s.visits[id] == none {
		return 0
	}
	return 1
}

// visit adds a resource to the component, with its paths if it is oversubscribed.
func (s *System) visit(id int32) {
	r := &s.resources[id]
	if !s.reset(id, r) {
		if r.large.is {
			r.large.is = false
			s.approx.component = s.approx.component[:0]
		}
		return
	}
	s.addMember(id)
	if len(r.paths) > int(r.crosses) {
		s.purge(r)
	}
	for _, x := range r.paths {
		if visit := &s.visits[x.path]; *visit < s.search {
			*visit = s.search
			s.component = append(s.component, x.path)
		}
	}
}

// reset begins the residual of a resource and reports whether the resource connects its paths.
func (s *System) reset(id int32, r *resource) (connects bool) {
	connects = r.oversubscribed
	if r.changed {
		r.changed, r.oversubscribed = false, r.isOversubscribed()
		connects = connects || r.oversubscribed // a resource that was oversubscribed until now releases its flows
	}
	b := &s.residuals[id]
	*b = residual{capacity: r.capacity - r.uncontended, visited: s.search}
	if s.known {
		b.weight, b.open = r.weight, r.crosses
	}
	return connects
}

func (s *System) addMember(id int32) {
	s.residuals[id].solved = true
	s.members = append(s.members, id)
}

// purge removes the paths without classes from a resource's paths.
func (s *System) purge(r *resource) {
	n := 0
	for _, x := range r.paths {
		if s.visits[x.path] == none {
			s.listed[x.at] = false
			continue
		}
		r.paths[n] = x
		n++
	}
	r.paths = r.paths[:n]
}

// enterUse updates the path's rate in its resources, except those just solved.
func (s *System) enterUse(st *state, now int64) {
	if st.sends == st.out {
		return
	}
	resources, costs := s.crossed(st)
	for i, at := range resources {
		if b := &s.residuals[at]; b.solved && b.visited == s.search {
			continue
		}
		r := &s.resources[at]
		s.use(at, r, r.used+costs[i]*(st.sends-st.out), now)
	}
	st.out = st.sends
}

// fill computes the level and the first row held back of each path of the component.
func (s *System) fill() {
	s.nextFull.reset()
	for _, id := range s.members {
		if b := &s.residuals[id]; b.open > 0 {
			s.nextFull.push(entry{key: b.capacity / b.weight, seq: uint64(id), id: int64(id)})
		}
	}
	for level := 0.0; s.open > 0; {
		full := s.full(level)
		if math.IsInf(full, 1) { // no resource limits the remaining rows
			s.saturateAll()
			return
		}
		reached := false
		for !s.nextLimits.empty() && s.nextLimits.min().key <= full {
			e := s.nextLimits.pop()
			id := int32(e.id)
			if s.visits[id] != s.search {
				continue // settled
			}
			reached = true
			level = max(level, e.key)
			s.saturate(id, full)
			if s.visits[id] == s.search {
				e.key = s.paths[id].table.rows[s.states[id].next].level
				s.nextLimits.push(e)
			}
		}
		if reached {
			continue // the settled rows left capacity to the others
		}
		level = full
		r := &s.resources[s.nextFull.pop().id]
		r.large.level = full
		if len(r.paths) > 2*int(r.crosses) {
			s.purge(r)
		}
		for _, x := range r.paths {
			if s.visits[x.path] == s.search {
				s.stop(x.path, full)
			}
		}
	}
}

// full is the level at which the next resource is full, at least the level already
// reached. That resource is then the first of nextFull. Settling a row only raises the
// level at which a resource is full, so keys in nextFull are lower bounds and are
// recomputed when they become the least.
func (s *System) full(reached float64) float64 {
	for !s.nextFull.empty() {
		e := *s.nextFull.min()
		b := &s.residuals[e.id]
		full := max(b.capacity/b.weight, reached)
		if b.open > 0 && b.weight > 0 && full <= e.key*(1+1e-12) {
			return max(e.key, reached)
		}
		s.nextFull.pop()
		if b.open > 0 && b.weight > 0 {
			e.key = full
			s.nextFull.push(e)
		}
	}
	return math.Inf(1)
}

// saturate settles the path's next rows, up to a level, at their limit.
func (s *System) saturate(id int32, level float64) {
	st, t := &s.states[id], &s.paths[id].table
	rate, weight, next := t.saturate(st.next, level)
	st.next = next
	st.rest -= weight
	st.sends += rate
	settled := int32(0)
	if next == len(t.rows) {
		settled = 1
		s.visits[id]++
		s.open--
	}
	s.settle(st, rate, weight, settled)
}

// saturateAll settles all remaining rows at their limit.
func (s *System) saturateAll() {
	for _, id := range s.component {
		if s.visits[id] == s.search {
			s.saturate(id, math.Inf(1))
		}
	}
}

// stop settles the remaining rows of the path at a level.
func (s *System) stop(id int32, level float64) {
	st := &s.states[id]
	s.visits[id]++
	s.open--
	st.level = level
	if st.next != 0 { // rounding residue of a sum
		st.rest = max(st.rest, s.paths[id].table.rows[st.next].weight)
	}
	st.sends += st.rest * level
	s.settle(st, st.rest*level, st.rest, 1)
}

// settle removes the settled classes of a path from its resources, and the path if it
// has no other classes.
func (s *System) settle(st *state, rate, weight float64, paths int32) {
	residuals := s.residuals
	resources, costs := s.crossed(st)
	for i, at := range resources {
		b := &residuals[at]
		b.capacity -= costs[i] * rate
		b.weight -= costs[i] * weight
		b.open -= paths
	}
}
