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

// near is for how many nanoseconds, of a wheel's digits, to look ahead at once.
const near = 16

// inCache is how many workgroups are close at hand anyway.
const inCache = 4096

// lookAhead touches the workgroups that are due soon. Of many that are due at
// once it leaves most to collect.
func (s *sim) lookAhead(now Time) {
	if now <= s.seen || len(s.wgs.all) <= inCache {
		return
	}
	s.seen = now | (near - 1)
	s.ahead = s.ahead[:0]
	for t := now; t <= s.seen; t++ {
		for _, x := range s.events.soon(t) {
			if x.who.kind == dueWorkgroup {
				s.ahead = append(s.ahead, x.who.id)
				s.touched += s.wgs.at(x.who.id).launch
			}
		}
	}
	for _, id := range s.ahead {
		w := s.wgs.at(id)
		if w.quiet {
			s.touched += w.pathAt
		}
		if w.cu != none {
			s.touched += s.gpus[s.kernels.at(w.launch).gpu].pipes[w.cu].working
		}
	}
}
