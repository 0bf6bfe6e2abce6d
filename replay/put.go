package replay

import (
	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A channel transfers the puts from one GPU to another, in order, one at a time
// (rule S10).
type channel struct {
	fluid.Member
	puts   []put // the first one is in transfer
	head   int
	alarm  alarm // of a put that waits for the NIC
	waits  bool
	wants  bool  // the first put waits for a copy engine
	engine int32 // engine of the first put, or none
}

type put struct {
	flag       program.Flag
	count      int64
	bytes      float64
	time       program.Time
	update     bool
	dma        bool
	held       bool
	from       poster
	span       spanRef
	causeEvent int32 // event at which it began, if causes are recorded
	commandRef int32 // its kernel, if causes are recorded
}

// put queues a transfer on the channel to its peer.
func (s *sim) put(l *launch, p *program.Phase) {
	if s.puts[l.gpu] == nil {
		s.puts[l.gpu] = make([]channel, len(s.gpus))
		first := make([]put, len(s.gpus)) // room for one put to each, in one allocation
		for i := range s.puts[l.gpu] {
			s.puts[l.gpu][i] = channel{Member: fluid.NewMember(), puts: first[i : i : i+1], alarm: none, engine: none}
		}
	}
	id := l.gpu*int32(len(s.gpus)) + p.Peer
	ch := s.channel(id)
	s.charge(l, p)
	ch.puts = append(ch.puts, put{
		flag: p.Flag, count: p.Count, bytes: p.Bytes, time: p.Time, from: poster{l.stream, l.kernel}, update: p.Update, dma: p.DMA, held: p.Held, commandRef: l.commandRef,
	})
	if len(ch.puts)-ch.head == 1 {
		s.beginPut(id)
	}
}

func (s *sim) channel(id int32) *channel {
	n := int32(len(s.gpus))
	return &s.puts[id/n][id%n]
}

// beginPut begins the first put of a channel when it has its copy engine and the NIC takes
// its message (rule S6).
func (s *sim) beginPut(id int32) {
	ch := s.channel(id)
	n := int32(len(s.gpus))
	ch.puts[ch.head].causeEvent = s.causes.current()
	if ch.puts[ch.head].dma && ch.engine == none && !s.takeEngine(actor{duePut, id}, id/n) {
		ch.wants = true
		ch.Restart()
		return
	}
	free := s.takeNIC(id/n, id%n, &ch.puts[ch.head])
	if free >= s.now {
		ch.Restart() // the NIC sets its start time, not the end of the previous flow
	}
	if free > s.now {
		ch.waits = true
		s.wakeAt(&ch.alarm, free, actor{duePut, id})
		return
	}
	s.sendPut(id)
}

// takeNIC hands a put's messages to the NIC and returns the time at which the NIC takes
// them, or none without a NIC. The payload is one message and the flag another (rule N5).
func (s *sim) takeNIC(from, to int32, p *put) (free program.Time) {
	if s.flows.message == 0 || !s.flows.apart(from, to) {
		return none
	}
	until := &s.nics[s.flows.homes[from].nic]
	free = *until
	*until = max(free, s.now) + s.flows.message*p.messages()
	return free
}

func (p *put) messages() program.Time {
	if p.bytes >= program.LeastBytes && p.flag != program.NoFlag {
		return 2
	}
	return 1
}

func (s *sim) sendPut(id int32) {
	ch := s.channel(id)
	n := int32(len(s.gpus))
	p := &ch.puts[ch.head]
	ch.waits = false
	p.span = s.record.transfer(id/n, id%n, p, ch.engine, s.now)
	s.entry = append(s.entry, actor{duePut, id})
}

// stepPut steps a channel that is due: its first put has an engine, may be sent, or has
// arrived.
func (s *sim) stepPut(id int32) {
	ch := s.channel(id)
	if !ch.wants && !ch.waits {
		s.putDone(id)
		return
	}
	p := &ch.puts[ch.head]
	s.causes.arrived(s.now, p.causeEvent, p.commandRef, none, Queueing)
	p.causeEvent = s.causes.current()
	if ch.wants {
		ch.wants = false
		s.beginPut(id)
		return
	}
	s.sendPut(id)
}

func (s *sim) putFlow(id int32) (classKey, float64) {
	ch := s.channel(id)
	p := &ch.puts[ch.head]
	n := int32(len(s.gpus))
	limit := boundless
	if p.bytes >= program.LeastBytes {
		least := p.time
		if s.flows.apart(id/n, id%n) {
			least = max(least, s.flows.message)
		}
		limit = limitOf(p.bytes, float64(least))
	}
	k := pathKey{from: id / n, to: id % n, read: 1, write: s.flows.written(p.update)}
	if p.held {
		k.read = 0
	}
	return s.transfer(k, limit), p.bytes
}

// putDone ends the first put of a channel. Its flag is posted after the bytes (rule F2).
func (s *sim) putDone(id int32) {
	ch := s.channel(id)
	n := int32(len(s.gpus))
	p := ch.puts[ch.head]
	ch.head++
	if ch.head == len(ch.puts) {
		ch.puts, ch.head = ch.puts[:0], 0
	} else if ch.head > 64 && 2*ch.head > len(ch.puts) {
		ch.puts, ch.head = ch.puts[:copy(ch.puts, ch.puts[ch.head:])], 0
	}
	s.putEnded(&p, id%n)
	if ch.engine != none {
		s.freeEngine(actor{duePut, id}, id/n)
	}
	s.postAfter(s.flows.latency(id/n, id%n), p.flag, p.count, p.from)
	if len(ch.puts) > ch.head {
		s.beginPut(id)
	}
}
