package replay

// Undisturbed flows
//
// A phase that is held back by nothing takes exactly its time alone and needs
// no class, only a timer. That holds as long as every pool on its path could
// carry all that may flow:
//
//	pool  |#### classes, at most ####|== undisturbed ==|......|
//	      0                                              capacity
//
// When a pool cannot any more, the undisturbed flows through it join classes.
// A flow does so once, so that a pool about to be tight costs little.

// admit adds an undisturbed flow of the given rate to the path's pools, if none
// of them holds flows back.
func (f *flows) admit(id int32, rate float64, now Time) bool {
	pools, weights := f.crossed(&f.rises[id])
	for _, at := range pools {
		if f.pools[at].tightens() {
			return false
		}
	}
	for i, at := range pools {
		p := &f.pools[at]
		p.quietN++
		p.quiet += weights[i] * rate
		p.stir(now)
		if p.arbiter > 0 {
			f.arbitrate(p.arbiter)
		}
		f.watch(at)
	}
	return true
}

// dismiss takes one away that has begun at since.
func (f *flows) dismiss(id int32, rate float64, since, now Time) {
	pools, weights := f.crossed(&f.rises[id])
	for i, at := range pools {
		p := &f.pools[at]
		by := weights[i] * rate
		p.moved += by * float64(now-since)
		p.quiet -= by
		if p.quietN--; p.quietN == 0 {
			p.quiet = 0 // exactly
		}
		p.stir(now)
		if p.arbiter > 0 {
			f.arbitrate(p.arbiter)
		}
	}
}

// calm reports whether nothing has changed that another flow could notice.
func (f *flows) calm() bool {
	return len(f.touched)+len(f.dirty)+len(f.changed)+len(f.moved)+len(f.toRule)+len(f.disturbed) == 0 && !f.approx.due
}

// watch notes a pool that has undisturbed flows, to look at it when all demand is known.
func (f *flows) watch(id int32) {
	if p := &f.pools[id]; !p.listed && p.tightens() {
		p.listed = true
		f.disturbed = append(f.disturbed, id)
	}
}

// hush begins a workgroup's flow undisturbed, if it may be.
func (s *sim) hush(id int32, w *workgroup) bool {
	if w.path == none || w.beside > 1 || w.alone == 0 || s.slowed(w) > 1 || !s.flows.admit(w.path, w.limit(), s.now) {
		return false
	}
	p := &s.flows.paths[w.path]
	if p.quiet == nil { // the first ever
		pools, _ := s.flows.crossed(&s.flows.rises[w.path])
		for _, id := range pools {
			pool := &s.flows.pools[id]
			pool.ways = append(pool.ways, w.path)
		}
	}
	if len(p.quiet) == cap(p.quiet) && len(p.quiet) > 4*p.hushed {
		s.forgetEnded(w.path, p)
	}
	w.quiet, w.pathAt = true, int32(len(p.quiet))
	p.quiet = append(p.quiet, id)
	p.hushed++
	s.sleep(id, w, w.alone)
	return true
}

// unhush ends the workgroup's undisturbed flow. Its place in the path is left
// as it is: another's that would take it is far away in memory.
func (s *sim) unhush(w *workgroup) {
	s.flows.paths[w.path].hushed--
	s.flows.dismiss(w.path, w.limit(), w.since, s.now)
	w.quiet = false
}

// isHushed reports whether the flow at a place of the path is undisturbed still.
func (s *sim) isHushed(path, at int32, id int32) bool {
	w := s.wgs.at(id)
	return w.quiet && w.path == path && w.pathAt == at
}

// forgetEnded keeps of a path's flows those that are undisturbed still.
func (s *sim) forgetEnded(id int32, p *path) {
	n := int32(0)
	for at, wg := range p.quiet {
		if s.isHushed(id, int32(at), wg) {
			p.quiet[n], s.wgs.at(wg).pathAt = wg, n
			n++
		}
	}
	p.quiet = p.quiet[:n]
}

// disturb moves the undisturbed flows through pools that have become tight to
// classes. What a flow may send at most is less in a class, where the narrowest
// pool bounds it, so that demand is known when no pool is noted any more.
func (s *sim) disturb() {
	for s.flows.tallyAll(s.now); len(s.flows.disturbed) > 0; s.flows.tallyAll(s.now) {
		last := len(s.flows.disturbed) - 1
		p := &s.flows.pools[s.flows.disturbed[last]]
		s.flows.disturbed = s.flows.disturbed[:last]
		p.listed = false
		if !p.tightens() {
			continue
		}
		for _, way := range p.ways {
			for quiet := &s.flows.paths[way].quiet; len(*quiet) > 0; {
				last := len(*quiet) - 1
				wg := (*quiet)[last]
				if s.isHushed(way, int32(last), wg) {
					s.rejoin(wg, s.wgs.at(wg))
				}
				*quiet = (*quiet)[:last]
			}
		}
	}
}

// rejoin moves work that is slowed from now on, or no longer, to the class
// where it belongs: out of an undisturbed sleep, or out of another class.
func (s *sim) rejoin(id int32, w *workgroup) {
	var k classKey
	s.phaseFlow(w, &k)
	var rest float64
	switch {
	case w.phase == sleeping:
		rest = float64(w.alarm - s.now)
		w.alarm = none
		w.phase = flowing
		if w.quiet {
			rest *= k.limit
			s.unhush(w)
		}
	case w.seq != 0 && s.flows.classes[w.class].path != none:
		rest = s.flows.leave(&w.stake, s.now)
	default:
		return // it has yet to begin, or its class is that of the CU's work
	}
	s.join(actor{dueWorkgroup, id}, &k, rest)
}
