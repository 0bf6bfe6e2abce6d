package compare

import (
	"math"
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

// A raceOutcome is an outcome of the races and its share of runs (rule X5).
type raceOutcome struct {
	race  plan.RaceOutcome
	share float64
}

// raceOutcomes are the outcomes of races on n ranks. In one race the GEMM goes first on
// all ranks with probability 1/2^n and the collective on all with the same; else ranks
// differ. An all-gather races again at its second chunk: the GEMM stays first on a rank
// with probability 1/2^races, and one such rank delays all (rule X5).
func raceOutcomes(n int, gathers bool, chunks, races int) []raceOutcome {
	alike := math.Exp2(-float64(n))
	if gathers && chunks > races {
		behind := 1 - math.Pow(1-math.Exp2(-float64(races)), float64(n))
		return []raceOutcome{{plan.LastGEMMFirst, behind}, {plan.CommFirst, alike}, {plan.RanksDiffer, 1 - behind - alike}}
	}
	return []raceOutcome{{plan.GEMMFirst, alike}, {plan.CommFirst, alike}, {plan.RanksDiffer, 1 - 2*alike}}
}

// RunsDiffer is the relative difference between two runs of one program: rows measured
// twice differ by 1.4 to 1.8 % in the median, decompositions by 2 %
// (samples/measurements).
const RunsDiffer = 0.02

// leastShare is the share of runs below which a race outcome is not simulated: all of more
// than nine ranks never agree by chance.
const leastShare = 0.001

// expect sets the mean of an outcome's times over the race outcomes, of all iterations and of those of each phase. Choosing by the mean
// has the least mean regret; the median of few modes does not.
func (o *Outcome) expect(w *workload.Workload, sc plan.Scenario, stop func() bool) error {
	for _, t := range o.eachTime() {
		t.Expected, t.Best, t.Worst = t.Time, t.Time, t.Time
	}
	if sc.Seed != 0 || sc.Race != plan.MedianRace || !o.Races.GEMMs && !o.Races.Gathers {
		return nil
	}
	both := o.Races.GEMMs && o.Races.Gathers
	mean, all := make([]float64, 1+len(o.Phases)), 0.0
	for _, fall := range raceOutcomes(o.Races.Ranks, !o.Races.GEMMs, o.Races.Chunks, plan.GatherRaces(&o.Machine)) {
		if fall.share < leastShare {
			continue
		}
		same := *o
		other := &same
		if both || fall.race != plan.MedianOutcome(o.Races.Ranks, o.Races.Gathers) {
			sc.Race, sc.Pace = fall.race, o.Scenario.Pace
			raced, err := Run(w, o.Machine, o.Selection, sc, replay.Options{Like: true, Stop: stop})
			if err != nil {
				return err
			}
			if raced.Result == nil {
				o.Why, o.Err, o.Result, o.Time = raced.Why, raced.Err, nil, 0
				return nil
			}
			other = &raced
		}
		for i, t := range o.eachTime() {
			raced := t.Time
			if each := other.eachTime(); i < len(each) {
				raced = each[i].Time
			}
			mean[i] += fall.share * float64(raced)
			t.Best, t.Worst = min(t.Best, raced), max(t.Worst, raced)
		}
		all += fall.share
	}
	for i, t := range o.eachTime() {
		t.Expected = trace.Time(mean[i] / all)
	}
	return nil
}
