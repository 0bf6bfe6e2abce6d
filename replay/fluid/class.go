package fluid

import (
	"math"
	"slices"
)

// Slack is the tolerance for rounding completions up: a completion at most Slack after
// a whole unit of time counts as that unit. It is above the rounding error of clocks
// and below any visible difference. It is not a ratio of small integers, so that round
// sizes at round rates never end exactly at the tolerance.
const Slack = 1e-3 / math.Phi

// A class is a set of flows with the same rate.
type class struct {
	queue    priorityQueue // members, by the clock at which they are done
	clock    float64       // at time `at`; while held back, at clock `base` of the path
	at       int64
	base     float64
	rate     float64 // of one member, unless held back
	limit    float64 // of one member now
	nominal  float64 // of one member when nothing slows it
	weight   float64
	n        int32 // current members
	left     int32 // queue entries of members that have left
	alarm    int64
	path     int32
	place    int32   // in path.queue, or none
	held     bool    // is held back: its rate is the path's level times its weight
	touched  bool    // is in System.touched
	altered  bool    // is in System.altered
	talliedN int32   // n at the last tally
	tallied  float64 // limit at the last tally
}

// A Member is the membership of a flow in a class. The owner of the flow keeps it.
type Member struct {
	Class  int32   // current or last class
	ending uint32  // if it was held back, the commit before which it was done; else 0
	seq    uint64  // sequence number of its entry; 0 when it is in no class
	done   float64 // clock of the class at which it is or was done
}

// NewMember returns the membership of a flow that has not been in any class.
func NewMember() Member { return Member{Class: none} }

// In reports whether the flow is in a class.
func (m *Member) In() bool { return m.seq != 0 }

// Restart clears the completion time of the flow: its next part begins at a whole unit of time.
func (m *Member) Restart() { m.ending = 0 }

// NewClass makes a class of flows on a path, or on none. Its members' limit is
// nominal at full speed; SetLimit sets the current limit. A class with a path and
// without members is discarded at the end of the next Solve.
func (s *System) NewClass(path int32, weight, nominal float64) (id int32) {
	if n := len(s.free); n > 0 {
		id, s.free = s.free[n-1], s.free[:n-1]
	} else {
		id = int32(len(s.classes))
		s.classes = append(Reserve(s.classes, 1), class{alarm: none, queue: priorityQueue{s.entrySlab.one()}})
	}
	c := &s.classes[id]
	c.path, c.weight, c.nominal, c.place, c.held = path, weight, nominal, none, false
	c.limit, c.tallied = 0, 0
	return id
}

// discard makes the slot of a class without members free for reuse.
func (s *System) discard(id int32) {
	s.owner.Dropped(id)
	s.free = append(s.free, id)
}

// PathOf is the path of a class, or -1.
func (s *System) PathOf(class int32) int32 { return s.classes[class].path }

// read is the class's clock at now.
func (s *System) read(c *class, now int64) float64 {
	if c.held {
		return c.clock + c.weight*(s.paths[c.path].read(now)-c.base)
	}
	return c.clock + c.rate*float64(now-c.at)
}

// rateOf is the rate of one member.
func (s *System) rateOf(c *class) float64 {
	if c.held {
		return c.weight * s.paths[c.path].level
	}
	return c.rate
}

// Join makes a flow a member of the class, with size remaining. If the flow was held
// back on the same path until now, below its new nominal limit, it continues from its
// exact completion time between two units of time, so that rounding does not accumulate.
func (s *System) Join(id int32, m *Member, who int64, path int32, nominal, size float64, now int64) {
	c := &s.classes[id]
	start := s.read(c, now)
	if s.HeldBack(m, path, nominal) {
		start -= s.read(&s.classes[m.Class], now) - m.done
	}
	s.seq++
	*m = Member{Class: id, seq: s.seq, done: start + size}
	c.queue.push(entry{key: m.done, seq: s.seq, id: who})
	c.n++
	s.alter(id)
}

// HeldBack reports whether a flow was held back on the path until now, at a rate below
// its new limit.
func (s *System) HeldBack(m *Member, path int32, nominal float64) bool {
	if m.ending != s.commits {
		return false
	}
	c := &s.classes[m.Class]
	return c.path == path && s.rateOf(c) < nominal*(1-1e-9)
}

