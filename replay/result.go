package replay

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A Level is the level of detail at which a simulation is recorded.
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
	Estimated string // copied to trace.Run.Estimated
	Like      bool   // of GPUs that a symmetry makes equal one may be planned and recorded for all (Share, trace.Run.Like)
	Unfolded  bool   // simulate every GPU, even those that a symmetry makes equal (fold.go)
	Level     Level
	Ranks     []int        // ranks recorded beyond kernels; nil: all
	From, To  program.Time // window of simulated time, ns: below kernels, only spans that begin in it are recorded; To 0: no end
	Causes    bool         // record the critical path: Result.Path
	Limits    bool         // record what limits each GPU over time: Result.Limits, and a lane per rank
	Usage     bool         // record what is in use over time: Result.Usage
	// Stop is called from time to time; true ends the simulation with ErrStopped. nil: never.
	Stop func() bool
	// Progress is called as often with the run's Name and the share of the streams' commands
	// that are done, 0 to 1. nil: never.
	Progress func(run string, share float64)
	// Tiles bounds the recorded tiles of a persistent kernel: only the first workgroups that
	// run so many tiles together are recorded, at least 32 of them. 0: no bound.
	Tiles int
	// Most bounds the number of spans. A run with more is recorded at the next lower level,
	// down to Kernels, which has no bound. 0: no bound.
	Most int
	// MostWGs bounds the workgroups of the GPUs that are simulated: more are a TooManyError. 0: no bound.
	MostWGs int
}

// A Result is the outcome of a simulation.
type Result struct {
	Run      *trace.Run
	Makespan program.Time
	Level    Level     // recorded
	Coarse   bool      // recorded below Options.Level because of Options.Most
	Traffic  []traffic // by GPU, resource, kernel name
	Usage    []usage   // by GPU, resource, if Options.Usage: at most 512 parts each
	Path     []Segment // critical path if Options.Causes: from 0 to the makespan without gaps
	Folded   folded
	idle     idleTimes
	// Approximation is the exactness of rates in large components.
	Approximation Approximation
	Limits        []limit // by GPU and start, if Options.Limits: from 0 to the makespan without gaps, at most 512 per GPU
}

// A folded says how many GPUs were simulated for all. The zero value means each for itself.
type folded struct {
	GPUs    int `json:"gpus"`    // that work
	Classes int `json:"classes"` // of equal ones, of which one was simulated
}

// An Approximation is the exactness of rates of a run: Error is a share of the makespan. The zero value means that all rates
// were exact.
type Approximation = fluid.Approximation

// A Resource is a kind of bandwidth that bytes use.
type Resource uint8

// The resources of one GPU. Egress and Ingress are the links inside the node; traffic with
// another node uses the GPU's NIC.
const (
	Memory Resource = iota
	Egress
	ingress
	dma
	NICEgress
	nicIngress
	Cache // the last level
	numResources
)

func (r Resource) String() string {
	return [...]string{"memory", "egress", "ingress", "dma", "nic egress", "nic ingress", "cache"}[r]
}

// traffic is the bytes that kernels or copies of one name moved through a resource of one GPU.
type traffic struct {
	GPU      int
	Resource Resource
	Name     string
	Bytes    float64
	Written  float64 // part of Bytes that was written; 0 for resources other than memory
}

// Idle is an interval in which a device stream ran nothing, and the cause. Together with
// the stream's kernels and copies the intervals cover the makespan; NoWork follows a
// stream's last command.
type Idle struct {
	Rank, Stream int
	Queue        int64 // of the stream
	Start, End   program.Time
	Cause        program.Cause
	Flag         program.Flag // FlagWait: the flag
	Note         string       // the poster of the flag (Result.Idle), or the kernel that held the slots
}

// idleTimes are the idle intervals of the GPUs that were simulated.
type idleTimes struct {
	fold    *fold
	of      [][]Idle   // by GPU
	posters [][]posted // of each
}

