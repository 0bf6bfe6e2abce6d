package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
)

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
	at, _ := slices.BinarySearchFunc(fl.waiters[fl.head:], count+1, func(w flagWaiter, count int64) int { return cmp.Compare(w.count, count) })
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
