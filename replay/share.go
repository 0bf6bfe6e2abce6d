package replay

import "math"

// Sharing: max-min fairness by progressive filling.
//
// The level, the rate of a member over its favor, rises together everywhere
// from zero. Members that reach their limit stay there; when a pool is full
// every path through it stops at the level reached. What is left is max-min
// fair: no member could go faster but at the cost of one that is no faster
// (Bertsekas and Gallager, Data Networks, 6.5.2).
//
// Only what may have changed is solved. Paths influence each other through
// pools that are tight, that is, through which more could flow than they hold.
//
//	path A ── pool 1 (tight) ── path B ── pool 2 (loose) ── path C
//
// A change of A reaches B and ends there. What a path could send at most is
// bounded by its narrowest pool, so that memory much faster than the links
// does not join all paths into one component. Solving costs the paths of the
// component and their classes at their limit; classes held back cost nothing.

// solve finds the levels of the paths that touched classes have influence on.
func (f *flows) solve(now Time) {
	f.tallyAll(now)
	for i := 0; i < len(f.changed); i++ {
		id := f.changed[i]
		f.paths[id].changed = false
		if f.marks[id] < f.search && !f.keepsRate(id, now) {
			f.solveFrom(id, now)
		}
		if i == len(f.changed)-1 {
			f.scheduleRecompute(now) // may note more
		}
	}
	f.changed = f.changed[:0]
	f.endSolve(now)
	f.search += 2
}

// tallyAll brings the demand on the pools of altered classes up to date.
func (f *flows) tallyAll(now Time) {
	for _, id := range f.altered {
		c := &f.classes[id]
		c.altered = false
		if c.n != c.talliedN || c.limit != c.tallied {
			f.tally(id, c, now)
		}
	}
	f.altered = f.altered[:0]
	for _, id := range f.dirty {
		f.paths[id].dirty = false
		f.change(id)
		f.enterDemand(id)
	}
	f.dirty = f.dirty[:0]
	f.ruleAll(now)
}

// change notes a path to solve.
func (f *flows) change(id int32) {
	if p := &f.paths[id]; !p.changed {
		p.changed = true
		f.changed = append(f.changed, id)
	}
}

// enterDemand brings up to date in a path's pools whether it has classes, and
// what they could send.
func (f *flows) enterDemand(id int32) {
	p, r := &f.paths[id], &f.rises[id]
	crosses := int32(0)
	if len(p.stairs.steps) > 0 {
		if f.marks[id] == none {
			f.marks[id], crosses = 0, 1
			f.list(id, r)
		}
	} else if f.marks[id] != none {
		f.marks[id], crosses = none, -1
	}
	var flow float64
	mass := -r.mass
	flow, r.mass = p.stairs.sum()
	mass += r.mass
	if narrows := flow > p.bound; p.narrow != none && narrows != p.narrows {
		p.narrows = narrows
		if narrows {
			f.pools[p.narrow].narrows++
		} else {
			f.pools[p.narrow].narrows--
		}
	}
	most := min(flow, p.bound)
	by := most - p.most
	p.most = most
	pools, weights := f.crossed(r)
	for i, at := range pools {
		pool := &f.pools[at]
		pool.demand += weights[i] * by
		pool.mass += weights[i] * mass
		if pool.crosses += crosses; pool.crosses == 0 {
			pool.demand, pool.mass = 0, 0
		}
		f.alterPool(pool)
		if pool.arbiter > 0 {
			f.arbitrate(pool.arbiter)
		}
		if pool.quietN > 0 {
			f.watch(at)
		}
	}
}

// alterPool notes that a pool has another demand or capacity.
func (f *flows) alterPool(p *pool) {
	p.reckon()
	p.changed = true
}

// list puts a path that has classes into its pools' paths. When it has none any
// more it stays there until those are looked at: it may come back.
func (f *flows) list(id int32, r *rise) {
	for at, end := r.way, r.way+r.pools; at < end; at++ {
		pool := &f.pools[f.ways[at]]
		if !f.listed[at] {
			f.listed[at] = true
			pool.paths = append(pool.paths, member{id, at})
		}
	}
}

// solveFrom solves the components that the path's pools lie in.
func (f *flows) solveFrom(id int32, now Time) {
	if f.marks[id] != none {
		f.marks[id] = f.search
	}
	f.comp, f.rows, f.open = append(f.comp[:0], id), f.rows[:0], 0
	f.ladder.reset()
	for i := 0; i < len(f.comp); i++ {
		f.enter(f.comp[i])
	}
	large := f.markComponent(now)
	f.fill()
	if large {
		f.measure(now)
	}
	for _, id := range f.rows {
		p := &f.pools[id]
		p.use(p.capacity-p.quiet-f.basins[id].left, now)
		if large && p.level == 0 && p.brimful { // another was full at the same level before
			p.level = (p.capacity - p.quiet) / p.mass
		}
	}
	for _, id := range f.comp {
		r := &f.rises[id]
		f.setLevel(id, r.found, r.next, now)
		if r.loose {
			f.enterUse(r, now)
		}
		r.out = r.sends
	}
}

// enter begins a path's rise: it reaches its pools and puts its load on them.
func (f *flows) enter(id int32) {
	r := &f.rises[id]
	open := int32(1)
	if f.marks[id] == none {
		open = 0
	}
	r.next, r.rest, r.sends, r.found = 0, r.mass, 0, 0
	r.loose = false
	for at := f.pour(r, r.way, r.mass, open); at < r.way+r.pools; at = f.pour(r, at, r.mass, open) {
		f.reach(f.ways[at])
	}
	if open > 0 {
		f.ladder.push(entry[float64]{key: f.paths[id].stairs.steps[0].level, seq: uint64(id), who: actor{duePath, id}})
	}
	f.open += int(open)
}

