// Package plan is what overlap strategies are written with.
//
// A Strategy turns a workload into a program of work, transfers and flags; it
// runs nothing. Its Plan function takes the pairs of operations that it serves
// (Planner.Take) and returns the function that writes one pair on one rank. The
// Planner writes everything else as it was captured: kernels, collectives and
// copies on their streams, behind their dependencies and the host's launches.
//
//	plan.go         Planner, Rank, Stream: walks the operations of every rank
//	write.go        writes one operation, or a pair in sequence
//	collective.go   kernels of collectives, by channel
//	kernels.go      kernels of compute, by workgroup
//	chunk.go        parts of either
//	race.go         which of two kernels is dispatched first where that varies
//	clock.go        the clock that the power limit leaves
//
// Somebody who writes a strategy of their own imports this package and adds a
// row to the table in package engines.
package plan

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
)

// A Strategy is one way of overlapping computation with communication.
type Strategy struct {
	Name    string  // what users type
	From    string  // the paper or system it comes from
	Summary string  // one line
	Detail  string  // a paragraph for `overlapse strategies NAME`
	Params  []Param // in the order they are printed

	Inside    bool     // overlaps inside kernels: phases of workgroups are worth recording
	Bound     bool     // a reference to compare with, not a strategy
	Future    bool     // needs hardware that no GPU has: shown, never recommended
	Plain     bool     // overlaps nothing: recommended where no other strategy is clearly faster
	Exact     bool     // replays measured durations
	Loop      bool     // overlaps iterations, so it serves all pairs of a trace or none
	Rebuilds  bool     // runs other kernels than the captured ones
	Saves     string   // the work that it removes and ideal pays for; "" where it schedules the same operations
	Untested  []string // settings, as "variant=ring", that no measurement stands behind
	DependsOn []string // keys of the profile that decide its result beyond what all strategies need; by their beginning

	Parts []Selection // of a mix: what it is made of

	// Plan takes the pairs that the strategy serves (Planner.Take) and returns the
	// function that writes them; a NotApplicable error where there are none.
	Plan func(pl *Planner, v Values) (Emitter, error)
}

// An Emitter writes a pair's operations of one rank.
type Emitter func(r *Rank, p *Pair)

// Program is the workload under the strategy: a NotApplicable error where it has nothing to plan.
func (e Strategy) Program(w *workload.Workload, m machine.Machine, v Values, sc Scenario) (*program.Program, error) {
	pl, err := e.Planned(w, m, v, sc)
	if err != nil {
		return nil, err
	}
	return pl.Program, nil
}

// Planned is the planner that has written the program, to see besides what of
// it varies between runs and which measured times it asked for.
func (e Strategy) Planned(w *workload.Workload, m machine.Machine, v Values, sc Scenario) (*Planner, error) {
	pl, err := NewPlanner(w, m, sc)
	if err != nil {
		return nil, err
	}
	emit, err := e.Plan(pl, v)
	if err != nil {
		return nil, err
	}
	pl.Write(emit)
	return pl, nil
}

// A Param is one setting of an engine.
type Param struct {
	Name    string
	Default string
	Choices []string // nil: a whole number
	Least   int      // of a whole number
	Most    int      // of a whole number; 0: no bound
	For     string   // "variant=ring|waves": all other values of that setting make nothing of this one; "" always
	Doc     string
}

// A NotApplicable error says in one line why an engine has nothing to plan on a workload.
type NotApplicable struct{ Strategy, Why string }

func (e *NotApplicable) Error() string {
	return fmt.Sprintf("%s: does not apply: %s", e.Strategy, e.Why)
}
