package replay

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// Causes
//
// Whatever happens at an instant happens because something else came to its
// end then: a workgroup's phase because the one before it ended, a wait because
// of the post that brought its flag to the count, a workgroup's start because of
// the launch or of who left the slot, a kernel's end because of its last
// workgroup. If asked to, the simulator keeps those times, each with the one
// that brought it about:
//
//	GPU 0  A |--work--|-store-|                     end
//	                          '-flight-.             |
//	GPU 1  B |--work--|  wait           |--work------|
//
// Followed backwards from the end of what ended last they are the critical
// path: a chain without gap from time 0 to the makespan (rule Z6).

// A Step is what passed between two times of a critical path.
type Step uint8

// The steps. Woken, Placed and Served take no time: they say whose end let
// the next step begin.
const (
	Working   Step = iota // a workgroup's Work
	Storing               // a workgroup's Store
	Sleeping              // a workgroup's Sleep
	Flying                // a post on its way to who sees it
	Queueing              // a put until a copy engine is free for it, or the NIC takes its message
	Sending               // the bytes of a put
	Launching             // the gap before a kernel or copy
	Delaying              // a stream's Delay
	Starting              // a copy before its first byte
	Copying               // a copy's bytes, or the time of one that moves none
	Woken                 // a flag reached its count
	Placed                // a workgroup took the slot that another kernel's, or a persistent one, had left
	Served                // a copy took the engine that another's had left
	numSteps
)

var stepNames = [numSteps]string{
	"work", "store", "latency", "flag on its way", "put in line", "put", "launch", "delay", "copy start", "copy", "flag", "slot", "engine",
}

func (s Step) String() string {
	if s < numSteps {
		return stepNames[s]
	}
	return "unknown"
}

// A Bound is what makes a phase take longer than alone.
type Bound uint8

// The bounds.
const (
	Unbound   Bound = iota
	ByMemory        // the memory's bandwidth, of this GPU or the peer
	ByEgress        // what leaves a GPU
	ByIngress       // what enters one
	ByLink          // a link between two, or between nodes
	ByNIC           // what leaves or enters a NIC
	ByCache         // the last-level cache
	ByPipes         // other workgroups on the same CU
	ByLoad          // work of other kernels alongside it (Phase.Beside)
	numBounds
)

var boundNames = [numBounds]string{"nothing", "memory", "egress", "ingress", "link", "NIC", "cache", "shared CUs", "work alongside it"}

func (b Bound) String() string {
	if b < numBounds {
		return boundNames[b]
	}
	return "unknown"
}

// A Segment is one step of the critical path, on the kernel, copy or stream of
// a rank. Segments follow each other: each starts where the one before it ends.
type Segment struct {
	Start, End program.Time
	Step       Step
	Rank       int
	Stream     int
	Command    int // of the stream
	Kind       CommandKind
	Name       string        // of the kernel, copy or command
	Peer       int           // Storing, Sending, Starting, Copying: where the bytes go; else -1
	Alone      program.Time  // Working, Storing: of the time, what it takes alone
	Bound      Bound         // what the rest was lost to
	Flag       program.Flag  // Woken, Flying: which
	Waited     program.Time  // Woken, Placed: for how long, by now
	Cause      program.Cause // Delaying: what the command says that the time is lost to
}

// A CommandKind is what kind of command a segment belongs to.
type CommandKind uint8

// The kinds.
const (
	OfStream CommandKind = iota
	OfCompute
	OfCollective
	OfCopy
)

// A causeEvent is when something ended.
type causeEvent struct {
	at      program.Time
	alone   program.Time // of a phase; of a wake, how long it had been waited for
	before  int32        // the time that brought it about, or none: the program's start
	command int32
	arg     int32 // peer, flag or cause
	step    Step
	bound   Bound
}

// A commandRef is a command of which times are kept.
type commandRef struct{ stream, command int32 }

// causes keeps times. A nil one keeps none.
type causes struct {
	chunks      [][]causeEvent // of chunkSize times each, so that none is copied as they grow
	count       int32
	commandRefs []commandRef
	wgs         []int32 // by workgroup: the time why it is where it is
	now         int32   // the time of what is being stepped
	last        int32   // of what ended last
}

func newCauses(o Options) *causes {
	if !o.Causes {
		return nil
	}
	return &causes{now: none, last: none}
}

// chunkSize is how many times are allocated at once: half a megabyte.
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

// note keeps why a workgroup is where it is.
func (c *causes) note(wg, moment int32) {
	if n := int(wg) + 1 - len(c.wgs); n > 0 {
		c.wgs = append(c.wgs, make([]int32, n)...)
	}
	c.wgs[wg] = moment
}

// at is when a time was.
func (c *causes) at(id int32) program.Time {
	if id == none {
		return 0
	}
	return c.event(id).at
}

// commandRef is the command that a stream has come to.
func (c *causes) commandRef(stream int32, st *stream) int32 {
	c.commandRefs = append(c.commandRefs, commandRef{stream, int32(st.next)})
	return int32(len(c.commandRefs) - 1)
}

