package workload

// For the tests of what is made from workloads, which are outside of this package.
var (
	Open            = open
	CheckInvariants = checkInvariants
)

// StepTraces are the traces of training steps.
const StepTraces = stepTraces

// Producers returns the earlier ops of its rank whose data an op reads, ascending. The
// kernels of one operator read each other's.
func (w *Workload) Producers(op int32) []int32 {
	var list []int32
	for _, e := range w.edgesOf(op) {
		if e.Kind == ReadAfterWrite {
			list = append(list, e.Op)
		}
	}
	return list
}
