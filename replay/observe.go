package replay

import (
	"fmt"
	"strconv"

	"github.com/overlapse/overlapse/replay/program"
)

// What the simulator tells its observers: the recorder of the run, the causes of the
// critical path, the ledger of bytes, and the idle intervals of streams. The mechanism calls
// one of these functions at each event; what they write decides nothing that happens.

// recordIdle records that nothing ran on the stream from start to end.
func (st *stream) recordIdle(start, end program.Time, why Idle) {
	st.recordWait(start, end, why, posted{})
}

// recordWait is recordIdle of a wait for a post.
func (st *stream) recordWait(start, end program.Time, why Idle, by posted) {
	if start >= end || st.Host {
		return
	}
	why.Rank, why.Stream, why.Queue, why.Start, why.End = int(st.gpu), int(st.index), st.Queue, start, end
	if n := len(st.idle); n > 0 {
		last := &st.idle[n-1]
		same := why
		same.Start, same.End = last.Start, last.End
		if last.End == start && *last == same && st.posters[n-1] == by {
			last.End = end
			return
		}
	}
	st.idle, st.posters = append(st.idle, why), append(st.posters, by)
}

// paused is emitted when a delay or gap of the stream has passed.
func (s *sim) paused(id int32, st *stream, why program.Cause, step step) {
	st.recordIdle(st.since, s.now, Idle{Cause: why})
	arg := int32(0)
	if step == Delaying {
		arg = int32(why)
	}
	s.passed(id, st, step, arg)
}

// reached is emitted when a flag lets the stream continue.
func (s *sim) reached(id int32, st *stream, f program.Flag) {
	by := s.posterOf(st.awaited)
	by.flag = st.posted
	st.recordWait(st.since, s.now, Idle{Flag: f, Cause: s.fold.cause(int(st.gpu), f, &by)}, by)
	s.resumed(id, st, Woken)
}

// waited is emitted when another actor lets the stream continue.
func (s *sim) waited(id int32, st *stream, why Idle, step step) {
	st.recordIdle(st.since, s.now, why)
	s.resumed(id, st, step)
}

// cause is that of a GPU's wait for a flag that has ended.
func (f *fold) cause(gpu int, reached program.Flag, by *posted) program.Cause {
	switch {
	case by.host:
		return program.HostIssue
	case f.poster(by.gpu, by.flag, reached) != int32(gpu):
		return program.PeerSkew
	}
	return program.FlagWait
}

// note says who posted the flag that was waited for.
func (f *fold) note(reached program.Flag, by *posted) string {
	return fmt.Sprintf("posted by GPU %d %s", f.poster(by.gpu, by.flag, reached), by)
}

// posted is who posted a flag: a stream or kernel of a GPU.
type posted struct {
	gpu          int32
	flag         program.Flag // as the poster names it; NoFlag: the idle time was no wait for one
	host, kernel bool
	name         string
}

// String is the name of a poster within its GPU.
func (p posted) String() string {
	if p.kernel {
		return strconv.Quote(p.name)
	}
	return "stream " + strconv.Quote(p.name)
}

func (s *sim) posterOf(p poster) posted {
	st := &s.streams[p.stream]
	if p.kernel != nil {
		return posted{gpu: st.gpu, host: st.Host, kernel: true, name: p.kernel.Name}
	}
	return posted{gpu: st.gpu, host: st.Host, name: st.Name}
}

// postedBy is the name of a poster.
func (s *sim) postedBy(p poster) string {
	by := s.posterOf(p)
	return fmt.Sprintf("posted by GPU %d %s", by.gpu, by)
}

// passed adds the end of the stream's activity since its last event.
func (s *sim) passed(id int32, st *stream, step step, arg int32) {
	if s.causes == nil || s.causes.at(st.causeEvent) == s.now {
		return
	}
	st.causeEvent = s.causes.add(causeEvent{at: s.now, before: st.causeEvent, command: s.causes.commandRef(id, st), arg: arg, step: step})
	s.causes.now = st.causeEvent
}

// resumed adds that another actor's event let the stream continue.
func (s *sim) resumed(id int32, st *stream, step step) {
	if s.causes == nil || step == Served && st.since == s.now {
		return
	}
	st.causeEvent = s.causes.add(causeEvent{
		at: s.now, before: st.causeEvent, command: s.causes.commandRef(id, st), arg: int32(st.Commands[st.next].Flag),
		alone: s.now - st.since, step: step,
	})
	s.causes.now = st.causeEvent
}

// copyBegan is emitted when a copy has its engine.
func (s *sim) copyBegan(id int32, st *stream, cmd *program.Command) {
	s.waited(id, st, Idle{Cause: program.NoSlot, Note: "copy engines taken"}, Served)
	st.span, st.moves = s.record.command(st.gpu, st.Stream, cmd, 0, s.now), none
	if st.engine != none {
		st.moves = s.record.moves(st, s.now)
	}
	s.made(st)
}

