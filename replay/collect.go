package replay

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A dueKey is an actor and its order among those due at one instant.
type dueKey struct {
	key uint64
	who actor
}

// collect appends everything due now to the queue, in order.
func (s *sim) collect(now program.Time) {
	s.due, s.keys = s.events.due(s.due[:0]), s.keys[:0]
	s.queue, s.head, s.ends = s.queue[:0], 0, s.ends[:0]
	for _, number := range s.due {
		who := actorOf(number)
		if who.kind == dueFlow {
			if t := fluid.Timer(who.id); s.flows.Pending(t, int64(now)) {
				s.now = now
				s.ends = s.flows.Complete(t, int64(now), s.ends)
			}
			continue
		}
		a := s.alarm(who)
		if *a != now { // the alarm has changed since
			continue
		}
		*a, s.now = none, now
		if who.kind == duePost { // first of all, in the order in which they were sent
			s.queue = append(s.queue, who)
		} else {
			s.keys = append(s.keys, dueKey{s.order(who), who})
		}
	}
	for _, number := range s.ends { // in one loop, so that cache misses overlap: 1.3x on BenchmarkPhases/memory/jittered_bytes
		who := actorOf(number)
		s.keys = append(s.keys, dueKey{s.order(who), who})
		s.flows.End(s.MemberOf(number))
	}
	if len(s.keys) > 1 {
		slices.SortFunc(s.keys, func(a, b dueKey) int { return cmp.Compare(a.key, b.key) })
	}
	first := len(s.queue)
	s.queue = slices.Grow(s.queue, len(s.keys))[:first+len(s.keys)]
	sorted := s.queue[first:]
	for i := range sorted {
		sorted[i] = s.keys[i].who
	}
}

// wakeAt sets the actor's alarm.
func (s *sim) wakeAt(a *alarm, at program.Time, who actor) {
	*a = at
	s.events.set(int64(at), who.number())
}

// alarm points to the time at which the actor is due.
func (s *sim) alarm(who actor) *alarm {
	switch who.kind {
	case duePost:
		return &s.posts.at(who.id).at
	case duePut:
		return &s.channel(who.id).alarm
	case dueStream:
		return &s.streams[who.id].alarm
	case dueBatch:
		return &s.batches.at(who.id).alarm
	}
	return &s.wgs.at(who.id).alarm
}

// order is an actor's sort key within one instant: two bits for its kind, 31 for its
// launch, 31 for its index.
func (s *sim) order(who actor) uint64 {
	switch who.kind {
	case dueBatch:
		b := s.batches.at(who.id)
		return s.orderOf(b.launch, b.first)
	case dueWorkgroup:
		w := s.wgs.at(who.id)
		return s.orderOf(w.launch, w.index)
	}
	return uint64(who.kind)<<62 | uint64(who.id)
}

func (s *sim) orderOf(launch, index int32) uint64 {
	return uint64(dueWorkgroup)<<62 | uint64(s.kernels.at(launch).order)<<31 | uint64(index)
}

const (
	digitBits = 8 // of a time, a level of the heap
	digits    = 1 << digitBits
	levels    = 8
)

// A timerQueue returns timers in the order of their times. It is a radix heap over the digits of time
// (Ahuja, Mehlhorn, Orlin and Tarjan, Faster algorithms for the shortest path
// problem, 1990): no timer is set before the queue's current time. The level of a
// timer is the highest digit in which its time differs from the current time; its slot
// is the value of that digit. When all earlier slots are empty, the queue advances to
// the earliest time of the slot, and the timers of the slot move to lower levels
// without a change of order. So timers with equal times are returned in the order in
// which they were set.
//
//	now = 0x0005 (digits 00 05)  level 1: | 00 | 01: 0x0141, 0x01f2 | 02 | ...
//	                             level 0: | ... | 05 | 06: 0x0006 | ...
//
// The cost of a timer does not depend on the number of timers, as with a binary heap, with which
// BenchmarkEmbedding/gpus=32/even=false takes 2.0 times as long. The queue does not cancel
// timers: the owner stores the time of its current timer and ignores timers with a different time.
type timerQueue struct {
	now    int64
	slots  [levels][digits]struct{ first, last int32 }
	used   [levels][digits / 64]uint64 // bit: the slot is not empty
	timers []timer
	free   []int32
}

type timer struct {
	at, who int64
	next    int32 // in its slot, unless it is the last
}

// least is the lowest slot of a level that is not empty, or -1.
func (q *timerQueue) least(level int) int {
	for i, w := range q.used[level] {
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// set adds a timer of owner who at time at. at must not be before the current time of
// the queue or after twice program.MaxTime.
func (q *timerQueue) set(at, who int64) {
	id := int32(len(q.timers))
	if n := len(q.free); n > 0 {
		id, q.free = q.free[n-1], q.free[:n-1]
	} else {
		q.timers = append(q.timers, timer{})
	}
	q.timers[id] = timer{at: at, who: who}
	q.put(id)
}

// put appends the timer to its slot.
func (q *timerQueue) put(id int32) {
	at := q.timers[id].at
	level := uint(bits.Len64(uint64(at^q.now)|(digits-1))-1) / digitBits % levels
	digit := uint64(at) >> (level * digitBits) % digits
	slot := &q.slots[level][digit]
	if word, bit := &q.used[level][digit/64], uint64(1)<<(digit%64); *word&bit == 0 {
		*word |= bit
		slot.first = id
	} else {
		q.timers[slot.last].next = id
	}
	slot.last = id
}

// empty removes the timers of a slot, in order.
func (q *timerQueue) empty(level, digit int, visit func(id int32)) {
	q.used[level][digit/64] &^= 1 << (digit % 64)
	slot := q.slots[level][digit]
	for id, last := slot.first, false; !last; {
		next := q.timers[id].next
		last = id == slot.last
		visit(id)
		id = next
	}
}

// advance moves to the earliest time of a timer and returns it; ok is false if there is no timer.
func (q *timerQueue) advance() (now int64, ok bool) {
	for level := 0; level < levels; level++ {
		digit := q.least(level)
		switch {
		case digit < 0:
		case level == 0:
			q.now = q.now&^(digits-1) | int64(digit)
			return q.now, true
		default:
			q.now = q.now>>(digitBits*level)&^(digits-1)<<(digitBits*level) | int64(digit)<<(digitBits*level)
			q.empty(level, digit, q.put)
			level = -1
		}
	}
	return q.now, false
}

// due removes the timers at the current time and appends their owners.
func (q *timerQueue) due(into []int64) []int64 {
	if digit := int(q.now & (digits - 1)); q.least(0) == digit {
		q.empty(0, digit, func(id int32) { into, q.free = append(into, q.timers[id].who), append(q.free, id) })
	}
	return into
}
