// Package trace holds a run: the spans of time on the lanes of every rank of a job. A
// measured run (read from a profiler's file) and a simulated run (made by package
// replay) have the same type, so every view, metric and exporter works on both.
//
// Files in the order in which data meet them:
//
//	run.go, attr.go       the types of a run; access.go, depend.go: accesses and dependencies that files state
//	builder.go            collects spans; ledger.go, what was not taken as it was; memo.go, helpers of readers
//	doubled.go            leaves out events that are in a file twice
//	link.go, order.go     joins calls with what they launched, and sorts; sublane.go parts what overlaps
//	collective.go         matches the members of collectives
//	validate.go           checks a run
//	damage.go             counts what of it is damaged: lost.go, causes.go
//	common.go             aligns two sequences
//	names.go, naming.go   what names say: communication.go, fused.go and demangle.go of kernels
package trace

import "math"

// Time is nanoseconds since the run's first event.
type Time int64

// Infinity is later than any time of a run.
const Infinity Time = math.MaxInt64

// None is the absent value of every id and row index in this package.
const None = -1

// Ids are indices into the slices of a Run with the corresponding names.
type (
	SpanID int32
	LaneID int32
	NameID int32 // into Run.Names; 0 is ""
)

// Kind is the kind of a span. It determines which side table Attr indexes.
type Kind uint8

// The kinds. A workgroup's parent is its kernel; a phase's parent is its workgroup.
const (
	Marker     Kind = iota // a range named by a program or a framework; no side table
	HostCall               // an API call or framework operator on a host thread: Run.Calls
	Launch                 // a host call that put work on a queue: Run.Calls
	Compute                // a kernel that computes: Run.Kernels
	Collective             // a communication kernel: Run.Kernels, with a Comm row
	Copy                   // a copy or fill by an engine or the runtime: Run.Copies
	Workgroup              // one workgroup, or one logical tile of a persistent one: Run.Workgroups
	PhaseCompute
	PhaseStore // storing results, to local memory or to a peer: Run.Workgroups, with Peer
	PhasePut   // issuing a non-blocking put
	PhaseWait  // waiting for a flag while holding the slot; without a workgroup: see Span.Vacant
	Transfer   // bytes in flight on a link or an engine: Run.Copies
	NumKinds
)

var kindNames = [NumKinds]string{
	"marker", "host", "launch", "compute", "collective", "copy",
	"workgroup", "compute phase", "store", "put", "wait", "transfer",
}

func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return "unknown"
}

// OnDevice reports whether spans of the kind are device work on a queue: kernels and
// copies.
func (k Kind) OnDevice() bool { return k == Compute || k == Collective || k == Copy }

// InKernel reports whether spans of the kind are workgroups or phases of one.
func (k Kind) InKernel() bool { return k >= Workgroup && k <= PhaseWait }

// A Class groups kinds of device work for reports.
type Class uint8

// The classes. NoClass is host work, markers, and spans inside kernels.
const (
	ClassCompute Class = iota
	ClassCommunication
	ClassCopy
	NumClasses
	NoClass = NumClasses
)

// Class returns the class of a span. Transfers between ranks are communication, whether
// by kernel, copy or engine.
func (r *Run) Class(s Span) Class {
	switch s.Kind {
	case Compute:
		return ClassCompute
	case Collective, Transfer:
		return ClassCommunication
	case Copy:
		if c := r.Copy(s); c != nil && c.Dir == PeerToPeer {
			return ClassCommunication
		}
		return ClassCopy
	}
	return NoClass
}

// A Span is one interval on one lane. It has no pointers, so that the
// garbage collector does not scan tens of millions of spans.
type Span struct {
	Start, End Time
	Name       NameID
	Lane       LaneID
	Parent     SpanID // None at top level
	Attr       int32  // row of the side table of Kind, or None
	Kind       Kind
}

// Dur is the span's length; never negative in a finished run.
func (s Span) Dur() Time { return s.End - s.Start }

// Vacant reports whether the span is time in which no workgroup held a slot, or a
// persistent workgroup was not resident; its name is the reason.
func (s Span) Vacant() bool { return s.Kind == PhaseWait && s.Parent == None && s.Attr == None }

