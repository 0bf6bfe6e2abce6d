package engines

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
)

// An Outcome is the result of one strategy on a workload.
type Outcome struct {
	plan.Selection
	Result *replay.Result // nil if Why is set
	stepTime
	Why string // why the strategy does not apply or cannot run; else ""
	Err error  // error behind Why, such as a *replay.DeadlockError

	Races    races              // races in the plan
	Changed  plan.Changes       // what the plan changes
	Memory   plan.Memory        // against the captured schedule
	TooLarge bool               // Why is that it does not fit into Scenario.MemoryLimit
	Lookups  []machine.Question // measured times that the plan looked up in the profile
	Program  *program.Program   // set if causes were recorded
	// Unexplained is why no causes were recorded though the options ask for them: all ranks are too much to simulate.
	Unexplained string
	Window      plan.Interval   // window of the options; {}: none
	Machine     machine.Machine // machine of the plan
	Scenario    plan.Scenario   // its scenario, including the pace that was found
	Times       *overlap.Times  // verdict.TimesOf of an outcome that is brief
	Phases      []phaseTook     // of the workload's phases (plan.Steps.Phases); nil: it has none, or not all iterations ran
	Phase       int             // the phase that the times are of, from 1; 0: all iterations
	ClockOff    float64         // relative change of the pace in the last round of settleClock if it did not converge
}

// stepTime is how long an iteration of an outcome takes, ns.
type stepTime struct {
	Time trace.Time // of one step if the trace marks steps, else the makespan
	// Expected is the mean over race outcomes, Best and Worst are the extremes; all equal Time
	// if there are no races.
	Expected, Best, Worst trace.Time
	Simulated             trace.Time // Time before it is scaled (rule L6); 0: not known
	Unchanged             bool       // every operation runs when it does in the captured schedule, simulated in the same way
	// distance of the captured schedule, simulated as this plan is, from its own time, relative to that; 0: not known
	Noise float64
}

// A phaseTook is the stepTime of the iterations of one phase.
type phaseTook struct {
	Steps plan.PhaseTime // as simulated
	Times *overlap.Times // as of the outcome
	stepTime
}

// Of is the outcome with the times of a phase, from 1; 0: of all iterations.
func (o Outcome) Of(phase int) Outcome {
	switch o.Phase = phase; {
	case phase > len(o.Phases): // not all iterations ran
		o.stepTime, o.Times = stepTime{}, nil
	case phase > 0:
		o.stepTime, o.Times = o.Phases[phase-1].stepTime, o.Phases[phase-1].Times
	}
	return o
}

// Each are the phases that are answered apart, as their iterations differ (rule V34), from 1; else 0: all iterations.
func (o *Outcome) Each() []int {
	if len(o.Phases) < 2 {
		return []int{0}
	}
	list := make([]int, len(o.Phases))
	for i := range list {
		list[i] = i + 1
	}
	return list
}

// eachTime are the times of all iterations and of those of each phase.
func (o *Outcome) eachTime() []*stepTime {
	all := []*stepTime{&o.stepTime}
	for i := range o.Phases {
		all = append(all, &o.Phases[i].stepTime)
	}
	return all
}

// ChangeFrom is how much longer the outcome takes than a base, relative to it: -0.1 is 10 % less.
func (o *Outcome) ChangeFrom(base trace.Time) float64 {
	return float64(o.Expected)/float64(max(1, base)) - 1
}

// Compare plans and simulates every selection on one workload in parallel and returns the
// outcomes in the order of the selections. Results do not depend on the number of cores.
// done is called with each as it finishes, from several goroutines, and may change it; nil is allowed.
func Compare(w *workload.Workload, m machine.Machine, sel []plan.Selection, sc plan.Scenario, o replay.Options,
	done func(i int, out *Outcome),
) ([]Outcome, error) {
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return nil, err
	}
	out := make([]Outcome, len(sel))
	return out, sideBySide(w, len(sel), func(i int) (err error) {
		if out[i], err = Try(w, m, sel[i], sc, o); err == nil && done != nil {
			done(i, &out[i])
		}
		return err
	})
}

// sideBySide is guard.Each for plans of a workload: of a large one fewer at a time, so that they
// together take no more than about a gibibyte.
func sideBySide(w *workload.Workload, n int, f func(i int) error) error {
	const most, each = 1 << 30, 1500 // bytes: of all, of an operation
	return guard.AtMost(most/(each*max(1, len(w.Ops))), n, f)
}

// Try is Run, of which a panic is the Outcome's Err: a defect of one strategy leaves the others.
func Try(w *workload.Workload, m machine.Machine, s plan.Selection, sc plan.Scenario, o replay.Options) (out Outcome, err error) {
	err = guard.Call(func() (err error) {
		out, err = Run(w, m, s, sc, o)
		return err
	})
	var defect *guard.PanicError
	if errors.As(err, &defect) {
		return Outcome{Selection: s, Machine: m, Why: DefectPrefix + defect.Error(), Err: defect}, nil
	}
	return out, err
}

