// Package machine describes the machines that programs are simulated on: GPUs, links, copy
// engines, launch costs, the collective library and the matrix library. Every number of a
// profile has a source; numbers that were not measured on that machine are marked as
// assumed or unknown.
//
// Files in the order in which a profile is read, changed and asked:
//
//	load.go       a machine by its name, profile or file; detect.go by the device that a trace states
//	keyed.go      YAML files of keys and values, with the place of each error
//	parse.go      a profile: schema.go lists its numbers, quantity.go their units and marks, base.go what a file
//	              takes from another one, check.go what no machine has; write.go writes one
//	whatif.go     a machine with other properties; assumptions.go, what nobody measured of it
//	topology.go   links and networks between GPUs
//	groups.go     what fits on a GPU's compute units; memory.go, what they read and write
//	matmul.go     the matrix library
//	collective.go the collective library: protocol.go without recorded times, way.go as it is set,
//	              interference.go beside compute
//	clock.go      the clock under the power limit
//	question.go   what a plan has looked up
package machine

import (
	"strconv"
)

// A Machine is one profile scaled to a number of GPUs.
type Machine struct {
	Name    string // "h200:4"
	Profile string // "h200"
	GPUs    int
	Guess   string   // why the machine is taken for the captured one, of which the trace names no GPU; "": no guess
	Most    Quantity // maximum number of GPUs of the fabric

	GPU     GPU
	Matmul  Matmul
	Fabric  Fabric
	Network Network
	Engines Engines
	Launch  Launch
	Clock   Clock
	Library Library
}

// A GPU is one device. Its rates are achieved rates, not data sheet peaks.
type GPU struct {
	Name        string
	CUs         Quantity
	Threads     Quantity // per CU
	Registers   Quantity // 32-bit registers per CU
	Shared      Quantity // bytes per CU
	SharedSpare Quantity // bytes per workgroup in addition to what it requests
	WGs         Quantity // workgroups per CU
	MemoryRates
	Post     Quantity // seconds of a workgroup to post a semaphore in the GPU's own memory after its stores
	Poll     Quantity // seconds of a workgroup to see that a semaphore is posted
	LoopWait Quantity // how much longer a GEMM takes whose loop over K can wait though nothing waits, of its time
	Flops    Quantity // dense bf16 flop per second, achieved by the matrix library at full clock
	Clock    Quantity // full clock of the CUs, Hz; 0: not known
	Groups   Table    // CUs per group for clusters; number of groups of that size
}

// MemoryRates are how fast kernels read and write the memory of a GPU.
type MemoryRates struct {
	Memory       Quantity // bytes per second, read and write together, achieved by a copy
	Read         Quantity // bytes per second of a kernel that only reads
	Cache        Quantity // bytes of the last-level cache
	CacheRate    Quantity // bytes per second, read and write together
	MemoryQueue  Quantity // commands that the queue of a memory channel holds; 0: bursts and stalls are not modelled
	Update       Quantity // bandwidth use of a byte that memory adds in place, relative to a written byte
	Stream       Table    // workgroups; bytes per second of all of them in a streaming kernel
	Gather       Table    // workgroups; bytes per second with random rows of 1 KiB
	GatherFused  Table    // the same for a kernel that may store its results to peers
	Sum          Table    // partial results; output bytes per second of PyTorch's sum kernel
	GatherSpread Quantity // relative spread of the times of one gather's vectors
	Crowding     Table    // occupancy (share of a CU's threads); memory rate of random reads relative to the best
}

