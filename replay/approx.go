package replay

import "math"

// Approximate rates of large components
//
// An all-to-all on a large torus is one connected component of thousands of
// paths, and a completion changes the max-min fair rates of all of them a
// little. A component of more than exactPaths paths is not solved at every
// completion:
//
//  1. A solve gives all paths of the component exact max-min fair rates. It notes
//     which pools are full, and at which level.
//  2. A path whose demand changes later is stale until the next solve. It keeps
//     its rate, or as much of it as it still needs, and takes residual capacity
//     of its pools. All other paths keep their rates. So no pool carries more
//     than its capacity.
//  3. The component is solved again at the first of these deadlines:
//     - a pool that was full has left 1/staleShare of its capacity unused, over
//     the time in which it was part of a large component (noteUnused);
//     - a stale path below its estimated fair rate has lost 1/staleShare of the
//     time that its next completion takes at that rate (noteStarved);
//     - a path has been stale for 1/staleShare of the component's age.
//  4. Every solve measures by how much the rates were off (measure). The sum is
//     Result.Approximation.
//
// Components of up to exactPaths paths are solved at every change.

const (
	exactPaths = 4096
	staleShare = 256 // .4 %, so that times are within half a percent of those with exact rates
)

// approx is the state of all large components.
type approx struct {
	alarm      alarm // of the next solve
	exactPaths int
	paths      int         // of the last large component; 0: there is none
	most       int         // paths of the largest component so far
	since      Time        // there has been a large component
	stale      []int32     // paths whose demand has changed since the last solve
	staleSince Time        // the first of them is, or was before this solve
	due        bool        // all stale paths are to be solved now
	found      bool        // this solve has met a large component
	errors     []rateError // by path
}

// A rateError is how wrong the rate of a path was.
type rateError struct {
	since Time    // last solve of the path, or its begin
	sum   float64 // nanoseconds, each times the relative error of the rate in it
}