// End ends a membership that is done.
func (s *System) End(m *Member) {
	m.seq, m.ending = 0, 0
	if c := &s.classes[m.Class]; s.rateOf(c) < c.nominal*(1-1e-9) {
		m.ending = s.commits
	}
}

// Leave removes a member before it is done and returns its remaining size.
func (s *System) Leave(m *Member, now int64) (rest float64) {
	c := &s.classes[m.Class]
	c.n--
	c.left++
	s.alter(m.Class)
	rest = m.done - s.read(c, now)
	*m = NewMember()
	return rest
}

// take removes a member that is done at now; ok is false when none is left. If sure is
// set, the first member is done regardless of rounding errors of the clock.
func (s *System) take(id int32, now int64, sure bool) (who int64, ok bool) {
	c := &s.classes[id]
	e := s.first(c)
	if e == nil || !sure && e.key > s.read(c, now)+Slack*s.rateOf(c) {
		return 0, false
	}
	c.n--
	s.alter(id)
	return c.queue.pop().id, true
}

// first is the member that completes next, or nil.
func (s *System) first(c *class) *entry {
	for !c.queue.empty() {
		e := c.queue.min()
		if c.left == 0 || s.owner.MemberOf(e.id).seq == e.seq {
			return e
		}
		c.queue.pop()
		c.left--
	}
	return nil
}

// alter records that the members or the limit of the class have changed.
func (s *System) alter(id int32) {
	s.touch(id)
	if c := &s.classes[id]; !c.altered && c.path != none {
		c.altered = true
		s.altered = append(s.altered, id)
	}
}

func (s *System) touch(id int32) {
	if c := &s.classes[id]; !c.touched {
		c.touched = true
		s.touched = append(s.touched, id)
	}
}

// SetLimit changes the rate limit of each member.
func (s *System) SetLimit(id int32, limit float64) {
	if c := &s.classes[id]; c.limit != limit {
		c.limit = limit
		s.alter(id)
	}
}

// commit applies the new rates from now on and sets the timers of the next completions.
func (s *System) commit(now int64) {
	for _, id := range s.touched {
		c := &s.classes[id]
		c.touched = false
		if !c.held && c.rate != c.limit {
			c.clock, c.at, c.rate = s.read(c, now), now, c.limit
		}
		s.scheduleClass(id, c, now)
	}
	for _, id := range s.moved {
		s.schedulePath(id, now)
	}
	s.touched, s.moved = s.touched[:0], s.moved[:0]
	s.commits++
}

// scheduleClass sets the timer of the class to the completion of its first member.
func (s *System) scheduleClass(id int32, c *class, now int64) {
	e := s.first(c)
	switch {
	case e == nil:
		c.clock, c.at, c.rate, c.alarm = 0, now, 0, none
		if c.path != none {
			s.discard(id)
		}
	case c.held:
		s.enqueue(id, c.base+(e.key-c.clock)/c.weight)
	default:
		if due := dueAt(c.at, (e.key-c.clock)/c.rate, now); due != c.alarm {
			s.schedule(&c.alarm, due, Timer(2*id))
		}
	}
}

// dueAt is the end of an interval that begins at at, rounded up, and not before now.
func dueAt(at int64, while float64, now int64) int64 {
	return max(now, at+int64(min(math.Ceil(while-Slack), float64(last))))
}

// A slab hands out slices with room for one value: most paths have one class, and most
// classes of a large exchange one member.
type slab[T any] []T

func (b *slab[T]) one() (room []T) {
	if len(*b) == 0 {
		*b = make([]T, 64)
	}
	room, *b = (*b)[:0:1], (*b)[1:]
	return room
}

// Reserve returns the slice with room for n more elements. If it must grow, it makes
// room for three times its length, so large values are moved less often than by append.
func Reserve[T any](s []T, n int) []T {
	if len(s)+n > cap(s) {
		s = slices.Grow(s, max(16, n, 3*len(s)))
	}
	return s
}
