// Package workload has the units of a captured run that strategies replan: operations
// and their order, collectives matched across ranks, producer and consumer pairs, and the
// logical tiles of kernels. Everything inferred carries its evidence. Package lift makes
// workloads of runs.
//
// Files in the order in which a workload is made and used:
//
//	workload.go    operations, collectives, pairs, steps; shapes.go, sizes of operators; names.go, what names of kernels say
//	dataflow.go    what an operation needs of earlier ones
//	hosts.go       what the host of a rank did, and the order in which it issues
//	iterations.go  iterations, and the classes of steps
//	edit.go        a workload of other operations; rescaling.go, how its durations follow from captured ones
//	limit.go       jobs that take too much memory; memo.go, values that are computed once
//	summary.go     a workload for people
package workload

import (
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A Workload is a captured run as strategies see it. Op ids index Ops; the ops of one rank
// are contiguous and in order of start.
type Workload struct {
	Run         *trace.Run
	Damage      trace.Damage // of Run
	World       int          // number of simulated ranks: those of the job, captured or not
	Captured    int          // number of captured ranks; the others are copies of these
	Unprofiled  bool         // as in Options
	Rows        []int32      // by rank: its row of Run.Ranks, or the row that it copies
	Copies      []bool       // by rank: not captured
	Ops         []Op         // by rank, then start
	Ranks       [][]int32
	Collectives []Collective // by start
	Pairs       []Pair       // by start
	Steps       []Step       // iterations that the program marked; may be empty
	Flow        [][]Edge     // by op: what its data depend on, by earlier op; nil: not known
	Calls       []trace.Time // by rank: median duration of its host's kernel launch calls, ns; 0: none
	Hosts       []*Host      // by rank; copies share that of the captured rank
	edited
	Notes []string // assumptions to report: "rank 0 of 8: replayed as if all ranks were alike"
	// operations whose collectives take several times the law of the captured machine, longest first (rule C28)
	Slow      []SlowCollective
	Isolation *Isolation // result of estimating Op.Alone and Collective.Alone; nil: not yet estimated, both are 0
}

// edited is how a workload differs from what was captured; the zero value is a captured workload.
type edited struct {
	Scale    []float64  // by op: duration in a replay of the captured schedule over the captured one; nil: 1
	Rescaled *Rescaling // how durations follow from captured ones on another machine or with other ranks; nil: they are captured
	Order    [][]int32  // by rank: the order in which an edit has the host issue ops; nil: captured times tell it (IssueOrder)
	Origins  []int32    // by op: the captured op that it stands for, in the workload that recut changed; nil: itself
}

// A SlowCollective is an operation whose collectives take several times the law of their machine in every iteration.
type SlowCollective struct {
	Op         trace.CollectiveOp `json:"operation"`
	Iterations int                `json:"iterations"`
	Took       trace.Time         `json:"took_ns"` // an iteration, with nothing beside them and without waits for late ranks
	Law        trace.Time         `json:"law_ns"`  // the same by the machine's law
	Bus        float64            `json:"bus_bandwidth"`
	Links      float64            `json:"link_bandwidth"` // out of a GPU, bytes per second; 0: not known
	Machine    string             `json:"machine"`
}

// Copy is the workload with operations, collectives and steps of its own, for a caller to change; all else is shared.
func (w *Workload) Copy() *Workload {
	c := *w
	c.Ops, c.Collectives, c.Steps = slices.Clone(w.Ops), slices.Clone(w.Collectives), slices.Clone(w.Steps)
	return &c
}

// Origin is the captured op that an op stands for.
func (w *Workload) Origin(id int32) int32 {
	if id < 0 || w.Origins == nil {
		return id
	}
	return w.Origins[id]
}

// An Isolation is the quality of the estimated durations alone.
type Isolation struct {
	Operations int `json:"operations"` // compute kernels and collectives
	Disturbed  int `json:"disturbed"`  // of them: others ran alongside and may have slowed them
	Checked    int `json:"checked"`    // of the disturbed: their durations alone are those of less disturbed instances of the same operation, so that simulating the captured schedule is an independent check
	// |simulated / captured - 1| of the checked operations, with the captured schedule simulated with interference
	Median     float64   `json:"residual_median"`
	P90        float64   `json:"residual_p90"`        // the same, 90th percentile
	Compute    float64   `json:"compute_slowdown"`    // captured over alone, all disturbed compute kernels; 1: none
	Collective float64   `json:"collective_slowdown"` // the same for transfers of collectives
	Rounds     int       `json:"rounds"`
	CoRunners  [][]CoRun `json:"-"` // by collective: the ops of any rank that computed alongside its transfer
	Memo       *Memo     `json:"-"` // of simulations on the machine of the isolation
	// reason why the captured schedule cannot be simulated on this machine; durations alone are then the captured ones
	Why string `json:"why,omitempty"`
}

// A CoRun is an operation that ran alongside another one for a time.
type CoRun struct {
	Op   int32
	Time trace.Time // ns
}

// An Op is one captured device operation of one rank.
type Op struct {
	*Kernel
	ID         int32
	Span       trace.SpanID // in Run; of the captured rank
	Rank       int          // 0 .. World-1
	Queue      int64        // number in the file; queues of a second device of the rank with the same number are renumbered
	Start, End trace.Time
	Alone      trace.Time // duration with nothing alongside, ns (Isolation); 0: as captured
	// duration without the collectives that waited for captured ranks alongside it, over the captured one (Isolation); 0: none did
	Calm       float64
	After      []Dep      // dependencies, by op: earlier ones of its rank that ended by Start; the last to end determines the start
	Gap        trace.Time // Start minus the end of the last dependency, or minus 0: launch, host, and causes that the trace does not show
	Issued     trace.Time // start of the host call that launched it; trace.Infinity: unknown
	Collective int32      // row of Collectives; -1 for other kinds
	Step       int32      // row of Steps, or -1
	Kind       trace.Kind // Compute, Collective or Copy
	Launched
	InPlace bool    // an all-gather whose input lies in its output
	Batch   uint8   // of the batches into which a strategy split its iteration (edit.Batch)
	Read    float64 // bytes of memory traffic; 0: unknown
	Write   float64
}

// Launched is what launched an op, and where in the program, as far as the trace shows it.
type Launched struct {
	Graph      bool // launched by a call that launched other ops too: a captured graph
	GraphEdges bool // of a captured graph for which the file states what each node waits for
	Backward   bool // launched by autograd, in the backward pass
	Optimizer  bool // launched in an optimizer's step
	Gradient   bool // launched where autograd adds to a parameter's gradient: as large as the parameter, whatever the batch
	Compiled   bool // launched by the program's own launcher (Triton) instead of by an operator of the framework
}

// A Kernel is the properties that ops share: the name, launch configuration and sizes of a
// kernel, or the name of a copy.
//
// Invariant: ops share kernels, so a Kernel does not change after Lift. To change one op's
// kernel, point the op to a changed copy.
type Kernel struct {
	Name  string
	Dense bool // multiplies matrices, by its name, but is not a single GEMM: attention, convolution
	Moves bool // moves memory rather than computes, by its name: norms, copies, reductions, optimizers
	// bytes of the inputs of the operator, of attention, convolutions and concatenations; 0: unknown. Only package retarget reads it
	Inputs    float64
	Flops     float64 // of attention whose operator states its sizes; 0: unknown, or Shape has them
	Shape     Shape
	Unfused   Shape // of a kernel that communicates inside: the GEMM in it by its operator, as its rank has it; no strategy cuts it
	Tiling    Tiling
	Footprint program.Footprint
}

// Dur is the op's measured duration.
func (o *Op) Dur() trace.Time { return o.End - o.Start }

// Lasts is an op's duration in a replay of the captured schedule. Without the profiler ranks meet
// again, and what waiting for them did to kernels alongside goes too (rule L7).
func (w *Workload) Lasts(op *Op) trace.Time {
	t := op.Dur()
	if w.Unprofiled {
		t = Scaled(t, op.Calm)
	}
	if w.Scale == nil {
		return t
	}
	return Scaled(t, w.Scale[op.ID])
}

// Scaled is a duration times a factor, where 0 stands for 1. A positive duration stays
// positive.
func Scaled(t trace.Time, by float64) trace.Time {
	if by == 0 || by == 1 || t == 0 {
		return t
	}
	return max(1, trace.Time(float64(t)*by+0.5))
}

// DurAlone is the op's duration with nothing alongside it.
func (o *Op) DurAlone() trace.Time {
	if o.Alone > 0 {
		return o.Alone
	}
	return o.Dur()
}

// Matrix reports whether the op multiplies matrices, so that its speed follows the clock.
func (o *Op) Matrix() bool { return o.Dense || o.Shape.Kind == GEMM }

// A Dep is one predecessor and the evidence for it.
type Dep struct {
	Op  int32
	Why Reason
}

// A Reason is the evidence for a dependency.
type Reason uint8

// The reasons.
const (
	StreamOrder   Reason = iota + 1
	EnqueuedAfter        // a collective's stream waits for the stream that launched it, and for the one before of its communicator
	HostWait             // the host made the stream wait
	Timing               // inferred from times
	planned              // from a strategy's schedule instead of the capture
	Recorded             // it reads what the other wrote, as the trace records
	Stated               // the file states it
	Marked               // the same, as ranges of a framework or arguments of compiled kernels show
)

func (r Reason) String() string {
	return [...]string{
		"",
		"stream order",
		"event: the collective's stream waits for the stream that launched it",
		"event: the host made the stream wait",
		"time: it starts as that ends, and its own stream had long been idle",
		"planned",
		"recorded accesses",
		"stated dependency: between nodes of a captured graph, by a recorded event or by Chakra",
		"ranges of the framework",
	}[r]
}

// A Tiling is the logical workgroups of a kernel.
type Tiling struct {
	TileM, TileN int  // output elements of a tile in the shape's M and N; 0: unknown
	Depth        int  // elements along K that a tile multiplies in one step; 0: unknown
	Tiles        int  // number of logical workgroups; 0: unknown
	WGs          int  // number of workgroups launched
	Cluster      int  // workgroups that start together; 0: no clusters, or unknown
	Persistent   bool // fewer workgroups than tiles: each runs several
	Dynamic      bool // persistent, tiles beyond the first two handed out by a counter (rule G7)
	Evidence     string
}

// A Collective is one operation of the collective library, matched over ranks.
type Collective struct {
	Op       trace.CollectiveOp
	Group    int32 // row of Run.Groups, or -1; for copies, that of the captured rank
	Seq      int64 // order among its group's operations
	Bytes    int64 // larger of one rank's input and output
	In, Out  int64
	ElemSize int32
	Channels int     // workgroups of its kernel; 0: unknown (copy engine)
	Members  []int32 // op ids, one per member rank, in rank order
	Times
	Evidence string // evidence for the match of its members
	Guessed  bool   // the trace does not give its operation, or its size (GuessSizes)
	Foreign  bool   // its kernel is of another library than NCCL and RCCL, whose settings it does not follow
	Engines  bool   // copy engines move the bytes; its kernels only wait and signal
	Earlier  bool   // of several kernels of a collective by copy engines not the last one, which has the bytes
	// of a message that the library's buffers hold: the index of the member that sends, plus 1; it does not wait for the other (rule C29)
	Sender int8
}

// Times are when the members of a collective came and left, and how long its bytes moved.
type Times struct {
	Arrive   trace.Time // latest start of a member, and Late: bytes can move from here
	Late     trace.Time // how long the captured members waited for ranks that nobody captured, ns (rule C27)
	Serial   bool       // it has Late, and nothing ran beside it on a captured rank
	Depart   trace.Time // earliest end of a member
	Alone    trace.Time // duration of the transfer with no compute alongside, ns (Isolation); 0: as captured
	Shortest trace.Time // shortest stay of a member, by its own clock, ns; 0: not recorded
	Scale    float64    // as Workload.Scale, from the last arrival on; 0 stands for 1
	// of the last of several kernels of a collective by copy engines: from the arrival at the first that copies to the arrival here, ns
	Before trace.Time
}

// SendBuffer is what NCCL and RCCL hold of a message, for each of its channels, until the receiver
// is there: NCCL_STEPS chunks of NCCL_P2P_NVL_CHUNKSIZE within a node, of NCCL_P2P_NET_CHUNKSIZE
// between nodes (src/init.cc, src/include/device.h).
func SendBuffer(oneNode bool) int64 {
	if oneNode {
		return 8 << 19
	}
	return 8 << 17
}

// Sends reports whether a member sends a message that buffers hold.
func (c *Collective) Sends(op *Op) bool { return c.Sender > 0 && c.Members[c.Sender-1] == op.ID }

// Met is the captured time from which a member of a collective moves bytes: the last arrival, but of
// a message that buffers hold the sender's own, and whichever is later for the receiver.
func (w *Workload) Met(op *Op) trace.Time {
	switch c := &w.Collectives[op.Collective]; {
	case c.Sender == 0:
		return c.Arrive
	case c.Sends(op):
		return op.Start
	default:
		return max(op.Start, w.Ops[c.Members[c.Sender-1]].Start)
	}
}

// Transfer is the time in which bytes moved; the rest of a member's duration is arrival or
// departure skew. It is at least Shortest, which is measured by one clock: between two
// clocks, which drift by up to 1.8 % under a profiler (2026-11-22-h200x2-fourth,
// pipe_grok_op_reduce_scatter_w2), it seems shorter (rule C10).
func (c *Times) Transfer() trace.Time { return max(c.Shortest, c.Depart-c.Arrive) }

// TransferAlone is the duration of the transfer with no compute alongside.
func (c *Times) TransferAlone() trace.Time {
	if c.Alone > 0 {
		return c.Alone
	}
	return c.Transfer()
}

// Direction is the order of compute and communication in a pair.
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
	First      []int32 // op ids by rank, of the op that runs first
	Second     []int32 // op ids by rank
	Collective int32   // row of Collectives, or -1
	Evidence   []string
	Confidence float64 // 0..1
	Step       int32
	Joins      int   // captured kernels of different tables that stand as its first operation; 0: it is as captured
	Experts    int32 // rows of the GEMM for each row that is communicated: the experts of a token; 0: one
}

