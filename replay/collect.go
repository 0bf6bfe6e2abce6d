package replay

import "slices"

// A dueKey orders what is due at one instant.
type dueKey struct {
	key uint64
	who actor
}

// collect puts everything that is due at now into the queue, in order.
func (s *sim) collect(now Time) {
	s.due, s.keys = s.events.due(s.due[:0]), s.keys[:0]
	s.queue, s.head = s.queue[:0], 0
	for _, who := range s.due {
		if a := s.alarm(who); *a == now { // else overtaken
			*a = none
			s.collectFrom(who, now)
		}
	}
	if len(s.keys) > 1 {
		s.keys, s.spare = sortKeys(s.keys, s.spare)
	}
	first := len(s.queue)
	s.queue = slices.Grow(s.queue, len(s.keys))[:first+len(s.keys)]
	sorted := s.queue[first:]
	for i := range sorted {
		sorted[i] = s.keys[i].who
	}
}

// collectFrom collects the actor, or those that it stands for.
func (s *sim) collectFrom(who actor, now Time) {
	s.now = now
	take := s.flows.take
	switch who.kind {
	case duePost: // first of all, and in the order in which they were sent
		s.queue = append(s.queue, who)
		return
	case dueClass:
	case duePath:
		take = s.flows.takeHeld
	case dueRecompute:
		s.flows.recomputeAll()
		return
	default:
		s.keys = append(s.keys, dueKey{s.order(who), who})
		return
	}
	member, ok := take(who.id, now, true)
	for ; ok; member, ok = take(who.id, now, false) {
		s.keys = append(s.keys, dueKey{s.order(member), member})
		s.flows.end(s.stake(member))
	}
}

// alarm is where it lies when the actor is due.
func (s *sim) alarm(who actor) *alarm {
	switch who.kind {
	case duePost:
		return &s.posts.at(who.id).at
	case duePut:
		return &s.channel(who.id).alarm
	case dueStream:
		return &s.streams[who.id].alarm
	case dueClass:
		return &s.flows.classes[who.id].alarm
	case duePath:
		return &s.flows.paths[who.id].alarm
	case dueRecompute:
		return &s.flows.approx.alarm
	}
	return &s.wgs.at(who.id).alarm
}

// order is the place of an actor among all that are due at one instant: two
// bits for its kind, 31 for its launch, 31 for its index.
func (s *sim) order(who actor) uint64 {
	of := uint64(who.id)
	if who.kind == dueWorkgroup {
		w := s.wgs.at(who.id)
		of = uint64(s.kernels.at(w.launch).order)<<31 | uint64(w.index)
	}
	return uint64(who.kind)<<62 | of
}
