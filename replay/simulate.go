// Package replay runs programs of GPU work on a modelled machine.
//
// Simulate is pure: the same machine, program and options give the same result,
// byte for byte. Its rules are in MODEL.md. An instant of the simulation:
//
//	collect.go      what is due now: phases, copies and puts that end, posts that arrive
//	stream.go       commands of streams; launch.go, copy.go begin them
//	dispatch.go     workgroups take slots; cluster.go those that start together
//	workgroup.go    phases of workgroups; script.go asks recipes for them
//	put.go, flag.go transfers and flags that leave a workgroup
//	rate.go         rates of all flows (package fluid), on the paths of fabric.go;
//	                interference.go, arbiter.go change what they may use
//	record.go       the simulated run; cause.go, limits.go, ledger.go, vacant.go what
//	                explains it; deadlock.go why it stands still
package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/event"
	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// none is the absent value of indices.
const none = -1

// An alarm is when its owner is due, or none.
type alarm = program.Time

// Simulate runs the program on the machine. Its error is about the program or
// machine, naming GPU, stream and command, or a *DeadlockError.
//
// A quantity of the machine that is 0 is not modelled: memory of bandwidth 0
// holds nothing back, and a CU with 0 registers has enough of them.
//
// Time goes from instant to instant, integer nanoseconds apart:
//
//		 timers ─▶ 1 advance ──▶ 2 collect ──▶ 3 drain ◀─────▶ 4 dispatch
//		   ▲                                     │ flags, steps   slots
//		   └──────────── timers ◀── 5 settle ◀───┘
//		                              rates
//
//	 1. Advance to the earliest timer: a gap's end, a flag's arrival, or the
//	    next completion of a class of flows.
//	 2. Collect everything due now and put it in order: flags before puts before
//	    streams before workgroups, and of each kind by rank, stream, launch and
//	    index. How the work was grouped or recorded decides nothing.
//	 3. Drain: step each to where it has to wait. What a flag releases is
//	    appended, in order of count, then of waiting.
//	 4. Dispatch workgroups to slots freed in this instant, and of kernels ready
//	    in it; drain those. Repeat until nothing moves.
//	 5. Settle: find the rates of the flows that changed, once for the instant,
//	    and set the timers of their completions.
func Simulate(m machine.Machine, p *program.Program, o Options) (*Result, error) {
	if err := program.Check(&m, p); err != nil {
		return nil, err
	}
	s := newSim(&m, p, o)
	s.run(o.Stop)
	if s.err == nil {
		s.err = s.deadlock()
	}
	if s.err != nil && !errors.Is(s.err, errTooMany) {
		return nil, s.err
	}
	if s.err == nil {
		if r := s.result(); !s.record.full {
			return r, nil
		}
	}
	o.Level, o.Most = Kernels, 0
	r, err := Simulate(m, p, o)
	if r != nil {
		r.Coarse = true
	}
	return r, err
}

// errTooMany ends a simulation that records more than Options.Most spans.
var errTooMany = errors.New("too many spans")

// stopEvery is how many instants pass between two questions whether to stop.
const stopEvery = 256

// run goes from instant to instant to the end (rule Z3).
func (s *sim) run(stop func() bool) {
	s.instant()
	for n := 1; s.next(); n++ {
		s.instant()
		if n%stopEvery == 0 && stop != nil && stop() {
			s.fail(ErrStopped)
		}
		if s.record.tooMany() {
			s.fail(errTooMany)
		}
	}
}

// An actor is something that is due or waits: an index and what it indexes.
type actor struct {
	kind actorKind
	id   int32
}

type actorKind uint8

// The kinds, in the order in which they act at one instant (rule Z2).
const (
	duePost actorKind = iota
	duePut            // the first put of a channel may be sent, or has arrived
	dueStream
	dueWorkgroup
	dueFlow // a timer of the flows: stands for those that are done
)

// number is the actor as timers and flows know it.
func (a actor) number() int64 { return int64(a.kind)<<32 | int64(uint32(a.id)) }

