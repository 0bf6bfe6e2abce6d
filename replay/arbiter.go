package replay

import "github.com/overlapse/overlapse/replay/program"

// Arbitration of memory
//
// A memory controller that distinguishes computation and communication serves both sides
// in full while bandwidth suffices. Otherwise each side gets its guaranteed share and what
// the other side does not use:
//
//	asked for  |compute ..............|communication ........|
//	memory     |compute ......|communication|
//	                     share: ^
//
// Each side is a resource that its flows cross in addition to the memory. Its capacity
// depends on the maximum rate of the other side.

// A side is the owner of memory traffic: computation or communication.
type side uint8

const (
	oneSide side = iota // no arbiter
	computation
	communication
	numSides = 2
)

// side is s if the memories have sides, else oneSide (rules R1 and Q1).
func (f *fabric) side(s side) side {
	if f.sides == none {
		return oneSide
	}
	return s
}

func (f *fabric) sideOf(gpu int, s side) int32 {
	return f.sides + int32(numSides*gpu) + int32(s-computation)
}

// beginShare applies the share that a kernel sets on its GPU (rule Q1).
func (s *sim) beginShare(l *launch) {
	share := l.kernel.CommShare
	if share == 0 || s.program.Arbiter.Policy != program.ComputeFirst || s.flows.sides == none {
		return
	}
	s.flows.shares[l.gpu] = share
	s.flows.NoteDemand(s.flows.sideOf(int(l.gpu), computation))
}

// Demanded divides the memories whose demand by side has changed.
func (s *sim) Demanded(sides []int32) {
	f := &s.flows
	for _, id := range sides {
		gpu := int(id-f.sides) / numSides
		rate, share := f.capacities[f.resource(gpu, Memory)], f.shares[gpu]
		compute, comm := f.sideOf(gpu, computation), f.sideOf(gpu, communication)
		asks, others := f.Demand(compute), f.Demand(comm)
		f.SetCapacity(compute, max((1-share)*rate, rate-others), int64(s.now))
		f.SetCapacity(comm, max(share*rate, rate-asks), int64(s.now))
	}
}
