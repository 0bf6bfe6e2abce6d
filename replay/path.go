package replay

// A path is a way through pools, and the classes of flows that take it.
//
//	classes by level   |--0.5--0.7--|--1.2--2.0--2.0--|     level = 1
//	                    at their     held back: all go
//	                    limit        at the path's level
//
// What every solve touches of it lies in its rise.
type path struct {
	level   float64 // rate, over favor, of what is held back
	clock   float64 // of that level, at time `at`
	at      Time
	alarm   alarm
	line    []held // heap of held classes, the next to be done first
	dirty   bool   // is in flows.dirty
	changed bool   // is in flows.changed
	moved   bool   // is in flows.moved
	stale   bool   // is in approx.stale
	narrows bool   // is counted in its narrowest pool's narrows

	stairs stairs  // of classes with members
	bound  float64 // most that its pools allow
	narrow int32   // the pool that sets bound; none if none does
	common int32   // class that flows held back have in common, or none
	most   float64 // bytes a nanosecond as entered in its pools' demand

	sibling int32 // the next path between the same GPUs, or none
	key     pathKey
	quiet   []int32 // workgroups with an undisturbed flow along it, and some whose flow has ended
	hushed  int     // of them, those with one
	fair    float64 // of a stale path: its estimated level; else 0

}

// read is the clock of the path's level at now.
func (p *path) read(now Time) float64 { return p.clock + p.level*float64(now-p.at) }

// tally brings the class's step in the path up to date.
func (f *flows) tally(id int32, c *class, now Time) {
	p := &f.paths[c.path]
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

// setLevel sets what holds the path's classes back, from which step on.
func (f *flows) setLevel(id int32, level float64, from int, now Time) {
	p := &f.paths[id]
	s := &p.stairs
	held := len(s.steps) - from
	for ; s.held > held; s.held-- {
		class := s.steps[len(s.steps)-s.held].class
		f.release(class, &f.classes[class], now)
	}
	if level != p.level {
		p.clock, p.at, p.level = p.read(now), now, level
		f.move(id)
	}
	for s.held < held {
		s.held++
		class := s.steps[len(s.steps)-s.held].class
		f.hold(class, &f.classes[class], now)
	}
}

func (f *flows) move(id int32) {
	if p := &f.paths[id]; !p.moved {
		p.moved = true
		f.moved = append(f.moved, id)
	}
}
