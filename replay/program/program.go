// Package program defines the programs that strategies write and the simulator runs. A
// Program has three elements: workgroups do work, workgroups and copy engines transfer
// bytes, and everything that waits waits for a flag to reach a count. Flags are counters
// that only grow. Kernel boundaries, stream events, the arrival of all ranks at a
// collective, slice-ready flags of fused operators, tile semaphores and trigger counters
// are all flags.
//
//	program.go      programs, commands, kernels, phases
//	owners.go       flags, and the GPUs that they are of
//	arbiter.go      the order in which contended memory serves
//	check.go        whether a machine can run a program
//	digest.go       whether two programs are equal
package program

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// Time is in nanoseconds since the program's start.
type Time = trace.Time

// A Flag is the number of one of Program.Flags. NoFlag is the zero value.
type Flag int32

// NoFlag is no flag: waiting for it or posting to it does nothing.
const NoFlag Flag = 0

// A Program is the work of every GPU of a machine. Build it with NewFlag and by filling
// GPUs. Simulating it does not change it.
type Program struct {
	GPUs  []GPU // one a rank, in rank order
	Flags Flags

	Arbiter Arbiter // of every GPU's memory

	Writing *Owners // of the flags that are added next; nil: all GPUs
	Equal   any     // what is known of GPUs that are not written since they do the same as others (replay.Share); nil: all are written
}

// NewFlag adds a flag. The name appears in waits, idle causes and deadlock messages.
func (p *Program) NewFlag(name string) Flag {
	return p.Flags.add(1, flagNames{text: name, Owners: p.Writing})
}

// NewFlags adds n flags, whose names end in their index.
func (p *Program) NewFlags(n int, name string) []Flag {
	return p.NewFlagsOf(p.Writing, n, func(i int) string { return fmt.Sprintf("%s %d", name, i) })
}

// NewFlagsOf adds n flags of some GPUs. name is that of the i-th; it is called when somebody asks.
func (p *Program) NewFlagsOf(o *Owners, n int, name func(i int) string) []Flag {
	flags := make([]Flag, n)
	first := p.Flags.add(n, flagNames{of: name, Owners: o})
	for i := range flags {
		flags[i] = first + Flag(i)
	}
	return flags
}

// Flags are the flags of a program, from 1 on, and their names for explanations.
type Flags struct {
	most  Flag
	names []flagNames // of flags that were added together, in order
}

// flagNames are the names of flags: a text, or what the i-th of them is called.
type flagNames struct {
	first Flag
	text  string
	of    func(i int) string
	*Owners
}

func (f *Flags) add(n int, names flagNames) Flag {
	names.first = f.most + 1
	f.names = append(f.names, names)
	f.most += Flag(n)
	return names.first
}

// Len is the number of flags, with NoFlag.
func (f *Flags) Len() int { return int(f.most) + 1 }

// Name is a flag's name; "" for NoFlag, and for what is no flag of the program.
func (f *Flags) Name(flag Flag) string {
	if flag <= NoFlag || flag > f.most {
		return ""
	}
	names := f.at(flag)
	if names.of == nil {
		return names.text
	}
	return names.of(int(flag - names.first))
}

// at is what a flag was added with.
func (f *Flags) at(flag Flag) *flagNames {
	at, _ := slices.BinarySearchFunc(f.names, flag+1, func(n flagNames, next Flag) int { return cmp.Compare(n.first, next) })
	return &f.names[at-1]
}

// A GPU is the streams of one device and of its host.
type GPU struct {
	Streams []Stream
}

// A Stream executes its commands one after another. A host thread is a stream
// of Delay and Post commands; it holds no device resource.
type Stream struct {
	Name     string
	Queue    int64 // lane id in the simulated run
	Priority int   // larger is more urgent; orders workgroups that are not yet placed
	Host     bool
	Commands []Command
}

// A Command is one entry of a stream: exactly one of Kernel and Copy is set,
// or Op is a Wait, Post or Delay.
type Command struct {
	Op     Op
	Why    Cause // Delay: the idle cause that its time counts as
	Flag   Flag  // Wait, Post
	Kernel *Kernel
	Copy   *Copy
	Count  int64 // Wait: the value to reach; Post: the amount to add
	Delay  Time  // Delay: its length; Launch, Start: the gap after the previous command's end
	Name   string
	Origin int32 // index of the workload op that the command stands for, or -1
}

// Op is the kind of a Command.
type Op uint8

// The operations. Launch ends when the last workgroup of the kernel has left;
// Start ends when the last byte has arrived.
const (
	Launch Op = iota
	Start     // a copy by a copy engine
	Wait
	Post
	Delay
)

