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

// A row is the chunks of a slot: all but the last are full.
type row struct {
	first, last int32
	n           int32 // ticks in the last; 0 where the slot is empty
}

// A chunk is four cache lines.
type chunk struct {
	ticks [15]tick
	next  int32 // of its row
	_     [12]byte
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

// set makes who due at t, which is not before now nor beyond twice lastTime, and
// at no other time.
func (w *wheel) set(a *alarm, t Time, who actor) {
	*a = t
	w.put(tick{t, who})
}

// put appends the tick to its slot.
func (w *wheel) put(t tick) {
	level := uint(bits.Len64(uint64(t.at^w.now)|(digits-1))-1) / digitBits
	digit := uint(uint64(t.at)>>(level*digitBits)) % digits
	slot := &w.slots[(level*digits+digit)%(levels*digits)]
	switch slot.n {
	case 0:
		w.used[level].add(digit)
		slot.first = w.chunk()
		slot.last = slot.first
	case int32(len(chunk{}.ticks)):
		next := w.chunk()
		w.chunks[slot.last].next = next
		slot.last, slot.n = next, 0
	}
	w.chunks[slot.last].ticks[slot.n] = t
	slot.n++
}

// chunk returns one to be filled.
func (w *wheel) chunk() int32 {
	if n := len(w.free); n > 0 {
		id := w.free[n-1]
		w.free = w.free[:n-1]
		return id
	}
	w.chunks = append(w.chunks, chunk{})
	return int32(len(w.chunks) - 1)
}

// empty takes a slot's row out.
func (w *wheel) empty(level, digit int) row {
	w.used[level].remove(digit)
	slot := &w.slots[level*digits+digit]
	r := *slot
	slot.n = 0
	return r
}

// ticks are those in a chunk of the row.
func (w *wheel) ticks(r row, id int32) []tick {
	c := &w.chunks[id]
	if id == r.last {
		return c.ticks[:r.n]
	}
	return c.ticks[:]
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
		r := w.empty(level, digit)
		if level == 1 { // all go to level 0, whenever the first is
			w.now = w.now&^(digits*digits-1) | Time(digit*digits)
		} else {
			w.now = w.earliest(r)
		}
		for id, last := r.first, false; !last; {
			last = id == r.last
			for i := range w.ticks(r, id) {
				w.put(w.chunks[id].ticks[i]) // there may be more chunks by now, elsewhere
			}
			w.free = append(w.free, id)
			id = w.chunks[id].next
		}
	}
}

// earliest is the first time in a row.
func (w *wheel) earliest(r row) Time {
	least := lastTime * 2
	for id := r.first; ; id = w.chunks[id].next {
		for _, t := range w.ticks(r, id) {
			least = min(least, t.at)
		}
		if id == r.last {
			return least
		}
	}
}

// due takes the ticks for now, overtaken or not.
func (w *wheel) due(into []actor) []actor {
	digit := int(w.now & (digits - 1))
	if !w.used[0].has(digit) {
		return into
	}
	r := w.empty(0, digit)
	for id, last := r.first, false; !last; {
		last = id == r.last
		for _, t := range w.ticks(r, id) {
			into = append(into, t.who)
		}
		w.free = append(w.free, id)
		id = w.chunks[id].next
	}
	return into
}
