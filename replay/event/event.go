// Package event is the event queue of a discrete-event simulation. A timer has an integer time and
// the number of its owner.
package event

// Last bounds times: 36 years in nanoseconds. Sums of two times below it do not overflow.
const Last int64 = 1 << 60

// A Queue returns timers in the order of their times, equal times in the order in which they were
// set: a heap of times, and a list of owners for each. The queue does not cancel timers: the owner
// stores the time of its current timer and ignores timers with a different time.
type Queue struct {
	now    int64
	times  []int64 // heap
	lists  map[int64]list
	timers []timer
	free   []int32
}

// A list is the first and the last of the timers of one time.
type list struct{ first, last int32 }

type timer struct {
	who  int64
	next int32 // of its list, unless it is the last
}

// Set adds a timer of owner who at time at. at must not be before the current time of
// the queue or after twice Last.
func (q *Queue) Set(at, who int64) {
	id := int32(len(q.timers))
	if n := len(q.free); n > 0 {
		id, q.free = q.free[n-1], q.free[:n-1]
		q.timers[id].who = who
	} else {
		q.timers = append(q.timers, timer{who: who})
	}
	l, known := q.lists[at]
	if !known {
		l.first = id
		q.push(at)
	} else {
		q.timers[l.last].next = id
	}
	if l.last = id; q.lists == nil {
		q.lists = map[int64]list{}
	}
	q.lists[at] = l
}

// Advance moves to the earliest time of a timer and returns it; ok is false if there is no timer.
func (q *Queue) Advance() (now int64, ok bool) {
	if len(q.times) == 0 {
		return q.now, false
	}
	q.now = q.times[0]
	return q.now, true
}

// Due removes the timers at the current time and appends their owners.
func (q *Queue) Due(into []int64) []int64 {
	l, due := q.lists[q.now]
	if !due {
		return into
	}
	delete(q.lists, q.now)
	q.pop()
	for id := l.first; ; id = q.timers[id].next {
		into, q.free = append(into, q.timers[id].who), append(q.free, id)
		if id == l.last {
			return into
		}
	}
}

func (q *Queue) push(at int64) {
	q.times = append(q.times, at)
	h, i := q.times, len(q.times)-1
	for parent := (i - 1) / 2; i > 0 && at < h[parent]; parent = (i - 1) / 2 {
		h[i] = h[parent]
		i = parent
	}
	h[i] = at
}

// pop removes the earliest time.
func (q *Queue) pop() {
	last := len(q.times) - 1
	at, h, i := q.times[last], q.times[:last], 0
	q.times = h
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && h[child+1] < h[child] {
			child++
		}
		if h[child] >= at {
			break
		}
		h[i] = h[child]
		i = child
	}
	if last > 0 {
		h[i] = at
	}
}