// A Footprint is the CU resources of one workgroup.
type Footprint struct {
	Threads   int
	Registers int  // per thread
	Shared    int  // bytes of shared memory
	Exclusive bool // takes a whole CU
}

// A Kernel is a grid of workgroups. Workgroups are generated when they are
// placed, so a grid of half a million costs nothing before that.
//
// A plain kernel has Tiles == 0: workgroup w runs Recipe(w). A persistent
// kernel has WGs workgroups sharing Tiles tiles: workgroup w runs tiles w,
// w+WGs, w+2·WGs, ... The first Owned tiles are fixed to it, however late it starts; the
// others are handed out in order to the first free workgroup. Owned < 0 fixes all of them.
//
// Recipe, Prologue and Epilogue are called whenever phases are needed, several times for
// one tile. They must depend on their argument alone. A kernel whose tiles are all alike, or as many one
// after another as Alike, has Each instead of a Recipe: ranks with such kernels are compared without
// generating tiles, and their workgroups are stepped together.
type Kernel struct {
	Name      string
	Kind      trace.Kind // Compute or Collective
	WGs       int
	Tiles     int
	Owned     int
	Recipe    func(tile int, buf []Phase) []Phase // phases of a tile; appends to buf; nil: Each
	Each      []Phase                             // phases of every tile without a Recipe
	Alike     int                                 // if over 0: the i-th of Each is the only phase of the tiles from i*Alike to (i+1)*Alike, of a plain kernel
	Prologue  func(wg int, buf []Phase) []Phase   // before a persistent workgroup's first tile; may be nil
	Epilogue  func(wg int, buf []Phase) []Phase   // after its last tile; may be nil
	Footprint Footprint
	Attr      trace.Kernel // copied to the simulated run, as Setup is: grid, block and so on
	Setup     trace.Setup
	Comm      *trace.Comm        // the operation of a collective; else nil. Ranks' kernels belong together in order; a Seq below trace.None is a number that says so instead
	Peer      func(tile int) int // destination rank of a tile's output, for display; may be nil
	Cluster   int                // size of clusters if over 1: consecutive workgroups, starting at a multiple of it, are placed together in one group of CUs
	Free      bool               // holds no slot: a captured kernel whose measured time includes its residency
	Merged    bool               // each workgroup stands for several; workgroups are not recorded
	Sharing
	// CommShare, if over 0, is the share of this GPU's memory that ComputeFirst guarantees
	// communication, from this kernel's start until the next kernel that sets one starts.
	// Before the first it is Arbiter.Share.
	CommShare float64
}

// Sharing is how the Work of a kernel slows other work on the GPU, and is slowed by it.
type Sharing struct {
	Matrix   bool    // its Work uses matrix instructions, which lower the clock of the whole GPU (Onset)
	Onset    float64 // 0 to 1: share of the co-run slowdown (Phase.Slowdown) that one working workgroup of a Matrix kernel causes
	Channels bool    // Phase.Slowdown of this Compute kernel holds alongside workgroups of other kinds, on all CUs, that work, instead of alongside compute
	Fed      float64 // 0 to 1, of a kernel with Channels: how much of the part of CUs whose collectives wait the memory gives to its others
	// Pipe is the share of its CU's pipes that one workgroup's Work uses alone; 0 stands for
	// 1. Work on a CU slows when the shares of its resident workgroups exceed 1: k workgroups
	// take k·Pipe times as long.
	Pipe float64
	// Lag is how much longer the Work of every second workgroup on a CU takes, as a share: of those
	// that share a CU, the pipes serve the older one first (rule D16). 0: they end together.
	Lag float64
}

// Phases appends the phases of a tile to buf.
func (k *Kernel) Phases(tile int, buf []Phase) []Phase {
	if k.Recipe == nil {
		return append(buf, k.Of(tile)...)
	}
	return k.Recipe(tile, buf)
}

// Of is the phases of a tile of a kernel without a Recipe.
func (k *Kernel) Of(tile int) []Phase {
	if k.Alike > 0 {
		return k.Each[tile/k.Alike : tile/k.Alike+1]
	}
	return k.Each
}

// A PhaseOp is the kind of a Phase.
type PhaseOp uint8

// The kinds of phases.
const (
	Work    PhaseOp = iota // compute for Time alone, with Read and Write bytes of this GPU's memory
	Store                  // write Bytes to the memory of GPU Peer (may be this GPU, or Everyone); the workgroup is busy until they have left
	Put                    // hand Bytes for GPU Peer to a copy engine or NIC and continue; Flag is posted at Peer when they have arrived. Puts to one peer leave in order; a NIC takes them at its message rate
	WaitFor                // hold the slot until Flag ≥ Count
	PostTo                 // add Count to Flag after Time, if set; else after the latency of the farthest GPU that this tile has stored to, and not before earlier flags; else at once
	Sleep                  // hold the slot for Time and use nothing: a latency
)

