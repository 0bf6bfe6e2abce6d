package replay

import "math"

// Flows
//
// Everything that proceeds at a rate is a flow: phases of workgroups, copies
// and puts alike. Flows that take the same path at the same limit are members
// of one class and have one rate, so the class keeps one clock of what each has
// done since it began, and a member is done when the clock reaches the value
// it was given at its start:
//
//	clock  |            done a    done b
//	       |          _.-'----------'--
//	       |      _.-'   slope: the rate of one member
//	       |___.-'
//	       +----+------------------------ time
//	         a,b join
//
// A change of rate moves no member. Classes of one path that are held back go
// at one level, and share the clock of their path in the same way.

// boundless is the rate, in bytes a nanosecond, of what nothing bounds.
const boundless = 1e15

// slack is how far past a whole nanosecond, in nanoseconds, a completion may
// lie and still count as that nanosecond: above the rounding of clocks, and
// below anything that could be seen. It is no ratio of whole numbers: round
// sizes at round rates never end just as late, where rounding would decide.
const slack = 1e-3 / math.Phi

// A classKey is what bounds a flow. Flows with equal keys are one class.
type classKey struct {
	path   int32   // or none: work that touches no memory
	gpu    int32   // where it comes from
	cu     int32   // of work that touches no memory; else none
	launch int32   // whose own work does not count as beside it; none: all counts
	limit  float64 // bytes a nanosecond of one member alone; 1 for work that touches no memory
	slow   float64 // divides limit for the load of its CU; at least 1
	onset  float64 // the part of what beside adds that any matrix work is enough for
	beside float64 // divides limit beside other work; at least 1
	favor  float64 // of a member's rate in others' where they contend
}

// A class is flows with one rate. What every phase touches comes first.
type class struct {
	members ordered[float64] // by clock at which they are done
	clock   float64          // at time `at`; while held back, at clock `base` of the path
	at      Time
	base    float64
	rate    float64 // of one member, unless held back
	limit   float64 // of one member now
	n       int32   // members that have not quit
	quit    int32   // entries of members that have
	alarm   alarm
	path    int32
	line    int32 // index in path.line, or none
	held    bool  // is held back: goes at the path's level
	touched bool  // is in flows.touched
	altered bool  // is in flows.altered
	common  bool  // of flows whose limits are above its own; in no index

	talliedN int32   // n as its path knows it
	tallied  float64 // limit as its path knows it
	key      classKey
	aside    int32 // index in flows.beside

}

// A stake is an actor's membership of a class.
type stake struct {
	class int32   // it is or was last in
	left  uint32  // if it was held back, settlings before it was done; else 0
	seq   uint64  // of its entry; 0 when it is in no class
	done  float64 // clock of the class at which it is or was done
}

// nowhere is the stake of one who has not been in any class.
var nowhere = stake{class: none}

// flows are the pools, paths and classes of a simulation.
type flows struct {
	fabric  // pools and routes
	paths   []path
	rises   []rise    // by path
	marks   []int     // by path: none while it has no classes, else the search that reached it last, and one more once settled
	ways    []int32   // the pools of one path after another
	listed  []bool    // by way: the path is in the pool's paths
	weights []float64 // of ways
	alike   int32     // of weights: those last used
	between [][]int32 // by GPU and GPU or Everyone: the path last found, and one; nil where there are none
	classes []class
	index   map[classKey]int32
	free    []int32   // classes without members, to be used anew
	beside  [][]int32 // by GPU: classes that go slower beside other work

	touched   []int32   // classes to look at before time goes on
	altered   []int32   // classes to tally: of a path, with other members or another limit
	dirty     []int32   // paths whose steps changed
	changed   []int32   // paths to solve
	moved     []int32   // paths of whose held classes another may be the next
	toRule    []int32   // GPUs whose memory's sides ask for more or less than before
	unruled   []bool    // those
	shares    []float64 // by GPU: of its memory that communication is sure of
	approx    approx
	disturbed []int32 // pools that have undisturbed flows and may have become tight
	settled   uint32  // how often rates have been
	seq       uint64

	events *wheel
	stale  func(actor, uint64) bool // whether the entry's actor has quit

	search  int
	basins  []basin          // by pool
	comp    []int32          // paths of the component being solved
	rows    []int32          // its pools
	open    int              // its paths that are not settled
	ladder  ordered[float64] // its paths, by the level of their next step
	filling ordered[float64] // its pools, by a level at which they are not full before
}

// lookup returns the class of a key, making it if it is new.
func (f *flows) lookup(k *classKey) (id int32, isNew bool) {
	if id, ok := f.index[*k]; ok {
		return id, false
	}
	id = f.newClass(k)
	f.index[*k] = id
	if k.beside > 1 {
		c := &f.classes[id]
		c.aside = int32(len(f.beside[k.gpu]))
		f.beside[k.gpu] = append(f.beside[k.gpu], id)
	}
	return id, true
}

// newClass makes a class without members, that has no limit yet.
func (f *flows) newClass(k *classKey) (id int32) {
	if n := len(f.free); n > 0 { // the last to be given back: it is still in the cache
		id, f.free = f.free[n-1], f.free[:n-1]
	} else {
		id = int32(len(f.classes))
		f.classes = append(roomier(f.classes, 1), class{})
		f.classes[id].alarm = none
	}
	c := &f.classes[id]
	c.key, c.path, c.line, c.held = *k, k.path, none, false
	c.limit, c.tallied, c.common = 0, 0, false
	return id
}

