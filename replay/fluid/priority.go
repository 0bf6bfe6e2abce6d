package fluid

// A priorityQueue returns entries by ascending key, equal keys by seq: a binary heap.
type priorityQueue struct{ heap []entry }

type entry struct {
	key float64
	seq uint64
	id  int64
}

func (e *entry) less(f *entry) bool {
	return e.key < f.key || e.key == f.key && e.seq < f.seq
}

func (q *priorityQueue) empty() bool { return len(q.heap) == 0 }

// reset removes all entries.
func (q *priorityQueue) reset() { q.heap = q.heap[:0] }

// min is the least entry, valid until the next change. The queue must not be empty.
func (q *priorityQueue) min() *entry { return &q.heap[0] }

func (q *priorityQueue) push(e entry) {
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for parent := (i - 1) / 2; i > 0 && e.less(&h[parent]); parent = (i - 1) / 2 {
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop removes the least entry.
func (q *priorityQueue) pop() entry {
	top, last := q.heap[0], len(q.heap)-1
	e, h := q.heap[last], q.heap[:last]
	q.heap = h
	if last == 0 {
		return top
	}
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && h[child+1].less(&h[child]) {
			child++
		}
		if !h[child].less(&e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
	return top
}
