package fluid

import "math"

// Approximate rates of large components
//
// An all-to-all on a large torus is one connected component of thousands of paths,
// and a completion changes the max-min fair rates of all of them a little. A
// component of more than ExactPaths paths is not solved at every completion:
//
//  1. A solve gives all paths of the component exact max-min fair rates. It notes
//     which resources are full, and at which level.
//  2. (rule A1) A path whose demand changes later is stale until the next solve. It keeps its
//     rate, or as much of it as it still needs, and takes residual capacity of its
//     resources. All other paths keep their rates. So no resource carries more than
//     its capacity.
//  3. The component is solved again at the first of these deadlines:
//     - a resource that was full has left 1/staleShare of its capacity unused, over
//     the time in which it was part of a large component (noteUnused);
//     - a stale path below its estimated fair rate has lost 1/staleShare of the time
//     that its next completion takes at that rate (noteStarved);
//     - a path has been stale for 1/staleShare of the component's age (rule A1).
//  4. Every solve measures by how much the rates were off (measure). The sum is the
//     Error of Approximation (rule A1).
//
// Components of up to ExactPaths paths are solved at every change (rule A1).

const staleShare = 256 // 0.4 %, so that times are within 0.3 % of those with exact rates: TestApproxIsNearlyExact

// approx is the state of all large components.
type approx struct {
	alarm      int64       // time of the next solve
	paths      int         // of the last large component; 0: there is none
	most       int         // paths of the largest component so far
	component  []int32     // paths of the last large component; none if others have been solved since
	members    []int32     // its resources
	searched   int         // its paths when it was last searched for
	since      int64       // time from which there has been a large component
	stale      []int32     // paths whose demand has changed since the last solve
	staleSince int64       // time at which the first path became stale, now or before this solve
	due        bool        // all stale paths must be solved now
	found      bool        // this solve has found a large component
	errors     []rateError // by path
}

// large is the state of a resource of a large component.
type large struct {
	is     bool
	level  float64 // at which it was full in the last solve; 0 if it was not
	unused float64 // unused share of its capacity, since idleAt
	idle   float64 // integral of unused over time until idleAt
	idleAt int64
}

// A rateError is the accumulated error of the rate of a path.
type rateError struct {
	since int64   // time of the last solve of the path, or of its start
	sum   float64 // integral of the relative error over time
}

// An Approximation is the exactness of rates. Components of up to ExactPaths paths, connected by contended resources, have
// max-min fair rates at every instant. Larger ones have them at some instants and feasible rates in between.
type Approximation struct {
	Paths int `json:"paths"` // size of the largest component with approximate rates; 0: none
	// Error bounds the time by which flows of any path ran early or late, as a share of the whole time: the relative
	// difference between rates before and after each solve, times the time since the first change before it, summed over
	// all solves. First order: consequences of an early or late end are not followed.
	Error float64 `json:"error"`
}

// Approximation returns the approximation from time 0 to end.
func (s *System) Approximation(end int64) (a Approximation) {
	a.Paths = s.approx.most
	for i := range s.approx.errors {
		a.Error = max(a.Error, s.approx.errors[i].sum/float64(end))
	}
	return a
}

// keepsRate reports whether a changed path of a large component is not solved now. It
// then keeps its rate and takes residual capacity.
func (s *System) keepsRate(id int32, now int64) bool {
	c := &s.approx
	if c.due {
		return false
	}
	p, st := &s.paths[id], &s.states[id]
	total, fair := p.demand, math.Inf(1)
	inLarge := false
	resources, costs := s.crossed(st)
	for i, at := range resources {
		r := &s.resources[at]
		left := r.capacity - r.uncontended - r.used
		if left < -1e-9*r.capacity {
			return false // its capacity has decreased
		}
		if left < 1e-9*r.capacity {
			left = 0 // only a rounding error is left
		}
		total = min(total, st.out+left/costs[i])
		if r.large.is {
			inLarge = true
			fair = min(fair, max(r.large.level, (r.capacity-r.uncontended)/r.weight))
		}
	}
	if !inLarge {
		return false
	}
	if st.out == 0 {
		s.errorOf(id).since = now
	}
	st.divide(total, p.table.rows)
	s.setLevel(id, st.level, st.next, now)
	s.enterUse(st, now)
	for _, at := range resources {
		if r := &s.resources[at]; r.large.is && r.large.level > 0 {
			s.noteUnused(r, now)
		}
	}
	if p.fair = fair; len(p.table.rows) == 0 {
		p.fair = 0
	}
	if !p.stale {
		if len(c.stale) == 0 {
			c.staleSince = now
		}
		p.stale = true
		c.stale = append(c.stale, id)
	}
	return true
}

// divide distributes the path's rate over all its rows.
func (st *state) divide(total float64, rows []row) {
	st.next, st.rest, st.sends, st.level = 0, st.weight, 0, 0
	for ; st.next < len(rows); st.next++ {
		x := &rows[st.next]
		if x.level*st.rest > (total-st.sends)*(1+1e-12) {
			st.rest = max(st.rest, x.weight)
			st.level = (total - st.sends) / st.rest
			st.sends = total
			return
		}
		st.rest -= x.weight
		st.sends += x.rate
	}
}

