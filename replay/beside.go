package replay

import (
	"errors"

	"github.com/overlapse/overlapse/replay/program"
)

// Kernels that are taken to run alone
//
// Flags and stream order often do not say that nothing runs alongside a kernel: a fill on another
// stream for which nothing waits may run alongside any. Such kernels are taken to run alone, as one
// phase (program.Coarse), and the simulation checks that. Those that something did run alongside are
// simulated with their workgroups the next time. What happens until a kernel begins does not depend
// on later ones: where every kernel that was taken to run alone did, the times are those of all
// workgroups.

// Runs in which kernels are taken to run alone are few, and end early if half of these do not. They
// are worth it where the kernels have several times the workgroups of all others, which each run
// simulates, and take longer than it takes to begin a run.
const (
	mostRuns = 3
	worth    = 2
	begins   = 40 // workgroups that take as long to simulate as it takes to begin a run for a command
	nearby   = 8  // commands around a kernel that did not run alone: what they launch is not taken to; four times as many a run
	busier   = 16 // workgroups without stores and flags that take as long as one with them
)

// An apart is what is known from earlier runs.
type apart struct {
	runs int
	not  map[launched]bool // kernels that did not run alone
	fold *fold             // as they found it
}

// A beside checks one run.
type beside struct {
	apart
	assumed, begun int // kernels that are taken to run alone, and those that have begun
	found          int // of them: those that did not
}

// symmetry is the fold of the earlier run.
func (a *apart) symmetry(s *sim) *fold {
	if a == nil || a.fold == nil {
		return nil
	}
	a.fold.made = nil
	return a.fold.serves(s)
}

// coarsen replaces kernels that run alone, as far as is known, by one phase.
func (s *sim) coarsen(known *apart) {
	b := &s.beside
	if b.not = map[launched]bool{}; known != nil {
		b.apart = *known
	}
	if b.runs++; b.runs <= mostRuns {
		p := s.whole.Coarse(s.fold.runs, s.flagOf, func(gpu, stream, command int) bool {
			return !b.not[launched{int32(gpu), int32(stream), int32(command)}]
		})
		if s.worth(p) {
			s.program = p
			return
		}
	}
	b.assumed = 0
	s.program = s.whole.Coarse(s.fold.runs, s.flagOf, nil)
}

// worth counts the kernels that are taken to run alone, and reports whether there are any that make it
// worth to run more than once.
func (s *sim) worth(p *program.Program) bool {
	var saved, left, commands int
	for g := range p.GPUs {
		for i := range p.GPUs[g].Streams {
			if commands += len(p.GPUs[g].Streams[i].Commands); !s.fold.runs(g) {
				continue
			}
			for c := range p.GPUs[g].Streams[i].Commands {
				k := p.GPUs[g].Streams[i].Commands[c].Kernel
				switch {
				case k == nil:
				case k.Assumed:
					whole := s.whole.GPUs[g].Streams[i].Commands[c].Kernel
					s.beside.assumed++
					saved += max(whole.WGs, whole.Tiles)
				case k.Recipe != nil:
					left += busier * max(k.WGs, k.Tiles)
				default:
					left += max(k.WGs, k.Tiles)
				}
			}
		}
	}
	if s.whole.Equal != nil {
		commands *= int(s.fold.order)
	}
	return saved > worth*left && saved > begins*commands
}

// errBeside ends a run of which too much was assumed.
var errBeside = errors.New("kernels did not run alone")

// runs counts a kernel or copy that begins (1) or ends (-1), and notes kernels that do not run alone.
func (s *sim) runs(st *stream, c *program.Command, n int) {
	g, b := &s.gpus[st.gpu], &s.beside
	g.running += n
	if c.Kernel != nil && c.Kernel.Assumed {
		g.assumed += n
		b.begun += max(0, n)
	}
	if n < 0 || g.running < 2 || g.assumed == 0 {
		return
	}
	for i := range s.streams {
		other := &s.streams[i]
		if other.gpu != st.gpu || other.launch == none {
			continue
		}
		if l := s.kernels.at(other.launch); l.kernel != nil && l.stream == int32(i) && l.kernel.Assumed {
			b.found++
			near := nearby << (2 * (b.runs - 1))
			for at := max(0, other.next-near); at < min(len(other.Commands), other.next+near); at++ {
				b.not[launched{other.gpu, other.index, int32(at)}] = true
			}
		}
	}
	if b.found > 50 && b.found > b.begun/2 {
		s.fail(errBeside)
	}
}

// wrong reports whether the run has to be repeated.
func (b *beside) wrong(err error) bool {
	return b.found > 0 || b.assumed > 0 && err != nil && !errors.Is(err, ErrStopped)
}

// next is what the next run has to know.
func (b *beside) next(err error) *apart {
	if err != nil { // nothing is assumed
		b.runs = mostRuns
	}
	return &b.apart
}
