package replay

import (
	"math/bits"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
)

// A batch is workgroups of one kernel that a dispatch placed together, and whose equal phases nothing slows:
// their phases end together, so they are stepped as one, and which tile each of them has does not matter.
// When the load of a CU changes, or a resource that their bytes cross becomes contended, or channels begin to
// slow them, each gets a timer of its own.
//
// A whole kernel that fits on empty CUs, while no other one works or waits for a slot, is a batch
// without workgroups: most such kernels end before the state of a CU is looked at. Until a workgroup of
// the GPU is stepped or placed, nothing changes that the placement depends on, so it is made up for then. A kernel of
// several waves on a GPU without other workgroups is such a batch for each: the next one is placed, as refill would, where
// the one before was.
type batch struct {
	alarm  alarm
	since  program.Time // when the phase began
	launch int32
	rounds int32   // number of tiles begun
	first  int32   // index of the first workgroup
	n      int     // workgroups
	wgs    []int32 // by index; none if they are not placed
	path   int32   // of the bytes of the phase that runs, which has an uncontended flow for each; or none
	at     int32   // index in flows.uncontended of the path
}

// inBatches reports whether workgroups of a kernel are stepped in batches.
func (s *sim) inBatches(gpu int32, k *program.Kernel) bool {
	if k.Free || k.Recipe != nil || k.Prologue != nil || k.Epilogue != nil || k.Lag > 0 || k.Cluster > 1 ||
		k.Alike == 0 && len(k.Each) != 1 || s.causes != nil || s.record.deep[gpu] {
		return false
	}
	return !slices.ContainsFunc(k.Each, func(p program.Phase) bool {
		return p.Op != program.Work || p.Time == 0 || p.Slowdown > 1 && (sizeOf(&p) == 0 || !k.Channels) || s.program.CheckPhase(&p, s.flows.inner.topology) != nil
	})
}

// newBatch makes a batch of a launch without workgroups.
func (s *sim) newBatch(launch, first int32) (id int32) {
	id = s.batches.add()
	b := s.batches.at(id)
	*b = batch{alarm: none, launch: launch, first: first, wgs: b.wgs[:0], path: none}
	s.queue = append(s.queue, actor{dueBatch, id})
	return id
}

// enterBatch adds a placed workgroup to the launch's batch of this dispatch.
func (s *sim) enterBatch(id int32, w *workgroup, l *launch) {
	if alike := int32(l.kernel.Alike); l.batch == none || alike > 0 && s.batches.at(l.batch).first/alike != w.index/alike {
		l.batch = s.newBatch(w.launch, w.index)
	}
	w.link = l.batch
	b := s.batches.at(w.link)
	b.wgs, b.n = append(b.wgs, id), len(b.wgs)+1
}

// postpone places no workgroup of a fresh kernel yet, or of its next wave, if all of them or a wave fit on empty CUs and none of them
// slows another or shares a CU with work, and reports whether it did.
func (s *sim) postpone(g *gpu, id int32) bool {
	l := s.kernels.at(id)
	if !l.batches || !l.computes() || g.loads != 0 || g.occupied != 0 || g.busy.parts != nil || len(g.line) > 1 {
		return false
	}
	n := s.wave(g, l)
	if n == 0 {
		return false
	}
	if l.placed == 0 {
		s.begin(l)
	}
	g.unplaced = s.newBatch(id, int32(l.placed))
	s.batches.at(g.unplaced).n = n
	l.placed += n
	return true
}

// wave is how many workgroups postpone has place for: all of a kernel's, or a wave that fills all CUs, with equal phases; 0: neither.
func (s *sim) wave(g *gpu, l *launch) int {
	each, most := int(g.cus[0].free.Times(l.need)), 0 // if all are empty
	if count(g.load[0]) == len(g.cus) && int64(each)*l.pipe <= wholePipe {
		most = each * len(g.cus)
	}
	switch n := l.kernel.WGs - l.placed; {
	case l.kernel.Alike > 0 && l.kernel.Alike != most:
		return 0
	case n > most && l.kernel.Tiles == 0 && l.cluster <= 1:
		return most
	case l.kernel.Alike > 0 || s.fits(g, l, n):
		return n
	}
	return 0
}

