package replay

import (
	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A workgroup is a resident workgroup. It runs the phases of its prologue, its tiles and
// its epilogue. Tens of thousands are resident and are visited in random order, so the
// struct is two cache lines of 64 bytes, and only flows use the second. It stores only the
// current phase; recipes are called again for the others (script.go).
type workgroup struct {
	alarm  alarm
	since  program.Time // when the phase began
	alone  program.Time // how long it takes alone
	launch int32
	cu     int32 // none: holds no CU
	index  int32 // among the kernel's workgroups
	tileSteps
	span        spanRef
	far         int16 // GPU with the longest store latency of this tile, or none
	stage       stage
	phase       phaseState
	op          program.PhaseOp // of the current phase
	keeps       bool            // the tile's phases are kept in sim.kept
	lone        bool            // the phase moves no bytes and has no co-run slowdown
	uncontended bool            // has an uncontended flow at link
	wgFlow
	slot    int32 // slot of the CU, which selects the lane
	at      int16 // index in cu.wgs
	younger bool  // of two on the CU (rule D16)
}

// A wgFlow is the flow of the current phase of a workgroup, which flows and the recorder read.
type wgFlow struct {
	fluid.Member
	size   float64 // bytes that measure the phase's progress, or 0
	coRun  float64 // co-run slowdown of the phase; at least 1
	weight float64
	path   int32 // path of the phase's bytes; none if it moves none
	link   int32 // index in flows.uncontended of the path, else in sim.batches; or none
}

// tileSteps is how far a workgroup is in its tiles, and in the phases of one.
type tileSteps struct {
	tile   int32 // none: prologue or epilogue
	rounds int32 // number of tiles begun
	next   int32 // index of the tile's next phase
	n      int32 // number of the tile's phases
}

type stage uint8

const (
	arriving stage = iota
	tiling
	leaving
	gone
)

type phaseState uint8

const (
	fresh   phaseState = iota
	waiting            // on a flag
	sleeping
	flowing // member of a class, or about to join one
)

// start places the kernel's next workgroup on a CU, or on none if the kernel is Free.
func (s *sim) start(launch, cu int32) {
	id := s.wgs.add()
	l := s.kernels.at(launch)
	if l.placed == 0 && s.gpus[l.gpu].unplaced == none {
		s.begin(l)
	}
	w := s.wgs.at(id)
	*w = workgroup{
		wgFlow: wgFlow{Member: fluid.NewMember(), path: none, link: none}, alarm: none,
		launch: launch, cu: cu, index: int32(l.placed), far: none, slot: none, tileSteps: tileSteps{tile: none}, span: none,
	}
	if l.clusterOrder != nil {
		w.index = l.clusterOrder[l.placed/l.cluster]*int32(l.cluster) + w.index%int32(l.cluster)
	}
	l.placed++
	if cu != none {
		w.younger = l.kernel.Lag > 0 && s.isYounger(&s.gpus[l.gpu].cus[cu])
		s.occupy(&s.gpus[l.gpu], cu, id, l.need)
		s.communicates(l, cu, 1)
	}
	s.placed(id, w, l)
	if l.batches {
		s.enterBatch(id, w, l)
	} else {
		s.queue = append(s.queue, actor{dueWorkgroup, id})
	}
}

// isYounger reports whether the CU's next workgroup is the younger one of two.
func (s *sim) isYounger(u *cu) bool {
	n := 0
	for _, id := range u.wgs {
		if s.wgs.at(id).younger {
			n--
		} else {
			n++
		}
	}
	return n > 0
}

// stepWorkgroup ends the current phase and begins the next one that takes time.
func (s *sim) stepWorkgroup(id int32) {
	w := s.wgs.at(id)
	l := s.kernels.at(w.launch)
	if g := &s.gpus[l.gpu]; g.unplaced != none {
		s.catchUp(g)
		w = s.wgs.at(id) // workgroups have moved
	}
	was := program.Sleep
	if w.phase != fresh {
		was = w.op
		s.finishPhase(id, w, l)
	}
	s.causes.followWG(id)
	for s.err == nil {
		if w.next == w.n {
			if !s.nextTile(id, w, l) {
				s.countState(w, l, was, program.Sleep)
				s.depart(id, w, l)
				return
			}
			continue
		}
		for phases := s.phases(id, w, l); w.next < w.n; w.next++ {
			if !s.beginPhase(id, w, l, &phases[w.next]) {
				s.countState(w, l, was, w.op)
				return
			}
		}
	}
}

// beginPhase begins a phase. It returns true if the phase takes no time.
func (s *sim) beginPhase(id int32, w *workgroup, l *launch, p *program.Phase) bool {
	w.since, w.alone, w.op = s.now, p.Time, p.Op
	if w.younger && p.Op == program.Work {
		w.alone += program.Time(float64(p.Time) * l.kernel.Lag)
	}
	who := actor{dueWorkgroup, id}
	switch p.Op {
	case program.WaitFor:
		if s.await(p.Flag, p.Count, who) {
			break
		}
		w.phase = waiting
		return false
	case program.PostTo:
		delay := p.Time
		if delay == 0 && w.far != none && p.Last == 0 {
			delay = s.sendFlag(l.gpu, int32(w.far))
		}
		s.postAfter(delay, p.Flag, p.Count, poster{l.stream, l.kernel})
		if by, _ := s.flagOf(p.Flag); p.Last != 0 && s.flags[by].value != p.Last {
			w.next = w.n - 1
		}
	case program.Put:
		s.put(l, p)
	case program.Sleep:
		if p.Time > 0 {
			s.sleep(id, w, p.Time)
			return false
		}
	case program.Work, program.Store:
		if p.Time > 0 || sizeOf(p) > 0 {
			s.charge(l, p)
			s.bound(w, l, p)
			if w.phase == flowing || !s.beginAlone(id, w) {
				w.phase = flowing
				s.entry = append(s.entry, who)
			}
			return false
		}
	}
	if w.span != none {
		s.record.mark(w, l, p, s.now)
	}
	return true
}

func (s *sim) sleep(id int32, w *workgroup, d program.Time) {
	s.wakeAt(&w.alarm, s.now+d, actor{dueWorkgroup, id})
	w.phase = sleeping
}

// bound records what limits the rate of a Work or Store phase.
func (s *sim) bound(w *workgroup, l *launch, p *program.Phase) {
	if p.Op == program.Store && (w.far == none || s.flows.latency(l.gpu, p.Peer) > s.flows.latency(l.gpu, int32(w.far))) {
		w.far = int16(p.Peer)
	}
	size := sizeOf(p)
	if w.lone = size == 0 && p.Slowdown <= 1; w.lone {
		return
	}
	if w.size, w.coRun, w.weight, w.path = size, max(1, p.Slowdown), 1, none; size == 0 {
		return
	}
	if p.Weight > 0 {
		w.weight = p.Weight
	}
	w.path = s.pathOf(l, p)
}

// finishPhase ends the current phase.
func (s *sim) finishPhase(id int32, w *workgroup, l *launch) {
	s.phaseEnded(id, w, l)
	if w.uncontended {
		s.endUncontended(w)
	}
	w.next++
}

// countState updates the counts of workgroups in a Work or Store phase when a workgroup
// changes from one phase to another.
func (s *sim) countState(w *workgroup, l *launch, from, to program.PhaseOp) {
	if from == to {
		return
	}
	g := &s.gpus[l.gpu]
	n := worksOn(to) - worksOn(from)
	if n != 0 {
		l.working += n
		switch {
		case l.computes():
			s.computed(l, w.cu, n)
		case w.cu != none:
			g.moving += n
			s.interferes(l.gpu)
		}
	}
	if w.cu == none {
		return
	}
	x := &g.pipes[w.cu]
	if n != 0 {
		if before := x.working; before == 0 || before+int32(n) == 0 {
			g.busy.add(n, s.now)
		}
		x.working += int32(n)
	}
	switch {
	case from == program.Work:
		x.load, g.loads = x.load-l.pipe, g.loads-l.pipe
	case to == program.Work:
		x.load, g.loads = x.load+l.pipe, g.loads+l.pipe
	default:
		return
	}
	if !x.changed && (x.load > wholePipe || x.slow > 1) {
		x.changed = true
		s.pipesChanged = append(s.pipesChanged, cuRef{l.gpu, w.cu})
	}
}

// depart frees the workgroup's slot (rule D3).
func (s *sim) depart(id int32, w *workgroup, l *launch) {
	if s.err != nil {
		return
	}
	w.stage = gone
	if w.cu != none {
		s.departed(id, w, l)
		s.vacate(&s.gpus[l.gpu], w.cu, id, l.need)
		s.communicates(l, w.cu, -1)
		s.wake(l.gpu)
	}
	launch := w.launch
	s.wgs.drop(id)
	l.gone++
	if l.gone == l.kernel.WGs {
		s.end(launch)
	}
}

// sizeOf is the number of bytes that measures the phase's progress; 0 if only time does.
func sizeOf(p *program.Phase) float64 {
	b := p.Bytes
	if p.Op == program.Work {
		b = p.Read + p.Write
	}
	if b < leastBytes {
		return 0
	}
	return b
}

// worksOn is 1 for Work and Store, else 0.
func worksOn(op program.PhaseOp) int {
	if op == program.Work || op == program.Store {
		return 1
	}
	return 0
}
