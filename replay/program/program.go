// Package program is the vocabulary that strategies write in and the simulator
// runs. A Program is written in three words. Workgroups do work; workgroups and
// copy engines transfer bytes; and everything that waits, waits for a flag to
// reach a count. Flags are counters that only grow. Kernel boundaries, stream
// events, the arrival of all ranks at a collective, slice-ready flags of fused
// operators, tile semaphores and trigger counters are all flags.
package program

import (
	"math"

	"github.com/overlapse/overlapse/replay/event"
	"github.com/overlapse/overlapse/trace"
)

// Time is nanoseconds since the program's start.
type Time = trace.Time

// A Flag is an index into Program.Flags. NoFlag is the zero value.
type Flag int32

// NoFlag is no flag: waiting for it or posting it does nothing.
const NoFlag Flag = 0

// A Program is work for every GPU of a machine. Build it with NewFlag and by
// filling GPUs; a finished program is not changed by simulating it.
type Program struct {
	GPUs  []GPU    // one a rank, in rank order
	Flags []string // names, for explanations; Flags[0] is NoFlag
	Links float64  // 0 or 1: links as the machine has them; else a factor on their rate (sensitivity)

	Arbiter Arbiter // of every GPU's memory
}

// NewFlag adds a flag. The name is shown when something waits for it in vain.
func (p *Program) NewFlag(name string) Flag {
	if len(p.Flags) == 0 {
		p.Flags = []string{""}
	}
	p.Flags = append(p.Flags, name)
	return Flag(len(p.Flags) - 1)
}

// A GPU is the queues of one device and of the host that feeds it.
type GPU struct {
	Streams []Stream
}

// A Stream executes its commands one after another. A host thread is a stream
// of Delay and Post commands; it holds no device resource.
type Stream struct {
	Name     string
	Queue    int64 // lane id in the simulated run
	Priority int   // larger is more urgent, among workgroups not yet placed
	Host     bool
	Commands []Command
}

// A Command is one entry of a stream: exactly one of Kernel and Copy is set,
// or Op is a Wait, Post or Delay.
type Command struct {
	Op     Op
	Kernel *Kernel
	Copy   *Copy
	Flag   Flag  // Wait, Post
	Count  int64 // Wait: the flag's value to reach; Post: how much to add
	Delay  Time  // Delay: how long; Launch, Start: the gap after the previous command's end
	Name   string
	Origin int32 // the workload op this command stands for, or -1
	Why    Cause // Delay: what the time is lost to
}

// Op says what a Command does.
type Op uint8

// The operations. Launch ends when the last workgroup of the kernel has left;
// Start ends when the last byte has arrived.
const (
	Launch Op = iota
	Start     // a copy by an engine
	Wait
	Post
	Delay
)

// A Footprint is what one workgroup takes of a CU.
type Footprint struct {
	Threads   int
	Registers int  // a thread
	Shared    int  // bytes
	Exclusive bool // takes a whole CU whatever the numbers say
}

// A Kernel is a grid of workgroups. Workgroups are generated when they are
// placed, so a grid of half a million costs nothing before that.
//
// A plain kernel has Tiles == 0: workgroup w runs Recipe(w). A persistent
// kernel has WGs workgroups sharing Tiles tiles: workgroup w runs tiles w,
// w+WGs, w+2·WGs, ... Its first Owned tiles are fixed that way however late it
// starts; further ones are handed out in order to whoever asks first. Owned < 0
// fixes all of them.
//
// Phases are asked for whenever they are needed, of one tile several times: the
// generators depend on their argument alone.
type Kernel struct {
	Name      string
	Kind      trace.Kind // Compute or Collective
	WGs       int
	Tiles     int
	Owned     int
	Recipe    func(tile int, buf []Phase) []Phase // phases of a tile; appends to buf
	Prologue  func(wg int, buf []Phase) []Phase   // before the first tile of a persistent workgroup; may be nil
	Epilogue  func(wg int, buf []Phase) []Phase   // after its last; may be nil
	Footprint Footprint
	Attr      trace.Kernel       // grid, block and so on, as shown in the simulated run
	Comm      *trace.Comm        // a collective's operation; else nil
	Peer      func(tile int) int // the rank a tile's output goes to, for display; may be nil
	Cluster   int                // workgroups that start together in one group of CUs, if over 1: neighbouring numbers, from a multiple of it on
	Free      bool               // holds no slot: a captured kernel whose residency is part of its measured time
	Matrix    bool               // its Work is of matrix instructions, which lower the clock of the whole GPU (Onset)
	Onset     float64            // 0 to 1: the part of what Phase.Beside adds that one working workgroup of a Matrix kernel is enough for
	Merged    bool               // each workgroup stands for several: they are not recorded
	// CommShare, if over 0, is the share of this GPU's memory that ComputeFirst
	// guarantees communication from this kernel's start until that of the next
	// kernel that states one. Before the first it is Arbiter.Share.
	CommShare float64
	// Pipe is the share of its CU's pipes that one workgroup's Work uses alone,
	// 0 standing for 1. Work on a CU slows when the shares of its resident
	// workgroups exceed 1 (k workgroups take k·Pipe times as long).
	Pipe float64
}

// A PhaseOp says what a phase does.
type PhaseOp uint8

