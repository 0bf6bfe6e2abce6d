package replay

import "github.com/overlapse/overlapse/replay/program"

// A batch is workgroups of one kernel that a dispatch placed together, and whose phases only the load
// of their CUs can slow: their phases end together, so they are stepped as one, and which tile each of
// them has does not matter. When the load of a CU changes, each gets a timer of its own.
type batch struct {
	alarm  alarm
	since  program.Time // when the phase began
	launch int32
	rounds int32   // number of tiles begun
	wgs    []int32 // by index
}

// inBatches reports whether workgroups of a kernel are stepped in batches.
func (s *sim) inBatches(gpu int32, k *program.Kernel) bool {
	if k.Free || k.Recipe != nil || k.Prologue != nil || k.Epilogue != nil || k.Lag > 0 || k.Cluster > 1 || len(k.Each) != 1 {
		return false
	}
	p := &k.Each[0]
	return p.Op == program.Work && p.Time > 0 && p.Read == 0 && p.Write == 0 && p.Slowdown <= 1 && s.causes == nil && !s.record.deep[gpu]
}

// enterBatch adds a placed workgroup to the batch of those placed before it in this dispatch.
func (s *sim) enterBatch(id int32, w *workgroup) {
	if n := len(s.queue); s.head < n && s.queue[n-1].kind == dueBatch {
		w.link = s.queue[n-1].id
	}
	if w.link == none || s.batches.at(w.link).launch != w.launch {
		w.link = s.batches.add()
		b := s.batches.at(w.link)
		*b = batch{alarm: none, launch: w.launch, wgs: b.wgs[:0]}
		s.queue = append(s.queue, actor{dueBatch, w.link})
	}
	b := s.batches.at(w.link)
	b.wgs = append(b.wgs, id)
}

// stepBatch begins the next tile of each workgroup of a batch that has one; the others leave.
func (s *sim) stepBatch(id int32) {
	b := s.batches.at(id)
	l := s.kernels.at(b.launch)
	was := program.Work
	if b.rounds == 0 {
		if was = program.Sleep; s.slowsAny(b) {
			s.parted(id)
			for _, wg := range b.wgs {
				s.stepWorkgroup(wg)
			}
			return
		}
	}
	n := l.moreTiles(b, int(s.wgs.at(b.wgs[0]).index))
	for _, wg := range b.wgs[n:] {
		w := s.wgs.at(wg)
		s.countState(w, l, was, program.Sleep)
		s.depart(wg, w, l)
	}
	if b.wgs = b.wgs[:n]; n == 0 {
		s.batches.drop(id)
		return
	}
	p := &l.kernel.Each[0]
	for i := 0; i < n && b.rounds == 1; i++ {
		w := s.wgs.at(b.wgs[i])
		if !s.fetch(b.wgs[i], w, l, int(w.index)) {
			return
		}
		w.stage, w.phase, w.op, w.alone, w.lone = tiling, sleeping, p.Op, p.Time, true
		s.countState(w, l, was, p.Op)
	}
	b.since = s.now
	s.wakeAt(&b.alarm, s.now+p.Time, actor{dueBatch, id})
}

// slowsAny reports whether the load of its CU slows a workgroup of the batch.
func (s *sim) slowsAny(b *batch) bool {
	for _, wg := range b.wgs {
		if s.slowed(s.wgs.at(wg)) > 1 {
			return true
		}
	}
	return false
}

// moreTiles begins a tile of the first workgroups of a batch and returns how many have one, as
// nextTile does for one workgroup.
func (l *launch) moreTiles(b *batch, first int) int {
	k, n, round := l.kernel, len(b.wgs), int(b.rounds)
	b.rounds++
	switch {
	case k.Tiles == 0:
		return n * max(0, 1-round)
	case round < l.owned:
		n = min(n, k.Tiles-round*k.WGs-first)
	default:
		n = min(n, k.Tiles-l.ticket)
		l.ticket += max(0, n)
	}
	return max(0, n)
}

// parted makes the workgroups of a batch single ones.
func (s *sim) parted(id int32) {
	b := s.batches.at(id)
	for _, wg := range b.wgs {
		w := s.wgs.at(wg)
		w.link, w.since, w.rounds = none, b.since, b.rounds
		if b.alarm != none {
			s.wakeAt(&w.alarm, b.alarm, actor{dueWorkgroup, wg})
		}
	}
	b.alarm = none
	s.batches.drop(id)
}
