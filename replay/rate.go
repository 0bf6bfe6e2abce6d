package replay

import "github.com/overlapse/overlapse/trace"

// leastBytes is what counts as bytes to move; less takes no time of its own.
const leastBytes = 1e-6

// size is the bytes whose progress is the phase's: 0 where only time passes.
func (p *Phase) size() float64 {
	b := p.Bytes
	if p.Op == Work {
		b = p.Read + p.Write
	}
	if b < leastBytes {
		return 0
	}
	return b
}

func (l *launch) computes() bool { return l.kernel.Kind == trace.Compute }

// settle begins the flows of this instant and finds the rates of all.
func (s *sim) settle() {
	for _, c := range s.bent {
		s.bend(c)
	}
	for _, g := range s.crowd {
		s.gpus[g].crowded = false
		for _, id := range s.flows.beside[g] {
			s.flows.setLimit(id, s.limit(&s.flows.classes[id].key))
		}
	}
	for _, who := range s.entry {
		s.beginFlow(who)
	}
	s.bent, s.crowd, s.entry = s.bent[:0], s.crowd[:0], s.entry[:0]
	if s.flows.calm() {
		s.flows.settled++
		return
	}
	for again := true; again; again = s.part() {
		s.disturb()
		s.flows.solve(s.now)
	}
	s.flows.settle(s.now)
}

// beginAlone begins a workgroup's phase outside of any class, if nothing holds
// it back at present. What will hold it back when the instant settles finds it
// there (bend, disturb).
func (s *sim) beginAlone(id int32, w *workgroup) bool {
	if !w.lone {
		return s.hush(id, w)
	}
	if s.slowed(w) > 1 {
		return false
	}
	s.sleep(id, w, w.alone)
	return true
}

// beginFlow begins what the actor has to do: in a class, unless nothing holds it back any more.
func (s *sim) beginFlow(who actor) {
	if who.kind != dueWorkgroup {
		k, size := s.flowOf(who)
		s.join(who, &k, size)
		return
	}
	if w := s.wgs.at(who.id); s.staysHeldBack(w) || !s.beginAlone(who.id, w) {
		var k classKey
		size := s.phaseFlow(w, &k)
		s.join(who, &k, size)
	}
}

// staysHeldBack reports whether the workgroup was held back until this instant
// on the path of its phase.
func (s *sim) staysHeldBack(w *workgroup) bool {
	if w.lone || w.path == none {
		return s.flows.heldBack(&w.stake, none, 1)
	}
	return s.flows.heldBack(&w.stake, w.path, w.limit())
}

func (s *sim) join(who actor, k *classKey, size float64) {
	if k.cu != none { // a few, close at hand
		for _, id := range s.gpus[k.gpu].cus[k.cu].clocks {
			if s.flows.classes[id].key == *k {
				s.flows.join(id, k, s.stake(who), who, size, s.now)
				return
			}
		}
	}
	if who.kind == dueWorkgroup {
		if id := s.flows.commonFor(k); id != none {
			s.flows.join(id, k, s.stake(who), who, size, s.now)
			return
		}
	}
	id, isNew := s.flows.lookup(k)
	if isNew {
		s.flows.setLimit(id, s.limit(k))
		if k.cu != none {
			u := &s.gpus[k.gpu].cus[k.cu]
			u.clocks = append(u.clocks, id)
		}
	}
	s.flows.join(id, k, s.stake(who), who, size, s.now)
}

// stake is the actor's membership.
func (s *sim) stake(who actor) *stake {
	switch who.kind {
	case dueWorkgroup:
		return &s.wgs.at(who.id).stake
	case dueStream:
		return &s.streams[who.id].stake
	}
	return &s.channel(who.id).stake
}

// stale reports whether the actor has left the class that it entered with seq.
func (s *sim) stale(who actor, seq uint64) bool { return s.stake(who).seq != seq }

// flowOf is what bounds the flow of a stream's copy or of a put, and how much it has to do.
func (s *sim) flowOf(who actor) (classKey, float64) {
	if who.kind == dueStream {
		return s.streams[who.id].copyFlow(s)
	}
	return s.putFlow(who.id)
}

// phaseFlow is what bounds the flow of a workgroup's phase, put into k, and its size.
func (s *sim) phaseFlow(w *workgroup, k *classKey) float64 {
	l := s.kernels.at(w.launch)
	*k = classKey{path: none, gpu: l.gpu, cu: none, launch: none, limit: 1, slow: 1, beside: 1, favor: 1}
	if !w.lone {
		k.path, k.beside = w.path, w.beside
	}
	if k.beside > 1 {
		k.onset = l.kernel.Onset
	}
	if k.beside > 1 && l.computes() {
		k.launch = w.launch
	}
	if k.path == none {
		if w.op == Work {
			k.cu = w.cu
		}
		return float64(w.alone)
	}
	k.limit, k.slow, k.favor = w.limit(), s.slowed(w), w.favor
	return w.size
}

// slowed is how many times as long the workgroup's phase takes for the load of its CU.
func (s *sim) slowed(w *workgroup) float64 {
	if w.op == Store || w.cu == none {
		return 1
	}
	return s.gpus[s.kernels.at(w.launch).gpu].pipes[w.cu].slow
}

// limit is the rate of the phase's bytes alone.
func (w *workgroup) limit() float64 { return limitOf(w.size, float64(w.alone)) }

// wayOf is the path of a phase's bytes.
func (s *sim) wayOf(l *launch, p *Phase) pathKey {
	k := pathKey{from: l.gpu, to: l.gpu, side: s.flows.side(communication), write: s.flows.written(p.Update)}
	if l.computes() && (p.Op == Work || p.Peer == l.gpu) {
		k.side = s.flows.side(computation)
	}
	switch {
	case p.Op == Store:
		k.to, k.read = p.Peer, (p.Read+p.Write)/p.Bytes
	case p.Hit > 0 || p.Update: // of a byte, what is read and what is written
		all := p.Read + p.Write
		k.write = (p.Read*(1-p.Hit) + p.Write*k.write) / all
	}
	if p.Op == Work {
		k.cache = 1
	}
	return k
}

// limitOf is the rate at which size takes the given nanoseconds.
func limitOf(size, ns float64) float64 {
	if ns == 0 {
		return boundless
	}
	return min(size/ns, boundless)
}

// limit is how fast a member of the class can go at present.
func (s *sim) limit(k *classKey) float64 {
	limit := k.limit / k.slow
	if k.cu != none {
		limit /= s.gpus[k.gpu].pipes[k.cu].slow
	}
	if k.beside > 1 {
		limit /= s.interference(k)
	}
	return limit
}

// bend makes the work on a CU as slow as the shares of its pipes now have it
// (MECHANISM R0.4).
func (s *sim) bend(at cuRef) {
	g := &s.gpus[at.gpu]
	x := &g.pipes[at.cu]
	x.bent = false
	slow := max(1, float64(x.load)/wholePipe)
	if slow == x.slow {
		return
	}
	x.slow = slow
	u := &g.cus[at.cu]
	for _, id := range u.clocks {
		s.flows.setLimit(id, s.limit(&s.flows.classes[id].key))
	}
	for _, id := range u.wgs {
		if w := s.wgs.at(id); w.op == Work {
			s.rejoin(id, w)
		}
	}
}
