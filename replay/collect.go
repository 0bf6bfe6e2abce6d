package replay

import (
	"math/bits"
	"slices"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// Sorting what is due
//
// Actors due at one instant are sorted by the key bits in which they differ: few keys by
// insertion sort, more by radix sort from the lowest digit, skipping digits that are equal
// in all keys.
//
//	keys    2:017:0094  2:017:0031  2:020:0031      kind : launch : index
//	differ  0:00f:00ff                              digits to sort by
//
// With slices.SortFunc instead, and without recentPath,
// BenchmarkEmbedding/gpus=8/even=true takes 1.4 times as long.

const (
	fewKeys = 48
	keyBits = 8
)

// sortKeys returns the sorted keys and the scratch slice.
func sortKeys(keys, spare []dueKey) (sorted, left []dueKey) {
	if len(keys) <= fewKeys {
		for i := 1; i < len(keys); i++ {
			x, at := keys[i], i
			for ; at > 0 && keys[at-1].key > x.key; at-- {
				keys[at] = keys[at-1]
			}
			keys[at] = x
		}
		return keys, spare
	}
	differ, ascend := uint64(0), true
	for i := range keys[1:] {
		differ |= keys[i].key ^ keys[i+1].key
		ascend = ascend && keys[i].key <= keys[i+1].key
	}
	if ascend {
		return keys, spare
	}
	spare = slices.Grow(spare[:0], len(keys))[:len(keys)]
	for shift := 0; differ>>shift != 0; shift += keyBits {
		shift += bits.TrailingZeros64(differ >> shift)
		var at [1 << keyBits]int32
		for i := range keys {
			at[uint8(keys[i].key>>shift)]++
		}
		sum := int32(0)
		for d, n := range at {
			at[d] = sum
			sum += n
		}
		for i := range keys {
			d := uint8(keys[i].key >> shift)
			spare[at[d]] = keys[i]
			at[d]++
		}
		keys, spare = spare, keys
	}
	return keys, spare
}

// A dueKey is an actor and its order among those due at one instant.
type dueKey struct {
	key uint64
	who actor
}

// collect appends everything due now to the queue, in order.
func (s *sim) collect(now program.Time) {
	s.due, s.keys = s.events.Due(s.due[:0]), s.keys[:0]
	s.queue, s.head, s.ends = s.queue[:0], 0, s.ends[:0]
	for _, number := range s.due {
		who := actorOf(number)
		if who.kind == dueFlow {
			if t := fluid.Timer(who.id); s.flows.Pending(t, int64(now)) {
				s.now = now
				s.ends = s.flows.Complete(t, int64(now), s.ends)
			}
			continue
		}
		a := s.alarm(who)
		if *a != now { // the alarm has changed since
			continue
		}
		*a, s.now = none, now
		if who.kind == duePost { // first of all, in the order in which they were sent
			s.queue = append(s.queue, who)
		} else {
			s.keys = append(s.keys, dueKey{s.order(who), who})
		}
	}
	for _, number := range s.ends { // in one loop, so that cache misses overlap: 1.3x on BenchmarkPhases/memory/jittered_bytes
		who := actorOf(number)
		s.keys = append(s.keys, dueKey{s.order(who), who})
		s.flows.End(s.MemberOf(number))
	}
	if len(s.keys) > 1 {
		s.keys, s.spare = sortKeys(s.keys, s.spare)
	}
	first := len(s.queue)
	s.queue = slices.Grow(s.queue, len(s.keys))[:first+len(s.keys)]
	sorted := s.queue[first:]
	for i := range sorted {
		sorted[i] = s.keys[i].who
	}
}

// wakeAt sets the actor's alarm.
func (s *sim) wakeAt(a *alarm, at program.Time, who actor) {
	*a = at
	s.events.Set(int64(at), who.number())
}

// alarm points to the time at which the actor is due.
func (s *sim) alarm(who actor) *alarm {
	switch who.kind {
	case duePost:
		return &s.posts.at(who.id).at
	case duePut:
		return &s.channel(who.id).alarm
	case dueStream:
		return &s.streams[who.id].alarm
	}
	return &s.wgs.at(who.id).alarm
}

// order is an actor's sort key within one instant: two bits for its kind, 31 for its
// launch, 31 for its index.
func (s *sim) order(who actor) uint64 {
	of := uint64(who.id)
	if who.kind == dueWorkgroup {
		w := s.wgs.at(who.id)
		of = uint64(s.kernels.at(w.launch).order)<<31 | uint64(w.index)
	}
	return uint64(who.kind)<<62 | of
}
