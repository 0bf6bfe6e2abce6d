// Package compare plans and simulates strategies on one workload and says what
// each came to: its time, how much that varies between runs, and, for tuning,
// which settings and which pairs it pays for.
package compare

import (
	"errors"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Outcome is what one strategy came to on a workload.
type Outcome struct {
	plan.Selection
	Result *replay.Result // nil where Why says that it does not apply
	Time   trace.Time     // of one step where the trace marks steps, else the makespan
	// Expected is the mean over how races fall, Best and Worst are the extremes; all
	// are Time where nothing races.
	Expected, Best, Worst trace.Time
	Why                   string // why the strategy does not apply or cannot run; else ""
	Err                   error  // what kept it from running: a *replay.DeadlockError, say

	Races    plan.Races         // that the plan holds
	Lookups  []machine.Question // measured times that the plan asked the profile for
	Program  *program.Program   // if causes were asked for
	Window   plan.Interval      // that was asked for; none: {}
	Machine  machine.Machine    // that it was planned for
	Scenario plan.Scenario      // the same, with the pace found
	ClockOff float64            // what the last round of settleClock changed the pace by, if it has not converged
}

// Compare plans and simulates every selection on one workload, side by side on
// the machine's cores, and returns the outcomes in the order of the
// selections. The results do not depend on the number of cores. done is called
// as each finishes, from several goroutines; nil is fine.
func Compare(w *workload.Workload, m machine.Machine, sel []plan.Selection, sc plan.Scenario, o replay.Options, done func()) ([]Outcome, error) {
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return nil, err
	}
	out := make([]Outcome, len(sel))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range sel {
		g.Go(func() error {
			var err error
			out[i], err = Run(w, m, s, sc, o)
			if done != nil {
				done()
			}
			return err
		})
	}
	return out, g.Wait()
}

// Run plans and simulates one selection. Workgroups are recorded of one iteration
// unless the options have a window, and phases only of strategies that overlap
// inside kernels. A strategy that does not apply is an Outcome with its reason,
// not an error.
func Run(w *workload.Workload, m machine.Machine, s plan.Selection, sc plan.Scenario, o replay.Options) (Outcome, error) {
	o.Name, o.Estimated = s.String(), w.Run.Estimated
	if !s.Strategy.Inside {
		o.Level = min(o.Level, replay.Workgroups)
	}
	out := Outcome{Selection: s, Machine: m, Window: plan.Interval{Start: o.From, End: o.To}}
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return out, err
	}
	// Workgroups are recorded where an iteration lies, which is known after a first
	// simulation. Recording kernels in it costs less than a second one.
	deep := o.Level > replay.Kernels
	first := o
	if deep {
		first = replay.Options{Name: o.Name, Estimated: o.Estimated, Stop: o.Stop}
	}
	p, err := out.settleClock(w, sc, first)
	if err != nil || out.Result == nil {
		return out, err
	}
	if err := out.expect(w, sc, o.Stop); err != nil || out.Result == nil {
		return out, err
	}
	if o.Causes {
		out.Program = p
	}
	if !deep {
		return out, nil
	}
	if is, rounds := plan.StepsOf(w, out.Result.Run).Typical(); o.To == 0 && rounds == 1 {
		o.From, o.To = is.Start, max(1, is.End)
	}
	out.Result, err = replay.Simulate(m, p, o)
	return out, err
}

// How often a program is planned anew for the clock that it settles at, and the
// change of the pace below which it has settled.
const (
	clockRounds = 4
	clockClose  = 0.003
)

