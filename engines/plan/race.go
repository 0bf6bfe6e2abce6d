package plan

import (
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// Where a chunk's collective and the next chunk of a GEMM become ready at the same time, the dispatch
// order varies between runs and ranks. A collective moves only when it is resident on all ranks, so ranks
// whose order differs wait for each other. Scenario.Race is one outcome; package engines weighs all of them.
//
// Race outcomes were measured on two and four H200 with decomposed GEMMs and collectives
// (samples/measurements). At the first chunk both orders are equally likely and ranks are
// independent: of 456 iterations on four ranks the collective went first on 0 to 4 of them
// in 31, 110, 180, 112 and 23. At a later chunk it goes first in 158 of 486 cases after it
// did so at the previous chunk, and in 8 of 78 after it did not, which is modelled as
// never (rule X1).
//
// With an all-gather in chunks, the next chunk races with the GEMM of the previous one.
// The all-gather goes first in 72 of 178 cases at the first chunk; after the GEMM went
// first, in 31 of 75 at the second chunk and in 21 of 152 later: two races, then the GEMM.
// After an all-gather went first, the next ones do in 248 of 255 cases (rule X1).

// CommFirst reports whether a pair's collective is dispatched before the compute that
// becomes ready at the same time, at a chunk on this rank.
func (r *Rank) CommFirst(p *Pair, chunk int) bool {
	if p.Direction == workload.CollectiveThenCompute {
		for k := range min(chunk+1, GatherRaces(&r.Planner.Machine)) {
			if r.raceWon(p, k) {
				return true
			}
		}
		return false
	}
	return chunk == 0 && r.raceWon(p, 0)
}

// GatherRaces is the number of chunks of an all-gather at which there is a race.
func GatherRaces(m *machine.Machine) int { return int(m.Launch.GatherRaces.Value) }

// raceWon reports whether the collective is dispatched first at a chunk.
func (r *Rank) raceWon(p *Pair, chunk int) bool {
	race := r.Planner.Scenario.Race
	if race == MedianRace {
		race = MedianOutcome(len(p.First), p.Direction == workload.CollectiveThenCompute)
	}
	switch race {
	case CommFirst:
		return true
	case LastGEMMFirst:
		return r.placeIn(p) < len(p.First)-1
	case RanksDiffer:
		return (r.placeIn(p)+chunk)%2 == 0
	}
	return false
}

// placeIn is the rank's place among the ranks of a pair.
func (r *Rank) placeIn(p *Pair) int {
	return slices.IndexFunc(p.First, func(id int32) bool { return r.Planner.Workload.Ops[id].Rank == r.ID })
}

// MedianOutcome is the outcome with the median time. Two ranks agree in half of the runs,
// and the lower median is the time without waiting; more ranks mostly differ, and so do
// two ranks over the chunks of an all-gather.
func MedianOutcome(ranks int, gather bool) RaceOutcome {
	if ranks > 2 || gather {
		return RanksDiffer
	}
	return GEMMFirst
}

// A Scenario holds the conditions of a run other than the program and the machine: the
// clock of the GPUs and the outcome of dispatch races. The zero value is the median race
// at the captured clock.
type Scenario struct {
	Race RaceOutcome

	Clock ClockRegime
	Rest  float64 // idle time of the GPUs between two iterations, seconds

	MemoryLimit int64 // bytes that a rank has; 0: enough for any schedule

	// HostBound is set if the hosts take longer to issue an iteration than the devices to run
	// it, so that they never run ahead. Package compare finds it.
	HostBound bool

	// FastHosts is that hosts issue as fast as they may without the profiler: ranks that issue the same at the pace of the
	// fastest of them, no slower than the fastest host known, and less by the most that a profiler was seen to add (rule H7).
	FastHosts bool

	// Shared is that ranks that do the same as others are not written (replay.Share). Package
	// compare sets it.
	Shared bool

	// Pace is the duration of clock-bound work relative to the capture; 0 stands for 1.
	// Package compare finds it.
	Pace float64
}

// WasMeasured reports whether the captured schedule was measured on the machine and with the
// ranks of the workload. Its kernels then last as measured, at another clock slowed by P5.
func WasMeasured(w *workload.Workload) bool { return w.Rescaled == nil }

// A RaceOutcome is the kernel that is dispatched first on each rank if two become ready at
// the same time: the GEMM (or its next chunk) or the collective.
type RaceOutcome uint8

// The outcomes.
const (
	MedianRace    RaceOutcome = iota // the outcome with the median time
	GEMMFirst                        // the GEMM on every rank
	CommFirst                        // the collective on every rank
	RanksDiffer                      // the collective on every other rank: ranks wait for each other
	LastGEMMFirst                    // the collective on every rank except the last
)

// A ClockRegime is the clock at which iterations are predicted.
type ClockRegime uint8

// The regimes.
const (
	CapturedClock ClockRegime = iota // settled, as in the capture: only a strategy's change of power counts
	FullClock                        // full clock: the first iterations after a pause
	SettledClock                     // settled, whatever the clock of the capture
)

// String is the regime as --clock has it.
func (c ClockRegime) String() string { return [...]string{"captured", "cool", "sustained"}[c] }
