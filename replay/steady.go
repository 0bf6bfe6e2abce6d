package replay

import (
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// Iterations say of a program whose iterations after the first are equal which one each command is of. The simulation
// ends when they repeat (rule Z8); the rest of the run is trace.Run.Repeats.
type Iterations struct {
	Of []int32 // by Command.Origin: its iteration, or -1
	N  int
}

// repeatClose is the largest difference of two successive iterations that repeat, relative: rounding, and rates of large
// components, which are feasible and not exact.
const repeatClose = 0.0001

// A steady sees when iterations repeat. The zero value never does.
type steady struct {
	*Iterations
	left   [][]int32        // by iteration and GPU: kernels and copies that have not ended
	ends   [][]program.Time // likewise, of the last one that has
	done   int              // iterations that have ended
	bytes  [][]float64      // the ledger's at the last end of an iteration but one, and at the last
	before [][]float64
	over   bool
}

// newSteady counts what the iterations consist of on the GPUs that are simulated.
func (s *sim) newSteady(o Options) steady {
	y := steady{Iterations: o.Iterations}
	if y.Iterations == nil || o.Level > Kernels || o.Causes || o.Limits || o.Usage {
		return steady{}
	}
	for range y.N {
		y.left, y.ends = append(y.left, make([]int32, len(s.gpus))), append(y.ends, make([]program.Time, len(s.gpus)))
	}
	for i := range s.streams {
		st := &s.streams[i]
		for c := range st.Commands {
			if at := y.of(&st.Commands[c]); at >= 0 {
				y.left[at][st.gpu]++
			}
		}
	}
	return y
}

// of is the iteration of a command, or -1.
func (y *steady) of(c *program.Command) int32 {
	if c.Op != program.Launch && c.Op != program.Start || c.Origin < 0 || int(c.Origin) >= len(y.Of) {
		return none
	}
	return y.Of[c.Origin]
}

// finished is emitted when a command's kernel or copy has ended.
func (s *sim) finished(gpu int32, c *program.Command) {
	y := &s.steady
	if y.Iterations == nil {
		return
	}
	at := y.of(c)
	if at < 0 {
		return
	}
	y.left[at][gpu]--
	y.ends[at][gpu] = s.now
	for y.done < y.N && slices.Max(y.left[y.done]) == 0 {
		y.done++
		y.before = y.bytes
		y.bytes = make([][]float64, len(s.ledger.bytes))
		for i, row := range s.ledger.bytes {
			y.bytes[i] = slices.Clone(row)
		}
		y.over = y.over || y.repeats()
	}
}

// length is that of an iteration that has ended, from the end of the one before.
func (y *steady) length(i int) program.Time {
	return slices.Max(y.ends[i]) - slices.Max(y.ends[i-1])
}

// repeats reports whether the last two iterations took the same time on every GPU, with others behind them.
func (y *steady) repeats() bool {
	last := y.done - 1
	if last < 2 || y.done == y.N {
		return false
	}
	period := y.length(last)
	near := func(t program.Time) bool { return float64(max(t-period, period-t)) <= repeatClose*float64(period) }
	if !near(y.length(last - 1)) {
		return false
	}
	for gpu := range y.ends[last] {
		for i := last - 1; y.ends[0][gpu] > 0 && i <= last; i++ {
			if !near(y.ends[i][gpu] - y.ends[i-1][gpu]) {
				return false
			}
		}
	}
	return true
}

// cut ends what runs when iterations repeat, and counts the bytes of all iterations: each moves what the last did.
func (s *sim) cut() *trace.Repeats {
	y := &s.steady
	s.makespan = s.now
	for i := range s.streams {
		switch st := &s.streams[i]; {
		case st.launch != none:
			if l := s.kernels.at(st.launch); l.placed > 0 {
				s.record.end(l.span, s.now)
			}
		case st.next < len(st.Commands) && st.step == moving:
			s.record.end(st.span, s.now)
		}
	}
	for i, row := range y.bytes {
		for k := range row {
			if i < len(y.before) && y.before[i] != nil {
				row[k] -= y.before[i][k]
			}
			row[k] *= float64(y.N)
		}
	}
	s.ledger.bytes = append(y.bytes, make([][]float64, len(s.ledger.bytes)-len(y.bytes))...)
	return &trace.Repeats{Simulated: y.done, Iterations: y.N, Period: y.length(y.done - 1)}
}
