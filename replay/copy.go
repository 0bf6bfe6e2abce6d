package replay

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// engines are the copy engines of a GPU.
type engines struct {
	limited bool
	taken   []bool
	line    []actor // actors that wait for an engine, in order
	rate    float64 // bytes per nanosecond of one copy between GPUs
	latency program.Time
	queued  program.Time // of a copy directly behind another one
}

func newEngines(m *machine.Machine) engines {
	e := engines{
		limited: m.Engines.Count.Value > 0,
		taken:   make([]bool, int(m.Engines.Count.Value)),
		rate:    perNanosecond(m.Engines.Rate.Value),
		latency: nanoseconds(m.Engines.Latency.Value),
	}
	if e.queued = nanoseconds(m.Engines.Queued.Value); e.queued == 0 || e.queued > e.latency {
		e.queued = e.latency
	}
	e.rate = cmp.Or(e.rate, boundless)
	return e
}

// take returns a free engine, or none.
func (e *engines) take() int32 {
	at := slices.Index(e.taken, false)
	if at < 0 && !e.limited {
		at = len(e.taken)
		e.taken = append(e.taken, false)
	}
	if at >= 0 {
		e.taken[at] = true
	}
	return int32(at)
}

// stepCopy reports whether the stream's copy has ended.
func (s *sim) stepCopy(id int32, st *stream, cmd *program.Command) bool {
	c := cmd.Copy
	switch st.step {
	case issued:
		if !c.Free && st.engine == none && !s.takeEngine(actor{dueStream, id}, st.gpu) {
			return false
		}
		s.copyBegan(id, st, cmd)
		st.step = moving
		if wait := s.beforeBytes(st, c); wait > 0 {
			s.wakeAt(&st.alarm, s.now+wait, actor{dueStream, id})
			return false
		}
		fallthrough
	case moving:
		st.step = ended
		if !c.Free && c.Bytes >= leastBytes {
			s.passed(id, st, Starting, c.Peer)
			row := s.ledger.row(c.Name)
			s.move(row, c.From, c.Peer, c.Bytes, c.Bytes)
			s.ledger.add(row, st.gpu, dma, c.Bytes)
			s.entry = append(s.entry, actor{dueStream, id})
			return false
		}
	}
	s.copyEnded(id, st, c)
	if st.engine != none {
		s.freeEngine(actor{dueStream, id}, st.gpu)
	}
	st.copied = !c.Free
	return true
}

// beforeBytes is the time of a copy before its first byte, or of a copy that moves none.
func (s *sim) beforeBytes(st *stream, c *program.Copy) program.Time {
	if c.Free {
		return c.Time
	}
	latency := s.copyLatency(st, c)
	if c.Bytes < leastBytes {
		return max(latency, c.Time)
	}
	return latency
}

// engineOf points to the engine index of a stream's copy or of a channel's put.
func (s *sim) engineOf(who actor) *int32 {
	if who.kind == dueStream {
		return &s.streams[who.id].engine
	}
	return &s.channel(who.id).engine
}

// takeEngine gives the actor a free engine or queues it for one (rule S6).
func (s *sim) takeEngine(who actor, gpu int32) bool {
	e := &s.gpus[gpu].engines
	at := e.take()
	if *s.engineOf(who) = at; at == none {
		e.line = append(e.line, who)
	}
	return at != none
}

// freeEngine hands the actor's engine to the actor that has waited longest.
func (s *sim) freeEngine(who actor, gpu int32) {
	e, engine := &s.gpus[gpu].engines, s.engineOf(who)
	if len(e.line) == 0 {
		e.taken[*engine] = false
	} else {
		next := e.line[0]
		e.line = slices.Delete(e.line, 0, 1)
		*s.engineOf(next) = *engine
		if next.kind == dueStream {
			s.released(next)
		}
		s.queue = append(s.queue, next)
	}
	*engine = none
}

// copyLatency is the time from a copy's command to its first byte. Between GPUs of one
// node it is the measured latency of the engine (rule S7), less behind another copy (rule S22).
func (s *sim) copyLatency(st *stream, c *program.Copy) program.Time {
	latency := s.gpus[st.gpu].engines.latency
	if st.copied {
		latency = s.gpus[st.gpu].engines.queued
	}
	if s.flows.apart(c.From, c.Peer) {
		latency += s.flows.latency(c.From, c.Peer)
	}
	return latency
}

// copyFlow is the class key of a copy's bytes. The copy's least duration includes the
// latency (rule S6).
func (st *stream) copyFlow(s *sim) (classKey, float64) {
	c := st.Commands[st.next].Copy
	e := &s.gpus[st.gpu].engines
	limit := limitOf(c.Bytes, float64(max(0, c.Time-s.copyLatency(st, c))))
	if c.From != c.Peer {
		limit = min(limit, e.rate)
	}
	return s.transfer(pathKey{from: c.From, to: c.Peer, read: 1, write: s.flows.written(c.Update)}, limit), c.Bytes
}

// nicWeight is the weight of what NICs move (rule R9): so much that 50 GB/s are kept beside 2,112 workgroups that read a memory of
// 4.8 TB/s, for which 22 are enough.
const nicWeight = 64

// transfer is the class key of bytes that neither CUs nor other work slow.
func (s *sim) transfer(k pathKey, limit float64) classKey {
	weight := 1.
	if s.flows.apart(k.from, k.to) {
		weight = nicWeight
	}
	k.side = s.flows.side(communication)
	return classKey{path: s.flows.pathTo(k), gpu: k.from, cu: none, launch: none, limit: limit, slow: 1, coRun: 1, weight: weight}
}
