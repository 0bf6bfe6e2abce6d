package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
)

// A flag is a counter and who waits for it.
type flag struct {
	value   int64
	waiters []flagWaiter // by the count they wait for, then by who came first
	head    int          // of waiters: those before it have gone on
	coming  int32        // the post last sent on its way, or none
}

// A flagWaiter is who waits for a flag to reach a count.
type flagWaiter struct {
	count int64
	who   actor
}

// A poster is who brought a flag to its count: a kernel's launch, or a stream.
type poster struct {
	stream int32
	kernel *program.Kernel // nil: the stream itself, or a copy of it
}

// A post is additions of one poster and instant, on their way to a peer.
type post struct {
	at     alarm // when it arrives
	flag   program.Flag
	count  int64
	from   poster
	moment int32 // at which it was sent, if causes are kept
}

// await reports whether the flag has reached the count; if not, who is
// appended to the queue when it does.
func (s *sim) await(f program.Flag, count int64, who actor) bool {
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

// post adds to a flag and releases who waited for it (rule F1).
func (s *sim) post(f program.Flag, count int64, from poster) {
	if f == program.NoFlag {
		return
	}
	fl := &s.flags[f]
	if count > math.MaxInt64-fl.value {
		s.fail(fmt.Errorf("replay: flag %q: count runs beyond %d", s.program.Flags[f], int64(math.MaxInt64)))
		return
	}
	fl.value += count
	for ; fl.head < len(fl.waiters) && fl.waiters[fl.head].count <= fl.value; fl.head++ {
		who := fl.waiters[fl.head].who
		if who.kind == dueStream {
			s.streams[who.id].awaited = from
		} else if s.record.options.Level == Phases {
			s.record.released(who.id, from)
		}
		if s.causes != nil {
			s.released(who)
		}
		s.queue = append(s.queue, who)
	}
}

// postAfter posts once delay has passed.
func (s *sim) postAfter(delay program.Time, f program.Flag, count int64, from poster) {
	if delay == 0 || f == program.NoFlag {
		s.post(f, count, from)
		return
	}
	at := s.now + delay
	if id := s.flags[f].coming; id != none {
		if p := s.posts.at(id); p.at == at && p.from == from && count <= math.MaxInt64-p.count {
			p.count += count
			return
		}
	}
	id := s.posts.add()
	s.flags[f].coming = id
	*s.posts.at(id) = post{
		flag: f, count: count, from: from,
	}
	if s.causes != nil {
		s.posts.at(id).moment = s.causes.now
	}
	s.wakeAt(&s.posts.at(id).at, at, actor{duePost, id})
}

// sendFlag is how long a flag takes to a GPU: the way, and before it how long
// flags that were sent earlier keep it. Without a message time none does (rule F5).
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

// arrive is a post's end of way.
func (s *sim) arrive(id int32) {
	p := *s.posts.at(id)
	if s.flags[p.flag].coming == id {
		s.flags[p.flag].coming = none
	}
	s.posts.drop(id)
	if s.causes != nil {
		s.causes.arrived(s.now, p.moment, s.causes.event(p.moment).command, int32(p.flag), Flying)
	}
	s.post(p.flag, p.count, p.from)
}
