package replay

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A dueKey is an actor and its order among those due at one instant.
type dueKey struct {
	key uint64
	who actor
}

// collect appends everything due now to the queue, in order.
func (s *sim) collect(now program.Time) {
	s.due, s.keys = s.events.Due(s.due[:0]), s.keys[:0]
	s.queue, s.head, s.ends = s.queue[:0], 0, s.ends[:0]
	for _, number := range s.due {
		who := actorOf(number)
		if who.kind == dueFlow {
			if t := fluid.Timer(who.id); s.flows.Pending(t, int64(now)) {
				s.now = now
				s.ends = s.flows.Complete(t, int64(now), s.ends)
			}
			continue
		}
		a := s.alarm(who)
		if *a != now { // the alarm has changed since
			continue
		}
		*a, s.now = none, now
		if who.kind == duePost { // first of all, in the order in which they were sent
			s.queue = append(s.queue, who)
		} else {
			s.keys = append(s.keys, dueKey{s.order(who), who})
		}
	}
	for _, number := range s.ends { // in one loop, so that cache misses overlap: 1.3x on BenchmarkPhases/memory/jittered_bytes
		who := actorOf(number)
		s.keys = append(s.keys, dueKey{s.order(who), who})
		s.flows.End(s.MemberOf(number))
	}
	if len(s.keys) > 1 {
		slices.SortFunc(s.keys, func(a, b dueKey) int { return cmp.Compare(a.key, b.key) })
	}
	first := len(s.queue)
	s.queue = slices.Grow(s.queue, len(s.keys))[:first+len(s.keys)]
	sorted := s.queue[first:]
	for i := range sorted {
		sorted[i] = s.keys[i].who
	}
}

// wakeAt sets the actor's alarm.
func (s *sim) wakeAt(a *alarm, at program.Time, who actor) {
	*a = at
	s.events.Set(int64(at), who.number())
}

// alarm points to the time at which the actor is due.
func (s *sim) alarm(who actor) *alarm {
	switch who.kind {
	case duePost:
		return &s.posts.at(who.id).at
	case duePut:
		return &s.channel(who.id).alarm
	case dueStream:
		return &s.streams[who.id].alarm
	case dueBatch:
		return &s.batches.at(who.id).alarm
	}
	return &s.wgs.at(who.id).alarm
}

// order is an actor's sort key within one instant: two bits for its kind, 31 for its
// launch, 31 for its index.
func (s *sim) order(who actor) uint64 {
	switch who.kind {
	case dueBatch:
		b := s.batches.at(who.id)
		return s.orderOf(b.launch, b.first)
	case dueWorkgroup:
		w := s.wgs.at(who.id)
		return s.orderOf(w.launch, w.index)
	}
	return uint64(who.kind)<<62 | uint64(who.id)
}

func (s *sim) orderOf(launch, index int32) uint64 {
	return uint64(dueWorkgroup)<<62 | uint64(s.kernels.at(launch).order)<<31 | uint64(index)
}