// LaneKind is the kind of a lane.
type LaneKind uint8

// The kinds of lanes, and the meaning of ID and Peer for each.
const (
	HostThread LaneKind = iota // ID: the thread
	Queue                      // ID: the stream or hardware queue
	Slot                       // ID: CU, Sub: the slot within it; holds workgroups
	Persistent                 // ID: the persistent workgroup; holds its tiles
	Engine                     // ID: the DMA engine
	Link                       // Peer: the rank at the other end
	NIC
	Annotation // ranges shown above the lanes of a rank
	Changed    // ID: how operations differ from those of another run (overlap.ChangesOf)
)

var laneKindNames = [...]string{"thread", "queue", "slot", "workgroup", "engine", "link", "nic", "annotation", "changed"}

func (k LaneKind) String() string {
	if int(k) < len(laneKindNames) {
		return laneKindNames[k]
	}
	return "lane"
}

// A Lane is a row of a timeline. Spans on a lane other than a HostThread or Annotation
// never overlap: Builder.Finish puts overlapping spans, which AMD queues do have, on
// sub-lanes.
type Lane struct {
	Kind   LaneKind
	Rank   int32 // row of Run.Ranks
	Device int32
	ID     int64
	Sub    int32 // 0 for the first; sub-lanes of one queue differ only in Sub
	Peer   int32 // Link: row of Run.Ranks at the other end; else None
	Name   string
}

// A Rank is one process of the job and its device.
type Rank struct {
	ID     int    // the rank in its job; None if unknown
	World  int    // ranks in the job; 0 if unknown
	Source string // the file of the rank, "" for a simulated rank
	Host   string
	Run    string // name of its run, if the Run holds several (SideBySide); else ""
	Device Device

	Compiler string `json:",omitempty"` // XLA, if that compiled the program; else ""

	NodeGPUs int `json:",omitempty"` // GPUs of its node, as the file lists them; 0 if unknown

	// Placed is that the file has no start times: the reader placed the events by their durations and dependencies.
	Placed bool `json:",omitempty"`

	// Process is the operating system's process id; 0 if unknown. If several rows share
	// a process, each with a GPU, the first has its host threads.
	Process int64 `json:",omitempty"`

	// Memory is what the framework's allocator held on the device, by time; nil: not recorded.
	Memory []MemoryLevel `json:",omitempty"`

	// Shift was added to every time of this rank to align it with rank row 0.
	// Uncertainty is the median absolute difference that remains between the ends of
	// common collectives; None if nothing relates the rank's clock to that of row 0.
	// Both are zero for a run of one rank.
	Shift, Uncertainty Time
}

// A MemoryLevel is the bytes that were allocated from a time on.
type MemoryLevel struct {
	At    Time
	Bytes int64
}

// XLA is the compiler of JAX.
const XLA = "XLA"

// A Device has the properties of a GPU; zero fields are unknown.
type Device struct {
	Name           string
	CUs            int
	WaveSize       int
	ThreadsPerCU   int
	RegistersPerCU int // 32-bit registers
	SharedPerCU    int // bytes of LDS or shared memory
	SharedPerWG    int // bytes, maximum of one workgroup
	MemoryBytes    int64
	ComputeMajor   int // NVIDIA's compute capability; 0 elsewhere
	ComputeMinor   int
	RuntimeVersion string // "CUDA 13.0", "ROCm 6.2"
}

// A Run holds all data of a measured or simulated run. Values of this type are
// finished: they are not changed after Builder.Finish. In JSON it is what a file of package chrome
// has of a run beside its events.
type Run struct {
	Name      string // for headings: the path of the input, or the strategy
	Epoch     int64  // nanoseconds since 1970 of time 0; 0 if the file has no date
	Simulated bool   // false for a profiler's trace
	// the basis of the durations if they, or those of the run that was simulated from, were not measured; else ""
	Estimated string `json:",omitempty"`
	Ranks     []Rank
	Lanes     []Lane
	Groups    []Group
	Operators []Operator
	Comms     []Comm
	Relations

	Names []string `json:"-"` // interned; Names[0] is ""
	Spans []Span   `json:"-"` // sorted by Start, then longest first, then Lane; parents precede their children
	Attributes
	Captured []Captured `json:"-"` // by graph, in order of capture; a joined run has none

	Collectives []MatchedCollective `json:"-"` // over all ranks, by arrival of the first member

	// Like is, by rank row, the row whose spans are also its own; nil: each row has its own. Only simulated runs
	// of which that was asked have it.
	Like []int32 `json:"-"`

	// reading at time 0 of the machine's clock since its start if the file has no date, else 0; relates runs of one machine
	Clock  int64  `json:"-"`
	End    Time   `json:"-"` // the latest End of any span
	Ledger Ledger `json:"-"`
}

