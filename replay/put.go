package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

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
		flag: p.Flag, count: p.Count, bytes: p.Bytes, time: p.Time, from: poster{l.stream, l.kernel}, update: p.Update, dma: p.DMA,
		held: p.Held, commandRef: l.commandRef,
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
	if p.bytes >= leastBytes && p.flag != program.NoFlag {
		return 2
	}
	return 1
}

func (s *sim) sendPut(id int32) {
	ch := s.channel(id)
	n := int32(len(s.gpus))
	p := &ch.puts[ch.head]
	ch.waits = false
	p.span = s.record.transfer(id/n, id%n, p, ch.engine, s.flows.message, s.now)
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
	if p.bytes >= leastBytes {
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

// A flag is a counter and the actors that wait for it.
type flag struct {
	value   int64
	waiters []flagWaiter // by count, then by arrival
	head    int          // number of waiters already released
	coming  int32        // the post sent last that has not arrived, or none
}

// A flagWaiter is an actor that waits for a count.
type flagWaiter struct {
	count int64
	who   actor
}

// A poster is the source of a post: a kernel's launch, or a stream.
type poster struct {
	stream int32
	kernel *program.Kernel // nil: the stream itself, or one of its copies
}

// A post is additions of one poster and instant, in flight to a peer.
type post struct {
	at     alarm // arrival time
	flag   program.Flag
	count  int64
	from   poster
	moment int32 // event at which it was sent, if causes are recorded
}

// await reports whether the flag has reached the count. If not, the actor is queued when
// it does.
func (s *sim) await(f program.Flag, count int64, who actor) bool {
	f, _ = s.flagOf(f)
	fl := &s.flags[f]
	if f == program.NoFlag || fl.value >= count {
		return true
	}
	if fl.head == len(fl.waiters) {
		fl.waiters, fl.head = fl.waiters[:0], 0
	}
	at, _ := slices.BinarySearchFunc(fl.waiters[fl.head:], count+1,
		func(w flagWaiter, count int64) int { return cmp.Compare(w.count, count) })
	fl.waiters = slices.Insert(fl.waiters, fl.head+at, flagWaiter{count, who})
	return false
}

// post adds to a flag and releases the waiters whose count is reached (rule F1).
func (s *sim) post(f program.Flag, count int64, from poster) {
	if f == program.NoFlag {
		return
	}
	posted := f
	f, times := s.flagOf(f)
	fl := &s.flags[f]
	if count > (math.MaxInt64-fl.value)/times {
		s.fail(fmt.Errorf("replay: flag %q: count runs beyond %d", s.program.Flags.Name(f), int64(math.MaxInt64)))
		return
	}
	fl.value += count * times
	for ; fl.head < len(fl.waiters) && fl.waiters[fl.head].count <= fl.value; fl.head++ {
		who := fl.waiters[fl.head].who
		s.flagReached(who, from, posted)
		s.queue = append(s.queue, who)
	}
}

// postAfter posts after a delay.
func (s *sim) postAfter(delay program.Time, f program.Flag, count int64, from poster) {
	if delay == 0 || f == program.NoFlag {
		s.post(f, count, from)
		return
	}
	at := s.now + delay
	by, _ := s.flagOf(f)
	if id := s.flags[by].coming; id != none {
		if p := s.posts.at(id); p.at == at && p.from == from && p.flag == f && count <= math.MaxInt64-p.count {
			p.count += count
			return
		}
	}
	id := s.posts.add()
	s.flags[by].coming = id
	*s.posts.at(id) = post{flag: f, count: count, from: from, moment: s.causes.current()}
	s.wakeAt(&s.posts.at(id).at, at, actor{duePost, id})
}

// sendFlag is the time from a post until its arrival at a GPU: the latency, after the wait
// for earlier flags. Flags do not wait for each other if the machine has no message time
// (rule F5).
func (s *sim) sendFlag(from, to int32) program.Time {
	way := s.flows.latency(from, to)
	if from == to || s.flows.apart(from, to) || s.flows.flag == 0 {
		return way
	}
	free := &s.flagged[from]
	wait := max(0, *free-s.now)
	*free = s.now + wait + s.flows.flag
	return wait + way
}

// arrive ends a post's flight.
func (s *sim) arrive(id int32) {
	p := *s.posts.at(id)
	if by, _ := s.flagOf(p.flag); s.flags[by].coming == id {
		s.flags[by].coming = none
	}
	s.posts.drop(id)
	s.causes.landed(s.now, &p)
	s.post(p.flag, p.count, p.from)
}

// leastBytes is the least number of bytes that takes time to move.
const leastBytes = 1e-6
