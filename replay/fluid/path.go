package fluid

import (
	"cmp"
	"math"
	"slices"
)

// A path is a list of crossed resources with the classes of flows that take it.
//
//	classes by level   |--0.5--0.7--|--1.2--2.0--2.0--|     level = 1
//	                    at their     held back: all at
//	                    limit        the path's level
//
// Fields that a solve uses are in its state.
type path struct {
	level     float64 // rate per weight of the flows held back
	clock     float64 // integral of level over time, at time `at`
	at        int64
	alarm     int64
	queue     []heldClass // heap of held classes, the next to be done first
	table     rateTable   // of classes with members
	bound     float64     // maximum rate that its resources allow
	narrowest int32       // the resource that sets bound, or none
	demand    float64     // maximum rate of its classes, as entered in its resources
	fair      float64     // estimated level of a stale path; else 0

	dirty       bool // is in System.dirty
	changed     bool // is in System.changed
	moved       bool // is in System.moved
	stale       bool // is in approx.stale
	narrowed    bool // is counted in its narrowest resource's narrowed
	uncontended bool // has had uncontended flows
}

// A state is the state of a path during a solve.
type state struct {
	weight    float64 // sum over all classes
	out       float64 // rate as entered in its resources' use
	rest      float64 // weight of the unsettled rows
	sends     float64 // rate of the settled rows
	level     float64 // result; 0: no flow is held back
	next      int     // the first unsettled row
	from, to  int32   // its crossings, in System.crossed and System.listed
	costs     int32   // the first of their costs in System.costs
	saturates bool    // its first row may reach its limit before its narrowest resource is full
	unsolved  bool    // it crosses a resource that is not solved
}

// NewPath makes a path that crosses resources.
func (s *System) NewPath(way []Crossing) int32 {
	id := int32(len(s.paths))
	p := path{bound: math.Inf(1), narrowest: none, alarm: none, queue: s.heldSlab.one()}
	p.table.rows = s.rowSlab.one()
	st := state{}
	st.from, st.costs = int32(len(s.ways)), s.costsOf(way)
	s.ways, s.listed = Reserve(s.ways, len(way)), Reserve(s.listed, len(way))
	s.listed = s.listed[:len(s.listed)+len(way)]
	for _, x := range way {
		s.ways = append(s.ways, x.Resource)
		r := &s.resources[x.Resource]
		if b := r.capacity / x.Cost; b < p.bound && !r.observed {
			p.bound, p.narrowest = b, x.Resource
		}
	}
	st.to = int32(len(s.ways))
	s.paths, s.states, s.visits = append(Reserve(s.paths, 1), p), append(Reserve(s.states, 1), st), append(Reserve(s.visits, 1), none)
	return id
}

// costsOf returns the index of the costs of a path's crossings. Many paths have equal
// costs; these are stored once to save cache space.
func (s *System) costsOf(way []Crossing) int32 {
	same := func(cost float64, x Crossing) bool { return cost == x.Cost }
	if last := s.costs[s.lastCosts:]; len(way) <= len(last) && slices.EqualFunc(last[:len(way)], way, same) {
		return s.lastCosts
	}
	s.lastCosts = int32(len(s.costs))
	for _, x := range way {
		s.costs = append(s.costs, x.Cost)
	}
	return s.lastCosts
}

// crossed returns the resources of a path, and its cost of each.
func (s *System) crossed(st *state) (resources []int32, costs []float64) {
	resources = s.ways[st.from:st.to]
	return resources, s.costs[st.costs:][:len(resources)]
}

// FullResource is the first resource of the path that carries its capacity, or -1.
func (s *System) FullResource(path int32) int32 {
	resources, _ := s.crossed(&s.states[path])
	for _, id := range resources {
		if s.resources[id].isFull() {
			return id
		}
	}
	return none
}

// read is the clock of the path's level at now.
func (p *path) read(now int64) float64 { return p.clock + p.level*float64(now-p.at) }

// tally updates the class's row in the path.
func (s *System) tally(id int32, c *class, now int64) {
	p := &s.paths[c.path]
	if c.talliedN > 0 && (c.n == 0 || c.limit != c.tallied) {
		p.table.remove(c.tallied/c.weight, id, c.held)
		s.release(id, c, now)
		c.talliedN = 0
	}
	if c.n > 0 {
		n := float64(c.n)
		x := row{level: c.limit / c.weight, rate: n * c.limit, weight: n * c.weight, class: id}
		if c.talliedN > 0 {
			p.table.rows[p.table.find(x.level, x.class)] = x
		} else if p.table.insert(x) {
			s.hold(id, c, now)
		}
	}
	c.talliedN, c.tallied = c.n, c.limit
	if !p.dirty {
		p.dirty = true
		s.dirty = append(s.dirty, c.path)
	}
}

// hold sets the class to its path's level from now on.
func (s *System) hold(id int32, c *class, now int64) {
	c.clock, c.base = s.read(c, now), s.paths[c.path].read(now)
	c.held = true
	c.alarm = none
	s.touch(id)
}

// release sets the class to its limit from now on.
func (s *System) release(id int32, c *class, now int64) {
	if !c.held {
		return
	}
	c.clock, c.at, c.rate = s.read(c, now), now, c.limit
	c.held = false
	s.dequeue(id)
	s.touch(id)
}

// setLevel sets the level of the path and the first row that is held back.
func (s *System) setLevel(id int32, level float64, from int, now int64) {
	p := &s.paths[id]
	t := &p.table
	held := len(t.rows) - from
	for ; t.held > held; t.held-- {
		class := t.rows[len(t.rows)-t.held].class
		s.release(class, &s.classes[class], now)
	}
	if level != p.level {
		p.clock, p.at, p.level = p.read(now), now, level
		s.move(id)
	}
	for t.held < held {
		t.held++
		class := t.rows[len(t.rows)-t.held].class
		s.hold(class, &s.classes[class], now)
	}
}

