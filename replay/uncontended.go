package replay

// uncontended is the workgroups with an uncontended flow along a path: it is held
// back by nothing, takes its time alone and needs only a timer. When a resource of
// the path becomes contended, they join classes.
type uncontended struct {
	wgs []int32 // with such a flow, and some whose flow has ended
	n   int     // of them, those with one
}

// beginUncontended begins a workgroup's flow without a class, if it may be.
func (s *sim) beginUncontended(id int32, w *workgroup) bool {
	if w.path == none || w.beside > 1 || w.alone == 0 || s.slowed(w) > 1 || !s.flows.Admit(w.path, w.limit(), int64(s.now)) {
		return false
	}
	u := &s.flows.uncontended[w.path]
	if len(u.wgs) == cap(u.wgs) && len(u.wgs) > 4*u.n {
		s.forgetEnded(w.path, u)
	}
	w.uncontended, w.pathAt = true, int32(len(u.wgs))
	u.wgs = append(u.wgs, id)
	u.n++
	s.sleep(id, w, w.alone)
	return true
}

// endUncontended ends the workgroup's uncontended flow. Its place in the path is
// left as it is: moving another one to it takes a cache miss.
func (s *sim) endUncontended(w *workgroup) {
	s.flows.uncontended[w.path].n--
	s.flows.Dismiss(w.path, w.limit(), int64(w.since), int64(s.now))
	w.uncontended = false
}

// isUncontended reports whether the flow at a place of the path is uncontended still.
func (s *sim) isUncontended(path, at int32, id int32) bool {
	w := s.wgs.at(id)
	return w.uncontended && w.path == path && w.pathAt == at
}

// forgetEnded keeps of a path's flows those that are uncontended still.
func (s *sim) forgetEnded(id int32, u *uncontended) {
	n := int32(0)
	for at, wg := range u.wgs {
		if s.isUncontended(id, int32(at), wg) {
			u.wgs[n], s.wgs.at(wg).pathAt = wg, n
			n++
		}
	}
	u.wgs = u.wgs[:n]
}

// Contended moves the uncontended flows of a path to classes.
func (s *sim) Contended(path int32) {
	for wgs := &s.flows.uncontended[path].wgs; len(*wgs) > 0; {
		last := len(*wgs) - 1
		wg := (*wgs)[last]
		if s.isUncontended(path, int32(last), wg) {
			s.rejoin(wg, s.wgs.at(wg))
		}
		*wgs = (*wgs)[:last]
	}
}

// rejoin moves work that is slowed from now on, or no longer, to the class where it
// belongs: out of an uncontended flow, or out of another class.
func (s *sim) rejoin(id int32, w *workgroup) {
	var k classKey
	s.phaseFlow(w, &k)
	var rest float64
	switch {
	case w.phase == sleeping:
		rest = float64(w.alarm - s.now)
		w.alarm = none
		w.phase = flowing
		if w.uncontended {
			rest *= k.limit
			s.endUncontended(w)
		}
	case w.In() && s.flows.PathOf(w.Class) != none:
		rest = s.flows.Leave(&w.Member, int64(s.now))
	default:
		return // it has yet to begin, or its class is that of the CU's work
	}
	s.join(actor{dueWorkgroup, id}, &k, rest)
}
