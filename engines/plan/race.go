package plan

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// What a trace leaves to chance is drawn from Machine.Seed, and nothing else is:
//
//   - Where a chunk's collective and the next chunk become ready at one moment,
//     which of the two takes the compute units first is a toss on every rank. A
//     collective moves only when it is resident on all ranks, so ranks that fell
//     differently wait for each other.
//   - How late each rank arrives at a pair: as late as in one of the captured
//     collectives, beyond what that rank usually is.
//
// Kernels recorded where a product's collective is decomposed, on two and four H200
// (samples/measurements), say how the toss falls. At the first chunk it is fair and ranks are independent:
// of 456 iterations on four ranks the collective went first on 0 to 4 of them in
// 31, 110, 180, 112 and 23. Later it goes first in 158 of 486 cases where it did so
// at the chunk before, and in 8 of 78 where it did not, which is taken as never.
//
// Of gathers in chunks, the next and the product behind the last are ready
// together (2026-11-21-h200x2 and -third). The gather goes first in 72 of 178 cases at the first chunk; where the
// product did, in 31 of 75 at the second and in 21 of 152 later: two fair tosses, then
// the product. Where a gather went first, the next ones do in 248 of 255 cases.
//
// Seed 0 is the median case and draws nothing (usualFall).
func (r *Rank) CommFirst(p *Pair, chunk int) bool {
	if p.Direction == workload.CollectiveThenCompute {
		for k := range min(chunk+1, GatherRaces) {
			if r.raceWon(p, k) {
				return true
			}
		}
		return false
	}
	for k := 1; k <= chunk; k++ {
		if seed := r.Planner.Machine.Seed; seed <= 0 || draw(seed, int64(r.ID), int64(p.Index), int64(k))%keepsOneIn != 0 {
			return false
		}
	}
	return r.raceWon(p, 0)
}

// keeps is one in how many collectives that went first at a chunk do so at the next.
const keepsOneIn = 3

// gatherTosses is at how many chunks of a gather there is a toss.
const GatherRaces = 2

// raceWon is how the first toss of a pair falls; where seeds draw nothing, that of any chunk.
func (r *Rank) raceWon(p *Pair, chunk int) bool {
	seed := r.Planner.Machine.Seed
	if seed == 0 {
		seed = MedianOutcome(len(p.First), p.Direction == workload.CollectiveThenCompute)
	}
	switch seed {
	case GEMMFirst:
		return false
	case CommFirst:
		return true
	case AllButOne:
		return r.ID < r.Planner.Workload.World-1
	case RanksDiffer:
		return (r.ID+chunk)%2 == 0
	}
	return draw(seed, int64(r.ID), int64(p.Index), int64(chunk))&1 == 1
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

// late is how much later than usual a rank comes to a pair.
func (pl *Planner) late(rank int, p *Pair) trace.Time {
	if pl.Machine.Seed <= 0 {
		return 0
	}
	if pl.skews == nil {
		pl.skews = skews(pl.Workload)
	}
	if len(pl.skews) == 0 {
		return 0
	}
	of := pl.skews[draw(pl.Machine.Seed, -1, int64(p.Index))%uint64(len(pl.skews))]
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
		first := trace.Never
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
		least := trace.Never
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

// How a pair's toss falls on its ranks, as values of Machine.Seed that draw nothing.
const (
	GEMMFirst   = -1 // every rank's product goes first
	CommFirst   = -2 // every rank's collective
	RanksDiffer = -3 // ranks differ
	AllButOne   = -4 // every rank's collective but the last one's
)

// MedianOutcome is the median case: of two ranks' fair tosses half fall alike, and the
// lower median of what that takes is that nobody waits; more ranks mostly differ,
// and so does a gather of some chunks on two.
func MedianOutcome(ranks int, gather bool) int64 {
	if ranks > 2 || gather {
		return RanksDiffer
	}
	return GEMMFirst
}

// Races are the pairs of a program in which chunks of a collective and of compute
// become ready at one moment, so that which is dispatched first varies between runs.
type Races struct {
	GEMMs   bool // of a product and its collective
	Gathers bool // of a gather and the product behind it
	Chunks  int  // of the gathers, at most
}

func (r Races) Any() bool { return r.GEMMs || r.Gathers }

// races are those of the pairs that strategies have taken.
func (pl *Planner) races() (all Races) {
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
