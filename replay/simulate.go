// Package replay runs programs of GPU work on a modelled machine.
//
// Simulate is pure: the same machine, program and options give the same result,
// byte for byte. Its rules are in MODEL.md. Files in the order in which one instant uses
// them:
//
//	collect.go      the queue of timers, and what is due now: phases, copies and puts that end, posts that arrive
//	stream.go       commands of streams, and their kernels; copy.go starts copies
//	dispatch.go     placement of workgroups; cluster.go places clusters
//	workgroup.go    phases of workgroups; script.go calls their recipes; batch.go steps many as one
//	put.go          transfers and flags that leave a workgroup
//	rate.go         rates of all flows (package fluid), on the paths of fabric.go;
//	                interference.go changes what they may use
//	observe.go      what all of them tell their observers: record.go, the simulated run;
//	                cause.go, limits.go, ledger.go, vacant.go, which explain it
//	deadlock.go     explains a run that cannot continue
package replay

import (
	"errors"
	"fmt"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// none is the index that stands for no value.
const none = -1

// An alarm is the time at which its owner is due, or none.
type alarm = program.Time

// Simulate runs the program on the machine. It returns a *DeadlockError if the program
// cannot finish, ErrStopped if Options.Stop ends it, and otherwise an error that
// names the GPU, stream and command at fault.
//
// A machine quantity of 0 is not modelled: memory of bandwidth 0 imposes no limit, and a
// CU with 0 registers has enough of them.
//
// Time is in integer nanoseconds and advances from instant to instant:
//
//		 timers ─▶ 1 advance ──▶ 2 collect ──▶ 3 drain ◀─────▶ 4 dispatch
//		   ▲                                     │ flags, steps   slots
//		   └──────────── timers ◀── 5 settle ◀───┘
//		                              rates
//
//	 1. Advance to the earliest timer: a gap's end, a flag's arrival, or the
//	    next completion of a class of flows.
//	 2. Collect everything due now and sort it: flags before puts before
//	    streams before workgroups, and each kind by rank, stream, launch and
//	    index. Recording does not change this order.
//	 3. Drain: step each actor until it has to wait. Actors that a flag releases
//	    are appended, in order of count, then of waiting.
//	 4. Dispatch workgroups to slots freed in this instant, and workgroups of
//	    kernels that became ready in it; drain those. Repeat until nothing changes.
//	 5. Settle: solve the rates of the flows that changed, once per instant,
//	    and set the timers of their completions.
func Simulate(m machine.Machine, p *program.Program, o Options) (*Result, error) {
	err := program.Check(&m, p)
	if err != nil && p.Equal != nil {
		return nil, ErrShared
	}
	if err != nil {
		return nil, err
	}
	s := newSim(&m, p, o)
	if err := s.tooMany(o.MostWGs); err != nil {
		return nil, err
	}
	s.run(o)
	if s.err == nil {
		s.err = s.deadlock()
	}
	if s.err != nil && s.fold != nil && !errors.Is(s.err, ErrStopped) { // the error names GPUs
		if p.Equal != nil {
			return nil, ErrShared
		}
		o.Unfolded = true
		return Simulate(m, p, o)
	}
	if s.err != nil && !errors.Is(s.err, errTooMany) {
		return nil, s.err
	}
	if s.err == nil {
		if r := s.result(); !s.record.full {
			return r, nil
		}
	}
	if o.Level--; o.Level == Kernels {
		o.Most = 0
	}
	r, err := Simulate(m, p, o)
	if r != nil {
		r.Coarse = true
	}
	return r, err
}

// tooMany returns a *TooManyError if more workgroups than a bound would be simulated.
func (s *sim) tooMany(most int) error {
	n := 0
	for i := range s.streams {
		for _, c := range s.streams[i].Commands {
			if c.Op == program.Launch {
				n += c.Kernel.WGs
			}
		}
	}
	if most == 0 || n <= most {
		return nil
	}
	e := &TooManyError{WGs: n, Most: most, Folded: s.folded()}
	for _, g := range s.program.GPUs {
		e.GPUs += min(1, len(g.Streams))
	}
	e.GPUs = max(e.GPUs, e.Folded.GPUs)
	return e
}

// ErrShared is the error of a program of which only some GPUs are written (Share) and that cannot finish:
// the whole program says why.
var ErrShared = errors.New("a program of equal GPUs cannot finish")

// errTooMany ends a simulation that records more than Options.Most spans.
var errTooMany = errors.New("too many spans")

// stopEvery is the number of instants between two calls of Options.Stop and Progress.
const stopEvery = 256

// run simulates instant by instant until no timer is left (rule Z2).
func (s *sim) run(o Options) {
	s.instant()
	for n := 1; s.next(); n++ {
		s.instant()
		if n%stopEvery == 0 && o.Stop != nil && o.Stop() {
			s.fail(ErrStopped)
		}
		if n%stopEvery == 0 && o.Progress != nil {
			o.Progress(o.Name, s.share())
		}
		if s.record.tooMany() {
			s.fail(errTooMany)
		}
	}
}

// share is the share of the streams' commands that are done.
func (s *sim) share() float64 {
	done, all := 0, 1
	for i := range s.streams {
		done, all = done+s.streams[i].next, all+len(s.streams[i].Commands)
	}
	return float64(done) / float64(all)
}

// An actor is an entity that is due or waits: its kind and its index.
type actor struct {
	kind actorKind
	id   int32
}

type actorKind uint8

// The kinds, in the order in which they act within one instant (rule Z2).
const (
	duePost actorKind = iota
	duePut            // the first put of a channel may be sent, or has arrived
	dueStream
	dueWorkgroup
	dueFlow  // a timer of the flows; stands for the flows that end
	dueBatch // acts as its first workgroup
)

// number encodes the actor for timers and flows.
func (a actor) number() int64 { return int64(a.kind)<<32 | int64(uint32(a.id)) }

func actorOf(number int64) actor { return actor{actorKind(number >> 32), int32(number)} }

// A sim is the state of one simulation.
type sim struct {
	machine *machine.Machine
	program *program.Program
	fold    *fold // nil: every GPU runs
	now     program.Time
	events  *timerQueue
	flows   flows
	gpus    []gpu
	groups  groups   // of CUs, on every GPU
	streams []stream // of all GPUs, by rank
	signals
	kernels arena[launch]
	wgs     arena[workgroup]
	batches arena[batch]
	kept    [][]program.Phase // by workgroup, for workgroups that keep their phases
	script  script
	present

	launches int32 // number so far
	makespan program.Time
	observers
	err error
}

// observers record what happens; they change nothing of it.
type observers struct {
	ledger ledger
	record recorder
	causes *causes // nil: not recorded
	meter  *meter  // nil: not recorded
}

// signals are the flags, and what is under way to them.
type signals struct {
	flags   []flag
	posts   arena[post]
	puts    [][]channel    // by source and destination; nil for pairs without puts
	nics    []program.Time // when each NIC can take its next message
	flagged []program.Time // by GPU: earliest time of its next flag to a peer
}

// present is the state of one instant.
type present struct {
	queue        []actor // actors of this instant, in order
	head         int     // index of the next one in queue
	due          []int64 // numbers of actors whose timers are due; some may be outdated
	ends         []int64 // numbers of actors whose flows have ended
	keys         []dueKey
	dirty        []int32 // GPUs with workgroups to dispatch
	entry        []actor // flows that begin in this instant
	pipesChanged []cuRef // CUs whose load changed in this instant
	interfered   []int32 // GPUs on which work began or ended in this instant
}

func newSim(m *machine.Machine, p *program.Program, o Options) *sim {
	s := &sim{machine: m, program: p, events: &timerQueue{}}
	s.newFlows()
	s.flags = make([]flag, p.Flags.Len())
	for i := range s.flags {
		s.flags[i].coming = none
	}
	s.puts = make([][]channel, len(p.GPUs))
	s.nics = make([]program.Time, s.flows.nics)
	s.flagged = make([]program.Time, len(p.GPUs))
	s.ledger = ledger{gpus: len(p.GPUs), index: map[string]int32{}}
	s.record = newRecorder(m, p, o)
	s.record.whose = s.postedBy
	if o.Causes {
		s.causes = &causes{now: none, last: none}
	}
	s.groups = newGroups(&m.GPU)
	s.gpus = make([]gpu, len(p.GPUs))
	s.fold = s.findFold(o)
	s.flows.fold = s.fold
	for g := range p.GPUs {
		if !s.fold.runs(g) {
			continue
		}
		s.gpus[g] = newGPU(m)
		for i := range p.GPUs[g].Streams {
			id := int32(len(s.streams))
			s.streams = append(s.streams, stream{
				Stream: &p.GPUs[g].Streams[i], gpu: int32(g), index: int32(i), launch: none, engine: none, span: none, moves: none,
				Member: fluid.NewMember(), causeEvent: none, alarm: none,
			})
			s.queue = append(s.queue, actor{dueStream, id})
		}
	}
	s.meter = s.newMeter(o)
	return s
}

// instant processes the queue and everything that follows from it at this time.
func (s *sim) instant() {
	s.drain()
	for s.err == nil && s.dispatch() {
		s.drain()
	}
	if s.err == nil {
		s.settle()
	}
}

// next advances to the next instant. It returns false after the last one and on an error.
func (s *sim) next() bool {
	for s.err == nil {
		at, ok := s.events.advance()
		now := program.Time(at)
		if !ok {
			return false
		}
		s.collect(now)
		switch due := len(s.queue) > 0 || !s.flows.Calm(); {
		case due && now >= program.MaxTime:
			s.fail(fmt.Errorf("replay: time runs beyond %d ns", program.MaxTime))
		case due:
			return true
		}
	}
	return false
}

func (s *sim) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// drain steps every actor in the queue until it has to wait.
func (s *sim) drain() {
	for s.head < len(s.queue) && s.err == nil {
		who := s.queue[s.head]
		s.head++
		switch who.kind {
		case duePost:
			s.arrive(who.id)
		case duePut:
			s.stepPut(who.id)
		case dueStream:
			s.stepStream(who.id)
		case dueWorkgroup:
			s.stepWorkgroup(who.id)
		case dueBatch:
			s.stepBatch(who.id)
		}
	}
}

// An arena allocates indices of values and reuses freed ones.
type arena[T any] struct {
	all  []T
	free []int32
}

func (a *arena[T]) at(id int32) *T { return &a.all[id] }

// add returns the index of a value. A reused value is not cleared.
func (a *arena[T]) add() int32 {
	if n := len(a.free); n > 0 {
		id := a.free[n-1]
		a.free = a.free[:n-1]
		return id
	}
	a.all = append(fluid.Reserve(a.all, 1), *new(T))
	return int32(len(a.all) - 1)
}

func (a *arena[T]) drop(id int32) { a.free = append(a.free, id) }
