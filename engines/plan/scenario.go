package plan

// A Scenario is what the result of a program depends on besides the program and
// the machine: the state of the GPUs' clocks and how races fall. The zero value
// is the median race at the clock of the capture.
type Scenario struct {
	Seed int64       // over 0: races and late arrivals are drawn from it
	Race RaceOutcome // how races fall where Seed is 0

	Clock ClockRegime
	Rest  float64 // seconds for which the GPUs idle between two iterations

	// Pace is how many times as long work that is bound by the clock takes as in
	// the capture, because the clock stands lower; 0 stands for durations as
	// captured. Package compare finds it.
	Pace float64
}

// A RaceOutcome is which of two kernels that become ready together is dispatched
// first: the GEMM (or the next chunk of one) or the collective, on each rank.
type RaceOutcome uint8

// The outcomes.
const (
	MedianRace    RaceOutcome = iota // of the times that the others lead to, the median one
	GEMMFirst                        // the GEMM on every rank
	CommFirst                        // the collective on every rank
	RanksDiffer                      // the collective on every other rank: ranks wait for each other
	LastGEMMFirst                    // the collective on every rank but the last
)

// A ClockRegime says at which clock iterations are predicted.
type ClockRegime uint8

// The regimes.
const (
	CapturedClock ClockRegime = iota // settled, as the capture's: only what a strategy draws more or less counts
	FullClock                        // full: of the first iterations after a pause
	SettledClock                     // settled, whichever clock the capture met
)
