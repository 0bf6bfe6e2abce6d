// Package workload lifts a run into what can be replanned: operations and
// their order, collectives matched across ranks, producer and consumer pairs,
// and the logical tiles of kernels. Everything inferred carries its evidence.
package workload

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A Workload is a run in the terms of strategies. Op ids index Ops; the ops of
// one rank are contiguous and in order of start.
type Workload struct {
	Run         *trace.Run
	World       int     // ranks that are replayed: those of the job, captured or not
	Captured    int     // ranks that the run holds; the others are copies of these
	Unprofiled  bool    // as Options has it
	Rows        []int32 // by rank: the row of Run.Ranks that it is, or is a copy of
	Copies      []bool  // by rank: nobody captured it
	Ops         []Op    // by rank, then start
	Ranks       [][]int32
	Collectives []Collective // by start
	Pairs       []Pair       // by start
	Steps       []Step       // iterations that the program marked; may be empty
	Calls       []trace.Time // by rank: median duration of the calls with which its host launched kernels; 0 where there are none
	Notes       []string     // assumptions a reader must know: "rank 0 of 8: replayed as if all ranks were alike"
	Isolation   *Isolation   // how Op.Alone and Collective.Alone were found; nil: not yet, and they are 0
}

// An Isolation says how well the durations alone explain the captured ones.
type Isolation struct {
	Operations int     `json:"operations"`          // compute kernels and collectives
	Disturbed  int     `json:"disturbed"`           // of them: something ran alongside them that may have slowed them
	Median     float64 `json:"residual_median"`     // |simulated / captured - 1| of the disturbed, where the captured schedule is simulated with interference
	P90        float64 `json:"residual_p90"`        // the same, 90th percentile
	Compute    float64 `json:"compute_slowdown"`    // captured over alone, disturbed compute kernels together; 1 where none was
	Collective float64 `json:"collective_slowdown"` // the same of collectives' transfers
	Rounds     int     `json:"rounds"`
	CoRunners  []int32 `json:"-"`             // by collective: the op, of any rank, that computed alongside its transfer for longest, or -1
	Why        string  `json:"why,omitempty"` // the captured schedule could not be simulated on this machine: durations alone are the captured ones
}

// An Op is one device operation of one rank as it was captured.
type Op struct {
	*Kernel
	ID         int32
	Span       trace.SpanID // in Run; of the rank that was captured
	Rank       int          // 0 .. World-1
	Queue      int64        // as the file numbers it; one that a second device of the rank numbers alike has a number of its own
	Start, End trace.Time
	Alone      trace.Time // how long it takes with nothing alongside it (Isolation); 0: as captured
	After      []Dep      // what it waited for, by op: earlier ones of its rank that ended by Start; the last to end decided
	Gap        trace.Time // Start minus the end of the last of After, or minus 0: launch, host, and what the trace does not show
	Issued     trace.Time // start of the host call that launched it; trace.Infinity where unknown
	Collective int32      // row of Collectives; -1 for anything but Kind Collective
	Step       int32      // row of Steps, or -1
	Kind       trace.Kind // Compute, Collective or Copy
	Own        bool       // launched by the program's own launcher, as Triton's kernels are, and by no operator of the framework
	Read       float64    // bytes of memory traffic; 0 where unknown
	Write      float64
}

// A Kernel is what an op has in common with others: the name, the launch
// configuration and the sizes of a kernel, or the name of a copy.
//
// Invariant: ops share kernels, so a Kernel never changes after Lift. To change
// that of one op, point the op to a changed copy.
type Kernel struct {
	Name      string
	Dense     bool // multiplies matrices, by its name, though of no one GEMM's shape: attention, convolution
	Shape     Shape
	Tiling    Tiling
	Footprint program.Footprint
}

// Dur is the op's measured duration.
func (o *Op) Dur() trace.Time { return o.End - o.Start }

// DurAlone is how long the op takes with nothing alongside it.
func (o *Op) DurAlone() trace.Time {
	if o.Alone > 0 {
		return o.Alone
	}
	return o.Dur()
}

// Matrix reports whether the op multiplies matrices: it is as fast as the clock is high.
func (o *Op) Matrix() bool { return o.Dense || o.Shape.Kind == GEMM }

// A Dep is one predecessor and how it is known.
type Dep struct {
	Op  int32
	Why Reason
}

// A Reason says how a dependency is known.
type Reason uint8