func (s *System) move(id int32) {
	if p := &s.paths[id]; !p.moved {
		p.moved = true
		s.moved = append(s.moved, id)
	}
}

// A heldClass is an entry of the queue of its path. The queue has the classes that the
// path holds back, ordered by the path's clock at which their first members are done,
// so the path needs only one timer. It is a 4-ary heap; every class stores its position.
type heldClass struct {
	due   float64 // the path's clock at which its first member is done
	class int32
}

// schedulePath sets the timer of the path to the completion of the first held class.
func (s *System) schedulePath(id int32, now int64) {
	p := &s.paths[id]
	p.moved = false
	due := p.dueAt(now)
	s.noteStarved(p, now)
	switch {
	case len(p.queue) == 0:
		p.clock, p.at, p.alarm = 0, now, none
	case p.level == 0: // it waits for the next solve of its large component
		p.alarm = none
	case due != p.alarm:
		s.schedule(&p.alarm, due, Timer(2*id+1))
	}
}

// dueAt is the time at which the first held class of the path is due, or Last if there
// is none or the path's level is 0.
func (p *path) dueAt(now int64) int64 {
	if len(p.queue) == 0 || p.level == 0 {
		return last
	}
	return dueAt(p.at, (p.queue[0].due-p.clock)/p.level, now)
}

// takeHeld removes a member of a held class that is done at now; see take.
func (s *System) takeHeld(id int32, now int64, sure bool) (who int64, ok bool) {
	p := &s.paths[id]
	if len(p.queue) == 0 || !sure && p.queue[0].due > p.read(now)+Slack*p.level {
		return 0, false
	}
	class := p.queue[0].class
	who, ok = s.take(class, now, true)
	c := &s.classes[class]
	if e := s.first(c); e != nil {
		s.enqueue(class, c.base+(e.key-c.clock)/c.weight)
	} else {
		s.dequeue(class)
	}
	return who, ok
}

// enqueue inserts the class into its path's queue, or moves it to its new position.
func (s *System) enqueue(id int32, due float64) {
	c := &s.classes[id]
	p := &s.paths[c.path]
	if c.place == none {
		c.place = int32(len(p.queue))
		p.queue = append(p.queue, heldClass{})
	}
	s.move(c.path)
	s.put(p, int(c.place), heldClass{due, id})
}

// dequeue removes the class from the queue.
func (s *System) dequeue(id int32) {
	c := &s.classes[id]
	if c.place == none {
		return
	}
	p := &s.paths[c.path]
	at, last := int(c.place), len(p.queue)-1
	c.place = none
	s.move(c.path)
	moved := p.queue[last]
	p.queue = p.queue[:last]
	if at < last {
		s.put(p, at, moved)
	}
}

// put inserts an entry at its position, starting from a free one.
func (s *System) put(p *path, at int, h heldClass) {
	q := p.queue
	for at > 0 {
		parent := (at - 1) / 4
		if q[parent].due <= h.due {
			break
		}
		q[at] = q[parent]
		s.classes[q[at].class].place = int32(at)
		at = parent
	}
	for {
		least, due := at, h.due
		for c := 4*at + 1; c <= 4*at+4 && c < len(q); c++ {
			if q[c].due < due {
				least, due = c, q[c].due
			}
		}
		if least == at {
			break
		}
		q[at] = q[least]
		s.classes[q[at].class].place = int32(at)
		at = least
	}
	q[at] = h
	s.classes[h.class].place = int32(at)
}

// A rateTable has the classes of a path in the order in which they reach their limit
// as the level of the path rises. The last rows are held back.
//
//	level  0.5 0.7 0.7 1.2 | 2.0 2.0 2.1 4.0
//	       at their limit    held back
type rateTable struct {
	rows []row
	held int // number of rows at the end that are held back
}

// A row is a class in its path.
type row struct {
	level  float64 // at which its members reach their limit: limit over weight
	rate   float64 // total of all members at their limit
	weight float64 // total of all members
	class  int32
}

// find returns where the class's row is or belongs.
func (t *rateTable) find(level float64, class int32) int {
	at, _ := slices.BinarySearchFunc(t.rows, row{level: level, class: class}, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.class, b.class))
	})
	return at
}

// insert adds a row and reports whether it is held back, which the row before it decides.
func (t *rateTable) insert(x row) (held bool) {
	at := t.find(x.level, x.class)
	if held = at > len(t.rows)-t.held; held {
		t.held++
	}
	t.rows = slices.Insert(t.rows, at, x)
	return held
}

// remove takes the class's row out.
func (t *rateTable) remove(level float64, class int32, held bool) {
	at := t.find(level, class)
	t.rows = slices.Delete(t.rows, at, at+1)
	if held {
		t.held--
	}
}

// sum is the rate and weight of all rows.
func (t *rateTable) sum() (rate, weight float64) {
	for i := range t.rows {
		rate += t.rows[i].rate
		weight += t.rows[i].weight
	}
	return rate, weight
}

// saturate returns the rate and weight of the rows, starting at one row, that reach
// their limit at or below the level, and the first row that does not.
func (t *rateTable) saturate(at int, level float64) (rate, weight float64, to int) {
	for ; at < len(t.rows) && t.rows[at].level <= level; at++ {
		rate += t.rows[at].rate
		weight += t.rows[at].weight
	}
	return rate, weight, at
}