// IdleOf lists the idle intervals of a rank, by stream and start, without notes on flags. Those of a rank
// without spans of its own (trace.Run.Like) name the flags and causes of the rank that it is like.
func (r *Result) IdleOf(rank int) iter.Seq[Idle] {
	f := r.idle.fold
	if f == nil {
		return slices.Values(r.idle.of[rank])
	}
	one, turn := f.gpus.of[rank], f.gpus.turn[rank]
	return func(yield func(Idle) bool) {
		for i, x := range r.idle.of[one] {
			if x.Rank = rank; x.Flag != program.NoFlag && f.names == nil {
				x.Flag = program.Flag(f.image(&f.flags, int32(x.Flag), turn))
				x.Cause = f.cause(rank, x.Flag, &r.idle.posters[one][i])
			}
			if !yield(x) {
				return
			}
		}
	}
}

// Idle lists the idle intervals of all ranks, by rank, stream and start.
func (r *Result) Idle() (all []Idle) {
	for rank := range r.idle.of {
		one := rank
		if r.idle.fold != nil {
			one = int(r.idle.fold.gpus.of[rank])
		}
		from := len(all)
		all = slices.AppendSeq(all, r.IdleOf(rank))
		for i := range all[from:] {
			if by := &r.idle.posters[one][i]; by.flag != program.NoFlag {
				all[from+i].Note = r.idle.fold.note(all[from+i].Flag, by)
			}
		}
	}
	return all
}

// ErrStopped is the error of a simulation that Options.Stop ended.
var ErrStopped = errors.New("stopped")

// A TooManyError refuses a simulation that takes too long.
type TooManyError struct {
	WGs, Most int    // workgroups, and the bound
	GPUs      int    // that work
	Folded    folded // of them, as Result.Folded
}

func (e *TooManyError) Error() string {
	on, fewer := fmt.Sprintf("%d ranks", e.GPUs), fmt.Sprintf(", or a job of at most %d ranks", max(1, e.GPUs*e.Most/e.WGs))
	if e.Folded.Classes > 0 { // as many in a smaller job
		on, fewer = fmt.Sprintf("%d of %s", e.Folded.Classes, on), ""
	}
	return fmt.Sprintf("%d workgroups on %s take too long to simulate (capture fewer steps%s)", e.WGs, on, fewer)
}

// A DeadlockError is a program that cannot continue: every remaining actor waits for
// another one that waits.
type DeadlockError struct {
	At    program.Time
	Chain []string // each entry names a waiter and what it waits for; the last waits for the first
}

// longName is a quoted name of a kernel or flag that is cut in a message: of templates some have 900 bytes.
var longName = regexp.MustCompile(`"([^"]{60})[^"]+"`)

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("deadlock at %d ns: %s", e.At, longName.ReplaceAllString(strings.Join(e.Chain, "; "), `"$1…"`))
}

// result builds the Result of the finished simulation.
func (s *sim) result() *Result {
	r := &Result{
		Level: s.record.options.Level, Makespan: s.makespan,
		Approximation: s.flows.Approximation(int64(s.makespan)), Path: s.path(),
	}
	r.idle = idleTimes{fold: s.fold, of: make([][]Idle, len(s.gpus)), posters: make([][]posted, len(s.gpus))}
	for i := range s.streams {
		st := &s.streams[i]
		if st.next == len(st.Commands) {
			st.recordIdle(st.since, s.makespan, Idle{Cause: program.NoWork})
		}
		r.idle.of[st.gpu] = append(r.idle.of[st.gpu], st.idle...)
		r.idle.posters[st.gpu] = append(r.idle.posters[st.gpu], st.posters...)
	}
	if r.Folded = s.folded(); s.fold != nil {
		if s.program.Equal != nil {
			s.record.Run.Like = slices.Clone(s.fold.gpus.of)
		} else {
			s.unfoldRun()
		}
		s.ledger.unfold(s.fold)
	}
	r.Traffic = s.ledger.traffics()
	if s.meter != nil && s.makespan > 0 {
		width := s.meter.close(s)
		if s.record.options.Usage {
			r.Usage = s.usages(width)
		}
		if s.record.options.Limits {
			r.Limits = s.limitsOf(r.Idle(), width)
			s.recordLimits(r.Limits)
		}
	}
	s.recordVacant()
	r.Run = s.record.Finish(trace.Options{
		Name: s.record.options.Name, Simulated: true,
		Estimated: s.record.options.Estimated, KeepZero: true,
	})
	return r
}