// discard gives a class without members back.
func (f *flows) discard(id int32, c *class) {
	if c.common {
		if p := &f.paths[c.path]; p.common == id {
			p.common = none
		}
	} else {
		delete(f.index, c.key)
	}
	if c.key.beside > 1 {
		b := f.beside[c.key.gpu]
		last := b[len(b)-1]
		b[c.aside], f.classes[last].aside = last, c.aside
		f.beside[c.key.gpu] = b[:len(b)-1]
	}
	f.free = append(f.free, id)
}

// read is the class's clock at now.
func (f *flows) read(c *class, now Time) float64 {
	if c.held {
		return c.clock + c.key.favor*(f.paths[c.path].read(now)-c.base)
	}
	return c.clock + c.rate*float64(now-c.at)
}

// rateOf is the rate of one member.
func (f *flows) rateOf(c *class) float64 {
	if c.held {
		return c.key.favor * f.paths[c.path].level
	}
	return c.rate
}

// join makes who a member of the class with size to go. One that was held back
// on the same path until this instant goes on from where it was done, between
// two nanoseconds, so that rounding up does not add up.
func (f *flows) join(id int32, k *classKey, st *stake, who actor, size float64, now Time) {
	c := &f.classes[id]
	start := f.read(c, now)
	if f.heldBack(st, k.path, k.limit) {
		start -= f.read(&f.classes[st.class], now) - st.done
	}
	f.seq++
	*st = stake{class: id, seq: f.seq, done: start + size}
	c.members.push(entry[float64]{key: st.done, seq: f.seq, who: who})
	c.n++
	f.alter(id)
}

// heldBack reports whether, until this instant, one was held back on the path
// and goes slower than a limit that is now its own.
func (f *flows) heldBack(st *stake, path int32, limit float64) bool {
	if st.left != f.settled {
		return false
	}
	c := &f.classes[st.class]
	return c.path == path && f.rateOf(c) < limit*(1-1e-9)
}

// end ends a membership that has run its course.
func (f *flows) end(st *stake) {
	st.seq, st.left = 0, 0
	if c := &f.classes[st.class]; f.rateOf(c) < c.key.limit*(1-1e-9) {
		st.left = f.settled
	}
}

// leave takes a member out before it is done and returns what it had to go.
func (f *flows) leave(st *stake, now Time) float64 {
	c := &f.classes[st.class]
	c.n--
	c.quit++
	f.alter(st.class)
	rest := st.done - f.read(c, now)
	*st = nowhere
	return rest
}

// take removes a member that is done at now; ok is false when none is left.
// With sure the first is done, whatever its clock has been rounded to.
func (f *flows) take(id int32, now Time, sure bool) (who actor, ok bool) {
	c := &f.classes[id]
	e := f.first(c)
	if e == nil || !sure && e.key > f.read(c, now)+slack*f.rateOf(c) {
		return actor{}, false
	}
	c.n--
	f.alter(id)
	return c.members.pop().who, true
}

// first is the member that is done next, or nil.
func (f *flows) first(c *class) *entry[float64] {
	for !c.members.empty() {
		e := c.members.min()
		if c.quit == 0 || !f.stale(e.who, e.seq) {
			return e
		}
		c.members.pop()
		c.quit--
	}
	return nil
}

// alter notes that the class has other members or another limit.
func (f *flows) alter(id int32) {
	f.touch(id)
	if c := &f.classes[id]; !c.altered && c.path != none {
		c.altered = true
		f.altered = append(f.altered, id)
	}
}

func (f *flows) touch(id int32) {
	if c := &f.classes[id]; !c.touched {
		c.touched = true
		f.touched = append(f.touched, id)
	}
}

// setLimit changes how fast one member can go.
func (f *flows) setLimit(id int32, limit float64) {
	if c := &f.classes[id]; c.limit != limit {
		c.limit = limit
		f.alter(id)
	}
}

// settle lets the rates found hold from now on and sets the timers of the next completions.
func (f *flows) settle(now Time) {
	for _, id := range f.touched {
		c := &f.classes[id]
		c.touched = false
		if !c.held && c.rate != c.limit {
			c.clock, c.at, c.rate = f.read(c, now), now, c.limit
		}
		f.schedule(id, c, now)
	}
	for _, id := range f.moved {
		f.schedulePath(id, now)
	}
	f.touched, f.moved = f.touched[:0], f.moved[:0]
	f.settled++
}

// schedule sees to it that the class is due when its first member is done.
func (f *flows) schedule(id int32, c *class, now Time) {
	e := f.first(c)
	switch {
	case e == nil:
		c.clock, c.at, c.rate, c.alarm = 0, now, 0, none
		if c.path != none {
			f.discard(id, c)
		}
	case c.held:
		f.lineUp(id, c.base+(e.key-c.clock)/c.key.favor)
	default:
		if due := dueAt(c.at, (e.key-c.clock)/c.rate, now); due != c.alarm {
			f.events.set(&c.alarm, due, actor{dueClass, id})
		}
	}
}

// dueAt is when a while after at is over, rounded up, but not before now.
func dueAt(at Time, while float64, now Time) Time {
	return max(now, at+Time(min(math.Ceil(while-slack), float64(lastTime))))
}