// count is the number of bits that are set.
func count(set []uint64) (n int) {
	for _, word := range set {
		n += bits.OnesCount64(word)
	}
	return n
}

// fits reports whether so many workgroups of a kernel fit on the CUs and exceed none.
func (s *sim) fits(g *gpu, l *launch, rest int) bool {
	level, cus := 0, 0 // the CUs with the fewest residents are first
	for ; rest > 0 && level < len(g.load); level++ {
		cus += count(g.load[level])
		rest -= cus
	}
	if rest > 0 {
		level += (rest + cus - 1) / cus
	}
	for n, set := range g.load[:min(level, len(g.load))] {
		more := int64(level - n)
		for c := range each(set) {
			if more*l.pipe > wholePipe || g.cus[c].free.Times(l.need) < more {
				return false
			}
			if n == 0 { // empty ones are alike
				break
			}
		}
	}
	return true
}

// catchUp places the workgroups of the GPU's kernel that was postponed, if there is one.
func (s *sim) catchUp(g *gpu) {
	id := g.unplaced
	if id == none {
		return
	}
	b := s.batches.at(id)
	l, n := s.kernels.at(b.launch), b.n
	l.placed, l.batch, b.n = l.placed-n, id, 0
	s.sweepAll(g, b.launch)
	if g.unplaced = none; b.rounds > 0 {
		s.countUnplaced(g, l, -n)
		s.beginBatch(b, l)
	}
}

// nextWave postpones the next wave of the GPU's kernel, if it alone waits for the slots of the wave that has left in this
// instant; else it makes up for these departures.
func (s *sim) nextWave(g *gpu) {
	n := g.left
	g.left = 0
	if len(g.line) == 1 && s.postpone(g, g.line[0]) {
		return
	}
	for i := range n {
		c := i % len(g.cus)
		g.cus[c].freed++
		g.freed[c/64] |= 1 << (c % 64)
	}
}

// stepBatch begins the next tile of each workgroup of a batch that has one; the others leave.
func (s *sim) stepBatch(id int32) {
	b := s.batches.at(id)
	l := s.kernels.at(b.launch)
	g, p := &s.gpus[l.gpu], &l.kernel.Of(int(b.first))[0]
	n := l.moreTiles(b)
	if g.unplaced != id || n > 0 && n < b.n {
		s.catchUp(g)
	}
	was := program.Work
	if b.rounds == 0 {
		was = program.Sleep
		if slices.ContainsFunc(b.wgs, func(wg int32) bool { return s.slowed(s.wgs.at(wg)) > 1 }) {
			s.parted(id, 0)
			for _, wg := range b.wgs {
				s.stepWorkgroup(wg)
			}
			return
		}
	}
	if int(b.rounds) >= l.owned {
		l.ticket += n
	}
	b.rounds++
	if b.path != none {
		for range b.n {
			s.flows.Dismiss(b.path, limitOf(sizeOf(p), float64(p.Time)), int64(b.since), int64(s.now))
		}
		s.unlist(b)
	}
	if n == 0 {
		s.batches.drop(id)
		if g.unplaced == id {
			g.unplaced = none
			s.countUnplaced(g, l, -b.n)
			s.wake(l.gpu)
			if l.gone += b.n; l.gone == l.kernel.WGs {
				s.end(b.launch)
			} else {
				g.left = b.n
			}
		}
	}
	for _, wg := range b.wgs[min(n, len(b.wgs)):] {
		w := s.wgs.at(wg)
		s.countState(w, l, was, program.Sleep)
		s.depart(wg, w, l)
	}
	if n == 0 {
		return
	}
	b.n, b.wgs = n, b.wgs[:min(n, len(b.wgs))]
	switch {
	case b.rounds > 1:
	case g.unplaced == id:
		s.countUnplaced(g, l, n)
	default:
		s.beginBatch(b, l)
	}
	b.since, b.alarm = s.now, s.now+p.Time
	if sizeOf(p) == 0 || s.admitBatch(id, b, g, p) {
		s.events.set(int64(b.alarm), actor{dueBatch, id}.number())
	}
}

