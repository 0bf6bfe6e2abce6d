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

// A wheel holds timers until they are due: a radix heap over the digits of
// time. A tick lies on the level of the highest digit in which its time differs
// from now, in the slot of that digit. When a slot comes near, its ticks move
// down in the order in which they lie, so that timers of one time come out in
// the order in which they were set.
//
//	now = 0x0005 (digits 00 05)  level 1: | 00 | 01: 0x0141, 0x01f2 | 02 | ...
//	                             level 0: | ... | 05 | 06: 0x0006 | ...
//
// Setting and cancelling cost the same however many timers there are: ticks
// are appended and read in a row, at most once a level, and a tick whose timer
// has been cancelled or set anew is dropped when its time comes.
type wheel struct {
	now    Time
	slots  [levels * digits][]tick
	used   [levels]digitSet // slots that are not empty
	next   int              // of the ticks at now
	spare  [][]tick         // of slots that are empty
	timers []timer
	free   []int32 // timers given back
}

type tick struct {
	at    Time
	timer int32
	set   uint32 // of the timer, when it was set
}

type timer struct {
	at  Time   // when it is due, or none
	set uint32 // how often it has been set or cancelled
	who actor
}

// A digitSet is a set of digits.
type digitSet [digits / 64]uint64

func (d *digitSet) add(digit int)    { d[digit/64] |= 1 << (digit % 64) }
func (d *digitSet) remove(digit int) { d[digit/64] &^= 1 << (digit % 64) }

// least is the lowest digit of the set, or none.
func (d *digitSet) least() int {
	for i, w := range d {
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return none
}

// add returns a new timer of who, not yet set.
func (w *wheel) add(who actor) int32 {
	if n := len(w.free); n > 0 {
		id := w.free[n-1]
		w.free = w.free[:n-1]
		w.timers[id].who = who
		return id
	}
	w.timers = append(w.timers, timer{at: none, who: who})
	return int32(len(w.timers) - 1)
}

// drop gives a timer back.
func (w *wheel) drop(id int32) {
	w.cancel(id)
	w.free = append(w.free, id)
}

// at is when the timer is due, or none.
func (w *wheel) at(id int32) Time { return w.timers[id].at }

// set makes the timer due at t, which is not before now, whether it was set or not.
func (w *wheel) set(id int32, t Time) {
	x := &w.timers[id]
	x.at = t
	x.set++
	w.put(tick{t, id, x.set})
}

// cancel takes back a set; without one it does nothing.
func (w *wheel) cancel(id int32) {
	x := &w.timers[id]
	x.at = none
	x.set++
}

// put appends the tick to its slot.
func (w *wheel) put(t tick) {
	level := max(0, bits.Len64(uint64(t.at^w.now))-1) / digitBits
	digit := int(t.at>>(level*digitBits)) & (digits - 1)
	slot := &w.slots[level*digits+digit]
	if len(*slot) == 0 {
		w.used[level].add(digit)
		if n := len(w.spare); n > 0 && cap(*slot) == 0 {
			*slot = w.spare[n-1]
			w.spare = w.spare[:n-1]
		}
	}
	*slot = append(*slot, t)
}

// empty takes everything out of a slot.
func (w *wheel) empty(level, digit int) {
	slot := &w.slots[level*digits+digit]
	w.used[level].remove(digit)
	w.spare = append(w.spare, (*slot)[:0])
	*slot = nil
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
		shift := level * digitBits
		w.now = w.now>>shift>>digitBits<<digitBits<<shift | Time(digit)<<shift
		ticks := w.slots[level*digits+digit]
		w.slots[level*digits+digit] = nil
		for _, t := range ticks {
			w.put(t)
		}
		w.slots[level*digits+digit] = ticks
		w.empty(level, digit)
	}
}

// due takes the next timer that is set for now; ok is false after the last.
func (w *wheel) due() (id int32, ok bool) {
	digit := int(w.now & (digits - 1))
	ticks := w.slots[digit]
	for w.next < len(ticks) {
		t := ticks[w.next]
		w.next++
		if x := &w.timers[t.timer]; x.set == t.set && x.at == t.at {
			w.cancel(t.timer)
			return t.timer, true
		}
	}
	if len(ticks) > 0 {
		w.empty(0, digit)
	}
	w.next = 0
	return none, false
}
