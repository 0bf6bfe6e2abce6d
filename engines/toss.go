package engines

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// What a trace leaves to chance is drawn from Machine.Seed, and nothing else is:
//
//   - Where a chunk's collective and the next chunk become ready at one moment,
//     which of the two takes the compute units first is a toss on every rank, with
//     either outcome on four H200 (503 to 537) and on two
//     (samples/measurements). A collective moves only when it is resident on all
//     ranks, so ranks that fell differently wait for each other.
//   - How late each rank arrives at a pair: as late as in one of the captured
//     collectives, beyond what that rank usually is.
//
// Seed 0 is the median case and draws nothing. Of fair tosses of n ranks
// 2/2^n fall alike everywhere: half of them on two ranks, where the lower median
// is that nobody waits; fewer on more ranks, where the ranks are taken to differ,
// alternating from rank to rank and from chunk to chunk.
func (r *rank) commFirst(p *pair, chunk int) bool {
	switch ranks := len(p.First); {
	case r.pl.m.Seed != 0:
		return draw(r.pl.m.Seed, int64(r.id), int64(p.index))&1 == 1
	case ranks > 2:
		return (r.id+chunk)%2 == 0
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

// late is how much later than usual a rank comes to a pair.
func (pl *planner) late(rank int, p *pair) trace.Time {
	if pl.m.Seed == 0 {
		return 0
	}
	if pl.skews == nil {
		pl.skews = skews(pl.w)
	}
	if len(pl.skews) == 0 {
		return 0
	}
	of := pl.skews[draw(pl.m.Seed, -1, int64(p.index))%uint64(len(pl.skews))]
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