// Everyone as the Peer of a Store means all other GPUs of the node: a switch that
// replicates receives the bytes once and sends them to each (multimem).
const Everyone int32 = -2

// A Phase is one step of a workgroup.
type Phase struct {
	Op    PhaseOp
	Peer  int32
	Flag  Flag
	Count int64
	Time  Time    // Work, Sleep: duration alone. Store, Put: least duration, from the issue rate of one workgroup or queue. PostTo: delay until the flag is visible
	Bytes float64 // Store, Put
	DMA   bool    // Put: a copy engine of this GPU moves the bytes and is busy until they have left; else stores or a NIC do
	Held  bool    // Put: earlier phases have read the bytes: they leave without another read of this GPU's memory
	Read  float64 // Work: bytes read from this GPU's memory; Store: bytes read here and sent
	Write float64 // Work: bytes written to this GPU's memory; Store: bytes written here in addition to those sent
	Hit   float64 // Work: share of Read that the last-level cache serves
	// Update means that writes are added to memory by the memory itself: they use its
	// bandwidth GPU.Update times as long.
	Update bool
	// Slowdown, if over 1, is the duration of the phase relative to alone while compute of
	// another kernel uses all CUs of this GPU that collectives leave (memory latency under
	// load). Less compute slows it less (rule I1).
	Slowdown float64
	// Weight is the phase's weight in max-min fair sharing; 0 stands for 1. Hardware does not
	// arbitrate evenly: with equal weights the median error of fused operators on measured
	// rows of four H200 grows from 4.6 % to 13.7 %, and on held-out rows of two from 1.4 to
	// 7.1 %, 1.7 to 5.3 % and 2.7 to 5.8 % (TestErrorsAgainstHardware of package engines).
	Weight float64
	// Last, if set, lets only the last poster continue: unless a PostTo brings the flag to
	// exactly this count, the workgroup skips the rest of the tile (rule F1).
	Last int64
	Mark string // mark shown at the end of the phase: "put", "slice ready"; "": none
}

// A Copy is a transfer by a DMA engine.
type Copy struct {
	Name   string
	Peer   int32 // destination GPU; the source for a local copy
	From   int32 // source GPU
	Bytes  float64
	Time   Time // least duration; for a captured copy, the measured one
	Free   bool // uses no engine, link or memory: a captured copy
	Update bool // as in Phase
	Named  bool // the simulated run shows both GPUs behind the name
	Attr   trace.CopyAttr
}

// Label is the copy's name in the simulated run.
func (c *Copy) Label() string {
	if c.Named {
		return fmt.Sprintf("%s %d→%d", c.Name, c.From, c.Peer)
	}
	return c.Name
}

// A Cause is why a stream was idle. A saturated link is not a cause: it slows workgroups
// and copies (Slots.Slowed, Segment.Bound), and their stream is busy.
type Cause uint8

// The causes of idle time.
const (
	unexplained Cause = iota
	FlagWait          // a flag had not reached its count
	NoSlot            // every suitable slot was taken
	LaunchGap         // gap between two commands of a stream
	HostIssue         // the host had not issued the command yet
	PeerSkew          // another rank arrived later
	Unseen            // a rank that nobody captured arrived later
	Tail              // other workgroups of the kernel still run, this slot has none left
	NoWork            // no kernel or command left
	numCauses
)

var causeNames = [numCauses]string{
	"unexplained", "flag", "no slot", "launch", "host", "peer skew", "unseen rank", "tail", "no work",
}

func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return causeNames[0]
}

// MaxTime bounds simulated time: 36 years. Sums of two such times do not overflow.
const MaxTime Time = 1 << 60

// Label is the name of a command for messages.
func (c *Command) Label() string {
	switch {
	case c.Name != "":
		return c.Name
	case c.Kernel != nil:
		return c.Kernel.Name
	case c.Copy != nil:
		return c.Copy.Label()
	}
	if c.Op <= Delay {
		return [...]string{"launch", "start", "wait", "post", "delay"}[c.Op]
	}
	return ""
}

// CUResources are free resources of a CU, or those that a workgroup takes.
type CUResources = machine.CUResources

// Need is the CU resources that one workgroup takes.
func (f Footprint) Need(g *machine.GPU) CUResources {
	if f.Exclusive {
		return g.CUResources()
	}
	return g.Need(f.Threads, f.Registers, f.Shared)
}

// Residents is the number of workgroups of the footprint that fit on one CU.
func (f Footprint) Residents(g *machine.GPU) int {
	if f.Exclusive {
		return 1
	}
	return g.Residents(f.Threads, f.Registers, f.Shared)
}
