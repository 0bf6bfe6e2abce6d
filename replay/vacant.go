package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// Vacant slots
//
// A slot is recorded if its workgroups are, or if a persistent workgroup has it. At any
// time it is held or vacant. The reason of a vacancy is the same for all slots of a GPU:
// it follows from the running kernels, or, if none runs, from the cause for which the
// stream of the next kernel waits.
//
//	kernels   |A ready|A, WGs left|A, all placed|  gap  |B______|
//	slot      |no slot|aaaa|no slot|aaa|tail of A|launch |bbbb|..
//
// Vacancies become spans of kind PhaseWait without a parent (trace.Span.Vacant).

// A residency is a workgroup's time in a slot.
type residency struct {
	start, end program.Time
	cu, slot   int32
	index      int32        // of a persistent workgroup
	laneSet    int32        // of a persistent kernel, or none
	lane       trace.LaneID // lane of its workgroup spans; None: not recorded
}

// A presence is the lifetime of a kernel.
type presence struct {
	ready, start, full, end program.Time // full: time at which its last workgroup was placed
	name                    string
	order                   int32
	stream                  int32
}

// vacancies holds the residencies and kernel lifetimes of a GPU that is recorded beyond
// kernels.
type vacancies struct {
	residencies []residency
	spare       []int32 // free indices of residencies
	kernels     []presence
}

// beginResidency assigns a workgroup the first free slot of its CU, which selects its
// lane.
func (r *recorder) beginResidency(l *launch, w *workgroup, c *cu, now program.Time) int32 {
	at := slices.Index(c.slots, none)
	if at < 0 {
		at = len(c.slots)
		c.slots = append(c.slots, none)
	}
	v := &r.vacant[l.gpu]
	id := int32(len(v.residencies))
	if n := len(v.spare); n > 0 {
		id, v.spare = v.spare[n-1], v.spare[:n-1]
	} else {
		v.residencies = append(v.residencies, residency{})
	}
	v.residencies[id] = residency{
		start: now, end: trace.Infinity, cu: w.cu, slot: int32(at), index: w.index,
		laneSet: l.laneSet, lane: trace.None,
	}
	c.slots[at] = id
	return int32(at)
}

// endResidency frees the slot.
func (r *recorder) endResidency(gpu int32, c *cu, slot int32, now program.Time) {
	id := c.slots[slot]
	c.slots[slot] = none
	v := &r.vacant[gpu]
	x := &v.residencies[id]
	x.end = now
	if x.lane == trace.None && (now <= r.options.From || r.afterWindow(x.start)) {
		*x = residency{lane: trace.None}
		v.spare = append(v.spare, id)
	}
}

// afterWindow reports whether a time is after the window.
func (r *recorder) afterWindow(t program.Time) bool { return r.options.To > 0 && t >= r.options.To }

// watched reports whether spans of the rank that begin now are recorded.
func (r *recorder) watched(rank int32, now program.Time) bool {
	return r.deep[rank] && now >= r.options.From && !r.afterWindow(now)
}

// endPresence stores the lifetime of a kernel.
func (r *recorder) endPresence(l *launch, now program.Time) {
	if r.deep[l.gpu] {
		v := &r.vacant[l.gpu]
		v.kernels = append(v.kernels, presence{l.ready, r.Span(l.span).Start, l.full, now, l.kernel.Name, l.order, l.stream})
	}
}

// A reason is the reason of vacancies in an interval.
type reason struct {
	start, end program.Time
	name       string
}

// recordVacant adds the vacant intervals of every recorded slot.
func (s *sim) recordVacant() {
	until := s.makespan
	if to := s.record.options.To; to > 0 {
		until = min(until, to)
	}
	for g := range s.record.vacant {
		v := &s.record.vacant[g]
		if len(v.residencies) == 0 {
			continue
		}
		held := v.byLane()
		reasons := s.reasons(v, until)
		for i := 0; i < len(held); {
			at := s.record.options.From
			lane := held[i].lane
			if s.record.tooMany() {
				return
			}
			for ; i < len(held) && held[i].lane == lane; i++ {
				s.recordGap(lane, at, min(held[i].start, until), reasons)
				at = max(at, held[i].end)
			}
			s.recordGap(lane, at, until, reasons)
		}
		s.record.tooMany()
	}
}