// The reasons.
const (
	StreamOrder   Reason = iota + 1
	EnqueuedAfter        // a collective's stream waits for the stream that launched it
	HostWait             // the host made the stream wait
	Timing               // only the times tell
	Planned              // a strategy's schedule, not the captured one
)

func (r Reason) String() string {
	return [...]string{
		"",
		"stream order",
		"event: the collective's stream waits for the stream that launched it",
		"event: the host made the stream wait",
		"time: it starts as that ends, and its own stream had long been idle",
		"planned",
	}[r]
}

// A ShapeKind says which operator a Shape describes.
type ShapeKind uint8

// The kinds of shapes.
const (
	NoShape ShapeKind = iota
	GEMM
	GEMV
	Embedding
	Elementwise
)

func (k ShapeKind) String() string {
	return [...]string{"", "gemm", "gemv", "embedding", "elementwise"}[k]
}

// A Shape is the operator's sizes: C[M,N] = A[M,K]·B[K,N] for matrices, where a
// batch of GEMMs counts as more rows M. For an Embedding, M output vectors of
// N elements, each the sum of K rows. For Elementwise, M rows of N elements.
type Shape struct {
	Kind     ShapeKind
	M, N, K  int64
	ElemSize int // bytes
	DType    string
	Evidence string // where the sizes were read
}

// Flops is the multiply-adds counted twice; 0 for anything but matrices.
func (s Shape) Flops() float64 {
	if s.Kind != GEMM && s.Kind != GEMV {
		return 0
	}
	return 2 * float64(s.M) * float64(s.N) * float64(s.K)
}

// A Tiling is how a kernel's work falls into logical workgroups.
type Tiling struct {
	TileM, TileN int  // output elements of one tile, in the shape's M and N; 0 where unknown
	Tiles        int  // logical workgroups; 0 where unknown
	WGs          int  // workgroups launched
	Cluster      int  // workgroups that start together; 0 where each starts alone, or nothing says
	Persistent   bool // fewer workgroups than tiles: each runs several
	Dynamic      bool // persistent, tiles beyond the first two handed out by a counter (rule G7)
	Evidence     string
}

// A Collective is one operation of the collective library, matched over ranks.
type Collective struct {
	Op       trace.CollectiveOp
	Group    int32 // row of Run.Groups, or -1; that of the captured rank where members are copies
	Seq      int64 // order among its group's operations
	Bytes    int64 // larger of input and output of one rank
	In, Out  int64
	ElemSize int32
	Channels int        // workgroups of its kernel; 0 where unknown (copy engine)
	Members  []int32    // op ids, one a member rank, in rank order
	Arrive   trace.Time // the latest member's start: from here bytes can move
	Depart   trace.Time // the earliest member's end
	Alone    trace.Time // how long the transfer takes with no compute alongside it (Isolation); 0: as captured
	Shortest trace.Time // the least time that a member was in it, by its own clock; 0 where not noted
	Evidence string     // how members were matched
	Part     bool       // one of several kernels of a collective by copy engines, whose bytes count with the last
}

// Transfer is the time in which bytes moved; what a member spent beyond it was arrival or departure skew.
// The member that came last was there for no longer, by one clock: between two, which a
// profiler lets drift by up to 1.8 % (2026-11-22-h200x2-fourth, pipe_grok_op_reduce_scatter_w2), less seems to pass (rule C10).
func (c *Collective) Transfer() trace.Time { return max(c.Shortest, c.Depart-c.Arrive) }

// TransferAlone is how long the transfer takes with no compute alongside it.
func (c *Collective) TransferAlone() trace.Time {
	if c.Alone > 0 {
		return c.Alone
	}
	return c.Transfer()
}

// Direction of a pair.
type Direction uint8

// The directions.
const (
	ComputeThenCollective Direction = iota // a kernel's output is communicated
	CollectiveThenCompute                  // a kernel consumes what was communicated
	ComputeThenCompute                     // dependent kernels (tile synchronisation)
)

func (d Direction) String() string {
	return [...]string{"compute→collective", "collective→compute", "compute→compute"}[d]
}

// A Pair is two dependent operations that a strategy may overlap, over all ranks.
type Pair struct {
	Direction  Direction
	First      []int32 // op ids by rank, of the one that runs first
	Second     []int32 // op ids by rank
	Collective int32   // row of Collectives, or -1
	Evidence   []string
	Confidence float64 // 0..1
	Step       int32
}

// A Step is one iteration the program marked (ProfilerStep#3, name#3).
type Step struct {
	Name       string
	Start, End []trace.Time // by rank: first start and last end of its device ops; trace.Infinity where it has none
}
