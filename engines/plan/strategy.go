// Package plan defines overlap strategies and the planner that they write programs with.
//
// A Strategy turns a workload into a program of work, transfers and flags; it does not run
// the program. Its Plan function selects the pairs of operations that it serves
// (Planner.Take) and returns the function that writes one pair on one rank. Package schedule
// writes all other operations as captured: kernels, collectives and copies on their
// streams, after their dependencies and the host's launches.
//
// Files in the order in which a plan uses them:
//
//	strategy.go     a Strategy and its parameters; values.go, their settings
//	plan.go         the Planner of a workload; serve.go, pair.go, which pairs a strategy serves and what lies around them
//	host.go         what a launch costs the host, with or without a profiler; issue.go, the stream of a rank's host
//	rank.go         the streams of a GPU while they are written
//	gaps.go         the pause before an operation; blocked.go, what collectives that wait add to it
//	write.go        one operation; tiles.go, a pair in one notation of tiles, sets and movers
//	kernels.go      kernels of compute, by workgroup; streaming.go, those that memory bounds, and parts of kernels
//	collective.go   kernels of collectives, by channel; carrier.go, what moves their bytes
//	race.go         which of two kernels is dispatched first where that varies
//	clock.go        the clock that the power limit leaves
//	changes.go      what the plan changes, and what of it was measured; memory.go, the memory that it takes
//	steps.go        the iterations of a run, captured or simulated; intervals.go, where their time goes; phases.go, of which phase
//	ways.go         how to get a strategy and its settings on a real system (ways.csv)
//
// Of ranks that copy a captured one only some are written (replay.Share). That needs to know which flag of a
// rank is in the place of another rank's: a flag that is added while a rank is written is that rank's own;
// commonFlags, FlagOfEach, FlagsOf and FlagsAbout add those of several ranks. If a strategy adds them in another
// way, all ranks are written.
//
// To add a strategy, import this package and add a row to the table in package engines.
package plan

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Strategy is one method of overlapping computation with communication.
type Strategy struct {
	Name    string  // as in --strategy
	From    string  // paper or system
	Summary string  // one line
	Plainly string  // what it changes, in a few plain words, where libraries have none for it
	Params  []Param // in printing order

	Kind      Kind
	Inside    bool     // overlaps inside kernels: phases of workgroups are recorded
	Loop      bool     // overlaps iterations, so it serves all pairs of a trace or none
	Rebuilds  bool     // runs other kernels than captured
	Replaces  bool     // its own kernels or copies move the bytes of collectives, not the library's
	Saves     string   // work that it removes and ideal still includes; "": same operations as captured
	DependsOn []string // prefixes of profile keys that its result depends on, beyond those that all strategies need

	// How to get it, and what of it was run on hardware (How, Unmeasured).
	Ways       []Way                // the strategy itself; nil: as ways.csv has it
	MeasuredOn []trace.CollectiveOp // collectives with which it was run on hardware; nil: any
	// settings of measured rows that are not parameters' names or values: "impl=one_shot_all_reduce" is "impl=oneshot"
	Rows map[string]string

	Parts []Selection // for a mix: the strategies that it combines

	// Rebuild changes the workload before it is planned, as by cutting chains anew; nil: not.
	// It returns the workload itself if there is nothing to change.
	Rebuild func(w *workload.Workload, m machine.Machine, v Values) *workload.Workload

	// Plan selects the pairs that the strategy serves (Planner.Take) and returns the function that writes them, nil if their
	// operations keep their places, or the reason, in one line, why it does not apply.
	Plan func(pl *Planner, v Values) (emit Emitter, why string)
}

// A Kind is what a strategy's schedule is to the others that it is compared with.
type Kind uint8

// The kinds. A strategy without one overlaps, and programs can have its schedule.
const (
	_      Kind = iota
	Plain       // overlaps nothing: recommended unless another strategy is clearly faster
	Exact       // the captured schedule: replays measured durations where they hold (WasMeasured)
	Bound       // a bound for comparison, not a schedule that runs
	Future      // needs hardware that no GPU has: shown, never recommended
)

// An Emitter writes the operations of a pair on one rank.
type Emitter func(r *Rank, p *Pair)

// Begin returns the planner of a workload with the pairs that the strategy serves. It returns a NotApplicable error if the
// strategy does not apply. Package schedule has the planner write.
func (e Strategy) Begin(w *workload.Workload, m machine.Machine, v Values, sc Scenario) (*Planner, error) {
	if len(w.Slow) > 0 && e.replaces(v) {
		s := &w.Slow[0]
		return nil, &NotApplicable{e.Name, fmt.Sprintf("no prediction: %s takes %.0f times the law of %s here, and nothing tells "+
			"whether another kernel would too", s.Op, float64(s.Took)/float64(s.Law), s.Machine)}
	}
	if e.Rebuild != nil {
		w = e.Rebuild(w, m, v)
	}
	pl, err := NewPlanner(w, m, sc)
	if err != nil {
		return nil, err
	}
	emit, why := e.Plan(pl, v)
	if why != "" {
		return nil, &NotApplicable{e.Name, why}
	}
	for i := range pl.Pairs {
		if p := &pl.Pairs[i]; p.Settings == nil {
			p.Emit = emit
		}
	}
	pl.pool()
	return pl, nil
}

// replaces reports whether another kernel than the captured one moves the bytes of collectives.
func (e *Strategy) replaces(v Values) bool {
	return e.Replaces || slices.ContainsFunc(e.Params, func(p Param) bool { return p.Replaces && v[p.Name] != p.Default })
}

// A Param is one parameter of a strategy.
type Param struct {
	Name    string             `json:"name"`
	Default string             `json:"default"`
	Choices []string           `json:"choices,omitempty"` // nil: a whole number, or text
	Text    func(string) error `json:"-"`                 // checks a text; nil: no text
	Least   int                `json:"least,omitempty"`   // minimum of a number
	Most    int                `json:"most,omitempty"`    // maximum of a number; 0: no bound
	// "variant=ring|waves": has an effect only with these values of that parameter; "": always
	For string `json:"for,omitempty"`
	Doc string `json:"doc"`

	Ops      []trace.CollectiveOp `json:"-"`                  // that it changes; nil: all
	Tune     []int                `json:"tune,omitempty"`     // values of a number that tuning tries beside the default
	Keep     bool                 `json:"-"`                  // tuning keeps the default
	Measured []string             `json:"measured,omitempty"` // values that were run on hardware; nil: the default; "*": any number
	ranWith  []trace.CollectiveOp `json:"-"`                  // of Ops, those with which other values than the default were run; nil: all
	ranOn    []string             `json:"-"`                  // GPUs on which other values than the default were run; nil: ranOn
	Costs    string               `json:"costs,omitempty"`    // what another value than the default costs, in a few words
	Ways     []Way                `json:"-"`                  // how to get another value than the default; nil: as ways.csv has it
	// another value than the default moves the bytes of collectives by another kernel, or by copies
	Replaces    bool `json:"-"`
	WaysSuffice bool `json:"-"` // these ways give the schedule: Strategy.Ways are not needed as well

	// Experimental: no measurement, claim or sample has another value than the default. Such a value is tried and
	// shown where a user gives it, and never recommended (Selection.Experimental).
	Experimental bool `json:"experimental,omitempty"`
}

// A NotApplicable error is the reason, in one line, why a strategy does not apply to a
// workload.
type NotApplicable struct{ Strategy, Why string }

func (e *NotApplicable) Error() string {
	return fmt.Sprintf("%s: does not apply: %s", e.Strategy, e.Why)
}
