package program

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
// communication that has waited too long goes first: its Share (rules Q2 and Q3).
const (
	Fair         Policy = iota // no sides: all flows alike, so that many have more than few
	RoundRobin                 // half each; what one does not ask for is the other's
	ComputeFirst               // computation what it asks for, but for communication's share
	numPolicies
)

// CommShare is what communication is sure of.
func (a *Arbiter) CommShare() float64 {
	if a.Policy == RoundRobin {
		return .5
	}
	return a.Share
}