// settleClock plans and simulates until the pace that kernels were planned with
// is the pace at which the simulated iterations settle. The two depend on each
// other: the faster a strategy is, the more power its iterations draw, the lower
// the clock falls, and the slower its kernels become. It takes up to clockRounds
// rounds; what the last one still changed is ClockOff. Durations of a schedule
// that is replayed as captured are not changed (rule P3).
func (o *Outcome) settleClock(w *workload.Workload, sc plan.Scenario, opts replay.Options) (*program.Program, error) {
	clock := plan.ClockOf(w, &o.Machine, sc)
	asCaptured := o.Strategy.Exact && sc.Clock == plan.CapturedClock
	if sc.Pace = clock.Pace(&o.Machine, sc, 0); asCaptured {
		sc.Pace = 0
	}
	for round := 1; ; round++ {
		p, err := o.simulate(w, sc, opts)
		if err != nil || o.Result == nil || asCaptured {
			return p, err
		}
		next := clock.Pace(&o.Machine, sc, o.Time)
		if o.ClockOff = math.Abs(next - sc.Pace); o.ClockOff < clockClose {
			o.ClockOff = 0
		}
		if o.ClockOff == 0 || round == clockRounds {
			return p, nil
		}
		sc.Pace = next
	}
}

// simulate plans the selection for a scenario, runs it and takes its time.
func (o *Outcome) simulate(w *workload.Workload, sc plan.Scenario, opts replay.Options) (*program.Program, error) {
	pl, err := o.Strategy.Planned(w, o.Machine, o.Values, sc)
	var na *plan.NotApplicable
	if errors.As(err, &na) {
		o.Why, o.Result = na.Why, nil
		return nil, nil //nolint:nilnil // the outcome has the reason
	}
	if err != nil {
		return nil, err
	}
	o.Scenario, o.Races, o.Lookups = sc, pl.Races(), pl.Lookups.List()
	o.Result, o.Err = replay.Simulate(o.Machine, pl.Program, opts)
	if errors.Is(o.Err, replay.ErrStopped) {
		return nil, o.Err
	}
	if o.Err != nil {
		// A deadlock, or a workgroup that fits no compute unit of this machine, is
		// what the strategy comes to here.
		o.Why, o.Result, o.Time = "cannot run: "+o.Err.Error(), nil, 0
		return nil, nil //nolint:nilnil,nilerr // the outcome has the reason
	}
	o.Time = plan.StepTime(w, o.Result.Run)
	if o.Strategy.Bound && !o.Strategy.Exact { // of schedules, those that overlap iterations count by the mean
		o.Time = min(o.Time, plan.StepsOf(w, o.Result.Run).Mean())
	}
	return pl.Program, nil
}

// A Residual is how far a replay of the captured schedule is from the trace.
type Residual struct {
	Ops      int        `json:"ops"`
	Outside  int        `json:"outside"` // ops off by more than 1 µs and 1 % of their duration
	Worst    trace.Time `json:"worst_ns"`
	WorstOp  string     `json:"worst_op"`
	WorstPct float64    `json:"worst_percent"` // of that op's duration
}

// ResidualOf compares a replay of the captured schedule with the trace, op by op:
// both the start and the end count.
func ResidualOf(w *workload.Workload, run *trace.Run) Residual {
	var r Residual
	base := trace.Infinity
	for i := range w.Ops {
		base = min(base, w.Ops[i].Start)
	}
	var shift trace.Time
	if i := slices.IndexFunc(run.Spans, func(s trace.Span) bool { return s.Kind.OnDevice() }); i >= 0 {
		shift = base - run.Spans[i].Start
	}
	for _, s := range run.Spans {
		id := plan.OriginOf(run, s)
		if id < 0 {
			continue
		}
		op := &w.Ops[id]
		r.Ops++
		off := max(Abs(s.Start+shift-op.Start), Abs(s.End+shift-op.End))
		if off > max(1000, op.Dur()/100) {
			r.Outside++
		}
		if off > r.Worst {
			r.Worst, r.WorstOp = off, op.Name
			r.WorstPct = 100 * float64(off) / float64(max(1, op.Dur()))
		}
	}
	return r
}

// Abs is the magnitude of a time.
func Abs(t trace.Time) trace.Time { return max(t, -t) }
