package replay

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// uncontended lists the workgroups with an uncontended flow on a path. Such a flow is not
// limited by any resource: it takes its time alone and needs only a timer. When a resource
// of the path becomes contended, the flows join classes.
type uncontended struct {
	wgs     []int32 // workgroups with such a flow, and some whose flow has ended
	n       int     // number of live ones in wgs
	batches []int32 // batches whose workgroups have one each
}

// beginUncontended starts a workgroup's flow without a class, if the path is uncontended.
func (s *sim) beginUncontended(id int32, w *workgroup) bool {
	if w.path == none || w.alone == 0 || s.slowed(w) > 1 {
		return false
	}
	switch l := s.kernels.at(w.launch); {
	case l.besideChannels():
		if !s.gpus[l.gpu].quietOn(w.path) {
			return false
		}
	case w.coRun > 1:
		return false
	}
	if !s.flows.Admit(w.path, w.limit(), int64(s.now)) {
		return false
	}
	s.list(id, w)
	s.sleep(id, w, w.alone)
	return true
}

// list adds a workgroup to those with an uncontended flow on its path.
func (s *sim) list(id int32, w *workgroup) {
	u := &s.flows.uncontended[w.path]
	if len(u.wgs) == cap(u.wgs) && len(u.wgs) > 4*u.n {
		s.forgetEnded(w.path, u)
	}
	w.uncontended, w.link = true, int32(len(u.wgs))
	u.wgs = append(u.wgs, id)
	u.n++
}

// endUncontended ends the workgroup's uncontended flow. Its entry in wgs stays: moving
// another workgroup to its place would cost a cache miss.
func (s *sim) endUncontended(w *workgroup) {
	s.flows.uncontended[w.path].n--
	s.flows.Dismiss(w.path, w.limit(), int64(w.since), int64(s.now))
	w.uncontended, w.link = false, none
}

// isUncontended reports whether the flow at an index of the path is still uncontended.
func (s *sim) isUncontended(path, at int32, id int32) bool {
	w := s.wgs.at(id)
	return w.uncontended && w.path == path && w.link == at
}

// forgetEnded removes the ended flows of a path from its list.
func (s *sim) forgetEnded(id int32, u *uncontended) {
	n := int32(0)
	for at, wg := range u.wgs {
		if s.isUncontended(id, int32(at), wg) {
			u.wgs[n], s.wgs.at(wg).link = wg, n
			n++
		}
	}
	u.wgs = u.wgs[:n]
}

// Contended moves the uncontended flows of a path to classes.
func (s *sim) Contended(path int32) {
	for u := &s.flows.uncontended[path]; len(u.batches) > 0; {
		id := u.batches[len(u.batches)-1]
		b := s.batches.at(id)
		if g := &s.gpus[s.kernels.at(b.launch).gpu]; g.unplaced == id {
			s.catchUp(g)
		}
		s.parted(id, b.n)
	}
	for wgs := &s.flows.uncontended[path].wgs; len(*wgs) > 0; {
		last := len(*wgs) - 1
		wg := (*wgs)[last]
		if s.isUncontended(path, int32(last), wg) {
			s.rejoin(wg, s.wgs.at(wg))
		}
		*wgs = (*wgs)[:last]
	}
}

// rejoin moves work whose slowdown has changed to the right class, from an uncontended
// flow or from another class.
func (s *sim) rejoin(id int32, w *workgroup) {
	var k classKey
	s.phaseFlow(w, &k)
	var rest float64
	switch {
	case w.phase == sleeping:
		if w.link != none && !w.uncontended {
			s.parted(w.link, s.batches.at(w.link).n)
		}
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
		return // it has not begun, or its class is that of the CU's work
	}
	s.join(actor{dueWorkgroup, id}, &k, rest)
}

func (l *launch) computes() bool { return l.kernel.Kind == trace.Compute }

// besideChannels reports whether the co-run slowdown of the kernel's phases is that alongside channels
// (rules I10 and M10). A collective's is that alongside compute (rule I1), whatever it states.
func (l *launch) besideChannels() bool { return l.computes() && l.kernel.Channels }

// settle begins the flows of this instant and solves all rates.
func (s *sim) settle() {
	for _, c := range s.pipesChanged {
		s.slowPipes(c)
	}
	s.interfere()
	for _, who := range s.entry {
		s.beginFlow(who)
	}
	s.pipesChanged, s.entry = s.pipesChanged[:0], s.entry[:0]
	s.flows.Solve(int64(s.now))
}

// beginAlone begins a workgroup's phase outside of any class if nothing limits it now.
// slowPipes and Contended move it to a class if that changes before the instant settles.
func (s *sim) beginAlone(id int32, w *workgroup) bool {
	if !w.lone {
		return s.beginUncontended(id, w)
	}
	if s.slowed(w) > 1 {
		return false
	}
	s.sleep(id, w, w.alone)
	return true
}

// beginFlow begins the actor's flow: without a class if nothing limits it any more, else
// in one.
func (s *sim) beginFlow(who actor) {
	if who.kind != dueWorkgroup {
		k, size := s.flowOf(who)
		s.join(who, &k, size)
		return
	}
	if w := s.wgs.at(who.id); s.remainsHeldBack(w) || !s.beginAlone(who.id, w) {
		var k classKey
		size := s.phaseFlow(w, &k)
		s.join(who, &k, size)
	}
}

