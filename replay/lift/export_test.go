package lift

// For the tests of what is made from workloads, which are outside of this package.
var (
	Open            = open
	CheckInvariants = checkInvariants
)

// StepTraces are the traces of training steps.
const StepTraces = stepTraces
