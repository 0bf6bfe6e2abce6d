package replay

// Crowds
//
// An all-to-all of a large torus is one component of thousands of paths, and
// each of them that ends changes the fair rates of all others a little. Where a
// component has more than `few` paths, it is a crowd, and its rates are found
// anew only when a part of its paths has changed, or some time has passed:
//
//	fair rates  |solve           |solve          |solve
//	paths       ........x...x..x........x..x.x.........
//	                    ends; what it had is not used until the next solve
//
// Between solves a path keeps what it was given, and its members share it; a
// path that comes, or has more to send, takes what its pools have left. So no
// pool ever carries more than it can, nothing is faster than its bytes allow,
// and nothing stands idle for longer than one part in crowdPart of the time for
// which there has been a crowd: that is how much longer it may take than with
// exact rates (TestCrowdErrorIsBounded; a thirtieth at most was met, and .5 % on
// a torus of 16 by 8). Paths that find nothing left do not wait long: their
// crowd is solved soon after, in terms of the time since it was last.
// Components of few paths are exact.

const (
	few       = 256
	crowdPart = 8  // of the paths of a crowd that have changed, or of its age, one in so many
	hungry    = 32 // of its paths that have nothing, one in so many
)

// A crowd is what the pools of large components have in common.
type crowd struct {
	alarm alarm
	few   int     // paths of a component that is no crowd
	paths int     // of the last component that was one; 0 when there is none
	since Time    // there has been one
	last  Time    // solve
	stale []int32 // paths that have changed since
	empty int     // of them, those that have something to send and nothing left for it
	due   bool    // it is time to solve
	found bool    // in this solve
	roll  roll

	horizon horizon
}

// crowded reports whether the path crosses a pool of a crowd.
func (f *flows) crowded(id int32) bool {
	pools, _ := f.crossed(&f.rises[id])
	for _, pool := range pools {
		if f.pools[pool].crowded {
			return true
		}
	}
	return false
}

// waits reports whether a changed path of a crowd goes on without a solve: it
// keeps what it had, or takes what is left.
func (f *flows) waits(id int32, now Time) bool {
	c := &f.crowd
	if c.due {
		return false
	}
	p, r := &f.paths[id], &f.rises[id]
	total := p.most
	crowded := false
	pools, weights := f.crossed(r)
	for i, id := range pools {
		pool := &f.pools[id]
		crowded = crowded || pool.crowded
		left := pool.capacity - pool.quiet - pool.used
		if left < -1e-9*pool.capacity {
			return false // an arbiter gave some of it to the other side
		}
		total = min(total, r.out+max(0, left)/weights[i])
	}
	if !crowded {
		return false
	}
	r.take(total, p.stairs)
	f.setLevel(id, r.found, r.next, now)
	f.enterUse(r, now)
	if !p.stale {
		p.stale = true
		c.stale = append(c.stale, id)
	}
	if len(p.stairs) > 0 && total == 0 {
		c.empty++
	}
	return true
}

// take divides what the path may send among all its steps.
func (r *rise) take(total float64, all stairs) {
	r.next, r.rest, r.sends, r.found = stair{}, r.mass, 0, 0
	for ; int(r.next.block) < len(all); r.next = all.after(r.next) {
		s := all.at(r.next)
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

// crowdDue sees to it that the crowd is solved once enough of it has changed,
// and sooner or later if anything has.
func (f *flows) crowdDue(now Time) {
	c := &f.crowd
	if len(c.stale) == 0 {
		return
	}
	if len(c.stale)*crowdPart >= c.paths || c.empty*hungry >= c.paths {
		f.recall()
		return
	}
	due := now + 1 + (now-c.since)/crowdPart
	if c.empty > 0 {
		due = now + 1 + (now-c.last)/crowdPart
	}
	if c.alarm == none || due < c.alarm {
		f.events.set(&c.alarm, due, actor{dueCrowd, 0})
	}
}

// recall notes all that has changed in the crowd, to be solved.
func (f *flows) recall() {
	c := &f.crowd
	c.due, c.alarm, c.empty = true, none, 0
	for _, id := range c.stale {
		f.paths[id].stale = false
		f.change(id)
	}
	c.stale = c.stale[:0]
}

// gather notes which pools a component that has been found makes a crowd of.
func (f *flows) gather(now Time) {
	c := &f.crowd
	crowded := len(f.comp) > c.few
	drawn := int32(0)
	if crowded {
		if c.paths == 0 {
			c.since = now
		}
		c.paths = len(f.comp) / f.enroll()
		c.last, c.found, drawn = now, true, c.roll.drawn
	}
	for _, id := range f.rows {
		p := &f.pools[id]
		p.crowded, p.drawn, p.mass = crowded, drawn, f.basins[id].load
	}
}

// disperse ends a solve: a crowd of which none was found is no more.
func (f *flows) disperse(now Time) {
	c := &f.crowd
	if c.found {
		f.setHorizon(now)
	} else if c.due {
		c.paths = 0
	}
	c.due, c.found = false, false
}