// A Step is one iteration: marked by the program (ProfilerStep#3, name#3, or the range of a
// serving engine), or one forward pass that the lift found.
type Step struct {
	Name       string
	Found      bool // not marked
	Batch      Batch
	Class      int          // of the sizes of steps of its phase, by time from 1; 0: all are alike (Classify)
	Start, End []trace.Time // by rank: first start and last end of its device ops; trace.Infinity: none
}

// A Batch is what an iteration of a serving engine computes. The zero value is unknown.
type Batch struct {
	Phase    Phase
	Requests int64 // in prefill and in decode; 0: unknown
	Tokens   int64 // rows of its GEMMs: of the prompts, and one or more for each decoded request; 0: unknown
}

// A Phase is the part of serving that an iteration belongs to.
type Phase uint8

// The phases.
const (
	NoPhase Phase = iota // training, or unknown
	Prefill              // the tokens of prompts
	Decode               // the next token of every request
	Mixed                // both in one batch
)

func (p Phase) String() string { return [...]string{"", "prefill", "decode", "mixed"}[p] }

// BatchOf is the batch of an operation's iteration; unknown outside iterations.
func (w *Workload) BatchOf(op *Op) Batch {
	if op.Step < 0 || int(op.Step) >= len(w.Steps) {
		return Batch{}
	}
	return w.Steps[op.Step].Batch
}