// DefectPrefix begins the reason of an outcome whose strategy panicked.
const DefectPrefix = "defect: "

// Defect is the error of the first outcome whose strategy panicked; nil if none did.
func Defect(outcomes ...Outcome) error {
	for _, out := range outcomes {
		var defect *guard.PanicError
		if errors.As(out.Err, &defect) {
			return defect
		}
	}
	return nil
}

// Run plans and simulates one selection. Workgroups are recorded for one iteration unless
// the options have a window, and phases only for strategies that overlap inside kernels. A
// strategy that does not apply is an Outcome with Why, not an error.
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
	// The iteration whose workgroups are recorded is known after a first simulation. Recording
	// only kernels in that one costs less than a full second one.
	deep := o.Level > replay.Kernels
	first := o
	if deep {
		first = replay.Options{Name: o.Name, Estimated: o.Estimated, Stop: o.Stop, Progress: o.Progress}
	}
	p, err := out.settleClock(w, sc, first)
	if err != nil || out.Result == nil {
		return out, err
	}
	if err := out.relativeTo(w, p, sc, o.Stop); err != nil {
		return out, err
	}
	if err := out.expect(w, sc, o.Stop); err != nil || out.Result == nil {
		return out, err
	}
	if o.Causes && out.Unexplained == "" {
		out.Program = p
	}
	if !deep {
		return out, nil
	}
	if is, rounds := plan.StepsOf(w, out.Result.Run).Typical(); o.To == 0 && rounds == 1 {
		o.From, o.To = is.Start, max(1, is.End)
	}
	o.MostWGs = mostWorkgroups(w)
	result, err := replay.Simulate(m, p, o)
	var many *replay.TooManyError
	if errors.As(err, &many) { // equal ranks were simulated once before
		out.Result.Coarse = true
		return out, nil // kernels are recorded
	}
	out.Result = result
	return out, err
}

// Maximum number of rounds of settleClock, and the change of the pace below which it has
// converged.
const (
	clockRounds = 4
	clockClose  = 0.003
)

