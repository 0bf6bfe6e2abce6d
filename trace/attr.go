package trace

import (
	"math"
	"slices"
)

// A Kernel has the attributes of one kernel launch. There may be millions.
type Kernel struct {
	Correlation int64  // id in the file of the call that launched it; 0 if unknown
	Launch      SpanID // the call that launched it, or None; set by Builder.Link
	Comm        int32  // row of Run.Comms for a Collective, else None
	Op          int32  // row of Run.Operators, else None
	Origin      int32  // simulated: the workload op this kernel stands for, else None
	Uses        int32  // number of a row of Run.Uses, from 1; 0: unknown
	Setup       int32  // number of a row of Run.Setups, from 1; 0: the zero Setup
}

// A Setup is what launches of a kernel have in common.
type Setup struct {
	Stream      int64    // stream id in the file
	Grid, Block [3]int32 // workgroups, and threads per workgroup, per axis; zero if unknown
	Shared      int32    // bytes of LDS or shared memory per workgroup
	Registers   int32    // 32-bit registers per thread
	Priority    int32    // as in the programming model: lower is more urgent on CUDA and HIP
}

// Setup is a kernel's; the zero one of nil.
func (r *Run) Setup(k *Kernel) (s Setup) {
	if k != nil && k.Setup > 0 {
		s = r.Setups[k.Setup-1]
	}
	return s
}

// WGs is the number of workgroups of the grid; 0 if unknown, or more than a launch has.
func (s Setup) WGs() int { return volume(s.Grid) }

// Threads is the number of threads per workgroup; 0 if unknown, or more than a launch has.
func (s Setup) Threads() int { return volume(s.Block) }

// volume is the product of the extents; 0 if one is negative or the product is above 2³¹−1, which no launch has.
func volume(of [3]int32) int {
	n := int64(1)
	for _, extent := range of {
		if extent <= 0 || int64(extent) > math.MaxInt32/n {
			return 0
		}
		n *= int64(extent)
	}
	return int(n)
}

// CollectiveOp names an operation of a collective library.
type CollectiveOp uint8

// The operations. UnknownOp is a communication kernel whose operation the file does not
// give.
const (
	UnknownOp CollectiveOp = iota
	AllReduce
	AllGather
	ReduceScatter
	AllToAll
	Broadcast
	Reduce
	Gather
	Scatter
	SendRecv
	Barrier
	numOps
)

var opNames = [numOps]string{
	"unknown", "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
	"broadcast", "reduce", "gather", "scatter", "send_recv", "barrier",
}

func (op CollectiveOp) String() string {
	if op < numOps {
		return opNames[op]
	}
	return opNames[0]
}

// Sides are the bytes of the input and of the output of one of so many ranks in an operation whose larger side has that many: of
// a gather each rank puts in a part, and of a sum that is scattered each gets one.
func (op CollectiveOp) Sides(larger int64, ranks int) (in, out int64) {
	in, out = larger, larger
	switch part := larger / int64(max(1, ranks)); op {
	case AllGather:
		in = part
	case ReduceScatter:
		out = part
	}
	return in, out
}

// ParseCollectiveOp is the inverse of String; ok is false for any other word.
func ParseCollectiveOp(s string) (op CollectiveOp, ok bool) {
	i := slices.Index(opNames[:], s)
	return CollectiveOp(max(0, i)), i >= 0
}

// WireBytes returns the bytes that each of n ranks must send for the operation on a
// buffer of the given bytes, the larger of input and output. It is the same for ring,
// direct and pairwise algorithms (rule M2; the "bus bandwidth" of nccl-tests uses the
// same factors).
func (op CollectiveOp) WireBytes(bytes int64, n int) int64 {
	if n <= 1 {
		return 0
	}
	part := bytes / int64(n) * int64(n-1)
	switch op {
	case AllReduce:
		return 2 * part
	case AllGather, ReduceScatter, AllToAll, Gather, Scatter:
		return part
	case Barrier:
		return 0
	}
	return bytes
}

