package plan

import (
	"github.com/overlapse/overlapse/replay/machine"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Two things vary between runs of one program, and Scenario.Seed decides both:
//
//   - Races: where a chunk's collective and the next chunk of a GEMM become ready
//     at the same time, the dispatch order varies between runs and ranks. A
//     collective moves only when it is resident on all ranks, so ranks whose order
//     differs wait for each other.
//   - Arrival: each rank comes to a pair as late as in one of the captured
//     collectives, beyond what is usual for that rank.
//
// How races fall was recorded on two and four H200, where a GEMM's collective is
// decomposed (samples/measurements). At the first chunk both orders are equally
// likely and ranks are independent: of 456 iterations on four ranks the collective
// went first on 0 to 4 of them in 31, 110, 180, 112 and 23. At a later chunk it goes
// first in 158 of 486 cases where it did so at the chunk before, and in 8 of 78
// where it did not, which is taken as never (rules X1 and X2).
//
// Of an all-gather in chunks, the next chunk and the GEMM behind the last one race.
// The all-gather goes first in 72 of 178 cases at the first chunk; where the GEMM
// did, in 31 of 75 at the second and in 21 of 152 later: two races, then the GEMM.
// Where an all-gather went first, the next ones do in 248 of 255 cases (rule X3).

// CommFirst reports whether a pair's collective is dispatched before the compute
// that becomes ready together with it, at a chunk on this rank.
func (r *Rank) CommFirst(p *Pair, chunk int) bool {
	if p.Direction == workload.CollectiveThenCompute {
		for k := range min(chunk+1, GatherRaces(&r.Planner.Machine)) {
			if r.raceWon(p, k) {
				return true
			}
		}
		return false
	}
	for k := 1; k <= chunk; k++ {
		if seed := r.Planner.Scenario.Seed; seed <= 0 || draw(seed, int64(r.ID), int64(p.Index), int64(k))%uint64(max(1, r.Planner.Machine.Launch.RaceKeeps.Value)) != 0 {
			return false
		}
	}
	return r.raceWon(p, 0)
}

// GatherRaces is at how many chunks of an all-gather there is a race.
func GatherRaces(m *machine.Machine) int { return int(m.Launch.GatherRaces.Value) }

// raceWon reports whether the collective wins the race at a chunk.
func (r *Rank) raceWon(p *Pair, chunk int) bool {
	sc := &r.Planner.Scenario
	if sc.Seed > 0 {
		return draw(sc.Seed, int64(r.ID), int64(p.Index), int64(chunk))&1 == 1
	}
	race := sc.Race
	if race == MedianRace {
		race = MedianOutcome(len(p.First), p.Direction == workload.CollectiveThenCompute)
	}
	switch race {
	case CommFirst:
		return true
	case LastGEMMFirst:
		return r.ID < r.Planner.Workload.World-1
	case RanksDiffer:
		return (r.ID+chunk)%2 == 0
	}
	return false
}

// draw is a number that depends on nothing but its arguments (splitmix64).
func draw(keys ...int64) uint64 {
	var x uint64
	for _, k := range keys {
		x += uint64(k) + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// late is how much later than usual a rank comes to a pair (rule X6).
func (pl *Planner) late(rank int, p *Pair) trace.Time {
	if pl.Scenario.Seed <= 0 {
		return 0
	}
	if pl.skews == nil {
		pl.skews = skews(pl.Workload)
	}
	if len(pl.skews) == 0 {
		return 0
	}
	of := pl.skews[draw(pl.Scenario.Seed, -1, int64(p.Index))%uint64(len(pl.skews))]
	return of[rank]
}

// skews are, by captured collective of all ranks, how much later than its median
// each rank arrived, relative to the rank of which that is least. The first
// collective starts with the host and is left out.
func skews(w *workload.Workload) [][]trace.Time {
	var all [][]trace.Time
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if len(c.Members) != w.World || i == 0 {
			continue
		}
		s := make([]trace.Time, w.World)
		first := trace.Infinity
		for _, id := range c.Members {
			first = min(first, w.Ops[id].Start)
		}
		for _, id := range c.Members {
			s[w.Ops[id].Rank] = w.Ops[id].Start - first
		}
		all = append(all, s)
	}
	usual := make([]trace.Time, w.World)
	for r := range usual {
		var of []trace.Time
		for _, s := range all {
			of = append(of, s[r])
		}
		if len(of) > 0 {
			slices.Sort(of)
			usual[r] = of[(len(of)-1)/2]
		}
	}
	for _, s := range all {
		least := trace.Infinity
		for r := range s {
			s[r] -= usual[r]
			least = min(least, s[r])
		}
		for r := range s {
			s[r] -= least
		}
	}
	return all
}

// MedianOutcome is the outcome with the median time. Two ranks agree in half of the
// runs, and the lower median of the times is the one without waiting; more ranks
// mostly differ, and so do two ranks over the chunks of an all-gather.
func MedianOutcome(ranks int, gather bool) RaceOutcome {
	if ranks > 2 || gather {
		return RanksDiffer
	}
	return GEMMFirst
}

// Races says in which pairs of a program chunks of a collective and of compute
// become ready at the same time, so that dispatch order varies between runs.
type Races struct {
	GEMMs   bool // of a GEMM and its collective
	Gathers bool // of a gather and the GEMM behind it
	Chunks  int  // of the gathers, at most
}

// Any reports whether there are any.
func (r Races) Any() bool { return r.GEMMs || r.Gathers }

// Races are those of the pairs that strategies have taken.
func (pl *Planner) Races() (all Races) {
	if pl.Workload.World < 2 {
		return all
	}
	for i := range pl.Pairs {
		for _, p := range pl.Pairs[i].Links() {
			switch {
			case p.Racing < 2:
			case p.Direction == workload.CollectiveThenCompute:
				all.Gathers = true
				all.Chunks = max(all.Chunks, p.Racing)
			default:
				all.GEMMs = true
			}
		}
	}
	return all
}