// phaseEnded adds the end of the phase that the workgroup is in.
func (s *sim) phaseEnded(id int32, w *workgroup, l *launch) {
	c, p := s.causes, s.current(id)
	m := causeEvent{at: s.now, before: c.wgs[id], command: l.commandRef, alone: min(s.now-w.since, w.alone)}
	switch w.op {
	case program.WaitFor:
		m.step, m.arg, m.alone = Woken, int32(p.Flag), s.now-w.since
	case program.Sleep:
		m.step = Sleeping
	case program.Store:
		m.step, m.arg = Storing, max(none, p.Peer)
	default:
		m.step = Working
	}
	if w.op != program.WaitFor && w.op != program.Sleep && s.now-w.since > m.alone+1 { // one is rounding
		m.bound = s.boundOf(w)
	}
	c.note(id, c.add(m))
}

// boundOf is what held the workgroup's phase back until this instant.
func (s *sim) boundOf(w *workgroup) Bound {
	if w.Class == none {
		return Unbound
	}
	if path := s.flows.PathOf(w.Class); path != none {
		if id := s.flows.FullResource(path); id != none {
			return s.flows.boundBy(id)
		}
	}
	if w.cu != none && s.gpus[s.kernels.at(w.launch).gpu].pipes[w.cu].slow > 1 {
		return ByPipes
	}
	if !w.lone && w.coRun > 1 {
		return ByLoad
	}
	return ByPipes
}

// boundBy is the bound that a resource is.
func (f *fabric) boundBy(resource int32) Bound {
	switch cards := f.homes[0].card; {
	case int(resource) < resourcesPerGPU*len(f.homes):
		return [...]Bound{Memory: ByMemory, Egress: ByEgress, Ingress: ByIngress}[resource%resourcesPerGPU]
	case f.nics > 0 && resource >= cards && resource < cards+int32(resourcesPerNIC*f.nics):
		return ByNIC
	case f.sides != none && resource >= f.sides:
		return ByMemory
	case f.caches != none && resource >= f.caches:
		return ByCache
	}
	return ByLink
}

// placed is the time at which a workgroup of the launch starts on a CU: that
// of the launch, or that at which another left the slot.
func (s *sim) placed(l *launch, cu int32) int32 {
	c := s.causes
	if cu == none || c.at(l.causeEvent) == s.now {
		return l.causeEvent
	}
	left := s.gpus[l.gpu].cus[cu].left
	if c.event(left).command == l.commandRef && l.kernel.Tiles == 0 {
		return left
	}
	return c.add(causeEvent{at: s.now, before: left, command: l.commandRef, alone: s.now - l.ready, step: Placed})
}

// launched is the time of a launch.
func (c *causes) launched(l *launch, st *stream) {
	l.commandRef = c.commandRef(l.stream, st)
	if c.now == none { // what workgroups begin with is known to be their kernel's
		c.now = c.add(causeEvent{before: none, command: l.commandRef, step: Launching})
	}
	l.causeEvent = c.now
}

// passed adds what a stream spent its time with since its last time.
func (s *sim) passed(id int32, st *stream, step Step, arg int32) {
	if s.causes == nil || s.causes.at(st.causeEvent) == s.now {
		return
	}
	st.causeEvent = s.causes.add(causeEvent{at: s.now, before: st.causeEvent, command: s.causes.commandRef(id, st), arg: arg, step: step})
	s.causes.now = st.causeEvent
}

// resumed adds that a stream was let go on by another's time.
func (s *sim) resumed(id int32, st *stream, step Step) {
	if s.causes == nil || step == Served && st.since == s.now {
		return
	}
	st.causeEvent = s.causes.add(causeEvent{
		at: s.now, before: st.causeEvent, command: s.causes.commandRef(id, st), arg: int32(st.Commands[st.next].Flag), alone: s.now - st.since, step: step,
	})
	s.causes.now = st.causeEvent
}

// arrived adds the end of what a post or put spent on its way, unless that is
// nothing and went on from the same command.
func (c *causes) arrived(now program.Time, before, party, arg int32, step Step) {
	c.now = before
	if c.at(before) == now && (before == none || c.event(before).command == party) {
		return
	}
	c.now = c.add(causeEvent{at: now, before: before, command: party, arg: arg, step: step})
}

// released notes that what is being stepped is why the actor goes on.
func (s *sim) released(who actor) {
	if who.kind == dueStream {
		s.streams[who.id].causeEvent = s.causes.now
	} else {
		s.causes.note(who.id, s.causes.now)
	}
}

// ended notes the end of a kernel, copy or put.
func (s *sim) ended() {
	s.makespan = max(s.makespan, s.now)
	if s.causes != nil {
		s.causes.last = s.causes.now
	}
}

// path is the chain of segments that ends with what ended last.
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
func kind(c *program.Command) CommandKind {
	switch {
	case c.Copy != nil:
		return OfCopy
	case c.Kernel == nil:
		return OfStream
	case c.Kernel.Kind == trace.Collective:
		return OfCollective
	}
	return OfCompute
}
