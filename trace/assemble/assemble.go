// Package assemble builds a run from the records of GPU profilers: processes, GPUs,
// kernels, copies and calls, in any order and with the ids of the files. It completes
// and numbers the collectives of all formats. It joins runs: the ranks of one job on one clock, the parts of one rank,
// and several runs side by side.
//
//	reader of a format ──▶ Session ──▶ ranks ▶ lanes ▶ launches ▶ collectives ──▶ trace.Run
//
// Files in the order in which records meet them:
//
//	assemble.go               takes records; graph.go, of captured graphs
//	ranks.go                  ranks and lanes
//	collective.go, comm.go    collectives of calls and kernels; symmetric.go, of copies
//	xla.go, xlaops.go         profiles of XLA; hlo.go, hlogroups.go and hlodata.go, the programs in them
//	execution.go, tensor.go   execution traces; dataflow.go, what operators in them read and write
//	transfer.go, capture.go   give a run what another one recorded: storages, and launches of graphs
//	merge.go                  numbers runs and puts them on one clock; align.go compares the clocks of ranks
//	stages.go                 closes gaps between stages of one profile; unite.go joins the parts of a rank
//	join.go                   adds everything of each run
//	sidebyside.go             puts several runs beside each other, and takes them apart
package assemble

import (
	"cmp"
	"math"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A Session collects the records of one profiled job. Make one with New.
//
// Lanes and ranks are known only at the end: files describe all GPUs that are visible
// to a process, and the records show which ones it used. Until Finish, a span's Lane is
// the index of its track. Readers add spans with the methods of Session, and use the
// Builder for names, the ledger and late changes of a span.
type Session struct {
	Numbered  bool // the file numbers its events, of which none is twice in it, whatever their values
	Builder   trace.Builder
	Name      string
	Record    Record // that spans are being added of
	Processes []Process
	Agents    []Agent
	Runtime   string // "ROCm": of devices whose runtime the file does not state, where only one has the format

	processRow map[string]int32
	agentRow   map[agentKey]int32
	tracks
	collects  map[trace.NameID]bool // names of kernels: whether they are of a collective library
	kernels   []processSpan
	commCalls []commCall                  // calls of collective libraries
	stated    map[trace.SpanID]trace.Comm // of kernels whose collective the file states
	captured  map[trace.SpanID]captured   // of work of captured graphs
	waits     []gpuWait
	first     trace.Time // earliest

	descriptions map[int32][]Description // of agents, by process
	communicators
}

// communicators are those of the libraries of collectives.
type communicators struct {
	sizes    map[communicator]int // ranks of communicators
	pointers map[communicator]int // communicators that are pointers, by order of first use
	used     map[int32]int        // number of those in each process
}

// tracks are what becomes lanes.
type tracks struct {
	Tracks   []Track // readers that know them only at the end set them all then
	trackIDs map[Track]int32
	laneOf   []trace.LaneID // by track, once it is placed
}

// A Record is where a record of a profile stands.
type Record struct {
	File string // "": the session's name
	Unit string // of At: a byte, a line
	At   int64
}

// A Process is a profiled process.
type Process struct {
	Key    string // unique in the session
	ID     int64  // the operating system's process id
	Rank   int    // trace.None if unknown
	World  int
	Host   string
	Source string // file

	Compiler string // as of trace.Rank

	// Device, if not nil, describes the GPU with a number. The process is then one rank on any
	// number of GPUs, and its device is the one that did most work.
	Device func(number int32) trace.Device
}

// An Agent is a CPU or GPU in one process's numbering.
type Agent struct {
	Process int32
	Key     string // its id in records
	GPU     bool
	Ordinal int32 // among agents of its kind after describeAgents; before that, the number in its key
	Device  trace.Device
}

type agentKey struct {
	process int32
	key     string
}

// A trackKind is the kind of a track.
type trackKind uint8

// The kinds. A track without a kind has no spans.
const (
	noTrack trackKind = iota
	QueueTrack
	engineTrack
	ThreadTrack
	AnnotationTrack // ranges of a process or, with an agent, of one of its queues
)

// A Track becomes a lane.
type Track struct {
	Kind    trackKind
	Process int32
	Agent   int32 // row of Agents; trace.None if the kind has none
	other   int32 // engines: the agent at the other end, or trace.None
	ID      int64 // queue, thread, or trace.CopyDir of an engine
	Name    string
	Thread  string // tells threads of one process with the same ID apart
	Device  int32  // threads: the GPU that their events name; 0 if none
}

// A processSpan is a span and its process.
type processSpan struct {
	span    trace.SpanID
	process int32
}

// A commCall is a call of a collective library.
type commCall struct {
	processSpan
	*Arguments
}

type communicator struct {
	process int32
	name    string
}

// New returns a session for a run with the given name.
func New(name string) *Session {
	s := &Session{
		Name: name, Record: Record{Unit: "byte"},
		tracks: tracks{trackIDs: map[Track]int32{}}, first: trace.Infinity, processRow: map[string]int32{}, agentRow: map[agentKey]int32{},
		collects: map[trace.NameID]bool{}, stated: map[trace.SpanID]trace.Comm{}, captured: map[trace.SpanID]captured{},
		communicators: communicators{sizes: map[communicator]int{}, pointers: map[communicator]int{}, used: map[int32]int{}},
	}
	s.Builder.Intern("") // name 0
	return s
}

// Process returns the row of the process with the key, adding it if it is new.
func (s *Session) Process(key string, id int64, source string) int32 {
	return trace.Memo(s.processRow, key, func() int32 {
		return trace.Push(&s.Processes, Process{Key: key, ID: id, Rank: trace.RankInName(source), Source: source})
	})
}

// Agent returns the row of the agent with the key, adding it if it is new: as a GPU
// with the number in the key, until it is described.
func (s *Session) Agent(process int32, key string) int32 {
	return trace.Memo(s.agentRow, agentKey{process, key}, func() int32 {
		n, _ := lex.Trailing(key)
		return trace.Push(&s.Agents, Agent{Process: process, Key: key, GPU: true, Ordinal: Narrow(n)})
	})
}

// Narrow converts a count to the type of side tables; 0, unknown, if it does not fit.
func Narrow(n int64) int32 {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// track returns the index of a track, which is used as a lane id until Finish.
func (s *Session) track(t Track) trace.LaneID {
	return trace.LaneID(trace.Memo(s.trackIDs, t, func() int32 { return trace.Push(&s.Tracks, t) }))
}

// add adds a span of the record in hand on a track. One that ends before it starts is repaired.
func (s *Session) add(span trace.Span, t Track) trace.SpanID {
	if span.End < span.Start {
		span.End = span.Start
		r := &s.Record
		s.Builder.NoteSpan(trace.SpanID(s.Builder.Len()), trace.Repaired, cmp.Or(r.File, s.Name), trace.EndsEarly, r.Unit, r.At)
	}
	span.Lane = s.track(t)
	span.Parent = trace.None
	s.first = min(s.first, span.Start)
	return s.Builder.Add(span)
}

// A Dispatch is one kernel execution.
type Dispatch struct {
	Agent      int32 // row of Agents, or trace.None
	Queue      int64
	Name       trace.NameID
	Start, End trace.Time
	trace.Setup
	Correlation int64
	Comm        *trace.Comm // if the file states it: with Group, a row of the builder or trace.None; else nil
}

// AddKernel adds a kernel.
func (s *Session) AddKernel(process int32, d *Dispatch) {
	k := trace.Kernel{Correlation: d.Correlation, Comm: trace.None, Op: trace.None, Origin: trace.None, Setup: s.Builder.AddSetup(d.Setup)}
	span := trace.Span{Start: d.Start, End: d.End, Name: d.Name, Kind: trace.Compute, Attr: s.Builder.AddKernel(k)}
	if d.Comm != nil || s.IsCollective(d.Name) {
		span.Kind = trace.Collective
	}
	id := s.add(span, Track{Kind: QueueTrack, Process: process, Agent: d.Agent, other: trace.None, ID: d.Queue})
	s.kernels = append(s.kernels, processSpan{id, process})
	if d.Comm != nil {
		s.stated[id] = *d.Comm
	}
}

// IsCollective reports whether a name belongs to a kernel of a collective library. Each name is
// examined once.
func (s *Session) IsCollective(name trace.NameID) bool {
	return trace.Memo(s.collects, name, func() bool { return trace.Communicates(s.Builder.NameOf(name)) })
}

// A Copy is one copy. Agents are trace.None if unknown.
type Copy struct {
	Name        trace.NameID
	From, To    int32 // rows of Agents
	Dir         trace.CopyDir
	Stream      int64
	Correlation int64
	Bytes       int64
	Start, End  trace.Time
	OnQueue     bool // it is shown on the queue Stream of the GPU, of two GPUs that of agent From, not on an engine
}

// AddCopy adds a copy.
func (s *Session) AddCopy(process int32, c *Copy) {
	near, far, dir := c.From, c.To, c.Dir
	switch dir {
	case trace.HostToDevice:
		near, far = far, near
		s.isCPU(c.From)
	case trace.DeviceToHost:
		s.isCPU(c.To)
	case trace.HostToHost:
		s.isCPU(c.From)
		s.isCPU(c.To)
	case trace.DeviceToDevice:
		if near != far && near != trace.None && far != trace.None {
			dir = trace.PeerToPeer
		}
	}
	t := Track{Kind: engineTrack, Process: process, Agent: near, other: far, ID: int64(dir)}
	if c.OnQueue {
		t = Track{Kind: QueueTrack, Process: process, Agent: near, other: trace.None, ID: c.Stream}
	}
	s.add(trace.Span{
		Start: c.Start, End: c.End, Name: c.Name, Kind: trace.Copy,
		Attr: s.Builder.AddCopy(trace.CopyAttr{
			Bytes: max(0, c.Bytes), Correlation: c.Correlation, Stream: c.Stream, Dir: dir, Peer: trace.None,
			Op: trace.None, Origin: trace.None,
		}),
	}, t)
}

// isCPU marks an agent as a CPU, as implied by a record.
func (s *Session) isCPU(agent int32) {
	if agent != trace.None {
		s.Agents[agent].GPU = false
	}
}

// A Call is a call of a host thread, or a program's range on it.
type Call struct {
	Name        trace.NameID
	Thread      int64
	ThreadName  string // may be ""
	Correlation int64
	External    int64 // the framework's number
	Op          int32 // number of a row of the builder's operators, from 1; 0: none
	Start, End  trace.Time
	Marker      bool
	Collective  bool       // of a collective library
	Arguments   *Arguments // of a collective call; nil if unknown
}

// Arguments are the arguments of a call of a collective library. Zero fields are
// unknown.
type Arguments struct {
	Bytes        int64  // of the count argument: one rank's input, or output of a reduce-scatter
	DType        string // of an element
	Communicator string // the same on all ranks, or a pointer in hexadecimal
	Ranks        int    // of the communicator
	Peer         int32  // the other rank or the root; trace.None where there is none
}

// AddCall adds a call.
func (s *Session) AddCall(process int32, c *Call) {
	span := trace.Span{Start: c.Start, End: c.End, Name: c.Name, Kind: trace.Marker, Attr: trace.None}
	if !c.Marker {
		span.Kind = trace.HostCall
		span.Attr = s.Builder.AddCall(trace.Call{Correlation: c.Correlation, External: c.External, Op: c.Op - 1})
	}
	t := Track{Kind: ThreadTrack, Process: process, Agent: trace.None, other: trace.None, ID: c.Thread, Name: c.ThreadName}
	id := s.add(span, t)
	if c.Collective && !c.Marker {
		a := c.Arguments
		if a == nil {
			a = &Arguments{Peer: trace.None}
		}
		if a.Communicator != "" && a.Ranks > 0 {
			s.sizes[communicator{process, a.Communicator}] = a.Ranks
		}
		s.commCalls = append(s.commCalls, commCall{processSpan{id, process}, a})
	}
}

// AddRange adds a range of a process without thread or GPU.
func (s *Session) AddRange(process int32, name trace.NameID, start, end trace.Time) {
	s.add(trace.Span{Start: start, End: end, Name: name, Kind: trace.Marker, Attr: trace.None},
		Track{Kind: AnnotationTrack, Process: process, Agent: trace.None, other: trace.None, Name: "memory"})
}

// AddMark adds a range above a queue of an agent.
func (s *Session) AddMark(process, agent int32, queue int64, name trace.NameID, start, end trace.Time) {
	s.add(trace.Span{Start: start, End: end, Name: name, Kind: trace.Marker, Attr: trace.None},
		Track{Kind: AnnotationTrack, Process: process, Agent: agent, other: trace.None, ID: queue})
}

// Finish adds ranks and lanes, links calls and matches collectives. Epoch is time 0 in
// nanoseconds since 1970, if times have another origin. Times from 2001 on count from
// 1970, others from the boot of the machine: that clock would have to run for 31 years
// to reach 2001. The session must hold a span and not be used afterwards.
func (s *Session) Finish(epoch int64) *trace.Run { return s.finish(epoch, true) }

// finish is Finish, with times that may be of a clock of the machine.
func (s *Session) finish(epoch int64, clock bool) *trace.Run {
	const year2001 = 1e18
	if !trace.ValidTime(epoch) {
		s.Builder.Note(trace.Noted, s.Name, "the file's date is out of range: ignored", "", 0)
		epoch = 0
	}
	s.laneOf = s.Place()
	s.Builder.Link()
	s.Builder.Nest()
	s.collectives()
	run := s.Builder.Finish(trace.Options{Name: s.Name, Epoch: epoch, HostClock: clock && epoch == 0 && s.first < year2001})
	if epoch == 0 && s.first >= year2001 {
		run.Epoch = int64(s.first)
	}
	return run
}

// Place removes doubled spans, demangles names, adds ranks and lanes, and returns the lane of each track. Finish
// calls it; readers that link and match by themselves call only Place and the builder's Finish.
func (s *Session) Place() []trace.LaneID {
	if !s.Numbered {
		s.Builder.DropDoubled(s.Name)
	}
	s.describeAgents()
	for i, name := range s.Builder.Run.Names {
		s.Builder.Run.Names[i] = trace.Demangle(name)
	}
	rows := s.ranks()
	s.placeWaits(rows)
	return s.lanes(rows)
}
