package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A Level is how much of a simulation is recorded.
type Level uint8

// The levels. Each includes the ones before it.
const (
	Kernels Level = iota
	Workgroups
	Phases
)

// Options of Simulate. The zero value records kernels only.
type Options struct {
	Name      string // of the run
	Estimated string // as trace.Run has it
	Level     Level
	Ranks     []int        // ranks recorded beyond kernels; nil: all
	From, To  program.Time // of what lies below kernels, only what begins in this window is recorded; To 0: no end
	Causes    bool         // keep why everything happened: Result.Path
	Limits    bool         // find what limits over time: Result.Limits, and a lane a rank
	// Stop is asked now and then whether to give up; the error is then ErrStopped. nil: never.
	Stop func() bool
	// Tiles bounds what is recorded of a persistent kernel with more: only as many of
	// its first workgroups as run that many together, but 32. 0: all.
	Tiles int
	// Most bounds the spans that are recorded: a run that would have more is recorded
	// at the level of kernels, and Result.Coarse is set. 0: no bound.
	Most int
}

// A Result is what a simulation found.
type Result struct {
	Run      *trace.Run
	Makespan program.Time
	Coarse   bool      // recorded at the level of kernels, for Options.Most
	Traffic  []Traffic // by GPU, resource, kernel name
	Use      []Use     // by GPU, resource
	CUs      []CUs     // by GPU
	Slots    []Slots   // by GPU, kernel name
	Idle     []Idle    // by rank, stream, start
	Path     []Segment // the critical path, if Options.Causes: from 0 to the makespan without gap
	// Approximation says how exact the rates of large components were.
	Approximation Approximation
	Limits        []Limit // by GPU and start, if Options.Limits: from 0 to the makespan without gap, at most 512 a GPU
}

// An Approximation says how exact rates were. Components of up to 4096 paths,
// connected by resources that they contend for, have max-min fair rates at every
// instant. Larger ones have them from time to time, and in between the rates are
// feasible. The zero value says that all rates were exact.
type Approximation struct {
	Paths int `json:"paths"` // of the largest component with approximate rates; 0: there was none
	// Error bounds by what share of the makespan the transfers between any two GPUs
	// ran early or late: the relative difference between rates before and after each
	// solve, times the time since the first change before it, summed over all solves.
	// To first order: it does not follow what an early or late end causes elsewhere.
	Error float64 `json:"error"`
}

// A Resource is what bytes pass through.
type Resource uint8

// The resources of one GPU. Egress and Ingress are those of its links inside
// the node; what goes to or comes from another node crosses the NIC that serves it.
const (
	Memory Resource = iota
	Egress
	Ingress
	DMA
	NICEgress
	NICIngress
	Cache // the last level
	numResources
)

func (r Resource) String() string {
	return [...]string{"memory", "egress", "ingress", "dma", "nic egress", "nic ingress", "cache"}[r]
}

// Traffic is the bytes that kernels or copies of one name moved through a resource of one GPU.
type Traffic struct {
	GPU      int
	Resource Resource
	Name     string
	Bytes    float64
	Written  float64 // of Bytes, those written; 0 for what is no memory
}

// Use is how much of a resource's capacity was used over the makespan.
// Resources whose capacity the machine does not give, and DMA, have none. GPUs
// that share a NIC each have its use.
type Use struct {
	GPU       int
	Resource  Resource
	Fraction  float64      // mean
	Saturated program.Time // in which all of it was used: it may have been what limited
}

// CUs is how the CUs of a GPU spent the makespan, as fractions of all CU time.
type CUs struct {
	GPU     int
	Held    float64 // with a workgroup resident
	Working float64 // with one that works or stores, neither waits nor sleeps
}

// Slots is how the workgroups of one GPU's kernels of one name spent their
// time, summed over workgroups: the four times are all there is.
type Slots struct {
	GPU      int
	Name     string
	Working  program.Time // work and stores, as long as they take alone
	Slowed   program.Time // what they took beyond it: pipes, memory, links, other work alongside
	Waiting  program.Time // for flags
	Sleeping program.Time // latencies
}

// Idle is an interval in which a stream that belongs to a device had nothing
// running, and why. With the stream's kernels and copies the intervals cover
// the whole time until the makespan; NoWork is after a stream's last command.
type Idle struct {
	Rank, Stream int
	Queue        int64 // the stream's
	Start, End   program.Time
	Cause        program.Cause
	Flag         program.Flag // FlagWait: which
	Note         string       // who was to post it, which kernel held the slots
}

// ErrStopped is the error of a simulation that Options.Stop ended.
var ErrStopped = errors.New("stopped")

// A DeadlockError is a program that cannot go on: everything left waits for
// what only something else that waits could bring about.
type DeadlockError struct {
	At    program.Time
	Chain []string // who holds what and waits for whom; the last waits for the first
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("deadlock at %d ns: %s", e.At, strings.Join(e.Chain, "; "))
}

// result gathers what the finished simulation found.
func (s *sim) result() *Result {
	r := &Result{Makespan: s.makespan, Approximation: Approximation(s.flows.Approximation(int64(s.makespan))), Traffic: s.ledger.traffics(), Slots: s.ledger.slots(), Path: s.path()}
	for i := range s.streams {
		st := &s.streams[i]
		st.recordIdle(st.since, s.makespan, Idle{Cause: program.NoWork})
		r.Idle = append(r.Idle, st.idle...)
	}
	for g := range s.gpus {
		r.Use = append(r.Use, s.use(g)...)
		r.CUs = append(r.CUs, s.cuTime(g))
	}
	r.Limits = s.limitsOf(r.Idle)
	s.recordLimits(r.Limits)
	s.recordVacant()
	r.Run = s.record.Finish(trace.Options{Name: s.record.options.Name, Simulated: true, Estimated: s.record.options.Estimated, KeepZero: true})
	return r
}

func (s *sim) use(g int) []Use {
	var all []Use
	for res := range numResources {
		id := s.flows.resource(g, res)
		if id == none || s.makespan == 0 || s.flows.capacities[id] == 0 {
			continue
		}
		moved, full := s.flows.Used(id, int64(s.now))
		all = append(all, Use{
			GPU: g, Resource: res, Saturated: program.Time(full),
			Fraction: moved / (s.flows.capacities[id] * float64(s.makespan)),
		})
	}
	return all
}

func (s *sim) cuTime(id int) CUs {
	g := &s.gpus[id]
	c := CUs{GPU: id}
	if total := float64(len(g.cus)) * float64(s.makespan); total > 0 {
		g.held.add(0, s.now)
		g.busy.add(0, s.now)
		c.Held, c.Working = g.held.sum/total, g.busy.sum/total
	}
	return c
}
