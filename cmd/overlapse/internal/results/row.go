package results

import (
	"cmp"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/overlap"
)

// An answer is what is predicted of a selection, as replay and tune tell it.
type answer struct {
	Strategy     string      `json:"strategy"`
	Parameters   plan.Values `json:"parameters"`
	Settings     string      `json:"settings"`                    // the parameters as text
	Phase        string      `json:"phase,omitempty"`             // the steps that it is about, where phases are answered apart
	Experimental bool        `json:"experimental,omitempty"`      // a setting that nothing measured has (plan.Param)
	Change       float64     `json:"change"`                      // relative to the captured schedule's replay: -0.1 is 10 % less
	PeakMemory   int64       `json:"peak_memory_bytes"`           // the most of a rank at a time, as a difference to the captured schedule
	MemoryLacks  []string    `json:"peak_memory_lacks,omitempty"` // what that does not count: it is a lower bound
	// Chance and Confidence are how certain it is that the selection is faster than the captured schedule.
	verdict.Chance
	Confidence verdict.Confidence `json:"confidence"`
}

// RowOf is what a prediction alone tells, without its run, on the steps of a phase; "": on all.
func RowOf(p *verdict.Prediction, phase string) Row {
	row := Row{Applies: p.Why == "", Why: p.Why, Notes: p.Changed.Notes, remarks: remarks{short: p.Named, phase: p.Phase}, answer: answer{
		Strategy: p.Strategy.Name, Parameters: p.Values, Settings: p.Strategy.String(p.Values), Phase: phase, Experimental: p.Experimental(),
	}}
	if !row.Applies {
		return row
	}
	if row.Effort, row.Says = p.Effort, plan.Said(p.Ways); !row.Experimental && p.Effort != "" {
		row.Says = cmp.Or(row.Says, p.Named)
	}
	row.Change, row.PeakMemory, row.MemoryLacks = p.Change, p.Memory.Bytes, p.Memory.Lacks
	row.Chance, row.Confidence, row.Same = p.Confidence.Chance, p.Confidence, p.Same()
	row.Time, row.Fastest, row.Slowest = int64(p.Expected), int64(p.Best), int64(p.Worst)
	if p.Times != nil {
		row.Times = *p.Times
	}
	return row
}

// A Row is one strategy's line. Times are nanoseconds.
type Row struct {
	answer
	Applies bool     `json:"applies"`
	Why     string   `json:"why,omitempty"`          // why it does not apply
	Notes   []string `json:"notes,omitempty"`        // on what it did, and settings that did nothing
	Time    int64    `json:"time_ns,omitempty"`      // expected: the mean over dispatch orders
	Fastest int64    `json:"fastest_ns,omitempty"`   // over dispatch orders
	Slowest int64    `json:"slowest_ns,omitempty"`   // over dispatch orders
	Same    bool     `json:"same_program,omitempty"` // nothing is changed: there is no probability
	// Times is what an iteration consists of, the mean over ranks; the sum without hidden_ns is time_ns
	// for the median dispatch order.
	overlap.Times
	// Phases are the steps that the row is about, if the trace tells their phase; one.
	Phases []plan.PhaseTime `json:"phases,omitempty"`
	Effort plan.Effort      `json:"effort,omitempty"`       // of getting it; "" for the captured schedule and bounds
	Says   string           `json:"says,omitempty"`         // how to get it: "set bucket_cap_mb=50", else in plain words
	Bubble float64          `json:"bubble_share,omitempty"` // of a pipeline: share of the time in which ranks do nothing, their mean
	Limit  string           `json:"limited_by,omitempty"`
	// Explanation is set with --explain.
	Explanation *verdict.Explanation `json:"explanation,omitempty"`
	// Approximation is set if bandwidth shares are approximate.
	Approximation *replay.Approximation `json:"approximation,omitempty"`
	// WhatIf is the change on the machine of --what-if.
	WhatIf *verdict.WhatIf `json:"what_if,omitempty"`
	remarks
	At int `json:"-"` // index of the outcome
}

