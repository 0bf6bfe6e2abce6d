package engines

import (
	"math"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// How a pair's toss falls on its ranks, as values of Machine.Seed that draw nothing.
const (
	noneFirst  = -1 // every rank's product goes first
	allFirst   = -2 // every rank's collective
	everyOther = -3 // ranks differ
	allButOne  = -4 // every rank's collective but the last one's
)

// usualFall is the median case: of two ranks' fair tosses half fall alike, and the
// lower median of what that takes is that nobody waits; more ranks mostly differ,
// and so does a gather of some chunks on two.
func usualFall(ranks int, gather bool) int64 {
	if ranks > 2 || gather {
		return everyOther
	}
	return noneFirst
}

// races are the pairs of a program in which chunks of a collective and of compute
// become ready at one moment, so that which is dispatched first varies between runs.
type races struct {
	products bool // of a product and its collective
	gathers  bool // of a gather and the product behind it
	chunks   int  // of the gathers, at most
}

func (r races) any() bool { return r.products || r.gathers }

// races are those of the pairs that strategies have taken.
func (pl *planner) races() (all races) {
	if pl.w.World < 2 {
		return all
	}
	for i := range pl.pairs {
		for _, p := range pl.pairs[i].links() {
			switch {
			case p.raced < 2:
			case p.Direction == workload.CollectiveThenCompute:
				all.gathers = true
				all.chunks = max(all.chunks, p.raced)
			default:
				all.products = true
			}
		}
	}
	return all
}

// A fall is how all tosses fall, and how often.
type fall struct {
	seed  int64
	share float64
}

// falls are the ways that tosses fall on n ranks. At one fair toss the product goes
// first on all with probability 1/2^n, the collective on all with the same, and
// else ranks differ. Where gathers are tossed for again, the product stays first on a
// rank with probability 1/2^gatherTosses, and one such rank holds up all.
func falls(n int, gathers bool, chunks int) []fall {
	alike := math.Exp2(-float64(n))
	if gathers && chunks > gatherTosses {
		behind := 1 - math.Pow(1-math.Exp2(-gatherTosses), float64(n))
		return []fall{{allButOne, behind}, {allFirst, alike}, {everyOther, 1 - behind - alike}}
	}
	return []fall{{noneFirst, alike}, {allFirst, alike}, {everyOther, 1 - 2*alike}}
}

// RunsDiffer is how far two runs of one program are apart: rows measured twice
// differ by 1.4 to 1.8 % in the median, decompositions by 2 % (samples/measurements).
const RunsDiffer = 0.02

// choose is which of some strategies to take: the one with the least expected
// time, which loses least in the mean. plain is the best plain one if two runs of
// one program could not tell it from that. Both are -1 where there is none; an
// expected time of 0 is none.
func choose(expected []float64, isPlain []bool) (take, plain int) {
	take, plain = -1, -1
	for i, t := range expected {
		if t > 0 && (take < 0 || t < expected[take]) {
			take = i
		}
		if t > 0 && isPlain[i] && (plain < 0 || t < expected[plain]) {
			plain = i
		}
	}
	if plain == take || plain >= 0 && expected[plain]*(1-RunsDiffer) > expected[take] {
		plain = -1
	}
	return take, plain
}

// expect is the mean of what an outcome takes over how the tosses of its pairs
// fall. Whoever chooses by the mean loses least in the mean; the median of few
// modes says little.
func (o *Outcome) expect(w *workload.Workload, m machine.Machine, stop func() bool) error {
	o.Expected, o.Best, o.Worst = o.Time, o.Time, o.Time
	if m.Seed != 0 || !o.races.any() {
		return nil
	}
	both := o.races.products && o.races.gathers
	var mean float64
	for _, fall := range falls(w.World, !o.races.products, o.races.chunks) {
		t := o.Time
		if both || fall.seed != usualFall(w.World, o.races.gathers) {
			m.Seed = fall.seed
			other, err := Run(w, m, o.Selection, replay.Options{Stop: stop})
			if err != nil {
				return err
			}
			if other.Result == nil {
				o.Why, o.Err, o.Result, o.Time = other.Why, other.Err, nil, 0
				return nil
			}
			t = other.Time
		}
		mean += fall.share * float64(t)
		o.Best, o.Worst = min(o.Best, t), max(o.Worst, t)
	}
	o.Expected = trace.Time(mean)
	return nil
}