// A Comm has the communication attributes of a collective kernel. Kernels of one
// operation, such as those of a copy-engine collective, share a row.
type Comm struct {
	Op       CollectiveOp
	Group    int32  // row of Run.Groups, or None
	Seq      int64  // number of this operation in the group: from the file if it numbers all, else counted from 0 on each rank
	In, Out  int64  // bytes of this rank's input and output; 0 where unknown
	DType    string // data type in the file's spelling
	ElemSize int32  // bytes per element; 0 if unknown
	Peer     int32  // SendRecv: rank id of the other rank; Broadcast, Reduce: of the root; else None
	Even     bool   `json:",omitempty"` // AllToAll: known to have equal parts for all ranks
	Sent     int64  `json:",omitempty"` // AllToAll of parts that are known: bytes of this rank's input that go to others; 0: Op.WireBytes

	Engines bool `json:",omitempty"` // copy engines move the bytes; its kernels only wait and signal

	Collective int32 `json:"-"` // row of Run.Collectives, or None; set by Builder.Finish
}

// Bytes is the message size: the larger of input and output.
func (c *Comm) Bytes() int64 { return max(c.In, c.Out) }

// A Group is a set of ranks that communicate.
type Group struct {
	Name  string
	Doc   string `json:",omitempty"` // what the program calls it: "mesh_dp", "DATA_PARALLEL_GROUP"; "" if unknown
	Ranks []int  // rank ids, ascending; nil if unknown
	Size  int
}

// CopyDir is the source and destination memory of a copy.
type CopyDir uint8

// The directions. Fill is a memset.
const (
	UnknownDir CopyDir = iota
	HostToDevice
	DeviceToHost
	DeviceToDevice // within one device
	PeerToPeer
	HostToHost
	Fill
)

var dirNames = [...]string{"unknown", "host to device", "device to host", "device to device", "peer to peer", "host to host", "fill"}

func (d CopyDir) String() string {
	if int(d) < len(dirNames) {
		return dirNames[d]
	}
	return dirNames[0]
}

// A CopyAttr has the attributes of one copy, or of one transfer on a link.
type CopyAttr struct {
	Bytes       int64 // 0 where unknown
	Correlation int64
	Stream      int64
	Launch      SpanID // the call that launched it, or None; set by Builder.Link
	Peer        int32  // rank id at the other end of a peer copy, else None
	Op          int32  // row of Run.Operators, else None
	Origin      int32  // simulated: the workload op, else None
	Uses        int32  // number of a row of Run.Uses, from 1; 0: unknown
	Dir         CopyDir
}

// A WorkgroupAttr has the attributes of one workgroup or tile, and of its phases.
type WorkgroupAttr struct {
	ID         int32 // logical: the tile or the linear workgroup id
	Persistent int32 // persistent workgroup that ran it, or None
	CU         int32 // or None
	Peer       int32 // rank id that receives its output, or None
	Row, Col   int32 // tile coordinates, or None
}

// A Call has the attributes of one host call.
type Call struct {
	Correlation int64
	External    int64 // id of the framework operator
	Op          int32 // row of Run.Operators for framework operators, else None

	// Sequence is one more than PyTorch's number of the autograd node that a framework operator makes or, in the backward pass, evaluates;
	// 0: unknown. Each thread counts for itself; of several operators with a number the last one makes the node.
	Sequence int32
}

// A Wait is a synchronization: a stream waits for an event of another stream, or
// the host waits for a stream, an event or the whole device.
type Wait struct {
	Rank        int32 // row of Run.Ranks
	Device      int32
	Start, End  Time  // of the waiting call
	Stream      int64 // waiting stream, as in Setup.Stream; None if the host waits
	On          int64 // awaited stream; None for the whole device, or if unknown
	Record      int64 // correlation of the call that recorded the event; 0 if there is none or it is unknown
	Correlation int64 // of the waiting call; 0 if unknown

	// Call is the waiting call, Recorded the call that recorded the event; None if
	// unknown. Set by Builder.Link.
	Call, Recorded SpanID `json:"-"`
}

// An Operator is a framework operator with the shapes of its inputs.
type Operator struct {
	Name  string
	Dims  [][]int64 // one shape per input; nil for an input that is not a tensor
	Types []string
	Lists [][][]int64 `json:",omitempty"` // of the inputs that are lists of several tensors: their shapes

	// Strides are, by input, the elements from one place of each axis to the next, as far as recorded; nil for an input that is
	// contiguous or no tensor, and in all where every input is.
	Strides [][]int64 `json:",omitempty"`

	Causal bool `json:",omitempty"` // attention in which a query sees the keys up to its own place
}