// The phases of a recipe.
const (
	Work    PhaseOp = iota // compute for Time alone, touching Read and Write bytes of memory here
	Store                  // write Bytes into memory of GPU Peer (may be this one, or Everyone); the workgroup is busy until they have left
	Put                    // hand Bytes for GPU Peer to an engine or NIC and go on; Flag is posted there when they have arrived. Puts to one peer leave in order, and a NIC takes them as fast as its message rate allows
	WaitFor                // hold the slot until Flag ≥ Count
	PostTo                 // add Count to Flag: after Time if that is set, after the latency of the farthest GPU that this tile has stored to, no sooner than that of the flags sent before it lets it go, else at once
	Sleep                  // hold the slot for Time, using nothing: a latency
)

// Everyone as the Peer of a Store is all other GPUs of the node: a switch that
// replicates takes the bytes once and hands them to each (multimem).
const Everyone int32 = -2

// A Phase is one step of a workgroup.
type Phase struct {
	Op    PhaseOp
	Peer  int32
	Flag  Flag
	Count int64
	Time  Time    // Work, Sleep: duration alone. Store, Put: the least duration, from what one workgroup or queue can issue. PostTo: until the flag is seen
	Bytes float64 // Store, Put
	DMA   bool    // Put: a copy engine of this GPU moves the bytes, and is taken until they have left; else stores or a NIC do
	Read  float64 // Work: bytes read from this GPU's memory; Store: bytes read here to be sent
	Write float64 // Work: bytes written to this GPU's memory; Store: bytes written here besides those that are sent
	Hit   float64 // Work: share of Read that the last-level cache serves
	// Update says that what is written is added to what is there, by the memory
	// itself: it takes the memory GPU.Update times as long.
	Update bool
	// Beside, if over 1, is how many times as long the phase takes while compute of
	// another kernel works on all CUs of this GPU that collectives leave: loaded
	// memory latency. Beside less it takes less (interference.go).
	Slowdown float64
	// Weight is the phase's share of a contended link or memory relative to others;
	// 0 stands for 1. Hardware does not arbitrate evenly: with even shares the median
	// error of fused operators on measured rows of four H200 grows from 4.6 % to 13.7 %,
	// and on held-out rows of two from 1.4 to 7.1 %, 1.7 to 5.3 % and 2.7 to 5.8 %
	// (TestErrorsAgainstHardware of package engines).
	Weight float64
	// Last, if set, lets only the last to post go on: unless a PostTo brings the
	// flag to this very count, the workgroup leaves out the rest of the tile (rule F8).
	Last int64
	Mark string // a mark to show at the end of the phase: "put", "slice ready"; "" none
}

// A Copy is a transfer by a DMA engine.
type Copy struct {
	Name   string
	Peer   int32 // destination GPU; the stream's own for a local copy
	From   int32 // source GPU
	Bytes  float64
	Time   Time // the least duration; a captured copy's measured one
	Free   bool // takes no engine, link or memory: a captured copy
	Update bool // as of a phase
	Attr   trace.CopyAttr
}

// A Cause is why a stream stood still. A full link is none: it holds workgroups
// and copies back in what they do (Slots.Slowed, Segment.Bound), so their stream
// is busy.
type Cause uint8

// The causes of idle time.
const (
	Unexplained Cause = iota
	FlagWait          // a flag had not reached its count
	NoSlot            // every slot that fits was taken
	LaunchGap         // between one command of a stream and the next
	HostIssue         // the host had not issued it yet
	PeerSkew          // another rank arrived later
	Tail              // nothing left to do in this kernel, others still running
	NoWork            // nothing left to do at all
	numCauses
)

// MarshalText writes the name.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

var causeNames = [numCauses]string{
	"unexplained", "flag", "no slot", "launch", "host", "peer skew", "tail", "no work",
}

func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return causeNames[0]
}

func PerNanosecond(perSecond float64) float64 { return perSecond / 1e9 }

// TilesOwned is how many tiles a workgroup owns, and the first that none does.
func (k *Kernel) TilesOwned() (each, next int) {
	if k.WGs == 0 {
		return 0, k.Tiles
	}
	rounds := (k.Tiles + k.WGs - 1) / k.WGs
	if k.Owned < 0 || k.Owned >= rounds {
		return math.MaxInt, k.Tiles
	}
	return k.Owned, k.Owned * k.WGs
}

// leastBytes is what counts as bytes to move; less takes no time of its own.
const LeastBytes = 1e-6

// Size is the bytes whose progress is the phase's: 0 where only time passes.
func (p *Phase) Size() float64 {
	b := p.Bytes
	if p.Op == Work {
		b = p.Read + p.Write
	}
	if b < LeastBytes {
		return 0
	}
	return b
}

// lastTime bounds simulated time: 36 years. Sums of two times below it do not overflow.
const MaxTime = Time(event.Last)

// Label is the most telling name of a command.
func (c *Command) Label() string {
	switch {
	case c.Name != "":
		return c.Name
	case c.Kernel != nil:
		return c.Kernel.Name
	case c.Copy != nil:
		return c.Copy.Name
	}
	if c.Op <= Delay {
		return [...]string{"launch", "start", "wait", "post", "delay"}[c.Op]
	}
	return ""
}

// Works is 1 of phases that do something, else 0.
func (op PhaseOp) Works() int {
	if op == Work || op == Store {
		return 1
	}
	return 0
}
