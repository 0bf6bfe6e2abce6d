package replay

// An ordered is a priority queue of actors: it gives out the least key first,
// equal keys by seq. Entries that arrive in order, as those of equal phases do,
// are appended to a sorted list; others go to a 4-ary heap.
type ordered[K number] struct {
	sorted []entry[K]
	head   int // of sorted: what lies before has been given out
	heap   []entry[K]
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

func (o *ordered[K]) empty() bool { return o.head == len(o.sorted) && len(o.heap) == 0 }

// reset takes everything out.
func (o *ordered[K]) reset() { o.sorted, o.head, o.heap = o.sorted[:0], 0, o.heap[:0] }

// min is the least entry, valid until the next change. The queue must not be empty.
func (o *ordered[K]) min() *entry[K] {
	if o.fromHeap() {
		return &o.heap[0]
	}
	return &o.sorted[o.head]
}

// fromHeap reports whether the least entry lies in the heap.
func (o *ordered[K]) fromHeap() bool {
	return o.head == len(o.sorted) || len(o.heap) > 0 && o.heap[0].less(&o.sorted[o.head])
}

func (o *ordered[K]) push(e entry[K]) {
	if n := len(o.sorted); o.head == n || !e.less(&o.sorted[n-1]) {
		if o.head == n {
			o.sorted, o.head = o.sorted[:0], 0
		} else if n == cap(o.sorted) && o.head > n/2 {
			o.sorted, o.head = o.sorted[:copy(o.sorted, o.sorted[o.head:])], 0
		}
		o.sorted = append(o.sorted, e)
		return
	}
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

// pop takes the least entry out.
func (o *ordered[K]) pop() entry[K] {
	if !o.fromHeap() {
		o.head++
		return o.sorted[o.head-1]
	}
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