// remarks are what only tables for people say of a row.
type remarks struct {
	short   string // Prediction.Named
	changed string // what became fewer, and what of the time is less and more; "": not recommended
	first   bool   // nothing like it ran on hardware here: a run of it is a first one
	bound   string // why no program can have the row's schedule: a bound, or hardware that nobody has; "": it can
	phase   int    // of Phase, from 1; 0: the row is about all iterations
}

// unchanged is the name of rows of the captured schedule with nothing changed, simulated.
const unchanged = "no change, simulated"

// controlOf simulates the captured schedule, of which captured is the replay, with nothing changed: a row of each phase; nil if nothing
// was measured.
func controlOf(
	w *workload.Workload, m machine.Machine, captured engines.Outcome, sc plan.Scenario, stop func() bool,
) (rows []Row, err error) {
	if !plan.WasMeasured(w) || len(w.Collectives) == 0 {
		return nil, nil
	}
	out, err := engines.Control(w, m, sc, replay.Options{Like: true, Stop: stop})
	if err != nil || out.Result == nil || out.Time <= 0 || captured.Expected <= 0 {
		return nil, err
	}
	for _, phase := range captured.Each() {
		of, times := out.Of(phase), verdict.TimesOf(w, out.Of(phase))
		if of.Time <= 0 { // no iteration of the phase is left
			continue
		}
		row := Row{
			answer: answer{Strategy: unchanged, Parameters: out.Values, Change: of.ChangeFrom(captured.Of(phase).Expected)}, Applies: true,
			Time: int64(of.Time), Fastest: int64(of.Time), Slowest: int64(of.Time), Times: times, Limit: verdict.LimitOf(w, of, times), remarks: remarks{phase: phase},
		}
		if phase > 0 {
			row.Phase = captured.Phases[phase-1].Steps.Phase
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// rowOf is the row of a prediction, on a phase if it is of one.
func (r *Replayed) rowOf(p verdict.Prediction) Row {
	out, phase := p.Outcome, ""
	if out.Phase > 0 {
		phase = r.reference.Phases[out.Phase-1].Steps.Phase
	}
	row := RowOf(&p, phase)
	if row.Applies = out.Result != nil; !row.Applies {
		return row
	}
	row.Times = verdict.TimesOf(r.workload, out)
	switch {
	case out.Phase > 0:
		is := out.Phases[out.Phase-1].Steps
		is.Time = out.Expected
		row.Phases = []plan.PhaseTime{is}
	case len(out.Phases) == 1:
		row.Phases = []plan.PhaseTime{out.Phases[0].Steps}
	}
	row.Limit = verdict.LimitOf(r.workload, out, row.Times)
	row.first = len(plan.Unmeasured(out.Selection, out.Changed.Ops))+len(out.Changed.Never) > 0
	if total := row.Total(); r.pipeline && total > 0 {
		row.Bubble = float64(row.Waiting+row.Idle) / float64(total)
	}
	switch {
	case out.Strategy.Kind == plan.Future:
		row.bound = "no hardware yet"
	case out.Strategy.Kind == plan.Bound:
		row.bound = "bound"
	case row.PFaster >= verdict.Likely && !row.given(): // only such a row is recommended
		row.changed = r.changed(out, row.Times)
	}
	if x := out.Result.Approximation; x.Paths > 0 {
		row.Approximation = &x
	}
	return row
}

// defect reports whether the row's strategy panicked.
func (r *Row) defect() bool { return strings.HasPrefix(r.Why, engines.DefectPrefix) }

// reason says why a row has no time.
func (r *Row) reason() string {
	if strings.HasPrefix(r.Why, "cannot run") || strings.HasPrefix(r.Why, "not believed") || strings.HasPrefix(r.Why, "no prediction") || r.defect() {
		return r.Why
	}
	return "does not apply: " + r.Why
}
