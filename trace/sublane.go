package trace

import "fmt"

// An occupancy is the set of sub-lanes of a lane that are in use.
type occupancy struct {
	busy []busySpan // a heap: the first ends first
	free []subLane  // a heap: the first is the lowest
	ids  []LaneID   // by sub-lane; the first is the lane itself
	last int32      // highest Lane.Sub visited
}

// A busySpan is a span on a sub-lane.
type busySpan struct {
	end Time
	sub subLane
}

type subLane int32

func (s busySpan) before(t busySpan) bool {
	return s.end < t.end || s.end == t.end && s.sub < t.sub
}

func (s subLane) before(t subLane) bool { return s < t }

// take returns the lowest sub-lane that is free at the start of the span, and whether
// it is new. Calls are in order of start.
func (o *occupancy) take(s *Span) (sub subLane, isNew bool) {
	for len(o.busy) > 0 && o.busy[0].end <= s.Start {
		var gone busySpan
		gone, o.busy = HeapPop(o.busy, busySpan.before)
		o.free = HeapPush(o.free, gone.sub, subLane.before)
	}
	if isNew = len(o.free) == 0; isNew {
		sub = subLane(len(o.ids))
	} else {
		sub, o.free = HeapPop(o.free, subLane.before)
	}
	o.busy = HeapPush(o.busy, busySpan{s.End, sub}, busySpan.before)
	return sub, isNew
}

// subLanes moves spans that overlap an earlier span of their lane to sub-lanes, and
// reports whether it moved any. Host threads and annotations nest instead and are not
// changed.
func (b *Builder) subLanes() (moved bool) {
	r := &b.Run
	taken := make([]occupancy, len(r.Lanes))
	for i := range r.Spans {
		s := &r.Spans[i]
		l := r.Lanes[s.Lane]
		if nests(&l, s) {
			continue
		}
		lane, o := s.Lane, &taken[s.Lane]
		sub, isNew := o.take(s)
		if isNew {
			o.ids = append(o.ids, b.subLane(lane, o))
			if sub > 0 && l.Kind != Slot { // a CU holds several workgroups
				b.Note(Noted, r.Ranks[l.Rank].Source, fmt.Sprintf("spans overlap on one %s: shown on sub-lanes", l.Kind), "span", int64(i))
			}
		}
		s.Lane = o.ids[sub]
		moved = moved || s.Lane != lane
	}
	// Phases follow their workgroup.
	for i := range r.Spans {
		if s := &r.Spans[i]; s.Kind.InKernel() && s.Kind != Workgroup && s.Parent != None {
			moved = moved || s.Lane != r.Spans[s.Parent].Lane
			s.Lane = r.Spans[s.Parent].Lane
		}
	}
	return moved
}

// subLane returns the lane itself for index 0, then new lanes that differ in Sub.
func (b *Builder) subLane(lane LaneID, o *occupancy) LaneID {
	l := b.Run.Lanes[lane]
	if len(o.ids) == 0 {
		o.last = l.Sub
		return lane
	}
	name := l.Name
	l.Name = ""
	for {
		o.last++
		l.Sub = o.last
		known := len(b.Run.Lanes)
		if id := b.Lane(l); int(id) == known {
			b.Run.Lanes[id].Name = name
			return id
		}
	}
}