// Unseen reports whether collectives waited for ranks that nobody captured.
func (w *Workload) Unseen() bool {
	return slices.ContainsFunc(w.Collectives, func(c Collective) bool { return c.Late > 0 })
}

// Untimed is the number of collectives if the trace has the time of none, as a graph of operations that was not measured; else 0.
func (w *Workload) Untimed() int {
	if slices.ContainsFunc(w.Collectives, func(c Collective) bool { return w.Ops[c.Members[0]].Dur() > 0 }) {
		return 0
	}
	return len(w.Collectives)
}

// UnseenWaits calls emit for each wait of a captured rank's collective for ranks that nobody captured.
func (w *Workload) UnseenWaits(emit func(op *Op, late trace.Time)) {
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Collective >= 0 && !w.Copies[op.Rank] && w.Collectives[op.Collective].Late > 0 {
			emit(op, w.Collectives[op.Collective].Late)
		}
	}
}

// StartOf is the arrival of the first member.
func (w *Workload) StartOf(c *Collective) trace.Time {
	t := trace.Infinity
	for _, id := range c.Members {
		t = min(t, w.Ops[id].Start)
	}
	return t
}

// IsFill reports whether an operation fills memory, as a memset does.
func (w *Workload) IsFill(op *Op) bool {
	c := w.Run.Copy(w.Run.Spans[op.Span])
	return c != nil && c.Dir == trace.Fill
}

// Trains reports whether operations are those of training: of a backward pass, or an optimizer's.
func (w *Workload) Trains() bool {
	return slices.ContainsFunc(w.Ops, func(op Op) bool { return op.Backward || op.Optimizer })
}

// TimeSteps fills in when each step's ops ran on each rank.
func (w *Workload) TimeSteps() {
	for i := range w.Steps {
		s := &w.Steps[i]
		s.Start = make([]trace.Time, w.World)
		s.End = make([]trace.Time, w.World)
		for r := range w.World {
			s.Start[r], s.End[r] = trace.Infinity, trace.Infinity
		}
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Step < 0 {
			continue
		}
		s := &w.Steps[op.Step]
		if s.Start[op.Rank] == trace.Infinity {
			s.Start[op.Rank], s.End[op.Rank] = op.Start, op.End
		}
		s.End[op.Rank] = max(s.End[op.Rank], op.End)
	}
}
