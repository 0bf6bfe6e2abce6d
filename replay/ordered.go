package replay

import (
	"math"
	"math/bits"
	"slices"
)

// An ordered holds actors by key and gives out the least key first, equal keys
// by seq. One alone lies in it; only those that had others once have room for them.
type ordered[K number] struct {
	top    entry[K] // the least, if there is any
	full   bool     // there is
	others *others[K]
}

// Others are in order as far as they have to be. Keys that arrive in order, as
// those of equal phases do, cost a ring buffer's push and pop; others go through a heap.
//
// A heap of a thousand lies in more cache lines than are still at hand when its
// turn comes again. So only what is next is in order. The rest is a pile in no
// order: when the ring and the heap are empty one goes through it from end to
// end, and what comes next is sorted into the ring:
//
//	ring  |3 4 5 7|                   keys up to reach, 7
//	heap  |6|                         of those, what came late
//	pile  |12 40 9 8 31 17 22 ...     keys above it
type others[K number] struct {
	ring  []entry[K] // ascending; its length is a power of two
	head  int        // of ring, counted without wrapping
	n     int        // entries in ring
	heap  []entry[K] // 4-ary, the least first
	pile  []entry[K] // those with keys above reach
	reach K
}

// A number is what keys are.
type number interface{ int64 | float64 }

type entry[K number] struct {
	key K
	seq uint64
	who actor
}

func (e *entry[K]) less(f *entry[K]) bool {
	return e.key < f.key || e.key == f.key && e.seq < f.seq
}

func (e entry[K]) compare(f entry[K]) int {
	switch {
	case e.less(&f):
		return -1
	case f.less(&e):
		return 1
	}
	return 0
}

func (o *ordered[K]) empty() bool { return !o.full }

// reset takes everything out.
func (o *ordered[K]) reset() {
	if o.full = false; o.others != nil {
		o.others.n, o.others.heap, o.others.pile = 0, o.others.heap[:0], o.others.pile[:0]
	}
}

func (o *ordered[K]) push(e entry[K]) {
	switch {
	case !o.full:
		o.top, o.full = e, true
		return
	case o.others == nil:
		o.others = &others[K]{}
	}
	if e.less(&o.top) {
		e, o.top = o.top, e
		o.others.put(e, e.key)
	} else {
		o.others.push(e, o.top.key)
	}
}

// min is the least entry, valid until the next change. The queue must not be empty.
func (o *ordered[K]) min() *entry[K] { return &o.top }

// pop takes the least entry out.
func (o *ordered[K]) pop() entry[K] {
	e := o.top
	if o.others == nil {
		o.full = false
	} else {
		o.top, o.full = o.others.pop(e.key)
	}
	return e
}

// push puts an entry in. No key is below low, here and below.
func (o *others[K]) push(e entry[K], low K) {
	switch {
	case len(o.pile) > 0 && e.key > o.reach:
		o.pile = append(o.pile, e)
	case o.n > 0 && e.less(&o.ring[(o.head+o.n-1)&(len(o.ring)-1)]):
		o.put(e, low)
	default:
		if o.n == len(o.ring) {
			o.grow()
		}
		o.ring[(o.head+o.n)&(len(o.ring)-1)] = e
		o.n++
	}
}

// pop takes the least entry out; ok is false where there is none.
func (o *others[K]) pop(low K) (e entry[K], ok bool) {
	if o.n == 0 && len(o.heap) == 0 && len(o.pile) > 0 {
		o.sift(low)
	}
	switch {
	case len(o.heap) > 0 && (o.n == 0 || o.heap[0].less(&o.ring[o.head&(len(o.ring)-1)])):
		return o.down(), true
	case o.n > 0:
		e = o.ring[o.head&(len(o.ring)-1)]
		o.head++
		o.n--
		return e, true
	}
	return e, false
}

// grow makes room in a ring that is full.
func (o *others[K]) grow() {
	ring := make([]entry[K], max(4, 2*len(o.ring)))
	for i := range o.n {
		ring[i] = o.ring[(o.head+i)&(len(o.ring)-1)]
	}
	o.ring, o.head = ring, 0
}

// put puts an entry into the heap. When that has become large for what lies
// beside it, all goes onto the pile.
func (o *others[K]) put(e entry[K], low K) {
	o.up(e)
	if len(o.heap) <= largeHeap || len(o.heap) <= o.n+len(o.pile) {
		return
	}
	o.pile = append(o.pile, o.heap...)
	for i := range o.n {
		o.pile = append(o.pile, o.ring[(o.head+i)&(len(o.ring)-1)])
	}
	o.heap, o.n = o.heap[:0], 0
	o.sift(low)
}

const (
	largeHeap = 128 // entries
	spreads   = 256 // how many parts of a pile's next keys are told apart at once
)

// sift moves the entries that come next, about a third of them, from the pile to
// the ring, which is empty: first each to its part of the keys, then these are sorted.
func (o *others[K]) sift(low K) {
	at := len(o.pile) / 3
	o.reach = min(o.pile[at].key, o.pile[len(o.pile)-1-at].key) // in the middle: the first and the last may be the least of all
	scale := 0.0
	if width := float64(o.reach - low); width > 0 {
		scale = min((spreads-1)/width, math.MaxFloat64)
	}
	var ends [spreads]int32
	for i := range o.pile {
		if e := &o.pile[i]; e.key <= o.reach {
			ends[part(e.key-low, scale)]++
		}
	}
	for i, n := range ends {
		ends[i] = int32(o.n)
		o.n += int(n)
	}
	if o.head = 0; o.n > len(o.ring) {
		o.ring = make([]entry[K], 1<<bits.Len(uint(o.n-1)))
	}
	n := 0
	for i := range o.pile {
		e := &o.pile[i]
		if e.key > o.reach {
			o.pile[n] = *e
			n++
			continue
		}
		end := &ends[part(e.key-low, scale)]
		o.ring[*end] = *e
		*end++
	}
	o.pile = o.pile[:n]
	from := int32(0)
	for _, end := range ends {
		sortEntries(o.ring[from:end])
		from = end
	}
}

// part is in which part of the keys, as wide as 1/scale, one lies; with scale 0 there is one.
func part[K number](above K, scale float64) uint8 {
	if scale == 0 {
		return 0 // whatever above is
	}
	return uint8(float64(above) * scale)
}

// sortEntries sorts a few by insertion.
func sortEntries[K number](all []entry[K]) {
	if len(all) > fewKeys {
		slices.SortFunc(all, entry[K].compare)
		return
	}
	for i := 1; i < len(all); i++ {
		if !all[i].less(&all[i-1]) {
			continue
		}
		e, at := all[i], i
		for ; at > 0 && e.less(&all[at-1]); at-- {
			all[at] = all[at-1]
		}
		all[at] = e
	}
}

func (o *others[K]) up(e entry[K]) {
	o.heap = append(o.heap, e)
	h := o.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.less(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (o *others[K]) down() entry[K] {
	top, last := o.heap[0], len(o.heap)-1
	e, h := o.heap[last], o.heap[:last]
	o.heap = h
	at := 0
	for first := 1; first < len(h); first = 4*at + 1 {
		below := h[first:min(first+4, len(h))]
		least := 0
		for i := 1; i < len(below); i++ {
			if below[i].less(&below[least]) {
				least = i
			}
		}
		if !below[least].less(&e) {
			break
		}
		h[at] = below[least]
		at = first + least
	}
	if last > 0 {
		h[at] = e
	}
	return top
}
