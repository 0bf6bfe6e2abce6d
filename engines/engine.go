// Package engines holds the overlap strategies. A strategy is a planner: it
// turns a workload into a program of work, transfers and flags, and leaves
// running it to package replay.
package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// An Engine is one strategy.
type Engine struct {
	Name    string  // what users type
	From    string  // the paper or system it comes from
	Summary string  // one line
	Detail  string  // a paragraph for `overlapse strategies NAME`
	Params  []Param // in the order they are printed
	Inside  bool    // overlaps inside kernels: phases of workgroups are worth recording
	Bound   bool    // no strategy but what one can be compared with
	Future  bool    // needs hardware that no GPU has: shown, never recommended
	Plain   bool    // overlaps nothing: what is taken where no other strategy is clearly faster
	Exact   bool    // replays measured durations
	Saves   string  // the work that it does without and ideal pays for; "" where it schedules the same operations
	Loop    bool    // overlaps iterations, so it serves all pairs of a trace or none

	parts []Selection // of the mix: what it is made of
	// plan hands the pairs that the strategy serves to itself (planner.take) and
	// returns what writes them.
	plan func(pl *planner, v Values) (emitter, error)
}

// An emitter writes a pair's operations of one rank.
type emitter func(r *rank, p *pair)

// Plan is the workload under the strategy: a NotApplicable error where it has nothing to plan.
func (e Engine) Plan(w *workload.Workload, m machine.Machine, v Values) (*replay.Program, error) {
	p, _, err := e.planned(w, m, v)
	return p, err
}

// planned is Plan, and what of the program varies between runs.
func (e Engine) planned(w *workload.Workload, m machine.Machine, v Values) (*replay.Program, races, error) {
	pl, err := newPlanner(w, m)
	if err != nil {
		return nil, races{}, err
	}
	emit, err := e.plan(pl, v)
	if err != nil {
		return nil, races{}, err
	}
	p, err := pl.write(emit)
	return p, pl.races(), err
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

// All lists the engines in the order of tables.
func All() []Engine {
	return []Engine{captured, bulk, ideal, decompose, multistream, fused, tilesync, onesided, trigger}
}

// A NotApplicable error says in one line why an engine has nothing to plan on a workload.
type NotApplicable struct{ Engine, Why string }

func (e *NotApplicable) Error() string { return fmt.Sprintf("%s: does not apply: %s", e.Engine, e.Why) }

// Captured is the selection that every comparison starts from.
func Captured() Selection { return Selection{Engine: captured, Values: Values{}} }
