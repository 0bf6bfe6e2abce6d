package replay

import "math/bits"

// lastTime bounds simulated time: 36 years. Sums of two times below it do not overflow.
const lastTime Time = 1 << 60

const (
	digitBits = 8 // of a time, a level of the wheel
	digits    = 1 << digitBits
	levels    = 8
)

// none is the absent value of indices.
const none = -1

// A wheel holds ticks until they are due: a radix heap over the digits of
// time. A tick lies on the level of the highest digit in which its time differs
// from now, in the slot of that digit. When nothing lies before a slot, now
// becomes its earliest time and its ticks move down, in the order in which they
// lie, so that those of one time come out in the order in which they were put in.
//
//	now = 0x0005 (digits 00 05)  level 1: | 00 | 01: 0x0141, 0x01f2 | 02 | ...
//	                             level 0: | ... | 05 | 06: 0x0006 | ...
//
// Setting an alarm costs the same however many there are: ticks are appended
// and read in a row, at most once a level. An alarm lies with its owner, where
// what it is for is at hand as well; a tick that differs from it has been
// overtaken and is dropped when its time comes. Slots are rows of chunks,
// and a chunk that is empty is the next to be filled, so that the wheel is no
// larger in the cache than the ticks in it.
type wheel struct {
	now    Time
	slots  [levels * digits]row
	used   [levels]digitSet // slots that are not empty
	chunks []chunk
	free   []int32
}

// An alarm is when its owner is due, or none.
type alarm = Time

type tick struct {
	at  Time
	who actor
}

// A row is the first and last of a slot's chunks.
type row struct{ first, last int32 }

type chunk struct {
	ticks [15]tick
	n     int32
	next  int32 // of its row
}

// A digitSet is a set of digits.
type digitSet [digits / 64]uint64

func (d *digitSet) add(digit int)      { d[digit/64] |= 1 << (digit % 64) }
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

// set makes who due at t, which is not before now, and at no other time.
func (w *wheel) set(a *alarm, t Time, who actor) {
	*a = t
	w.put(tick{t, who})
}

// put appends the tick to its slot.
func (w *wheel) put(t tick) {
	level := max(0, bits.Len64(uint64(t.at^w.now))-1) / digitBits
	digit := int(t.at>>(level*digitBits)) & (digits - 1)
	slot := &w.slots[level*digits+digit]
	if !w.used[level].has(digit) {
		w.used[level].add(digit)
		slot.first = w.chunk()
		slot.last = slot.first
	}
	c := &w.chunks[slot.last]
	if int(c.n) == len(c.ticks) {
		next := w.chunk()
		w.chunks[slot.last].next = next
		slot.last = next
		c = &w.chunks[next]
	}
	c.ticks[c.n] = t
	c.n++
}

// chunk returns an empty chunk.
func (w *wheel) chunk() int32 {
	if n := len(w.free); n > 0 {
		id := w.free[n-1]
		w.free = w.free[:n-1]
		w.chunks[id].n = 0
		return id
	}
	w.chunks = append(w.chunks, chunk{})
	return int32(len(w.chunks) - 1)
}

// advance moves now to the earliest time of a tick; ok is false where there is none.
func (w *wheel) advance() (now Time, ok bool) {
	for {
		if digit := w.used[0].least(); digit != none {
			w.now = w.now&^(digits-1) | Time(digit)
			return w.now, true
		}
		level, digit := 1, none
		for ; level < levels; level++ {
			if digit = w.used[level].least(); digit != none {
				break
			}
		}
		if digit == none {
			return w.now, false
		}
		w.used[level].remove(digit)
		slot := w.slots[level*digits+digit]
		w.now = w.first(slot)
		for id, last := slot.first, false; !last; {
			last = id == slot.last
			for i := range w.chunks[id].n {
				w.put(w.chunks[id].ticks[i])
			}
			w.free = append(w.free, id)
			id = w.chunks[id].next
		}
	}
}

// first is the earliest time in a slot.
func (w *wheel) first(slot row) Time {
	least := w.chunks[slot.first].ticks[0].at
	for id := slot.first; ; id = w.chunks[id].next {
		c := &w.chunks[id]
		for i := range c.ticks[:c.n] {
			least = min(least, c.ticks[i].at)
		}
		if id == slot.last {
			return least
		}
	}
}

// soon is, of a time that differs from now in its last digit at most, the first ticks.
func (w *wheel) soon(t Time) []tick {
	digit := int(t & (digits - 1))
	if !w.used[0].has(digit) {
		return nil
	}
	c := &w.chunks[w.slots[digit].first]
	return c.ticks[:c.n]
}

// due takes the ticks for now, overtaken or not.
func (w *wheel) due(into []actor) []actor {
	digit := int(w.now & (digits - 1))
	if !w.used[0].has(digit) {
		return into
	}
	w.used[0].remove(digit)
	slot := w.slots[digit]
	for id, last := slot.first, false; !last; {
		c := &w.chunks[id]
		last = id == slot.last
		w.free = append(w.free, id)
		for i := range c.ticks[:c.n] {
			into = append(into, c.ticks[i].who)
		}
		id = c.next
	}
	return into
}