// pour puts a path's mass on its pools from one of its ways on, up to the first
// that has not been reached.
func (f *flows) pour(r *rise, from int32, mass float64, paths int32) (to int32) {
	basins, search := f.basins, f.search
	pools := f.ways[from : r.way+r.pools]
	weights := f.weights[r.weigh+from-r.way:][:len(pools)]
	to = r.way + r.pools
	for i, at := range pools {
		b := &basins[at]
		if b.visited != search {
			to = from + int32(i)
			break
		}
		b.load += weights[i] * mass
		b.open += paths
		r.loose = r.loose || !b.tied
	}
	return to
}

// reach adds a pool to the component, with its paths if it ties them together.
func (f *flows) reach(id int32) {
	p, b := &f.pools[id], &f.basins[id]
	ties := p.tight
	if p.changed {
		p.changed, p.tight = false, p.tightens()
		ties = ties || p.tight
	}
	*b = basin{left: p.capacity - p.quiet, visited: f.search}
	if !ties {
		p.approx = false
		return
	}
	b.tied = true
	f.rows = append(f.rows, id)
	f.purge(p)
	for _, m := range p.paths {
		if mark := &f.marks[m.path]; *mark < f.search {
			*mark = f.search
			f.comp = append(f.comp, m.path)
		}
	}
}

// purge takes the paths that have no classes any more out of a pool's.
func (f *flows) purge(p *pool) {
	n := 0
	for _, m := range p.paths {
		if f.marks[m.path] == none {
			f.listed[m.at] = false
			continue
		}
		p.paths[n] = m
		n++
	}
	p.paths = p.paths[:n]
}

// enterUse brings what the path sends up to date in its pools but for those just solved.
func (f *flows) enterUse(r *rise, now Time) {
	if r.sends == r.out {
		return
	}
	pools, weights := f.crossed(r)
	for i, id := range pools {
		if b := &f.basins[id]; b.tied && b.visited == f.search {
			continue
		}
		pool := &f.pools[id]
		pool.use(pool.used+weights[i]*(r.sends-r.out), now)
	}
	r.out = r.sends
}

// fill finds, of each path of the component, the level and the first step held back.
func (f *flows) fill() {
	f.filling.reset()
	for _, id := range f.rows {
		if b := &f.basins[id]; b.open > 0 {
			f.filling.push(entry[float64]{key: b.left / b.load, seq: uint64(id), who: actor{id: id}})
		}
	}
	for level := 0.0; f.open > 0; {
		full := f.full(level)
		if math.IsInf(full, 1) { // no pool holds what is left
			f.reachAll()
			return
		}
		reached := false
		for !f.ladder.empty() && f.ladder.min().key <= full {
			e := f.ladder.pop()
			if f.marks[e.who.id] != f.search {
				continue // settled
			}
			reached = true
			level = max(level, e.key)
			f.reachLimits(e.who.id, full)
			if f.marks[e.who.id] == f.search {
				next := &f.paths[e.who.id].stairs.steps[f.rises[e.who.id].next]
				f.ladder.push(entry[float64]{key: next.level, seq: e.seq, who: e.who})
			}
		}
		if reached {
			continue // they left some to the others
		}
		level = full
		p := &f.pools[f.filling.pop().who.id]
		p.level = full
		if len(p.paths) > 2*int(p.crosses) {
			f.purge(p)
		}
		for _, m := range p.paths {
			if f.marks[m.path] == f.search {
				f.stop(m.path, full)
			}
		}
	}
}

// full is the level at which the first pool is full, not below the one already
// reached; that pool is then the first of filling. What settles only puts off
// when a pool is full, so those are looked at anew whose turn comes.
func (f *flows) full(reached float64) float64 {
	for !f.filling.empty() {
		e := *f.filling.min()
		b := &f.basins[e.who.id]
		full := max(b.left/b.load, reached)
		if b.open > 0 && b.load > 0 && full <= e.key*(1+1e-12) {
			return max(e.key, reached)
		}
		f.filling.pop()
		if b.open > 0 && b.load > 0 {
			e.key = full
			f.filling.push(e)
		}
	}
	return math.Inf(1)
}

// reachLimits settles the path's next steps, up to a level, at their limit.
func (f *flows) reachLimits(id int32, level float64) {
	r, all := &f.rises[id], &f.paths[id].stairs
	flow, mass, next := all.climb(r.next, level)
	r.next = next
	r.rest -= mass
	r.sends += flow
	settled := int32(0)
	if next == len(all.steps) {
		settled = 1
		f.marks[id]++
		f.open--
	}
	f.settleOn(r, flow, mass, settled)
}

// reachAll settles all that is left at its limit.
func (f *flows) reachAll() {
	for _, id := range f.comp {
		if f.marks[id] == f.search {
			f.reachLimits(id, math.Inf(1))
		}
	}
}

// stop settles the rest of the path's steps at a level.
func (f *flows) stop(id int32, level float64) {
	r := &f.rises[id]
	f.marks[id]++
	f.open--
	r.found = level
	if r.next != 0 { // what is left of a sum
		r.rest = max(r.rest, f.paths[id].stairs.steps[r.next].mass)
	}
	r.sends += r.rest * level
	f.settleOn(r, r.rest*level, r.rest, 1)
}

// settleOn takes what has been settled of a path, and the path if that is all, off its pools.
func (f *flows) settleOn(r *rise, flow, mass float64, paths int32) {
	pools, weights := f.crossed(r)
	weights = weights[:len(pools)]
	basins := f.basins
	for i, at := range pools {
		b := &basins[at]
		b.left -= weights[i] * flow
		b.load -= weights[i] * mass
		b.open -= paths
	}
}