// A Fabric joins the GPUs of one node. Egress, Ingress and Pair are achieved by copy
// engines. Stores of kernels achieve less on the same links, because their packets are
// smaller: StoreRing, StoreSpread and StoreIncast.
type Fabric struct {
	Topology    Topology
	Egress      Quantity // bytes per second out of one GPU
	Ingress     Quantity // bytes per second into one GPU
	Pair        Quantity // bytes per second between two GPUs, one direction
	Latency     Quantity // seconds until a store is visible on a peer, over one link
	Hop         Quantity // additional seconds per further link
	Fence       Quantity // seconds until a workgroup knows that its stores to a peer have arrived and may post a flag
	Message     Quantity // minimum seconds between two flags that a GPU sends to peers
	StoreCU     Quantity // bytes per second that one CU stores to peers
	StoreRing   Quantity // bytes per second out of one GPU when each stores to the next
	StoreSpread Quantity // bytes per second out of one GPU when all store to all
	StoreUneven Quantity // logarithm of the largest share of a link among storing workgroups, relative to the mean share
	StoreIncast Quantity // bytes per second into one GPU when all others store to it
}

// Engines are the copy engines of one GPU.
type Engines struct {
	Count   Quantity
	Rate    Quantity // bytes per second of one peer copy
	Latency Quantity // seconds from the command to the first byte
	// the same of a copy behind another on its stream, with no kernel or wait for another stream between; unknown: as Latency
	Queued  Quantity
	Host    Quantity // bytes per second of one copy from or to pinned memory of the host
	Command Quantity // seconds of a wait that is satisfied, or of a write of a value, between two copies of a stream
}

// Launch is the cost of starting work.
type Launch struct {
	Gap       Quantity // seconds between queued kernels of one stream
	MemsetGap Quantity // additional seconds if a memset lies between them
	// seconds that Gap grows by while a stream of the same hardware channel group holds a kernel that waits for another stream
	Blocked Quantity
	// seconds from the end of a kernel to the start of a waiting one on another stream, while the first stream has more work
	Event     Quantity
	Hop       Quantity // the same if the first stream has no more work
	Graph     Quantity // seconds of a kernel of a captured graph that does nothing, including its launch
	GraphGap  Quantity // seconds between dependent kernels of a captured graph
	GraphComm Quantity // seconds from a kernel of a captured graph to a collective of the library behind it
	Timing    Quantity // seconds of a timed kernel outside of it: events, launch, skew of the ranks
	HostCosts
	Sync           Quantity // seconds that a host that waits for a kernel adds to Host until the next one starts: it notices the end, and its launch reaches an idle GPU
	Pipelined      Quantity // host seconds of PyTorch's pipelined GEMM and collective (torch.ops.symm_mem), besides its shards
	PipelinedShard Quantity // host seconds of each of its shards
	NetworkCall    Quantity // seconds of a workgroup to hand a transfer and its flag to the network library
	GatherRaces    Quantity // number of chunks of an all-gather with varying dispatch order
	Barrier        Quantity // seconds of a barrier of all GPUs through peer memory
}

// HostCosts are what a host takes to issue one operation, and what a profiler adds to that.
type HostCosts struct {
	Host     Quantity // host seconds to enqueue a kernel through the framework
	Compiled Quantity // host seconds to enqueue a compiled kernel (Triton)
	// host seconds of the driver call within that, as profiled: the host pace of Host, Compiled, HostEvent and HostCollective
	Call           Quantity
	ProfiledOp     Quantity // host seconds that a profiler with shapes adds to a recorded operator, on a host with the pace of Call
	ProfiledLaunch Quantity // the same for a recorded call that enqueues a kernel, copy or fill
	ProfiledCall   Quantity // the same for any other recorded runtime or driver call
	ProfiledNode   Quantity // the same for a kernel of a captured graph, at its launch
	HostEvent      Quantity // host seconds to record an event and make another stream wait for it
	HostCollective Quantity // host seconds to enqueue an asynchronous collective
}

// Resize is the machine with another number of GPUs, even beyond the fabric's maximum.
func (m Machine) Resize(gpus int) Machine {
	m.GPUs = gpus
	m.Name = NameOf(m.Profile, gpus)
	return m
}

// NameOf is the name of a profile with a number of GPUs: "h200:4".
func NameOf(profile string, gpus int) string { return profile + ":" + strconv.Itoa(gpus) }
