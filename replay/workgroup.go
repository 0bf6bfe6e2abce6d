package replay

import "fmt"

// A workgroup is one that is resident. It steps through the phases of its
// prologue, its tiles and its epilogue.
type workgroup struct {
	stake
	phases []Phase
	since  Time    // when the phase began
	alone  Time    // how long it takes alone
	rate   float64 // of its undisturbed flow
	next   int32   // of phases
	launch int32
	cu     int32 // or none
	index  int32 // of the kernel's workgroups
	at     int32 // index in cu.wgs
	rounds int32 // tiles begun
	tile   int32 // or none
	timer  int32 // or none
	path   int32 // of its undisturbed flow, or none
	pathAt int32 // index in path.quiet
	slot   int32 // of the CU, for its lane
	moment int32 // why it is where it is, if causes are kept
	span   spanRef
	stage  stage
	phase  phaseState
	op     PhaseOp // of the phase
	seen   Time    // after which what it stored to other GPUs in this tile is seen
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
	between phaseState = iota
	waiting            // for a flag
	sleeping
	flowing // in or about to join a class
)

// current is the phase that the workgroup is in.
func (w *workgroup) current() *Phase { return &w.phases[w.next] }

// start places the kernel's next workgroup on a CU, or on none.
func (s *sim) start(launch, cu int32) {
	id := s.wgs.add()
	l := s.kernels.at(launch)
	if l.placed == 0 {
		s.begin(l)
	}
	w := s.wgs.at(id)
	*w = workgroup{
		stake:  nowhere,
		launch: launch, cu: cu, index: int32(l.placed), timer: none, path: none, slot: none, tile: none, span: none,
		phases: w.phases[:0],
	}
	l.placed++
	if cu != none {
		g := &s.gpus[l.gpu]
		s.occupy(g, cu, id, l.need)
		w.slot = s.record.slot(l, &g.cus[cu])
	}
	if s.causes != nil {
		w.moment = s.placed(l, cu)
	}
	s.queue = append(s.queue, actor{dueWorkgroup, id})
}

// stepWorkgroup finishes the phase that the workgroup was in and goes on to
// the next one that takes time.
func (s *sim) stepWorkgroup(id int32) {
	w := s.wgs.at(id)
	l := s.kernels.at(w.launch)
	if w.phase != between {
		s.finishPhase(id, w, l)
	}
	if s.causes != nil {
		s.causes.now = w.moment
	}
	for s.err == nil {
		if int(w.next) == len(w.phases) {
			if !s.nextTile(w, l) {
				s.depart(id, w, l)
				return
			}
			continue
		}
		if !s.beginPhase(id, w, l, &w.phases[w.next]) {
			return
		}
		w.next++
	}
}

// nextTile fetches the phases of what comes next; false when nothing does.
func (s *sim) nextTile(w *workgroup, l *launch) bool {
	k := l.kernel
	if w.span != none {
		s.record.endTile(w, s.now)
	}
	w.next, w.seen, w.phases = 0, 0, w.phases[:0]
	switch w.stage {
	case arriving:
		w.stage = tiling
		if k.Prologue != nil && k.Tiles > 0 {
			return s.fetch(w, l, none, k.Prologue(int(w.index), w.phases))
		}
		fallthrough
	case tiling:
		if tile, ok := l.nextTile(w); ok {
			return s.fetch(w, l, tile, k.Recipe(tile, w.phases))
		}
		w.stage = leaving
		if k.Epilogue != nil && k.Tiles > 0 {
			return s.fetch(w, l, none, k.Epilogue(int(w.index), w.phases))
		}
	}
	return false
}

// nextTile is the workgroup's next tile.
func (l *launch) nextTile(w *workgroup) (tile int, ok bool) {
	k := l.kernel
	round := int(w.rounds)
	w.rounds++
	switch {
	case k.Tiles == 0:
		return int(w.index), round == 0
	case round < l.owned:
		tile = int(w.index) + round*k.WGs
	default:
		tile = l.ticket
		l.ticket++
	}
	return tile, tile < k.Tiles
}

