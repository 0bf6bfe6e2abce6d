package replay

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// Causes
//
// Everything that starts at an instant starts because something else ended then: a
// workgroup's phase because the previous one ended, a wait because of the post that
// completed its count, a workgroup because of its launch or because another workgroup left
// the slot, a kernel's end because of its last workgroup. If Options.Causes is set, the
// simulator records these ends, each with its predecessor:
//
//	GPU 0  A |--work--|-store-|                     end
//	                          '-flight-.             |
//	GPU 1  B |--work--|  wait           |--work------|
//
// The chain of predecessors of the last end is the critical path. It covers time 0 to the
// makespan without gaps.

// A step is the kind of activity between two events of a critical path.
type step uint8

// The steps. Woken, Placed and Served take no time: they name the event that allowed the
// next step to begin.
const (
	Working   step = iota // Work of a workgroup
	Storing               // Store of a workgroup
	Sleeping              // Sleep of a workgroup
	Flying                // latency of a post
	Queueing              // wait of a put for a copy engine or for the NIC's message rate
	Sending               // transfer of a put's bytes
	Launching             // gap before a kernel or copy
	Delaying              // Delay of a stream
	Starting              // latency of a copy before its first byte
	Copying               // transfer of a copy's bytes, or the duration of one that moves none
	Woken                 // a flag reached its count
	Placed                // a workgroup got a slot that another kernel or a persistent workgroup left
	Served                // a copy got an engine that another copy left
	numSteps
)

var stepNames = [numSteps]string{
	"work", "store", "latency", "flag on its way", "put in line", "put", "launch", "delay", "copy start", "copy", "flag", "slot", "engine",
}

func (s step) String() string {
	if s < numSteps {
		return stepNames[s]
	}
	return "unknown"
}

// A bound is the resource that makes a phase take longer than alone.
type bound uint8

// The bounds.
const (
	Unbound   bound = iota
	byMemory        // memory bandwidth of this GPU or of the peer
	byEgress        // bandwidth out of a GPU
	byIngress       // bandwidth into a GPU
	byLink          // a link between GPUs or between nodes
	byNIC           // a NIC, in or out
	byCache         // the last-level cache
	byPipes         // other workgroups on the same CU
	byLoad          // co-run slowdown (Phase.Slowdown)
	numBounds
)

var boundNames = [numBounds]string{"nothing", "memory", "egress", "ingress", "link", "NIC", "cache", "shared CUs", "work alongside it"}

func (b bound) String() string {
	if b < numBounds {
		return boundNames[b]
	}
	return "unknown"
}

// A Segment is one step of the critical path on a kernel, copy or stream of a rank. Each
// segment starts where the previous one ends.
type Segment struct {
	Start, End program.Time
	Step       step
	Rank       int
	Stream     int
	Command    int // index in the stream
	Kind       commandKind
	Name       string        // of the kernel, copy or command
	Peer       int           // Storing, Sending, Starting, Copying: destination GPU; else -1
	Alone      program.Time  // Working, Storing: duration without contention
	Bound      bound         // the limit that caused the rest of the duration
	Flag       program.Flag  // Woken, Flying: the flag
	Waited     program.Time  // Woken, Placed: length of the wait that ended
	Cause      program.Cause // Delaying: cause given by the command
}

// A commandKind is the kind of command that a segment belongs to.
type commandKind uint8

// The kinds.
const (
	ofStream commandKind = iota
	ofCompute
	OfCollective
	ofCopy
)

// A causeEvent is the end of an activity.
type causeEvent struct {
	at      program.Time
	alone   program.Time // duration of a phase without contention; for Woken, length of the wait
	before  int32        // predecessor event, or none: the program's start
	command int32
	arg     int32 // peer, flag or cause
	step    step
	bound   bound
}

// A commandRef identifies a command of a stream.
type commandRef struct{ stream, command int32 }

// causes records events. A nil *causes records none.
type causes struct {
	chunks      [][]causeEvent // of chunkSize events each, so that growing copies none
	count       int32
	commandRefs []commandRef
	wgs         []int32 // by workgroup: event that put it in its current state
	now         int32   // event of the actor that is being stepped
	last        int32   // event of the last end
}

// chunkSize is the number of events allocated at once: half a megabyte.
const chunkSize = 1 << 14

func (c *causes) event(id int32) *causeEvent { return &c.chunks[id/chunkSize][id%chunkSize] }

func (c *causes) add(m causeEvent) int32 {
	at := c.count % chunkSize
	if at == 0 {
		c.chunks = append(c.chunks, make([]causeEvent, chunkSize))
	}
	c.chunks[len(c.chunks)-1][at] = m
	c.count++
	return c.count - 1
}

// note records the event that put a workgroup in its current state.
func (c *causes) note(wg, moment int32) {
	if n := int(wg) + 1 - len(c.wgs); n > 0 {
		c.wgs = append(c.wgs, make([]int32, n)...)
	}
	c.wgs[wg] = moment
}