// copyEnded is emitted when a copy has moved its bytes.
func (s *sim) copyEnded(id int32, st *stream, c *program.Copy) {
	s.record.end(st.span, s.now)
	s.record.end(st.moves, s.now)
	s.passed(id, st, Copying, c.Peer)
	s.ended()
}

// kernelBegan is emitted when the first workgroup of a kernel is placed.
func (s *sim) kernelBegan(l *launch) {
	st := &s.streams[l.stream]
	st.recordIdle(l.ready, s.now, Idle{Cause: program.NoSlot, Note: l.holders})
	l.span = s.record.command(st.gpu, st.Stream, l.command, l.kernel.WGs, s.now)
	s.made(st)
}

// kernelEnded is emitted when the last workgroup of a kernel has left.
func (s *sim) kernelEnded(l *launch) {
	s.record.end(l.span, s.now)
	s.record.endPresence(l, s.now)
	s.ended()
	s.enter(l)
	s.released(actor{dueStream, l.stream})
}

// starve records which kernels hold the slots when a ready kernel first finds none.
func (s *sim) starve(l *launch) {
	if l.placed > 0 || l.holders != "" {
		return
	}
	l.holders = "held by nothing"
	if h := s.holder(l.gpu); h != none {
		l.holders = fmt.Sprintf("held by %q", s.kernels.at(h).kernel.Name)
	}
}

// placed is emitted when a workgroup starts on a CU, or on none. What lets it start is the
// launch itself, or the end of the workgroup that left the slot.
func (s *sim) placed(id int32, w *workgroup, l *launch) {
	if w.cu != none && s.record.deep[l.gpu] {
		w.slot = s.record.beginResidency(l, w, &s.gpus[l.gpu].cus[w.cu], s.now)
	}
	c := s.causes
	if c == nil {
		return
	}
	if w.cu == none || c.at(l.causeEvent) == s.now {
		c.note(id, l.causeEvent)
		return
	}
	left := s.gpus[l.gpu].cus[w.cu].left
	if c.at(left) < s.now { // the CU had room before: it was held for a kernel of higher priority
		left = s.gpus[l.gpu].woken
	}
	if c.event(left).command != l.commandRef || l.kernel.Tiles != 0 {
		left = c.add(causeEvent{at: s.now, before: left, command: l.commandRef, alone: s.now - l.ready, step: Placed})
	}
	c.note(id, left)
}

// phaseEnded is emitted when the workgroup's current phase has ended.
func (s *sim) phaseEnded(id int32, w *workgroup, l *launch) {
	c := s.causes
	if c == nil && w.span == none {
		return
	}
	p := s.current(id)
	if w.span != none {
		s.record.phase(id, w, l, p, s.now)
		s.record.mark(w, l, p, s.now)
	}
	if c == nil {
		return
	}
	m := causeEvent{at: s.now, before: c.wgs[id], command: l.commandRef, alone: min(s.now-w.since, w.alone)}
	switch w.op {
	case program.WaitFor:
		m.step, m.arg, m.alone = Woken, int32(p.Flag), s.now-w.since
	case program.Sleep:
		m.step = Sleeping
	case program.Store:
		m.step, m.arg = Storing, max(none, p.Peer)
	default:
		m.step = Working
	}
	if w.op != program.WaitFor && w.op != program.Sleep && s.now-w.since > m.alone+1 { // 1 ns is rounding
		m.bound = s.boundOf(w)
	}
	c.note(id, c.add(m))
}

// departed is emitted when a workgroup leaves its slot.
func (s *sim) departed(id int32, w *workgroup, l *launch) {
	u := &s.gpus[l.gpu].cus[w.cu]
	if w.slot != none {
		s.record.endResidency(l.gpu, u, w.slot, s.now)
	}
	if s.causes != nil {
		u.left = s.causes.wgs[id]
		s.gpus[l.gpu].woken = u.left
	}
}

// flagReached is emitted when a post completes the count that an actor waits for.
func (s *sim) flagReached(who actor, from poster, f program.Flag) {
	if who.kind == dueStream {
		s.streams[who.id].awaited, s.streams[who.id].posted = from, f
	} else if s.record.options.Level == Phases {
		s.record.released(who.id, from)
	}
	s.released(who)
}

// putEnded is emitted when the bytes of a put have arrived.
func (s *sim) putEnded(p *put, to int32) {
	s.record.end(p.span, s.now)
	s.causes.arrived(s.now, p.causeEvent, p.commandRef, to, Sending)
	s.ended()
}

// released records the current event as the reason why the actor continues.
func (s *sim) released(who actor) {
	switch {
	case s.causes == nil:
	case who.kind == dueStream:
		s.streams[who.id].causeEvent = s.causes.now
	default:
		s.causes.note(who.id, s.causes.now)
	}
}

// ended notes the end of a kernel, copy or put.
func (s *sim) ended() {
	s.makespan = max(s.makespan, s.now)
	if s.causes != nil {
		s.causes.last = s.causes.now
	}
}
