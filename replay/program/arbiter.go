package program

// An Arbiter divides a GPU's memory bandwidth between computation (traffic of compute
// kernels in their own GPU's memory) and communication (all other traffic).
type Arbiter struct {
	Policy Policy
	// ComputeFirst: share of the memory bandwidth guaranteed to communication, over 0 to 1; Kernel.CommShare changes it on a GPU
	Share float64
}

// A Policy is the rule by which an Arbiter divides bandwidth.
type Policy uint8

// The policies. T3 (section 4.5) compares RoundRobin with ComputeFirst, in which
// communication that has waited too long goes first: Share (rule Q1).
const (
	Fair         Policy = iota // no sides: max-min fair over all flows
	RoundRobin                 // half for each side; each also gets what the other does not use
	ComputeFirst               // computation first, except for communication's guaranteed share
	numPolicies
)

// CommShare is the share of bandwidth guaranteed to communication.
func (a *Arbiter) CommShare() float64 {
	if a.Policy == RoundRobin {
		return .5
	}
	return a.Share
}