// admitBatch begins uncontended flows for the bytes of a batch's workgroups. If it cannot for all of them,
// it parts them and reports false.
func (s *sim) admitBatch(id int32, b *batch, g *gpu, p *program.Phase) bool {
	l := s.kernels.at(b.launch)
	for range b.n {
		s.charge(l, p)
	}
	b.path = s.pathOf(l, p)
	u := &s.flows.uncontended[b.path]
	b.at, u.batches = int32(len(u.batches)), append(u.batches, id)
	admitted := 0
	if !l.besideChannels() || g.quietOn(b.path) {
		for admitted < b.n && s.flows.Admit(b.path, limitOf(sizeOf(p), float64(p.Time)), int64(s.now)) {
			admitted++
		}
	}
	if admitted == b.n {
		return true
	}
	if g.unplaced == id {
		s.catchUp(g)
	}
	s.parted(id, admitted)
	return false
}

// unlist removes a batch from those with uncontended flows on its path.
func (s *sim) unlist(b *batch) {
	u := &s.flows.uncontended[b.path]
	last := u.batches[len(u.batches)-1]
	u.batches[b.at], s.batches.at(last).at = last, b.at
	u.batches, b.path = u.batches[:len(u.batches)-1], none
}

// countUnplaced is countState of n postponed workgroups, which are on CUs without other work and do not exceed any; below 0: of
// those that leave.
func (s *sim) countUnplaced(g *gpu, l *launch, n int) {
	l.working += n
	g.occupied += int64(n) * l.occupies
	if l.kernel.Matrix {
		g.matrix += n
	}
	s.interferes(l.gpu)
}

// beginBatch begins the first tiles of the batch's workgroups.
func (s *sim) beginBatch(b *batch, l *launch) {
	p := &l.kernel.Of(int(b.first))[0]
	for _, wg := range b.wgs {
		w := s.wgs.at(wg)
		w.tile, w.n, w.stage, w.phase, w.op, w.alone = w.index, 1, tiling, sleeping, p.Op, p.Time
		s.bound(w, l, p)
		s.countState(w, l, program.Sleep, p.Op)
	}
}

// moreTiles is how many of a batch's workgroups, the first ones, have another tile: see nextTile.
func (l *launch) moreTiles(b *batch) int {
	k, n, round := l.kernel, b.n, int(b.rounds)
	switch {
	case k.Tiles == 0:
		return n * max(0, 1-round)
	case round < l.owned:
		n = min(n, k.Tiles-round*k.WGs-int(b.first))
	default:
		n = min(n, k.Tiles-l.ticket)
	}
	return max(0, n)
}

// parted makes the workgroups of a batch single ones. Those from the given one on have no uncontended flow yet.
func (s *sim) parted(id int32, admitted int) {
	b := s.batches.at(id)
	path := b.path
	if path != none {
		s.unlist(b)
	}
	for i, wg := range b.wgs {
		w := s.wgs.at(wg)
		w.link, w.since, w.rounds = none, b.since, b.rounds
		switch {
		case b.alarm == none:
		case path != none && i >= admitted:
			w.phase = flowing
			s.entry = append(s.entry, actor{dueWorkgroup, wg})
		default:
			s.wakeAt(&w.alarm, b.alarm, actor{dueWorkgroup, wg})
			if path != none {
				s.list(wg, w)
			}
		}
	}
	b.alarm = none
	s.batches.drop(id)
}