// noteUnused accounts the unused capacity of a resource that was full at the last
// solve, and sets the deadline at which it exceeds its budget.
func (s *System) noteUnused(r *resource, now int64) {
	l := &r.large
	l.idle += l.unused * float64(now-l.idleAt)
	l.unused, l.idleAt = 0, now
	if r.capacity > 0 { // the owner may have set it to 0
		l.unused = max(0, 1-(r.used+r.uncontended)/r.capacity)
	}
	if excess := l.unused - 1.0/staleShare; excess > 0 {
		budget := float64(now-s.approx.since)/staleShare - l.idle
		s.solveBy(now, max(0, budget)/excess)
	}
}

// noteStarved sets the deadline for a stale path that is slower than its estimated
// fair rate.
func (s *System) noteStarved(p *path, now int64) {
	if p.stale && len(p.queue) > 0 && p.level < p.fair {
		s.solveBy(now, max(0, p.queue[0].due-p.read(now))/(p.fair-p.level)/staleShare)
	}
}

// solveBy sets a deadline for the next solve of the stale paths.
func (s *System) solveBy(now int64, within float64) {
	c := &s.approx
	if due := now + 1 + int64(min(within, float64(last))); c.alarm == none || due < c.alarm {
		s.schedule(&c.alarm, due, recompute)
	}
}

// scheduleRecompute sets the deadline at which stale paths are too old.
func (s *System) scheduleRecompute(now int64) {
	c := &s.approx
	switch {
	case len(c.stale) == 0:
	case c.paths == 0:
		c.due = true
	default:
		s.solveBy(now, float64(now-c.since)/staleShare)
	}
}

// recomputeAll solves all stale paths. The component is that of the last solve, without
// the paths that have ended and with those that have begun, which are stale. It is
// searched for again only when it has lost half of its paths, because it may have fallen
// apart.
func (s *System) recomputeAll(now int64) {
	c := &s.approx
	c.alarm = none
	n := 0
	for _, id := range c.component {
		if s.isUnsolved(id) {
			n++
		}
	}
	if n > s.ExactPaths && 2*n > c.searched {
		s.solveKnown(now)
	}
	for _, id := range c.stale {
		s.paths[id].stale = false
		if s.visits[id] < s.search {
			s.solveFrom(id, now)
		}
	}
	c.stale = c.stale[:0]
}

// solveKnown solves the last large component and the stale paths. A path whose classes have
// changed since is stale, or has been solved on its own; that component is then forgotten
// if it shares a resource with others (markComponent, visit).
func (s *System) solveKnown(now int64) {
	c := &s.approx
	s.begin(true)
	for _, id := range c.members {
		s.reset(id, &s.resources[id])
		s.addMember(id)
	}
	for _, id := range c.stale {
		switch visit := &s.visits[id]; {
		case *visit >= s.search: // solved alongside a changed path
			continue
		case *visit != none:
			*visit = s.search
		}
		s.component = append(s.component, id)
	}
	stale := len(s.component)
	for _, id := range c.component {
		if s.isUnsolved(id) {
			s.visits[id] = s.search
			s.component = append(s.component, id)
			s.open += int(s.unsettle(id, &s.states[id]))
		}
	}
	known := len(s.component)
	for _, id := range s.component[:stale] {
		s.enter(id)
	}
	s.solveComponent(known, now)
}

// isUnsolved reports whether the path has classes and this solve has not solved it.
func (s *System) isUnsolved(id int32) bool { return s.visits[id] != none && s.visits[id] < s.search }

// markComponent records in the resources of the current component whether it is large.
func (s *System) markComponent(now int64) (isLarge bool) {
	c := &s.approx
	isLarge = len(s.component) > s.ExactPaths
	if isLarge {
		if c.paths == 0 {
			c.since = now
		}
		if !s.known {
			c.searched = len(s.component)
			c.most = max(c.most, c.searched)
		}
		c.paths = len(s.component)
		c.component = append(c.component[:0], s.component...)
		c.members = append(c.members[:0], s.members...)
		c.found = true
	} else if len(s.members) > 0 {
		c.component = c.component[:0]
	}
	for _, id := range s.members {
		r := &s.resources[id]
		l := &r.large
		if l.is {
			l.idle += l.unused * float64(now-l.idleAt)
		} else {
			l.idle = float64(now-c.since) / staleShare // its budget is used up
		}
		l.level, l.unused, l.idleAt = 0, 0, now
		l.is, r.weight = isLarge, s.residuals[id].weight
	}
	return isLarge
}

// measure accumulates the rate errors of the component's paths since the first path
// became stale. It is called before the new rates are set.
func (s *System) measure(now int64) {
	for _, id := range s.component {
		p, st, e := &s.paths[id], &s.states[id], s.errorOf(id)
		was, is := p.level, st.level
		if was == 0 || is == 0 { // the path holds no flow back
			was, is = st.out, st.sends
		}
		if begins := st.out == 0 && p.fair == 0; !begins && was != is {
			since := max(e.since, s.approx.staleSince)
			e.sum += float64(max(0, now-since)) * math.Abs(is-was) / max(is, was)
		}
		p.fair, e.since = 0, now
	}
}

// errorOf returns the accumulated rate error of a path.
func (s *System) errorOf(id int32) *rateError {
	c := &s.approx
	if n := len(s.paths); len(c.errors) < n {
		c.errors = append(Reserve(c.errors, n-len(c.errors)), make([]rateError, n-len(c.errors))...)
	}
	return &c.errors[id]
}

// endSolve ends a solve. When all stale paths have been solved and no large component
// was found, no large component is left.
func (s *System) endSolve() {
	c := &s.approx
	if c.due && !c.found {
		c.paths, c.component = 0, c.component[:0]
	}
	if c.due, c.found = false, false; len(c.stale) == 0 {
		c.staleSince = last
	}
}
