package plan

import "github.com/overlapse/overlapse/replay/workload"

// A Scenario holds the conditions of a run other than the program and the machine: the
// clock of the GPUs and the outcome of dispatch races. The zero value is the median race
// at the captured clock.
type Scenario struct {
	Seed int64       // over 0: races and late arrivals are drawn with it
	Race RaceOutcome // race outcome if Seed is 0

	Clock ClockRegime
	Rest  float64 // idle time of the GPUs between two iterations, seconds

	// HostBound is set if the hosts take longer to issue an iteration than the devices to run
	// it, so that they never run ahead. Package compare finds it.
	HostBound bool

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
