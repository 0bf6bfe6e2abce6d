// Package event is the event queue of a discrete simulation: a radix heap of
// timers. It knows times, which are integers, and the numbers of those to wake.
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

// A Queue gives out timers by time. It is a radix heap over the digits of time
// (Ahuja, Mehlhorn, Orlin and Tarjan, Faster algorithms for the shortest path
// problem, 1990): no timer is set before the time that the queue has advanced to.
// A timer lies on the level of the highest digit in which its time differs from
// that time, in the slot of that digit. When no timer lies before a slot, the
// queue advances to the slot's earliest time and its timers move to lower levels,
// in the order in which they lie. So timers of one time come out in the order in
// which they were set.
//
//	now = 0x0005 (digits 00 05)  level 1: | 00 | 01: 0x0141, 0x01f2 | 02 | ...
//	                             level 0: | ... | 05 | 06: 0x0006 | ...
//
// Setting a timer costs the same however many there are: timers are appended and
// read in sequence, at most once a level. The queue does not cancel timers: whoever
// sets one notes its time, and ignores a timer whose time is another.
//
// A binary heap in its place takes 2.0 times as long on BenchmarkEmbedding/gpus=32/even=false
// of package replay. Slots are lists of chunks, and a chunk that has been emptied is
// the next to be filled: a slice per slot takes 14 times the memory on
// BenchmarkEmbedding/gpus=32/even=true.
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
	n           int32 // timers in the last; 0 where the slot is empty
}

// A chunk is four cache lines.
type chunk struct {
	timers [15]timer
	next   int32 // of its list
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

// Set adds a timer: who is due at time at, which is not before the time that the
// queue has advanced to, nor beyond twice Last.
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

// chunk returns one to be filled.
func (q *Queue) chunk() int32 {
	if n := len(q.free); n > 0 {
		id := q.free[n-1]
		q.free = q.free[:n-1]
		return id
	}
	q.chunks = append(q.chunks, chunk{})
	return int32(len(q.chunks) - 1)
}

// empty takes a slot's list out.
func (q *Queue) empty(level, digit int) list {
	q.used[level].remove(digit)
	slot := &q.slots[level*digits+digit]
	r := *slot
	slot.n = 0
	return r
}

// in are the timers in a chunk of the list.
func (q *Queue) in(r list, id int32) []timer {
	c := &q.chunks[id]
	if id == r.last {
		return c.timers[:r.n]
	}
	return c.timers[:]
}

// Advance moves to the earliest time of a timer and returns it; ok is false where there is none.
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
		if level == 1 { // all go to level 0, whenever the first is
			q.now = q.now&^(digits*digits-1) | int64(digit*digits)
		} else {
			q.now = q.earliest(r)
		}
		for id, last := r.first, false; !last; {
			last = id == r.last
			for i := range q.in(r, id) {
				q.put(q.chunks[id].timers[i]) // there may be more chunks by now, elsewhere
			}
			q.free = append(q.free, id)
			id = q.chunks[id].next
		}
	}
}

// earliest is the first time in a list.
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

// Due takes the timers of the time that the queue has advanced to and appends who is due.
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
