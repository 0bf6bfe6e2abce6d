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
		if f.marks[id] < f.search && !f.waits(id, now) {
			f.solveFrom(id, now)
		}
		if i == len(f.changed)-1 {
			f.crowdDue(now) // may note more
		}
	}
	f.changed = f.changed[:0]
	f.crowd.disperse()
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
		p := &f.paths[id]
		p.dirty = false
		f.change(id)
		if len(p.stairs) == 0 {
			f.detach(id, p)
		} else {
			f.attach(id, p)
			p.first = p.stairs[0].steps[0].level
		}
		f.enterDemand(p)
		for _, id := range p.pools {
			pool := &f.pools[id]
			pool.changed = true
			if pool.quietN > 0 {
				f.watch(id)
			}
		}
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

// attach puts a path with classes into its pools' paths.
func (f *flows) attach(id int32, p *path) {
	if f.marks[id] != none {
		return
	}
	f.marks[id] = 0
	for i, at := range p.pools {
		pool := &f.pools[at]
		pool.crosses++
		if !p.listed[i] {
			p.listed[i] = true
			pool.paths = append(pool.paths, member{id, int32(i)})
		}
	}
}

// detach notes that a path has no classes any more. It stays in its pools' paths
// until those are looked at: it may come back.
func (f *flows) detach(id int32, p *path) {
	if f.marks[id] == none {
		return
	}
	f.marks[id] = none
	for _, at := range p.pools {
		f.pools[at].crosses--
	}
}

// enterDemand brings what the path could send up to date in its pools.
func (f *flows) enterDemand(p *path) {
	var flow float64
	flow, p.mass = p.total.of(p.stairs)
	most := min(flow, p.bound)
	if narrows := flow > p.bound; p.narrow != none && narrows != p.narrows {
		p.narrows = narrows
		if narrows {
			f.pools[p.narrow].narrows++
		} else {
			f.pools[p.narrow].narrows--
		}
	}
	for i, id := range p.pools {
		pool := &f.pools[id]
		pool.demand += p.weights[i] * (most - p.most)
		if pool.crosses == 0 {
			pool.demand = 0
		}
		if pool.arbiter > 0 {
			f.arbitrate(pool.arbiter)
		}
	}
	p.most = most
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
	f.gather(now)
	f.fill()
	for _, r := range f.rows {
		p := &f.pools[r]
		p.use(p.capacity-p.quiet-p.left, now)
	}
	for _, id := range f.comp {
		p := &f.paths[id]
		f.setLevel(id, p.found, p.next, now)
		if p.loose {
			f.enterUse(p, now)
		}
		p.out = p.sends
	}
}

// enter reaches a path's pools and puts its load on them.
func (f *flows) enter(id int32) {
	p := &f.paths[id]
	p.next, p.rest, p.sends, p.found = stair{}, p.mass, 0, 0
	p.loose = false
	open := int32(1)
	if f.marks[id] == none {
		open = 0
	}
	weights := p.weights[:len(p.pools)]
	for i, at := range p.pools {
		pool := &f.pools[at]
		if pool.visited != f.search {
			f.reach(at)
		}
		pool.load += weights[i] * p.mass
		pool.open += open
		p.loose = p.loose || pool.row != f.search
	}
	if open > 0 && p.first <= p.bound/p.mass*(1+1e-9) { // else its narrowest pool stops it before
		f.ladder.push(entry[float64]{key: p.first, seq: uint64(id), who: actor{duePath, id}})
	}
	f.open += int(open)
}

// reach adds a pool to the component, with its paths if it ties them together.
func (f *flows) reach(id int32) {
	p := &f.pools[id]
	ties := p.tight
	if p.changed {
		p.changed, p.tight = false, p.tightens()
		ties = ties || p.tight
	}
	p.visited = f.search
	p.left, p.load, p.open = p.capacity-p.quiet, 0, 0
	if !ties {
		return
	}
	p.row = f.search
	f.rows = append(f.rows, id)
	n := 0
	for _, m := range p.paths {
		mark := &f.marks[m.path]
		if *mark == none {
			f.paths[m.path].listed[m.pool] = false
			continue
		}
		p.paths[n] = m
		n++
		if *mark < f.search {
			*mark = f.search
			f.comp = append(f.comp, m.path)
		}
	}
	p.paths = p.paths[:n]
}

// enterUse brings what the path sends up to date in its pools but for those just solved.
func (f *flows) enterUse(p *path, now Time) {
	if p.sends == p.out {
		return
	}
	for i, id := range p.pools {
		pool := &f.pools[id]
		if pool.row == f.search {
			continue
		}
		pool.use(pool.used+p.weights[i]*(p.sends-p.out), now)
	}
	p.out = p.sends
}

// fill finds, of each path of the component, the level and the first step held back.
func (f *flows) fill() {
	f.filling.reset()
	for _, r := range f.rows {
		if p := &f.pools[r]; p.open > 0 {
			f.filling.push(entry[float64]{key: p.left / p.load, seq: uint64(r), who: actor{id: r}})
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
			if p := f.reachLimits(e.who.id, full); f.marks[e.who.id] == f.search {
				f.ladder.push(entry[float64]{key: p.stairs.at(p.next).level, seq: e.seq, who: e.who})
			}
		}
		if reached {
			continue // they left some to the others
		}
		level = full
		for _, m := range f.pools[f.filling.pop().who.id].paths {
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
		p := &f.pools[e.who.id]
		full := max(p.left/p.load, reached)
		if p.open > 0 && p.load > 0 && full <= e.key*(1+1e-12) {
			return max(e.key, reached)
		}
		f.filling.pop()
		if p.open > 0 && p.load > 0 {
			e.key = full
			f.filling.push(e)
		}
	}
	return math.Inf(1)
}

// reachLimits settles the path's next steps, up to a level, at their limit.
func (f *flows) reachLimits(id int32, level float64) *path {
	p := &f.paths[id]
	flow, mass, next := p.stairs.climb(p.next, level)
	p.next = next
	p.rest -= mass
	p.sends += flow
	settled := int32(0)
	if int(next.block) == len(p.stairs) {
		settled = 1
		f.marks[id]++
		f.open--
	}
	weights := p.weights[:len(p.pools)]
	for i, at := range p.pools {
		pool := &f.pools[at]
		pool.left -= weights[i] * flow
		pool.load -= weights[i] * mass
		pool.open -= settled
	}
	return p
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
	p := &f.paths[id]
	f.marks[id]++
	f.open--
	p.found = level
	if p.next != (stair{}) { // what is left of a sum
		p.rest = max(p.rest, p.stairs.at(p.next).mass)
	}
	p.sends += p.rest * level
	weights := p.weights[:len(p.pools)]
	for i, at := range p.pools {
		pool := &f.pools[at]
		pool.left -= weights[i] * p.rest * level
		pool.load -= weights[i] * p.rest
		pool.open--
	}
}
