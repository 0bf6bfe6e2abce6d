package replay

import (
	"math"
	"slices"
)

// A pool is a resource of the machine that flows share. What each flow that
// comes or goes touches is one cache line, what solving touches another.
type pool struct {
	capacity float64 // bytes a nanosecond
	demand   float64 // bytes a nanosecond that its classes could send through it at most
	quiet    float64 // bytes a nanosecond of undisturbed flows
	used     float64 // bytes a nanosecond of flows in classes, since `since`
	since    Time
	moved    float64 // bytes of flows in classes until since, and of undisturbed ones that have ended
	quietN   int32   // undisturbed flows
	narrows  int32   // paths of which it is the narrowest and that could send more
	arbiter  int32   // that sets capacity, and one; 0 for what is fixed
	tight    bool    // demand exceeds capacity, so it may hold its classes back
	changed  bool    // tight may have, since
	listed   bool    // is in flows.disturbed
	crowded  bool    // is of a crowd
	brimful  bool    // used and quiet are capacity, since `since`

	left    float64  // fill: capacity that nothing settled uses
	load    float64  // fill: bytes for one byte of everything unsettled
	open    int32    // fill: unsettled paths
	crosses int32    // paths with classes, that cross it
	visited int      // the last search that reached it
	row     int      // the last search that solved it
	paths   []member // those that cross it, and some that have no classes any more

	saturated Time    // time until since in which it was brimful
	full      *parts  // the same over time, if asked for
	ways      []int32 // paths that cross it and have had undisturbed flows
	_         [3]int  // to whole lines
}

// account brings moved and saturated up to now.
func (p *pool) account(now Time) {
	dt := now - p.since
	if dt == 0 {
		return
	}
	p.moved += p.used * float64(dt)
	if p.brimful {
		p.saturated += dt
		if p.full != nil {
			p.full.add(p.since, now)
		}
	}
	p.since = now
}

// use sets the bytes a nanosecond of flows in classes from now on.
func (p *pool) use(rate float64, now Time) {
	p.account(now)
	if p.used = rate; p.crosses == 0 {
		p.used = 0 // exactly
	}
	p.brimful = p.fills()
}

// fills reports whether as much flows through as can.
func (p *pool) fills() bool { return p.used+p.quiet >= p.capacity*(1-1e-6) }

// stir notes that undisturbed flows have begun or ended. Bytes are counted when
// those end, so that only what begins or ends to fill the pool costs more.
func (p *pool) stir(now Time) {
	if fills := p.fills(); fills != p.brimful {
		p.account(now)
		p.brimful = fills
	}
}

// tightens reports whether more could flow through the pool than it holds. The
// demand of a path that another pool narrows more is bounded by that one.
func (p *pool) tightens() bool {
	return p.narrows > 0 || p.demand+p.quiet > p.capacity*(1+1e-9)
}

// A share is that a path crosses a pool.
type share struct {
	pool   int32
	weight float64 // bytes through the pool for one of the flow
}

// A path is a way through pools, and the classes of flows that take it.
//
//	classes by level   |--0.5--0.7--|--1.2--2.0--2.0--|     level = 1
//	                    at their     held back: all go
//	                    limit        at the path's level
type path struct {
	// What solving touches.
	pools   []int32 // that it crosses
	mass    float64
	rest    float64   // fill: mass of the steps not settled
	sends   float64   // fill: bytes a nanosecond of settled steps
	first   float64   // level of the first step
	loose   bool      // fill: a pool that it crosses is not solved
	backed  bool      // all its classes are held back
	dirty   bool      // is in flows.dirty
	changed bool      // is in flows.changed
	moved   bool      // is in flows.moved
	stale   bool      // is in crowd.stale
	weights []float64 // by pool it crosses: bytes through the pool for one of the flow
	bound   float64   // most that its pools allow
	found   float64   // fill: level
	next    stair     // fill: the first step not settled
	most    float64   // bytes a nanosecond as entered in its pools' demand
	out     float64   // bytes a nanosecond as entered in its pools' use
	stairs  stairs    // of classes with members
	level   float64   // rate, over favor, of what is held back
	clock   float64   // of that level, at time `at`
	at      Time
	alarm   alarm
	narrow  int32  // the pool that sets bound; none if none does
	common  int32  // class that flows held back have in common, or none
	narrows bool   // is counted in that one's narrows
	line    []held // heap of held classes, the next to be done first

	quiet   []int32 // workgroups with an undisturbed flow along it, and some whose flow has ended
	hushed  int     // of them, those with one
	sibling int32   // the next path between the same GPUs, or none
	listed  []bool  // by pool it crosses: it is in that one's paths
	key     pathKey
	total   total  // of stairs
	_       [3]int // to whole lines
}

// A pathKey is what makes a path.
type pathKey struct {
	from, to int32   // GPUs
	side     side    // of their memories, where an arbiter tells sides apart
	read     float64 // bytes of memory at from for each byte that goes its way
	write    float64 // bytes of memory at to for each
	cache    float64 // bytes of the last-level cache at from for each
}

// A member is a path of a pool, and which of the path's it is.
type member struct{ path, pool int32 }

type recentPath struct {
	key pathKey
	id  int32 // and one, so that the zero value is no path
}

// pathTo returns the path of a key.
func (f *flows) pathTo(k pathKey) int32 {
	r := &f.recent[uint32(k.from*61+k.to+int32(k.side)<<11)%uint32(len(f.recent))]
	if r.id > 0 && r.key == k {
		return r.id - 1
	}
	id := f.findPath(k)
	if id == none {
		id = f.newPath(k)
	}
	*r = recentPath{k, id + 1}
	return id
}

