package fluid

import (
	"math"
	"math/bits"
	"slices"
)

// A priorityQueue returns entries by ascending key, equal keys by seq. A single entry is
// stored inline; space for further entries is allocated when first needed.
type priorityQueue struct {
	top    entry // the least entry, if full
	full   bool  // the queue is not empty
	others *others
}

// Other entries are sorted only when needed (a lazy priority queue). Keys that arrive in
// order, such as those of equal flows, are appended to a ring buffer; other keys are
// inserted into a heap. A heap of a thousand entries does not fit in the cache.
// Therefore only the next entries are in order, and the rest is an unsorted list. When
// the ring and the heap are empty, the next third of the list is sorted into the ring.
//
//	ring      |3 4 5 7|                   keys up to reach, 7
//	heap      |6|                         keys up to reach that arrived out of order
//	unsorted  |12 40 9 8 31 17 22 ...     keys above it
//
// BenchmarkPhases/memory/jittered_bytes of package replay takes 1.3 times as long with
// a heap and a sorted list instead, and 1.4 times with a heap alone.
type others struct {
	ring     []entry // ascending; its length is a power of two
	head     int     // of ring, counted without wrapping
	n        int     // entries in ring
	heap     []entry // 4-ary, the least first
	unsorted []entry // those with keys above reach
	reach    float64
}

type entry struct {
	key float64
	seq uint64
	id  int64
}

func (e *entry) less(f *entry) bool {
	return e.key < f.key || e.key == f.key && e.seq < f.seq
}

func (e entry) compare(f entry) int {
	switch {
	case e.less(&f):
		return -1
	case f.less(&e):
		return 1
	}
	return 0
}

func (o *priorityQueue) empty() bool { return !o.full }

// reset removes all entries.
func (o *priorityQueue) reset() {
	if o.full = false; o.others != nil {
		o.others.n, o.others.heap, o.others.unsorted = 0, o.others.heap[:0], o.others.unsorted[:0]
	}
}

func (o *priorityQueue) push(e entry) {
	switch {
	case !o.full:
		o.top, o.full = e, true
		return
	case o.others == nil:
		o.others = &others{}
	}
	if e.less(&o.top) {
		e, o.top = o.top, e
		o.others.put(e, e.key)
	} else {
		o.others.push(e, o.top.key)
	}
}

// min is the least entry, valid until the next change. The queue must not be empty.
func (o *priorityQueue) min() *entry { return &o.top }

// pop removes the least entry.
func (o *priorityQueue) pop() entry {
	e := o.top
	if o.others == nil {
		o.full = false
	} else {
		o.top, o.full = o.others.pop(e.key)
	}
	return e
}

// push inserts an entry. No key is below low, here and below.
func (o *others) push(e entry, low float64) {
	switch {
	case len(o.unsorted) > 0 && e.key > o.reach:
		o.unsorted = append(o.unsorted, e)
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

// pop removes the least entry; ok is false if there is none.
func (o *others) pop(low float64) (e entry, ok bool) {
	if o.n == 0 && len(o.heap) == 0 && len(o.unsorted) > 0 {
		o.refill(low)
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

// grow enlarges a full ring.
func (o *others) grow() {
	ring := make([]entry, max(4, 2*len(o.ring)))
	for i := range o.n {
		ring[i] = o.ring[(o.head+i)&(len(o.ring)-1)]
	}
	o.ring, o.head = ring, 0
}

// put inserts an entry into the heap. If the heap becomes large relative to the
// unsorted list, all entries move to the unsorted list.
func (o *others) put(e entry, low float64) {
	o.up(e)
	if len(o.heap) <= largeHeap || len(o.heap) <= o.n+len(o.unsorted) {
		return
	}
	o.unsorted = append(o.unsorted, o.heap...)
	for i := range o.n {
		o.unsorted = append(o.unsorted, o.ring[(o.head+i)&(len(o.ring)-1)])
	}
	o.heap, o.n = o.heap[:0], 0
	o.refill(low)
}

const (
	fewKeys   = 48  // up to this number, keys are sorted by insertion
	largeHeap = 128 // entries
	spreads   = 256 // number of buckets that the next keys are distributed to
)

// refill moves the next entries, about a third of the unsorted list, to the empty ring.
// It distributes them to buckets by key and sorts each bucket.
func (o *others) refill(low float64) {
	at := len(o.unsorted) / 3
	o.reach = min(o.unsorted[at].key, o.unsorted[len(o.unsorted)-1-at].key) // in the middle: the first and the last may be the least of all
	scale := 0.0
	if width := o.reach - low; width > 0 {
		scale = min((spreads-1)/width, math.MaxFloat64)
	}
	var ends [spreads]int32
	for i := range o.unsorted {
		if e := &o.unsorted[i]; e.key <= o.reach {
			ends[part(e.key-low, scale)]++
		}
	}
	for i, n := range ends {
		ends[i] = int32(o.n)
		o.n += int(n)
	}
	if o.head = 0; o.n > len(o.ring) {
		o.ring = make([]entry, 1<<bits.Len(uint(o.n-1)))
	}
	n := 0
	for i := range o.unsorted {
		e := &o.unsorted[i]
		if e.key > o.reach {
			o.unsorted[n] = *e
			n++
			continue
		}
		end := &ends[part(e.key-low, scale)]
		o.ring[*end] = *e
		*end++
	}
	o.unsorted = o.unsorted[:n]
	from := int32(0)
	for _, end := range ends {
		sortEntries(o.ring[from:end])
		from = end
	}
}

// part is the bucket of a key. Buckets are 1/scale wide; with scale 0 there is one bucket.
func part(above float64, scale float64) uint8 {
	if scale == 0 {
		return 0 // above may be infinite
	}
	return uint8(above * scale)
}

// sortEntries sorts a small slice by insertion.
func sortEntries(all []entry) {
	if len(all) > fewKeys {
		slices.SortFunc(all, entry.compare)
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

func (o *others) up(e entry) {
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

func (o *others) down() entry {
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
