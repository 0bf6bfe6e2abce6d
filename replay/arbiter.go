package replay

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
// Each side is a resource that all its flows cross beside the memory. Its capacity
// follows what the other side could send at most.

// An Arbiter says how a memory is divided between computation, which is what
// compute kernels read and write in their own GPU's memory, and
// communication, which is all else.
type Arbiter struct {
	Policy Policy
	Share  float64 // ComputeFirst: of the memory's rate, what communication is sure of: over 0, to 1; a kernel may change it on its GPU (Kernel.CommShare)
}

// A Policy is what an Arbiter goes by.
type Policy uint8

// The policies. T3 (section 4.5) compares RoundRobin with ComputeFirst, where
// communication that has waited too long goes first: its Share.
const (
	Fair         Policy = iota // no sides: all flows alike, so that many have more than few
	RoundRobin                 // half each; what one does not ask for is the other's
	ComputeFirst               // computation what it asks for, but for communication's share
	numPolicies
)

// share is what communication is sure of.
func (a *Arbiter) share() float64 {
	if a.Policy == RoundRobin {
		return .5
	}
	return a.Share
}

// A side is whose bytes they are.
type side uint8

const (
	oneSide side = iota // where no arbiter tells
	computation
	communication
	numSides = 2
)

// side is s where the memories have sides.
func (f *fabric) side(s side) side {
	if f.sides == none {
		return oneSide
	}
	return s
}

func (f *fabric) sideOf(gpu int, s side) int32 {
	return f.sides + int32(numSides*gpu) + int32(s-computation)
}

// beginShare puts the share that a kernel states in force on its GPU.
func (s *sim) beginShare(l *launch) {
	share := l.kernel.CommShare
	if share == 0 || s.program.Arbiter.Policy != ComputeFirst || s.flows.sides == none {
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