// Attributes are what spans have beside their times, by kind: Span.Attr is the index of a row.
type Attributes struct {
	Kernels    []Kernel        `json:"-"`
	Setups     []Setup         `json:"-"` // of kernels, each once
	Copies     []CopyAttr      `json:"-"`
	Workgroups []WorkgroupAttr `json:"-"`
	Calls      []Call          `json:"-"`
}

// Relations are what the file says of who waits for whom, and of who reads what others wrote.
type Relations struct {
	Waits    []Wait       `json:",omitempty"` // in file order
	Uses     []Uses       `json:",omitempty"` // what operators read and write, from an execution trace
	Accesses []Access     `json:",omitempty"`
	Depends  []Dependency `json:",omitempty"` // that the file states, by To, then From
	Nodes    []Node       `json:",omitempty"` // of captured graphs, by Span
}

// NameOf returns the span's name.
func (r *Run) NameOf(s Span) string { return r.Names[s.Name] }

// RankOf returns the row in Ranks of the span's lane.
func (r *Run) RankOf(s Span) int { return int(r.Lanes[s.Lane].Rank) }

// Own reports whether a row of Ranks has spans of its own.
func (r *Run) Own(row int) bool { return r.Like == nil || int(r.Like[row]) == row }

// Kernel returns the side row of a Compute or Collective span, or nil.
func (r *Run) Kernel(s Span) *Kernel {
	if (s.Kind != Compute && s.Kind != Collective) || s.Attr == None {
		return nil
	}
	return &r.Kernels[s.Attr]
}

// Comm returns the communication attributes of a Collective span, or nil if unknown.
func (r *Run) Comm(s Span) *Comm {
	k := r.Kernel(s)
	if k == nil || k.Comm == None {
		return nil
	}
	return &r.Comms[k.Comm]
}

// LaunchOf returns the host call that launched a kernel or copy, or None.
func (r *Run) LaunchOf(s Span) SpanID {
	if k := r.Kernel(s); k != nil {
		return k.Launch
	}
	if c := r.Copy(s); c != nil {
		return c.Launch
	}
	return None
}

// StreamOf returns the stream of a kernel or copy, as the file numbers it; ok is false for other spans.
func (r *Run) StreamOf(s Span) (stream int64, ok bool) {
	if k := r.Kernel(s); k != nil {
		return r.Setup(k).Stream, true
	}
	if c := r.Copy(s); c != nil {
		return c.Stream, true
	}
	return 0, false
}

// Collective returns the matched operation of a Collective span, or nil if unknown.
func (r *Run) Collective(s Span) *MatchedCollective {
	c := r.Comm(s)
	if c == nil || c.Collective == None {
		return nil
	}
	return &r.Collectives[c.Collective]
}

// Operator returns the framework operator that launched a kernel, or nil.
func (r *Run) Operator(k *Kernel) *Operator {
	if k == nil || k.Op == None {
		return nil
	}
	return &r.Operators[k.Op]
}

// Copy returns the side row of a Copy or Transfer span, or nil.
func (r *Run) Copy(s Span) *CopyAttr {
	if (s.Kind != Copy && s.Kind != Transfer) || s.Attr == None {
		return nil
	}
	return &r.Copies[s.Attr]
}

// Workgroup returns the side row of a workgroup or phase span, or nil.
func (r *Run) Workgroup(s Span) *WorkgroupAttr {
	if !s.Kind.InKernel() || s.Attr == None {
		return nil
	}
	return &r.Workgroups[s.Attr]
}
