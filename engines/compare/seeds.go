package compare

import (
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A Spread is the times of one strategy over several seeds (plan.Scenario.Seed).
type Spread struct {
	Times []trace.Time `json:"times_ns"` // by seed, from 1
	Modes []mode       `json:"modes"`    // two if the times form two groups, else one
}

// spreadOf is the spread of times by seed; none if the strategy failed under a seed.
func spreadOf(times []trace.Time) Spread {
	if len(times) == 0 || slices.Contains(times, 0) {
		return Spread{}
	}
	s := Spread{Times: times}
	s.Modes = modes(s.sorted())
	return s
}

// A mode is a group of times.
type mode struct {
	Seeds  int        `json:"seeds"`
	Median trace.Time `json:"median_ns"` // lower median
}

// sorted returns the times, fastest first.
func (s Spread) sorted() []trace.Time { return slices.Sorted(slices.Values(s.Times)) }

// Fastest is the smallest time.
func (s Spread) Fastest() trace.Time { return s.sorted()[0] }

// Median is the lower median.
func (s Spread) Median() trace.Time { return overlap.Median(s.sorted()) }

// Slowest is the largest time.
func (s Spread) Slowest() trace.Time { return s.sorted()[len(s.Times)-1] }

// Spreads simulates every selection with seeds 1 to n in parallel, and returns by selection the spread of all iterations,
// then those of each phase (Outcome.Phases). A strategy that does not apply has no times. done is called as each simulation
// finishes, from several
// goroutines; nil is allowed.
func Spreads(w *workload.Workload, m machine.Machine, sel []plan.Selection, sc plan.Scenario, n int, stop func() bool, done func()) ([][]Spread, error) {
	w, err := Isolate(w, m, stop)
	if err != nil {
		return nil, err
	}
	found := make([]Outcome, len(sel)*n)
	err = sideBySide(w, len(found), func(job int) error {
		sc := sc
		sc.Seed = int64(job%n + 1)
		x, err := Run(w, m, sel[job/n], sc, replay.Options{Like: true, Stop: stop})
		x.Result, found[job] = nil, x
		if done != nil {
			done()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([][]Spread, len(sel))
	for i := range out {
		phases := 0
		if n > 0 {
			phases = len(found[i*n].Phases)
		}
		for phase := range 1 + phases {
			var times []trace.Time
			for _, x := range found[i*n : (i+1)*n] {
				times = append(times, x.Of(phase).Time)
			}
			out[i] = append(out[i], spreadOf(times))
		}
	}
	return out, nil
}

// modes splits sorted times at their widest gap if it is at least as wide as the spread on
// either side and wider than RunsDiffer.
func modes(sorted []trace.Time) []mode {
	at, widest := 0, trace.Time(0)
	for i := 1; i < len(sorted); i++ {
		if gap := sorted[i] - sorted[i-1]; gap > widest {
			at, widest = i, gap
		}
	}
	below, above := sorted[:at], sorted[at:]
	if at == 0 || float64(widest) < RunsDiffer*float64(sorted[0]) || widest < below[len(below)-1]-below[0] || widest < above[len(above)-1]-above[0] {
		return []mode{{len(sorted), overlap.Median(sorted)}}
	}
	return []mode{{len(below), overlap.Median(below)}, {len(above), overlap.Median(above)}}
}