// remainsHeldBack reports whether the workgroup's previous flow on the same path was
// limited until this instant.
func (s *sim) remainsHeldBack(w *workgroup) bool {
	if w.lone || w.path == none {
		return s.flows.HeldBack(&w.Member, none, 1)
	}
	return s.flows.HeldBack(&w.Member, w.path, w.limit())
}

// join adds the actor's flow, with size still to do, to the class of its key.
func (s *sim) join(who actor, k *classKey, size float64) {
	number := who.number()
	s.flows.Join(s.classFor(k), s.MemberOf(number), number, k.path, k.limit, size, int64(s.now))
}

// classFor returns the class of a flow.
func (s *sim) classFor(k *classKey) int32 {
	if k.cu != none { // few classes: search the CU's own list
		for _, id := range s.gpus[k.gpu].cus[k.cu].classes {
			if s.flows.classes[id].key == *k {
				return id
			}
		}
	}
	id, isNew := s.flows.classOf(k)
	if isNew {
		s.flows.SetLimit(id, s.limit(k))
		if k.cu != none {
			u := &s.gpus[k.gpu].cus[k.cu]
			u.classes = append(u.classes, id)
		}
	}
	return id
}

// flowOf returns the class key and the size of a stream's copy or of a put.
func (s *sim) flowOf(who actor) (classKey, float64) {
	if who.kind == dueStream {
		return s.streams[who.id].copyFlow(s)
	}
	return s.putFlow(who.id)
}

// phaseFlow writes the class key of a workgroup's phase into k and returns its size.
func (s *sim) phaseFlow(w *workgroup, k *classKey) float64 {
	l := s.kernels.at(w.launch)
	*k = classKey{path: none, gpu: l.gpu, cu: none, launch: none, limit: 1, slow: 1, coRun: 1, weight: 1}
	if !w.lone {
		k.path, k.coRun = w.path, w.coRun
	}
	if k.coRun > 1 {
		k.onset = l.kernel.Onset
	}
	if k.coRun > 1 && l.computes() {
		k.launch, k.channels = w.launch, l.besideChannels()
	}
	if k.path != none && l.besideChannels() {
		k.channels, k.fed = true, l.kernel.Fed
	}
	if k.path == none {
		if w.op == program.Work {
			k.cu = w.cu
		}
		return float64(w.alone)
	}
	k.limit, k.slow, k.weight = w.limit(), s.slowed(w), w.weight
	return w.size
}

// slowed is the slowdown of the workgroup's phase by the load of its CU.
func (s *sim) slowed(w *workgroup) float64 {
	if w.op == program.Store || w.cu == none {
		return 1
	}
	return s.gpus[s.kernels.at(w.launch).gpu].pipes[w.cu].slow
}

// limit is the rate at which the phase moves its bytes alone.
func (w *workgroup) limit() float64 { return limitOf(w.size, float64(w.alone)) }

// pathKeyOf is the path of a phase's bytes. Bytes served by the cache do not use memory
// bandwidth (rule M7); updates use more of it (rule R5).
func (s *sim) pathKeyOf(l *launch, p *program.Phase) pathKey {
	k := pathKey{from: l.gpu, to: l.gpu, side: s.flows.side(communication), write: s.flows.written(p.Update)}
	if l.computes() && (p.Op == program.Work || p.Peer == l.gpu) {
		k.side = s.flows.side(computation)
	}
	switch {
	case p.Op == program.Store:
		k.to, k.read = p.Peer, (p.Read+p.Write)/p.Bytes
	case p.Hit > 0 || p.Update: // bytes read and written, per byte of the flow
		all := p.Read + p.Write
		k.write = (p.Read*(1-p.Hit) + p.Write*k.write) / all
	}
	if p.Op == program.Work {
		k.cache = 1
	}
	return k
}

// limitOf is the rate that moves size in the given nanoseconds.
func limitOf(size, ns float64) float64 {
	if ns == 0 {
		return boundless
	}
	return min(size/ns, boundless)
}

// limit is the current maximum rate of a class member (rule R3).
func (s *sim) limit(k *classKey) float64 {
	limit := k.limit / k.slow
	if k.cu != none {
		limit /= s.gpus[k.gpu].pipes[k.cu].slow
	}
	if k.coRuns() {
		limit /= s.interference(k)
	}
	return limit
}

// slowPipes updates the slowdown of the work on a CU: k workgroups take k times
// Kernel.Pipe as long, and at least as long as alone.
func (s *sim) slowPipes(at cuRef) {
	g := &s.gpus[at.gpu]
	x := &g.pipes[at.cu]
	x.changed = false
	slow := max(1, float64(x.load)/wholePipe)
	if slow == x.slow {
		return
	}
	x.slow = slow
	u := &g.cus[at.cu]
	for _, id := range u.classes {
		s.flows.SetLimit(id, s.limit(&s.flows.classes[id].key))
	}
	for _, id := range u.wgs {
		if w := s.wgs.at(id); w.op == program.Work {
			s.rejoin(id, w)
		}
	}
}

// perNanosecond converts a rate per second to one per nanosecond.
func perNanosecond(perSecond float64) float64 { return perSecond / 1e9 }