func actorOf(number int64) actor { return actor{actorKind(number >> 32), int32(number)} }

// A sim is one simulation under way.
type sim struct {
	machine *machine.Machine
	program *program.Program
	now     program.Time
	events  *event.Queue
	flows   flows
	gpus    []gpu
	groups  groups   // of CUs, on every GPU
	streams []stream // of all GPUs, by rank
	flags   []flag
	posts   arena[post]
	puts    [][]channel    // by source and destination; nil where there are none
	nics    []program.Time // when each takes its next message
	flagged []program.Time // by GPU: when it sends its next flag to a peer
	kernels arena[launch]
	wgs     arena[workgroup]
	kept    [][]program.Phase // by workgroup, of those that keep them
	script  script

	queue        []actor // of this instant, in order
	head         int     // of queue: what is next
	due          []int64 // numbers of those whose timers are due, overtaken or not
	ends         []int64 // and of those whose flows are done
	keys         []dueKey
	spare        []dueKey
	dirty        []int32 // GPUs with something to dispatch
	entry        []actor // flows that begin in this instant
	pipesChanged []cuRef // CUs whose load changed in this instant
	interfered   []int32 // GPUs on which work began or ended in this instant

	launches int32 // so far
	makespan program.Time
	ledger   ledger
	record   recorder
	causes   *causes // nil: not kept
	limits   *limits // nil: not gathered
	err      error
}

func newSim(m *machine.Machine, p *program.Program, o Options) *sim {
	s := &sim{machine: m, program: p, events: &event.Queue{}}
	s.newFlows()
	s.flags = make([]flag, max(1, len(p.Flags)))
	for i := range s.flags {
		s.flags[i].coming = none
	}
	s.puts = make([][]channel, len(p.GPUs))
	s.nics = make([]program.Time, s.flows.nics)
	s.flagged = make([]program.Time, len(p.GPUs))
	s.ledger = newLedger(len(p.GPUs))
	s.record = newRecorder(m, p, o)
	s.record.whose = s.postedBy
	s.causes = newCauses(o)
	s.groups = newGroups(&m.GPU)
	s.gpus = make([]gpu, len(p.GPUs))
	for g := range p.GPUs {
		s.gpus[g] = newGPU(m, p)
		for i := range p.GPUs[g].Streams {
			id := int32(len(s.streams))
			s.streams = append(s.streams, stream{
				Stream: &p.GPUs[g].Streams[i], gpu: int32(g), index: int32(i), launch: none, engine: none, span: none, moves: none,
				Member: fluid.NewMember(), causeEvent: none, alarm: none,
			})
			s.queue = append(s.queue, actor{dueStream, id})
		}
	}
	s.limits = newLimits(s, o)
	return s
}

// instant does what is in the queue, and all that follows from it at this time.
func (s *sim) instant() {
	s.drain()
	for s.err == nil && s.dispatch() {
		s.drain()
	}
	if s.err == nil {
		s.settle()
	}
}

// next moves to the next instant; false after the last, or on an error.
func (s *sim) next() bool {
	for s.err == nil {
		at, ok := s.events.Advance()
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

// drain steps everything in the queue to where it has to wait.
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
		}
	}
}

// An arena hands out indices of values and takes them back.
type arena[T any] struct {
	all  []T
	free []int32
}

func (a *arena[T]) at(id int32) *T { return &a.all[id] }

// add returns an index whose value is as its last user left it.
func (a *arena[T]) add() int32 {
	if n := len(a.free); n > 0 {
		id := a.free[n-1]
		a.free = a.free[:n-1]
		return id
	}
	a.all = append(reserve(a.all, 1), *new(T))
	return int32(len(a.all) - 1)
}

func (a *arena[T]) drop(id int32) { a.free = append(a.free, id) }

// reserve returns the slice with room for n more, and if there was none for
// three times as many as there are: large values are moved less often than
// append would, and leave less behind.
func reserve[T any](s []T, n int) []T {
	if len(s)+n > cap(s) {
		s = slices.Grow(s, max(16, n, 3*len(s)))
	}
	return s
}
