// Package machine describes the machines that programs are replayed on: GPUs,
// links, copy engines, launch costs, the collective library and the matrix
// library. Every number of a profile carries its source, and what nobody
// measured on that machine is marked as assumed or unknown.
package machine

import (
	"strconv"
	"strings"
)

// A Machine is one profile scaled to a number of GPUs.
type Machine struct {
	Name    string // "h200x4"
	Profile string // "h200"
	GPUs    int
	Most    Quantity // GPUs that the fabric joins at most

	GPU     GPU
	Matmul  Matmul
	Fabric  Fabric
	Network Network
	Engines Engines
	Launch  Launch
	Clock   Clock
	Library Library
}

// A GPU is one device. Its rates are what programs reach, not what the data
// sheet promises.
type GPU struct {
	Name         string
	CUs          Quantity
	Threads      Quantity // a CU
	Registers    Quantity // 32-bit, a CU
	Shared       Quantity // bytes a CU
	SharedSpare  Quantity // bytes a workgroup takes beyond what it asks for
	WGs          Quantity // workgroups a CU
	Memory       Quantity // bytes a second, read and write together, as reached by a copy
	Read         Quantity // bytes a second of a kernel that only reads
	Cache        Quantity // bytes of the last-level cache
	CacheRate    Quantity // bytes a second out of it and into it, together
	Update       Quantity // memory that a byte takes which the memory adds to what is there, relative to one written
	Post         Quantity // seconds that a workgroup takes to post a semaphore in the GPU's own memory behind what it stored there
	Poll         Quantity // seconds that a workgroup takes to see that one is posted
	Flops        Quantity // matrix flop a second, dense bf16, as reached by the library at full clock
	Stream       Table    // workgroups, bytes a second that they reach together with a streaming kernel
	Gather       Table    // workgroups, bytes a second with random rows of 1 KiB
	GatherFused  Table    // the same, by a kernel whose results may go to peers
	Sum          Table    // partial results, bytes a second of their sum that PyTorch's kernel writes
	Groups       Table    // CUs of a group that a cluster of workgroups lies in, groups of that size
	GatherSpread Quantity // relative spread of the times of one gather's vectors around their mean
	Crowding     Table    // occupancy as a share of the threads that a CU holds, memory rate of random reads relative to the best
}

// A Fabric joins the GPUs of one node. Egress, Ingress and Pair are what copy
// engines reach; stores of kernels reach less of the same links, because their
// packets are smaller: StoreRing, StoreSpread and StoreIncast.
type Fabric struct {
	Topology    Topology
	Egress      Quantity // bytes a second out of one GPU
	Ingress     Quantity // bytes a second into one GPU
	Pair        Quantity // bytes a second between two GPUs, one way
	Latency     Quantity // seconds, a store becoming visible on a peer, over one link
	Hop         Quantity // seconds more for each further link
	Fence       Quantity // seconds until a workgroup knows that what it stored to a peer has arrived, and may post a flag
	Message     Quantity // seconds that a flag to a peer takes a GPU at least: it sends no more than one in that time
	StoreCU     Quantity // bytes a second that one CU can store to peers
	StoreRing   Quantity // bytes a second out of one GPU when all store to the next
	StoreSpread Quantity // bytes a second out of one GPU when all store to all
	StoreUneven Quantity // logarithm of the largest share of a link that storing workgroups get, over the mean one
	StoreIncast Quantity // bytes a second into one GPU that all others store to
}

// Engines are the copy engines of one GPU.
type Engines struct {
	Count   Quantity
	Rate    Quantity // bytes a second of one peer copy
	Latency Quantity // seconds from command to first byte
}

// Launch is what starting work costs.
type Launch struct {
	Gap            Quantity // seconds between kernels of one stream, queued ahead
	MemsetGap      Quantity // more seconds where a memset lies between
	Event          Quantity // seconds from the end of a kernel to the start of one on another stream that waits for it, while the first stream has more to do
	Hop            Quantity // the same where the first stream has nothing more to do
	Graph          Quantity // seconds a kernel of a captured graph takes beyond its work
	Timing         Quantity // seconds of a timed kernel that are not the kernel: events, launch, skew of the ranks
	Host           Quantity // host seconds to enqueue a kernel through the framework
	Compiled       Quantity // the same for a kernel of the program's own, such as Triton's
	Call           Quantity // host seconds of the driver's call within that, as a profiler records it: the pace of the host that Host, Compiled, HostEvent and HostCollective were measured on
	HostEvent      Quantity // host seconds to record an event and let another stream wait for it
	HostCollective Quantity // host seconds to enqueue an asynchronous collective
	NetworkCall    Quantity // seconds that a workgroup takes to hand a transfer and its flag to the network library
	RaceKeeps      Quantity // one in how many collectives that were dispatched before the GEMM alongside them are so at the next chunk
	GatherRaces    Quantity // at how many chunks of an all-gather dispatch order varies
	Barrier        Quantity // seconds of a barrier among all GPUs through peer memory
}

// Resize is the machine with another number of GPUs, whether or not its fabric joins so many.
func (m Machine) Resize(gpus int) Machine {
	m.GPUs = gpus
	m.Name = NameOf(m.Profile, gpus)
	return m
}

// NameOf is the name of a profile with a number of GPUs: "h200x4", but "mi300x:8".
func NameOf(profile string, gpus int) string {
	sign := "x"
	if strings.HasSuffix(profile, "x") {
		sign = ":"
	}
	return profile + sign + strconv.Itoa(gpus)
}