// keepsRate reports whether a changed path of a large component is not solved
// now. It then keeps its rate and takes residual capacity.
func (f *flows) keepsRate(id int32, now Time) bool {
	c := &f.approx
	if c.due {
		return false
	}
	p, r := &f.paths[id], &f.rises[id]
	total, fair := p.most, math.Inf(1)
	large := false
	pools, weights := f.crossed(r)
	for i, id := range pools {
		pool := &f.pools[id]
		left := pool.capacity - pool.quiet - pool.used
		if left < -1e-9*pool.capacity {
			return false // an arbiter gave some of it to the other side
		}
		if left < 1e-9*pool.capacity {
			left = 0 // a rounding error is no rate
		}
		total = min(total, r.out+left/weights[i])
		if pool.approx {
			large = true
			fair = min(fair, max(pool.level, (pool.capacity-pool.quiet)/pool.mass))
		}
	}
	if !large {
		return false
	}
	if r.out == 0 {
		f.errorOf(id).since = now
	}
	r.take(total, p.stairs.steps)
	f.setLevel(id, r.found, r.next, now)
	f.enterUse(r, now)
	for _, id := range pools {
		if pool := &f.pools[id]; pool.approx && pool.level > 0 {
			f.noteUnused(pool, now)
		}
	}
	if p.fair = fair; len(p.stairs.steps) == 0 {
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

// take divides what the path may send among all its steps.
func (r *rise) take(total float64, all []step) {
	r.next, r.rest, r.sends, r.found = 0, r.mass, 0, 0
	for ; r.next < len(all); r.next++ {
		s := &all[r.next]
		if s.level*r.rest > (total-r.sends)*(1+1e-12) {
			r.rest = max(r.rest, s.mass)
			r.found = (total - r.sends) / r.rest
			r.sends = total
			return
		}
		r.rest -= s.mass
		r.sends += s.flow
	}
}

// noteUnused accounts the unused capacity of a pool that was full at the last
// solve, and sets the deadline at which there is too much of it.
func (f *flows) noteUnused(p *pool, now Time) {
	p.idle += p.unused * float64(now-p.idleAt)
	p.unused, p.idleAt = 0, now
	if p.capacity > 0 { // an arbiter may have taken all
		p.unused = max(0, 1-(p.used+p.quiet)/p.capacity)
	}
	if excess := p.unused - 1.0/staleShare; excess > 0 {
		budget := float64(now-f.approx.since)/staleShare - p.idle
		f.solveBy(now, max(0, budget)/excess)
	}
}

// noteStarved sets the deadline for a stale path that is slower than its
// estimated fair rate.
func (f *flows) noteStarved(p *path, now Time) {
	if p.stale && len(p.line) > 0 && p.level < p.fair {
		f.solveBy(now, max(0, p.line[0].due-p.read(now))/(p.fair-p.level)/staleShare)
	}
}

// solveBy sees to it that the stale paths are solved within so many nanoseconds.
func (f *flows) solveBy(now Time, within float64) {
	c := &f.approx
	if due := now + 1 + Time(min(within, float64(lastTime))); c.alarm == none || due < c.alarm {
		f.events.set(&c.alarm, due, actor{dueRecompute, 0})
	}
}

// scheduleRecompute sets the deadline at which stale paths are too old.
func (f *flows) scheduleRecompute(now Time) {
	c := &f.approx
	switch {
	case len(c.stale) == 0:
	case c.paths == 0:
		f.recomputeAll()
	default:
		f.solveBy(now, float64(now-c.since)/staleShare)
	}
}

// recomputeAll notes all stale paths, to be solved.
func (f *flows) recomputeAll() {
	c := &f.approx
	c.due, c.alarm = true, none
	for _, id := range c.stale {
		f.paths[id].stale = false
		f.change(id)
	}
	c.stale = c.stale[:0]
}

// markComponent notes in its pools whether the component that has been found is a large one.
func (f *flows) markComponent(now Time) (large bool) {
	c := &f.approx
	large = len(f.comp) > c.exactPaths
	if large {
		if c.paths == 0 {
			c.since = now
		}
		c.most = max(c.most, len(f.comp))
		c.paths = len(f.comp)
		c.found = true
	}
	for _, id := range f.rows {
		p := &f.pools[id]
		if p.approx {
			p.idle += p.unused * float64(now-p.idleAt)
		} else {
			p.idle = float64(now-c.since) / staleShare // nothing is left of its budget
		}
		p.level, p.unused, p.idleAt = 0, 0, now
		p.approx, p.mass = large, f.basins[id].load
	}
	return large
}

// measure adds up by how much the rates of the component's paths were off since
// the first path became stale. Called before the new rates are set.
func (f *flows) measure(now Time) {
	for _, id := range f.comp {
		p, r, e := &f.paths[id], &f.rises[id], f.errorOf(id)
		was, is := p.level, r.found
		if was == 0 || is == 0 { // it holds none of its flows back
			was, is = r.out, r.sends
		}
		if begins := r.out == 0 && p.fair == 0; !begins && was != is {
			since := max(e.since, f.approx.staleSince)
			e.sum += float64(max(0, now-since)) * math.Abs(is-was) / max(is, was)
		}
		p.fair, e.since = 0, now
	}
}

// errorOf is that of a path.
func (f *flows) errorOf(id int32) *rateError {
	c := &f.approx
	if n := len(f.paths); len(c.errors) < n {
		c.errors = append(roomier(c.errors, n-len(c.errors)), make([]rateError, n-len(c.errors))...)
	}
	return &c.errors[id]
}

// approximation is what Result has of it.
func (f *flows) approximation(makespan Time) (a Approximation) {
	a.Paths = f.approx.most
	for i := range f.approx.errors {
		a.Error = max(a.Error, f.approx.errors[i].sum/float64(makespan))
	}
	return a
}

// endSolve ends a solve. When all stale paths have been solved and no large
// component was found, there is none any more.
func (f *flows) endSolve(now Time) {
	c := &f.approx
	if c.due && !c.found {
		c.paths = 0
	}
	if c.due, c.found = false, false; len(c.stale) == 0 {
		c.staleSince = lastTime
	}
}
