package replay

// Looking ahead
//
// Workgroups that are due one after another lie anywhere in memory, and the way
// to one takes as long as all that is done with it. So those due within the
// next nanoseconds are touched in a row, none waiting for another:
//
//	touch   |a--b--c--d--|
//	memory   aaaaaaaaa
//	            bbbbbbbbb
//	               ccccccccc
//	                  ddddddddd
//	instants                  |a |b |c d |

// How many workgroups to look ahead for at once, so that they stay in the cache,
// and how many are close at hand anyway.
const (
	lookAt  = 128
	inCache = 4096
)

// lookAhead touches what a step of the workgroups begins with whose timers are due next.
func (s *sim) lookAhead(now Time) {
	if now <= s.seen || len(s.wgs.all) <= inCache {
		return
	}
	s.due, s.seen = s.events.soon(s.due[:0], lookAt)
	s.touch(s.due)
}

// touch touches it of those that are workgroups.
func (s *sim) touch(next []actor) {
	for _, who := range next {
		if who.kind == dueWorkgroup {
			s.touched += s.wgs.at(who.id).launch
		}
	}
	for _, who := range next {
		if who.kind != dueWorkgroup {
			continue
		}
		w := s.wgs.at(who.id)
		if w.quiet || w.phase == flowing {
			s.touched += w.pathAt
		}
		if w.op.works() > 0 && w.cu != none {
			s.touched += s.gpus[s.kernels.at(w.launch).gpu].pipes[w.cu].working
		}
	}
}
