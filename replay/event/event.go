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

// none is the absent value of indices.
const none = -1

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
// The cost of a timer does not depend on the number of timers: timers are appended and
// read in sequence, at most once per level. The queue does not cancel timers: the owner
// stores the time of its current timer and ignores timers with a different time.
//
// BenchmarkEmbedding/gpus=32/even=false of package replay takes 2.0 times as long with a
// binary heap. Slots are lists of chunks, and the chunk emptied last is filled next. With
// a slice per slot, BenchmarkEmbedding/gpus=32/even=true takes 14 times the memory.
type Queue struct {
	now    int64
	slots  [levels * digits]list
	used   [levels]digitSet // slots that are not empty
	chunks []chunk
	free   []int32
}

type timer struct {
	at  int64
	who int64
}

// A list is the chunks of a slot: all but the last are full.
type list struct {
	first, last int32
	n           int32 // timers in the last chunk; 0 if the slot is empty
}

// A chunk is four cache lines.
type chunk struct {
	timers [15]timer
	next   int32 // next chunk of the list
	_      [12]byte
}

// A digitSet is a set of digits.
type digitSet [digits / 64]uint64

func (d *digitSet) add(digit uint)     { d[digit/64] |= 1 << (digit % 64) }
func (d *digitSet) remove(digit int)   { d[digit/64] &^= 1 << (digit % 64) }
func (d *digitSet) has(digit int) bool { return d[digit/64]>>(digit%64)&1 != 0 }

// least is the lowest digit of the set, or none.
func (d *digitSet) least() int {
	for i, w := range d {
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return none
}

// Set adds a timer of owner who at time at. at must not be before the current time of
// the queue or after twice Last.
func (q *Queue) Set(at, who int64) { q.put(timer{at, who}) }

// put appends the timer to its slot.
func (q *Queue) put(t timer) {
	level := uint(bits.Len64(uint64(t.at^q.now)|(digits-1))-1) / digitBits
	digit := uint(uint64(t.at)>>(level*digitBits)) % digits
	slot := &q.slots[(level*digits+digit)%(levels*digits)]
	switch slot.n {
	case 0:
		q.used[level].add(digit)
		slot.first = q.chunk()
		slot.last = slot.first
	case int32(len(chunk{}.timers)):
		next := q.chunk()
		q.chunks[slot.last].next = next
		slot.last, slot.n = next, 0
	}
	q.chunks[slot.last].timers[slot.n] = t
	slot.n++
}

// chunk returns an empty chunk.
func (q *Queue) chunk() int32 {
	if n := len(q.free); n > 0 {
		id := q.free[n-1]
		q.free = q.free[:n-1]
		return id
	}
	q.chunks = append(q.chunks, chunk{})
	return int32(len(q.chunks) - 1)
}

// empty removes and returns the list of a slot.
func (q *Queue) empty(level, digit int) list {
	q.used[level].remove(digit)
	slot := &q.slots[level*digits+digit]
	r := *slot
	slot.n = 0
	return r
}

// in returns the timers in a chunk of the list.
func (q *Queue) in(r list, id int32) []timer {
	c := &q.chunks[id]
	if id == r.last {
		return c.timers[:r.n]
	}
	return c.timers[:]
}

// Advance moves to the earliest time of a timer and returns it; ok is false if there is no timer.
func (q *Queue) Advance() (now int64, ok bool) {
	for {
		if digit := q.used[0].least(); digit != none {
			q.now = q.now&^(digits-1) | int64(digit)
			return q.now, true
		}
		level, digit := 1, none
		for ; level < levels; level++ {
			if digit = q.used[level].least(); digit != none {
				break
			}
		}
		if digit == none {
			return q.now, false
		}
		r := q.empty(level, digit)
		if level == 1 { // all timers of the slot move to level 0
			q.now = q.now&^(digits*digits-1) | int64(digit*digits)
		} else {
			q.now = q.earliest(r)
		}
		for id, last := r.first, false; !last; {
			last = id == r.last
			for i := range q.in(r, id) {
				q.put(q.chunks[id].timers[i]) // put may reallocate q.chunks
			}
			q.free = append(q.free, id)
			id = q.chunks[id].next
		}
	}
}

// earliest is the least time in a list.
func (q *Queue) earliest(r list) int64 {
	least := Last * 2
	for id := r.first; ; id = q.chunks[id].next {
		for _, t := range q.in(r, id) {
			least = min(least, t.at)
		}
		if id == r.last {
			return least
		}
	}
}

// Due removes the timers at the current time and appends their owners.
func (q *Queue) Due(into []int64) []int64 {
	digit := int(q.now & (digits - 1))
	if !q.used[0].has(digit) {
		return into
	}
	r := q.empty(0, digit)
	for id, last := r.first, false; !last; {
		last = id == r.last
		for _, t := range q.in(r, id) {
			into = append(into, t.who)
		}
		q.free = append(q.free, id)
		id = q.chunks[id].next
	}
	return into
}
