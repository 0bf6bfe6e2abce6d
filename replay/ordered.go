package replay

import "cmp"

// An ordered holds actors by key and gives out the least key first, equal keys
// by seq. Keys that arrive in order, as those of equal phases do, cost a ring
// buffer's push and pop; others go through a heap. One alone lies in neither.
type ordered[K cmp.Ordered] struct {
	top  entry[K]   // the least, if there is any
	full bool       // there is
	ring []entry[K] // of the others, ascending; its length is a power of two
	head int        // of ring, counted without wrapping
	n    int        // entries in ring
	heap []entry[K] // of the others: 4-ary, the least first
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
func (o *ordered[K]) reset() { o.full, o.n, o.heap = false, 0, o.heap[:0] }

func (o *ordered[K]) push(e entry[K]) {
	switch {
	case !o.full:
		o.top, o.full = e, true
	case e.less(&o.top):
		o.up(o.top)
		o.top = e
	case o.n > 0 && e.less(&o.ring[(o.head+o.n-1)&(len(o.ring)-1)]):
		o.up(e)
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
	h := o.heap
	top, e := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	o.heap = h
	for i := 0; len(h) > 0; {
		least := i
		for c := 4*i + 1; c <= 4*i+4 && c < len(h); c++ {
			if least == i && h[c].less(&e) || least != i && h[c].less(&h[least]) {
				least = c
			}
		}
		if least == i {
			h[i] = e
			break
		}
		h[i] = h[least]
		i = least
	}
	return top
}