func (f *flows) newPath(k pathKey) int32 {
	id := int32(len(f.paths))
	way := f.route(k)
	p := path{
		key: k, pools: f.new.pools.room(len(way)), weights: f.new.weigh(way), listed: f.new.listed.room(len(way))[:len(way)],
		stairs: f.new.stairs(), line: f.new.lines.room(1), narrow: none, common: none, bound: math.Inf(1), alarm: none, sibling: none,
	}
	for _, s := range way {
		p.pools = append(p.pools, s.pool)
		pool := &f.pools[s.pool]
		if b := pool.capacity / s.weight; b < p.bound && pool.arbiter == 0 {
			p.bound, p.narrow = b, s.pool
		}
	}
	ends := endsOf(k)
	if first, ok := f.pathOf[ends]; ok {
		p.sibling = first
	}
	f.pathOf[ends] = id
	f.paths, f.marks = append(double(f.paths), p), append(f.marks, none)
	return id
}

// A stock is what new paths are made of.
type stock struct {
	pools   slab[int32]
	weights slab[float64]
	alike   []float64 // weights, with which those of others may begin
	listed  slab[bool]
	blocks  slab[block]
	steps   slab[step]
	lines   slab[held]
}

// weigh returns the weights of a way. Those of many ways begin alike, and are kept once.
func (n *stock) weigh(way []share) []float64 {
	size := len(way)
	same := func(w float64, s share) bool { return w == s.weight }
	if size > len(n.alike) || !slices.EqualFunc(n.alike[:size], way, same) {
		n.alike = n.weights.room(size)
		for _, s := range way {
			n.alike = append(n.alike, s.weight)
		}
	}
	return n.alike[:size:size]
}

// stairs has room for a class.
func (n *stock) stairs() stairs {
	s := stairs(n.blocks.room(1)[:1])
	s[0].steps = n.steps.room(1)
	return s[:0]
}

// endsOf is from and to as one number.
func endsOf(k pathKey) uint64 { return uint64(k.from)<<32 | uint64(uint32(k.to)) }

// findPath returns the path of a key, or none.
func (f *flows) findPath(k pathKey) int32 {
	id, ok := f.pathOf[endsOf(k)]
	if !ok {
		return none
	}
	for id != none && f.paths[id].key != k {
		id = f.paths[id].sibling
	}
	return id
}

// read is the clock of the path's level at now.
func (p *path) read(now Time) float64 { return p.clock + p.level*float64(now-p.at) }

// tally brings the class's step in the path up to date.
func (f *flows) tally(id int32, c *class, now Time) {
	p := &f.paths[c.path]
	was := float64(c.talliedN)
	p.total.add(float64(c.n)*c.limit-was*c.tallied, (float64(c.n)-was)*c.key.favor)
	if c.talliedN > 0 && (c.n == 0 || c.limit != c.tallied) {
		p.stairs.remove(c.tallied/c.key.favor, id, c.held)
		f.release(id, c, now)
		c.talliedN = 0
	}
	if c.n > 0 {
		n := float64(c.n)
		x := step{level: c.limit / c.key.favor, flow: n * c.limit, mass: n * c.key.favor, class: id}
		if c.talliedN > 0 {
			p.stairs.set(x)
		} else if p.stairs.insert(x) {
			f.hold(id, c, now)
		} else {
			p.backed = false
		}
	}
	c.talliedN, c.tallied = c.n, c.limit
	if !p.dirty {
		p.dirty = true
		f.dirty = append(f.dirty, c.path)
	}
}

// hold lets the class go at its path's level from now on.
func (f *flows) hold(id int32, c *class, now Time) {
	c.clock, c.base = f.read(c, now), f.paths[c.path].read(now)
	c.held = true
	c.alarm = none
	f.touch(id)
}

// release lets the class go at its limit from now on.
func (f *flows) release(id int32, c *class, now Time) {
	if !c.held {
		return
	}
	c.clock, c.at, c.rate = f.read(c, now), now, c.limit
	c.held = false
	f.lineOut(id)
	f.touch(id)
}

// setLevel sets what holds the path's classes back, from which on.
func (f *flows) setLevel(id int32, level float64, from stair, now Time) {
	p := &f.paths[id]
	if int(from.block) == len(p.stairs) {
		level = 0
	}
	all := from == stair{} && len(p.stairs) > 0
	same := all && p.backed || p.stairs.holdsFrom(from)
	p.backed = all
	more := false
	for i := 0; !same && i < len(p.stairs); i++ {
		b := &p.stairs[i]
		held := b.after(i, from)
		for ; b.held > held; b.held-- {
			class := b.steps[len(b.steps)-b.held].class
			f.release(class, &f.classes[class], now)
		}
		more = more || b.held < held
	}
	if level != p.level {
		p.clock, p.at, p.level = p.read(now), now, level
		f.move(id)
	}
	for i := 0; more && i < len(p.stairs); i++ {
		b := &p.stairs[i]
		for held := b.after(i, from); b.held < held; {
			b.held++
			class := b.steps[len(b.steps)-b.held].class
			f.hold(class, &f.classes[class], now)
		}
	}
}

func (f *flows) move(id int32) {
	if p := &f.paths[id]; !p.moved {
		p.moved = true
		f.moved = append(f.moved, id)
	}
}
