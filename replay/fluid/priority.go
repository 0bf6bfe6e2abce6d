package fluid

// A priorityQueue gives out the least key first, equal keys by seq. Entries that
// arrive in order, as those of equal flows do, are appended to a sorted list; others
// go to a 4-ary heap. With a heap alone BenchmarkPhases/memory/even of package replay
// takes 1.4 times as long.
type priorityQueue struct {
	sorted []entry
	head   int // of sorted: the entries before it have been given out
	heap   []entry
}

type entry struct {
	key float64
	seq uint64
	id  int64
}

func (e *entry) less(f *entry) bool { return e.key < f.key || e.key == f.key && e.seq < f.seq }

func (q *priorityQueue) empty() bool { return q.head == len(q.sorted) && len(q.heap) == 0 }

// reset takes everything out.
func (q *priorityQueue) reset() { q.sorted, q.head, q.heap = q.sorted[:0], 0, q.heap[:0] }

// min is the least entry, valid until the next change. The queue must not be empty.
func (q *priorityQueue) min() *entry {
	if q.fromHeap() {
		return &q.heap[0]
	}
	return &q.sorted[q.head]
}

// fromHeap reports whether the least entry lies in the heap.
func (q *priorityQueue) fromHeap() bool {
	return q.head == len(q.sorted) || len(q.heap) > 0 && q.heap[0].less(&q.sorted[q.head])
}

func (q *priorityQueue) push(e entry) {
	n := len(q.sorted)
	switch {
	case q.head == n:
		q.sorted, q.head = append(q.sorted[:0], e), 0
		return
	case !e.less(&q.sorted[n-1]):
		if n == cap(q.sorted) && q.head > n/2 {
			q.sorted, q.head = q.sorted[:copy(q.sorted, q.sorted[q.head:])], 0
		}
		q.sorted = append(q.sorted, e)
		return
	}
	q.heap = append(q.heap, e)
	h := q.heap
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
func (q *priorityQueue) pop() entry {
	if !q.fromHeap() {
		q.head++
		return q.sorted[q.head-1]
	}
	top, last := q.heap[0], len(q.heap)-1
	e, h := q.heap[last], q.heap[:last]
	q.heap = h
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
