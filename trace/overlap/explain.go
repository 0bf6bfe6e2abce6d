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
		{"communication", "|U(communication)|: kernels of a collective library, copies between devices, and transfers on links; the time in a collective includes waiting for peers"},
		{"copies", "|U(other copies and fills)|"},
		{"overlapped", "|U(compute) ∩ U(communication)|"},
		{"overlap %", "100 · overlapped / communication"},
		{"exposed", "communication − overlapped: nothing was computed meanwhile"},
		{"exposed copies", "|U(copies) \\ U(compute) \\ U(communication)|"},
		{"total", "from the first start to the last end of device work on the rank"},
		{"idle", "total − |U(compute) ∪ U(communication) ∪ U(copies)|, so that total = compute + exposed + exposed copies + idle"},
		{"idle: host", "the part of idle gaps before the host began the call that issued the work that ended the gap"},
		{"idle: sync", "the same, where the issuing thread was waiting for the device when it ran dry"},
		{"idle: launch", "the part of such gaps from the beginning of that call to the start of the work"},
		{"idle: queued", "gaps before work that had been issued before the device ran dry: an event, a dispatch or another queue held it back"},
		{"idle: unknown", "gaps before work whose issuing call the file does not have"},
		{"arrive, depart", "of a collective matched over ranks by group, operation and order: the latest start and the earliest end among the captured members"},
		{"transfer", "depart − arrive: the time in which bytes could move. With fewer members captured than the group has, it is an upper bound"},
		{"wait", "of a member: from its start until the last member arrived"},
		{"late, delayed", "of a rank: collectives in which it arrived last, and by how much it came after the last but one"},
		{"critical path", "from the operation that ended last back in time: before work comes what ended last before it on the same rank, before a collective the arrival of its latest member on that member's rank. It is one such chain; where two things ended before a start, a trace does not tell which one was waited for, unless it has the orders of streams (cuda_sync)"},
	}
}