// byLane lists the residencies by lane and start. A persistent workgroup is on its own
// lane and, if other workgroups are recorded in its slot, on the slot's lane too.
func (v *vacancies) byLane() []residency {
	slots, persistent := map[[2]int32]trace.LaneID{}, map[[2]int32]trace.LaneID{}
	for _, x := range v.residencies {
		switch {
		case x.lane == trace.None:
		case x.laneSet == none:
			slots[[2]int32{x.cu, x.slot}] = x.lane
		default:
			persistent[[2]int32{x.index, x.laneSet}] = x.lane
		}
	}
	var held []residency
	for _, x := range v.residencies {
		if lane, ok := persistent[[2]int32{x.index, x.laneSet}]; ok && x.laneSet != none {
			x.lane = lane
			held = append(held, x)
		}
		if lane, ok := slots[[2]int32{x.cu, x.slot}]; ok {
			x.lane = lane
			held = append(held, x)
		}
	}
	slices.SortFunc(held, func(a, b residency) int { return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.start, b.start)) })
	return held
}

// recordGap records a vacant interval, split by reason.
func (s *sim) recordGap(lane trace.LaneID, start, end program.Time, reasons []reason) {
	at, _ := slices.BinarySearchFunc(reasons, start, func(r reason, t program.Time) int { return cmp.Compare(r.end, t+1) })
	for ; at < len(reasons) && reasons[at].start < end; at++ {
		from, to := max(start, reasons[at].start), min(end, reasons[at].end)
		if from < to {
			s.record.Add(trace.Span{
				Start: from, End: to, Kind: trace.PhaseWait, Name: s.record.Intern(reasons[at].name),
				Lane: lane, Parent: trace.None, Attr: trace.None,
			})
		}
	}
}

// reasons lists, for the whole makespan, why slots of the GPU were vacant.
func (s *sim) reasons(v *vacancies, until program.Time) []reason {
	slices.SortFunc(v.kernels, func(a, b presence) int { return cmp.Or(cmp.Compare(a.ready, b.ready), cmp.Compare(a.order, b.order)) })
	cuts := []program.Time{0, until}
	for _, k := range v.kernels {
		for _, t := range [...]program.Time{k.ready, k.start, k.full, k.end} {
			if t < until {
				cuts = append(cuts, t)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var all []reason
	var alive []presence
	next := 0
	for i := range cuts[:len(cuts)-1] {
		from, to := cuts[i], cuts[i+1]
		for ; next < len(v.kernels) && v.kernels[next].ready <= from; next++ {
			alive = append(alive, v.kernels[next])
		}
		alive = slices.DeleteFunc(alive, func(k presence) bool { return k.end <= from })
		if name, ok := kernelReason(alive, from); ok {
			all = append(all, reason{from, to, name})
			continue
		}
		if next == len(v.kernels) {
			all = append(all, reason{from, to, program.NoWork.String()})
			continue
		}
		all = s.streamReasons(all, from, to, &v.kernels[next])
	}
	return all
}

// kernelReason is the reason while kernels are ready or running.
func kernelReason(alive []presence, now program.Time) (string, bool) {
	for _, k := range alive {
		if now < k.full {
			return fmt.Sprintf("%s for %s", program.NoSlot, k.name), true
		}
	}
	if n := len(alive); n > 0 {
		return fmt.Sprintf("%s of %s", program.Tail, alive[n-1].name), true
	}
	return "", false
}

// streamReasons appends the idle causes of the stream that launches the next kernel; while
// it is not idle, it copies.
func (s *sim) streamReasons(all []reason, from, to program.Time, next *presence) []reason {
	copying := fmt.Sprintf("copy before %s", next.name)
	idle := s.streams[next.stream].idle
	at, _ := slices.BinarySearchFunc(idle, from, func(i Idle, t program.Time) int { return cmp.Compare(i.End, t+1) })
	for ; at < len(idle) && idle[at].Start < to; at++ {
		if idle[at].Start > from {
			all = append(all, reason{from, idle[at].Start, copying})
			from = idle[at].Start
		}
		end := min(to, idle[at].End)
		all = append(all, reason{from, end, s.idleReason(&idle[at], &s.streams[next.stream].posters[at], next)})
		from = end
	}
	if from < to {
		all = append(all, reason{from, to, copying})
	}
	return all
}

func (s *sim) idleReason(i *Idle, by *posted, next *presence) string {
	text := fmt.Sprintf("%s before %s", i.Cause, next.name)
	if i.Flag != program.NoFlag {
		text = fmt.Sprintf("%s: %s", i.Cause, s.program.Flags.Name(i.Flag))
	}
	switch {
	case by.flag != program.NoFlag:
		text += ", " + s.fold.note(i.Flag, by)
	case i.Note != "":
		text += ", " + i.Note
	}
	return text
}
