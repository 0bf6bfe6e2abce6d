package replay

import "cmp"

// An ordered holds actors by key and gives out the least key first, equal keys
// by seq. Keys that arrive in order, as those of equal phases do, cost a ring
// buffer's push and pop; others go through a heap. One alone lies in neither.
//
// A heap of a thousand lies in more cache lines than are still at hand when its
// turn comes again. So only what is next lies in the heap. The rest is a pile in
// no order, through which one goes from end to end when the heap is empty:
//
//	heap  |3 5 4 7|                   keys up to reach, 7
//	pile  |12 40 9 8 31 17 22 ...     those above it
type ordered[K cmp.Ordered] struct {
	top   entry[K]   // the least, if there is any
	full  bool       // there is
	ring  []entry[K] // of the others, ascending; its length is a power of two
	head  int        // of ring, counted without wrapping
	n     int        // entries in ring
	heap  []entry[K] // of the others: 4-ary, the least first
	pile  []entry[K] // and those with keys above reach
	reach K
}

type entry[K cmp.Ordered] struct {
	key K
	seq uint64
	who actor
}

func (e *entry[K]) less(f *entry[K]) bool {
	return e.key < f.key || e.key == f.key && e.seq < f.seq
}

func (o *ordered[K]) empty() bool { return !o.full }

// reset takes everything out.
func (o *ordered[K]) reset() { o.full, o.n, o.heap, o.pile = false, 0, o.heap[:0], o.pile[:0] }

func (o *ordered[K]) push(e entry[K]) {
	switch {
	case !o.full:
		o.top, o.full = e, true
	case e.less(&o.top):
		o.put(o.top)
		o.top = e
	case o.n > 0 && e.less(&o.ring[(o.head+o.n-1)&(len(o.ring)-1)]):
		o.put(e)
	default:
		if o.n == len(o.ring) {
			o.grow()
		}
		o.ring[(o.head+o.n)&(len(o.ring)-1)] = e
		o.n++
	}
}

func (o *ordered[K]) grow() {
	ring := make([]entry[K], max(4, 2*len(o.ring)))
	for i := range o.n {
		ring[i] = o.ring[(o.head+i)&(len(o.ring)-1)]
	}
	o.ring, o.head = ring, 0
}

// min is the least entry, valid until the next change. The queue must not be empty.
func (o *ordered[K]) min() *entry[K] { return &o.top }

// pop takes the least entry out.
func (o *ordered[K]) pop() entry[K] {
	e := o.top
	if len(o.heap) == 0 && len(o.pile) > 0 {
		o.sift()
	}
	switch {
	case len(o.heap) > 0 && (o.n == 0 || o.heap[0].less(&o.ring[o.head&(len(o.ring)-1)])):
		o.top = o.down()
	case o.n > 0:
		o.top = o.ring[o.head&(len(o.ring)-1)]
		o.head++
		o.n--
	default:
		o.full = false
	}
	return e
}

// put puts an entry into the heap or on the pile. A heap that is large for the
// pile goes onto it.
func (o *ordered[K]) put(e entry[K]) {
	if len(o.pile) > 0 && e.key > o.reach {
		o.pile = append(o.pile, e)
		return
	}
	o.up(e)
	if len(o.heap) > largeHeap && len(o.heap) > len(o.pile) {
		o.pile, o.heap = append(o.pile, o.heap...), o.heap[:0]
		o.sift()
	}
}

// How many entries are a large heap, and of how many of a pile the least is how
// far the next ones reach, so that these are one in so many.
const (
	largeHeap = 128
	samples   = 8
)

// sift moves the entries that come next from the pile to the heap.
func (o *ordered[K]) sift() {
	stride := len(o.pile)/samples + 1
	o.reach = o.pile[stride/2].key
	for i := stride / 2; i < len(o.pile); i += stride { // not the first: it came first and may be the least of all
		o.reach = min(o.reach, o.pile[i].key)
	}
	n := 0
	for i := range o.pile {
		if o.pile[i].key <= o.reach {
			o.up(o.pile[i])
		} else {
			o.pile[n] = o.pile[i]
			n++
		}
	}
	o.pile = o.pile[:n]
}

func (o *ordered[K]) up(e entry[K]) {
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

func (o *ordered[K]) down() entry[K] {
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