// settleClock plans and simulates until the pace of the plan is the pace at which the
// simulated iterations settle. Each depends on the other: a faster strategy draws more
// power per time, which lowers the clock and slows its kernels. It takes up to clockRounds
// rounds; ClockOff is the change in the last one if it did not converge. Durations of a
// schedule that is replayed as captured do not change (rule P1).
func (o *Outcome) settleClock(w *workload.Workload, sc plan.Scenario, opts replay.Options) (*program.Program, error) {
	clock := plan.ClockOf(w, &o.Machine, sc, plan.Changes{})
	asCaptured := o.Strategy.Kind == plan.Exact && plan.WasMeasured(w) && sc.Clock == plan.CapturedClock
	switch {
	case asCaptured:
		sc.Pace = 0
	case !(sc.Pace > 0): // else that of another outcome of the same races
		sc.Pace = clock.Pace(&o.Machine, sc, 0)
	}
	for round := 1; ; round++ {
		p, err := o.simulate(w, sc, opts)
		if err != nil || o.Result == nil {
			return p, err
		}
		if asCaptured {
			if w.Unprofiled && w.Origins == nil {
				for phase, t := range o.eachTime() {
					t.Time = max(t.Time, plan.BusyTime(w, phase))
					if was := plan.MeasuredSteps(w).Of(phase).Time(); workload.Iterations(w) > 0 && !plan.Contradicts(t.Time, was) {
						t.Time = min(t.Time, was)
					}
				}
			}
			return p, nil
		}
		if o.Changed.Runs != nil {
			clock = plan.ClockOf(w, &o.Machine, sc, o.Changed)
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

// simulate plans the selection for a scenario, simulates it and sets its time.
func (o *Outcome) simulate(w *workload.Workload, sc plan.Scenario, opts replay.Options) (*program.Program, error) {
	sc.Shared = opts.Like && timesOnly(opts)
	pl, err := schedule.Planned(o.Strategy, w, o.Machine, o.Values, sc)
	var na *plan.NotApplicable
	if errors.As(err, &na) {
		o.Why, o.Result = na.Why, nil
		return nil, nil //nolint:nilnil // the outcome has the reason
	}
	if err != nil {
		return nil, err
	}
	o.Memory, o.Changed = pl.Memory, pl.Changes()
	if why := tooMuch(&pl.Memory, w, sc.MemoryLimit); why != "" {
		o.Why, o.Result, o.TooLarge = why, nil, true
		return nil, nil //nolint:nilnil // the outcome has the reason
	}
	o.Scenario, o.Races, o.Lookups = sc, racesOf(pl), pl.Lookups.List()
	opts.MostWGs = cmp.Or(opts.MostWGs, mostWorkgroups(w))
	o.Result, o.Err = o.run(w, pl, opts)
	var many *replay.TooManyError
	switch {
	case errors.Is(o.Err, replay.ErrShared):
		opts.Like = false
		return o.simulate(w, sc, opts)
	case errors.Is(o.Err, replay.ErrStopped):
		return nil, o.Err
	case errors.As(o.Err, &many) && opts.Causes && opts.Level == replay.Kernels: // one of equal ranks may do, without its causes
		o.Unexplained, opts.Like, opts.Causes, opts.Limits = many.Error(), true, false, false
		return o.simulate(w, sc, opts)
	case errors.As(o.Err, &many):
		o.Why, o.Result = "cannot run here: "+many.Error(), nil
		return nil, nil //nolint:nilnil // the outcome has the reason
	}
	if o.Err != nil {
		// A deadlock, or a workgroup that fits on no compute unit of this machine, is the outcome
		// of the strategy.
		o.Why, o.Result, o.stepTime = o.cannotRun(), nil, stepTime{}
		return nil, nil //nolint:nilnil,nilerr // the outcome has the reason
	}
	steps := plan.StepsOf(w, o.Result.Run)
	o.stepTime, o.Phases = stepTime{Time: steps.Time(), Simulated: steps.Time()}, nil
	for _, p := range steps.Phases() {
		o.Phases = append(o.Phases, phaseTook{Steps: p, stepTime: stepTime{Time: p.Time, Simulated: p.Time}})
	}
	if pl.Ahead && pl.HostPeriod > o.Time {
		sc.HostBound = true
		return o.simulate(w, sc, opts)
	}
	if o.Strategy.Kind == plan.Bound { // overlapping iterations count by the mean
		o.Time = min(o.Time, steps.Mean())
	}
	return pl.Program, nil
}

// cannotRun is the reason of an outcome whose program failed. The captured schedule ended, so that a
// deadlock of it comes from what the trace lacks or from collectives that are matched wrongly.
func (o *Outcome) cannotRun() string {
	why := "cannot run: " + o.Err.Error()
	var deadlock *replay.DeadlockError
	if o.Strategy.Kind == plan.Exact && errors.As(o.Err, &deadlock) {
		why += " (the trace lacks operations, or its collectives are matched wrongly, as the job itself went on: see the notes of overlapse inspect, and capture the same steps on all ranks)"
	}
	return why
}

// mostKept is how many spans the simulations that are kept for equal programs have, at about 250 bytes each.
const mostKept = 1 << 19

// timesOnly reports whether a simulation records no more than when kernels run.
func timesOnly(o replay.Options) bool {
	return o.Level == replay.Kernels && !o.Causes && !o.Limits && !o.Usage && !o.Unfolded
}

// run simulates what was planned, once for all strategies and settings that plan the same program. Those that overlap inside
// kernels rarely do, and to compare their programs takes a part of the simulation.
func (o *Outcome) run(w *workload.Workload, pl *plan.Planner, opts replay.Options) (*replay.Result, error) {
	if o.Strategy.Inside || !timesOnly(opts) || pl.Workload.Origins != nil || w.Isolation == nil || w.Isolation.Memo == nil {
		return replay.Simulate(o.Machine, pl.Program, opts)
	}
	type digest uint64
	found, err := w.Isolation.Memo.GetBounded(digest(pl.Program.Digest()), mostKept, func() (any, int, error) {
		result, err := replay.Simulate(o.Machine, pl.Program, opts)
		if err != nil {
			return nil, 0, err
		}
		return result, len(result.Run.Spans), nil
	})
	if err != nil {
		return nil, err
	}
	result := *found.(*replay.Result)
	run := *result.Run
	run.Name, result.Run = opts.Name, &run
	return &result, nil
}

// Abs is the absolute value of a time.
func Abs(t trace.Time) trace.Time { return max(t, -t) }

// mostWorkgroups bounds what is simulated of a workload: copies of captured ranks make many
// workgroups out of a small trace; a million takes about a second.
func mostWorkgroups(w *workload.Workload) int {
	const always, perEvent = 1 << 24, 1 << 12
	if w.Run == nil {
		return always
	}
	return max(always, perEvent*len(w.Run.Spans))
}

// tooMuch says that a schedule does not fit into a limit, or "". Without records of the capture's own
// memory only what it takes more counts.
func tooMuch(m *plan.Memory, w *workload.Workload, limit int64) string {
	captured := plan.CapturedPeak(w)
	if limit == 0 || m.Bytes <= 0 || captured+m.Bytes <= limit {
		return ""
	}
	if captured == 0 {
		return fmt.Sprintf("takes %s more than the captured schedule, whose own memory is not recorded: more than the limit of %s",
			trace.Bytes(m.Bytes), trace.Bytes(limit))
	}
	return fmt.Sprintf("takes %s, %s more than the captured schedule: more than the limit of %s", trace.Bytes(captured+m.Bytes),
		trace.Bytes(m.Bytes), trace.Bytes(limit))
}
