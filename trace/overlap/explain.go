package overlap

// A Definition is one term of the metrics in words.
type Definition struct {
	Term    string `json:"term"`
	Meaning string `json:"meaning"`
}

// Explain defines every figure of Metrics, in the order in which they are printed.
func Explain() []Definition {
	return []Definition{
		{"device work", "kernels, copies and fills, and transfers on links. Durations are exact to the nanosecond; nothing is rounded, filtered or left out"},
		{"U(X)", "the union, over all queues of one rank, of the intervals of class X; |U(X)| is its length, so time in which two kernels of a class run side by side counts once"},
		{"compute", "|U(compute kernels)|"},
		{"communication", "|U(communication)|: kernels of a collective library, copies between devices, and transfers on links; the time of a collective includes waiting for peers"},
		{"copies", "|U(other copies and fills)|"},
		{"overlapped", "|U(compute) ∩ U(communication)|"},
		{"overlap %", "100 · overlapped / communication"},
		{"exposed", "communication − overlapped: communication while no compute runs"},
		{"waiting", "the part of exposed that is before the last captured rank of the collective arrives; transfer is the rest. The ranks' clocks must be aligned by common collectives"},
		{"hidden", "transfer while compute runs"},
		{"exposed copies", "|U(copies) \\ U(compute) \\ U(communication)|"},
		{"total", "from the first start to the last end of device work on the rank"},
		{"idle", "total − |U(compute) ∪ U(communication) ∪ U(copies)|, so that total = compute + exposed + exposed copies + idle"},
		{"idle: host", "the part of an idle gap before the host called the API that issued the next work"},
		{"idle: host synchronization", "the same, if the issuing thread was synchronizing with the device when the device ran out of work"},
		{"idle: launch", "the part of such a gap from the start of that call to the start of the work"},
		{"idle: dependency or dispatch", "gaps before work that the host had issued before the device ran out of work: it waited for an event, another queue or its dispatch"},
		{"idle: unknown", "gaps before work whose API call is not in the file"},
		{"arrive, depart", "of a collective matched over ranks by group, operation and order: the latest start and the earliest end among the captured members"},
		{"transfer", "depart − arrive: the time in which bytes could move. With fewer members captured than the group has, it is an upper bound"},
		{"wait", "of a member: from its start to the arrival of the last member"},
		{"late, delayed", "of a rank: the collectives in which it arrived last, and its delay after the second to last"},
		{"critical path", "the chain that ends with the last operation. The predecessor of an operation is the one that ended last before it on the same rank; of a collective, the arrival of its last member. If two operations ended before a start, the trace does not show which one was waited for, unless it records stream synchronization (cuda_sync)"},
	}
}