func (s *sim) fetch(w *workgroup, l *launch, tile int, phases []Phase) bool {
	w.tile, w.phases = int32(tile), phases
	for i := range phases {
		if err := s.checkPhase(&phases[i]); err != nil {
			where := fmt.Sprintf("tile %d", tile)
			if tile == none {
				where = fmt.Sprintf("workgroup %d", w.index)
			}
			s.fail(fmt.Errorf("%s: %s: phase %d: %w", s.streams[l.stream].where(l.command), where, i, err))
			return false
		}
	}
	if len(phases) > 0 {
		s.record.tile(w, l, s.now)
	}
	return true
}

// beginPhase starts a phase; true when it is over already.
func (s *sim) beginPhase(id int32, w *workgroup, l *launch, p *Phase) bool {
	w.since, w.alone, w.op = s.now, p.Time, p.Op
	who := actor{dueWorkgroup, id}
	switch p.Op {
	case WaitFor:
		if s.await(p.Flag, p.Count, who) {
			break
		}
		w.phase = waiting
		return false
	case PostTo:
		delay := p.Time
		if delay == 0 {
			delay = w.seen
		}
		s.postAfter(delay, p.Flag, p.Count, poster{l.stream, l.kernel})
	case Put:
		s.put(l, p)
	case Sleep:
		if p.Time > 0 {
			s.sleep(id, w, p.Time)
			return false
		}
	case Work, Store:
		if p.Time > 0 || p.size() > 0 {
			s.charge(l, p)
			s.working(w, l, 1)
			w.phase = flowing
			s.entry = append(s.entry, who)
			return false
		}
	}
	if w.span != none {
		s.record.mark(w, l, p, s.now)
	}
	return true
}

func (s *sim) sleep(id int32, w *workgroup, d Time) {
	if w.timer == none {
		w.timer = s.events.add(actor{dueWorkgroup, id})
	}
	s.events.set(w.timer, s.now+d)
	w.phase = sleeping
}

// finishPhase ends the phase that the workgroup was in.
func (s *sim) finishPhase(id int32, w *workgroup, l *launch) {
	w.phase = between
	l.spend(w, s.now-w.since)
	if s.causes != nil {
		s.phaseEnded(w, l)
	}
	if w.op == Work || w.op == Store {
		s.working(w, l, -1)
		if w.path != none {
			s.unhush(w)
		}
		if w.op == Store {
			w.seen = max(w.seen, s.flows.latency(l.gpu, w.current().Peer))
		}
	}
	if w.span != none {
		s.record.phase(w, l, w.current(), s.now)
		s.record.mark(w, l, w.current(), s.now)
	}
	w.next++
}

// spend adds the time of a phase.
func (l *launch) spend(w *workgroup, took Time) {
	switch w.op {
	case WaitFor:
		l.spent.Waiting += took
	case Sleep:
		l.spent.Sleeping += took
	default:
		alone := min(took, w.alone)
		l.spent.Working += alone
		l.spent.Slowed += took - alone
	}
}

// working counts a workgroup in or out of those that do something.
func (s *sim) working(w *workgroup, l *launch, n int32) {
	g := &s.gpus[l.gpu]
	l.working += int(n)
	if l.computes() {
		g.working += int(n)
		if !g.crowded {
			g.crowded = true
			s.crowd = append(s.crowd, l.gpu)
		}
	}
	if w.cu == none {
		return
	}
	u := &g.cus[w.cu]
	if before := u.working; before == 0 || before+n == 0 {
		g.busy.add(int(n), s.now)
	}
	u.working += n
	if w.op == Work {
		u.load += int64(n) * l.pipe
		if !u.bent {
			u.bent = true
			s.bent = append(s.bent, cuRef{l.gpu, w.cu})
		}
	}
}

// depart gives the workgroup's slot back.
func (s *sim) depart(id int32, w *workgroup, l *launch) {
	if s.err != nil {
		return
	}
	w.stage = gone
	if w.timer != none {
		s.events.drop(w.timer)
	}
	if w.cu != none {
		g := &s.gpus[l.gpu]
		s.record.freeSlot(w, &g.cus[w.cu])
		g.cus[w.cu].left = w.moment
		s.vacate(g, w.cu, id, l.need)
		s.wake(l.gpu)
	}
	launch := w.launch
	s.wgs.drop(id)
	l.gone++
	if l.gone == l.kernel.WGs {
		s.end(launch)
	}
}
