package engines

import (
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

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

// leastShare is the share of runs below which a race outcome is not simulated: all of more
// than nine ranks never agree by chance.
const leastShare = 0.001

// expect sets the mean of an outcome's times over the race outcomes, of all iterations and of those of each phase. Choosing by the mean
// has the least mean regret; the median of few modes does not.
func (o *Outcome) expect(w *workload.Workload, sc plan.Scenario, stop func() bool) error {
	for _, t := range o.eachTime() {
		t.Expected, t.Best, t.Worst = t.Time, t.Time, t.Time
	}
	if sc.Race != plan.MedianRace || !o.Races.GEMMs && !o.Races.Gathers {
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

// races are the pairs of a program in which chunks of a collective and of compute become
// ready at the same time, so that dispatch order varies between runs.
type races struct {
	GEMMs   bool // a GEMM and its collective
	Gathers bool // an all-gather and its GEMM
	Chunks  int  // maximum number of chunks of the gathers
	Ranks   int  // maximum number of ranks of such a pair: the others do not race with it
}

// racesOf returns the races in the pairs that strategies serve.
func racesOf(pl *plan.Planner) (all races) {
	for i := range pl.Pairs {
		for _, p := range pl.Pairs[i].Links() {
			if p.Racing < 2 || len(p.First) < 2 {
				continue
			}
			all.Ranks = max(all.Ranks, len(p.First))
			if p.Direction != workload.CollectiveThenCompute {
				all.GEMMs = true
				continue
			}
			all.Gathers, all.Chunks = true, max(all.Chunks, p.Racing)
		}
	}
	return all
}
