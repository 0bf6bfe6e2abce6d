package replay

import "github.com/overlapse/overlapse/replay/program"

// Arbitration of memory
//
// A memory controller that tells computation and communication apart gives
// each side what it asks for as long as there is enough. When there is not,
// each is sure of its share, and has what the other leaves:
//
//	asked for  |compute ..............|communication ........|
//	memory     |compute ......|communication|
//	                     share: ^
//
// Each side is a resource that all its flows cross alongside the memory. Its capacity
// follows what the other side could send at most.

// A side is whose bytes they are.
type side uint8

const (
	oneSide side = iota // where no arbiter tells
	computation
	communication
	numSides = 2
)

// side is s where the memories have sides (rules R10 and Q1).
func (f *fabric) side(s side) side {
	if f.sides == none {
		return oneSide
	}
	return s
}

func (f *fabric) sideOf(gpu int, s side) int32 {
	return f.sides + int32(numSides*gpu) + int32(s-computation)
}

// beginShare puts the share that a kernel states in force on its GPU (rule Q4).
func (s *sim) beginShare(l *launch) {
	share := l.kernel.CommShare
	if share == 0 || s.program.Arbiter.Policy != program.ComputeFirst || s.flows.sides == none {
		return
	}
	s.flows.shares[l.gpu] = share
	s.flows.NoteDemand(s.flows.sideOf(int(l.gpu), computation))
}

// Demanded divides the memories whose sides ask for more or less than before.
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