// follow makes an event the predecessor of what the actor that is stepped does.
func (c *causes) follow(event int32) {
	if c != nil {
		c.now = event
	}
}

func (c *causes) followWG(wg int32) {
	if c != nil {
		c.now = c.wgs[wg]
	}
}

// current is the event of the actor that is stepped, if causes are recorded.
func (c *causes) current() int32 {
	if c == nil {
		return 0
	}
	return c.now
}

// at is the time of an event.
func (c *causes) at(id int32) program.Time {
	if id == none {
		return 0
	}
	return c.event(id).at
}

// commandRef is the current command of a stream.
func (c *causes) commandRef(stream int32, st *stream) int32 {
	c.commandRefs = append(c.commandRefs, commandRef{stream, int32(st.next)})
	return int32(len(c.commandRefs) - 1)
}

// boundOf is what limited the workgroup's phase until this instant.
func (s *sim) boundOf(w *workgroup) bound {
	if w.Class == none {
		return Unbound
	}
	if path := s.flows.PathOf(w.Class); path != none {
		if id := s.flows.FullResource(path); id != none {
			return s.flows.boundBy(id)
		}
	}
	if w.cu != none && s.gpus[s.kernels.at(w.launch).gpu].pipes[w.cu].slow > 1 {
		return byPipes
	}
	if !w.lone && w.coRun > 1 {
		return byLoad
	}
	return byPipes
}

// boundBy is the bound of a resource.
func (f *fabric) boundBy(resource int32) bound {
	switch cards := f.homes[0].card; {
	case int(resource) < resourcesPerGPU*len(f.homes):
		return [...]bound{Memory: byMemory, Egress: byEgress, ingress: byIngress}[resource%resourcesPerGPU]
	case f.nics > 0 && resource >= cards && resource < cards+int32(resourcesPerNIC*f.nics):
		return byNIC
	case f.sides != none && resource >= f.sides:
		return byMemory
	case f.caches != none && resource >= f.caches:
		return byCache
	}
	return byLink
}

// launched adds the event of a launch and returns it.
func (c *causes) launched(l *launch, st *stream) int32 {
	if c == nil {
		return none
	}
	l.commandRef = c.commandRef(l.stream, st)
	if c.now == none { // workgroups that start at once belong to this kernel
		c.now = c.add(causeEvent{before: none, command: l.commandRef, step: Launching})
	}
	l.causeEvent = c.now
	return c.now
}

// arrived adds the end of a post's or put's transfer, unless it took no time within the
// same command.
func (c *causes) arrived(now program.Time, before, party, arg int32, step step) {
	if c == nil {
		return
	}
	c.now = before
	if c.at(before) == now && (before == none || c.event(before).command == party) {
		return
	}
	c.now = c.add(causeEvent{at: now, before: before, command: party, arg: arg, step: step})
}

// landed adds the end of a post's flight.
func (c *causes) landed(now program.Time, p *post) {
	if c != nil {
		c.arrived(now, p.moment, c.event(p.moment).command, int32(p.flag), Flying)
	}
}

// path is the chain of segments that ends with the last event.
func (s *sim) path() []Segment {
	if s.causes == nil {
		return nil
	}
	n := 0
	for id := s.causes.last; id != none; id = s.causes.event(id).before {
		n++
	}
	path := make([]Segment, n)
	for id := s.causes.last; id != none; id = s.causes.event(id).before {
		n--
		path[n] = s.segment(s.causes.event(id))
	}
	return path
}

func (s *sim) segment(m *causeEvent) Segment {
	by := s.causes.commandRefs[m.command]
	st := &s.streams[by.stream]
	of := &st.Commands[by.command]
	g := Segment{
		Start: s.causes.at(m.before), End: m.at, Step: m.step, Bound: m.bound,
		Rank: int(st.gpu), Stream: int(st.index), Command: int(by.command), Kind: kind(of), Name: of.Label(), Peer: none,
	}
	switch m.step {
	case Working, Sleeping:
		g.Alone = m.alone
	case Storing:
		g.Alone, g.Peer = m.alone, int(m.arg)
	case Sending, Starting, Copying:
		g.Peer = int(m.arg)
	case Flying:
		g.Flag = program.Flag(m.arg)
	case Woken:
		g.Flag, g.Waited = program.Flag(m.arg), m.alone
	case Placed, Served:
		g.Waited = m.alone
	case Delaying:
		g.Cause = program.Cause(m.arg)
	}
	return g
}

// kind is what kind of work the command is.
func kind(c *program.Command) commandKind {
	switch {
	case c.Copy != nil:
		return ofCopy
	case c.Kernel == nil:
		return ofStream
	case c.Kernel.Kind == trace.Collective:
		return OfCollective
	}
	return ofCompute
}
