// Package event is the event queue of a discrete-event simulation: a radix heap of
// timers. A timer has an integer time and the number of its owner.
package event

import "math/bits"

// Last bounds times: 36 years in nanoseconds. Sums of two times below it do not overflow.
const Last int64 = 1 << 60

const (
	digitBits = 8 // of a time, a level of the heap
	digits    = 1 << digitBits
	levels    = 8
)

// A Queue returns timers in the order of their times. It is a radix heap over the digits of time
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
// BenchmarkEmbedding/gpus=32/even=false of package replay takes 2.0 times as long. The queue does not cancel
// timers: the owner stores the time of its current timer and ignores timers with a different time.
type Queue struct {
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
func (q *Queue) least(level int) int {
	for i, w := range q.used[level] {
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Set adds a timer of owner who at time at. at must not be before the current time of
// the queue or after twice Last.
func (q *Queue) Set(at, who int64) {
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
func (q *Queue) put(id int32) {
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
func (q *Queue) empty(level, digit int, visit func(id int32)) {
	q.used[level][digit/64] &^= 1 << (digit % 64)
	slot := q.slots[level][digit]
	for id, last := slot.first, false; !last; {
		next := q.timers[id].next
		last = id == slot.last
		visit(id)
		id = next
	}
}

// Advance moves to the earliest time of a timer and returns it; ok is false if there is no timer.
func (q *Queue) Advance() (now int64, ok bool) {
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

// Due removes the timers at the current time and appends their owners.
func (q *Queue) Due(into []int64) []int64 {
	if digit := int(q.now & (digits - 1)); q.least(0) == digit {
		q.empty(0, digit, func(id int32) { into, q.free = append(into, q.timers[id].who), append(q.free, id) })
	}
	return into
}
