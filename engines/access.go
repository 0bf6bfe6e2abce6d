package engines

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// Unroll continues a workload's iterations until there are n of them, each like
// the last captured one. It returns the workload itself where it has that many
// already, or fewer than two to continue from.
func Unroll(w *workload.Workload, n int) *workload.Workload { return unroll(w, n) }

// Choose is which of some strategies to take: the one with the least expected
// time. plain is the best plain one if two runs of one program could not tell it
// from that. Both are -1 where there is none; an expected time of 0 is none.
func Choose(expected []float64, isPlain []bool) (take, plain int) { return choose(expected, isPlain) }

// AsScheduled replays the captured schedule with interference. It is no strategy.
func AsScheduled() Engine { return asScheduled }

// Demand is what an iteration of the outcome asks of a GPU's power.
func (o *Outcome) Demand(w *workload.Workload, m machine.Machine) machine.Demand {
	return clockOf(w, &m).taking(&o.machine, o.Time)
}
