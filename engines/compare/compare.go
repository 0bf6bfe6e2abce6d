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
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Outcome is what one strategy came to on a workload.
type Outcome struct {
	plan.Selection
	Result *replay.Result // nil where Why says that it does not apply
	Time   trace.Time     // of one step where the trace marks steps, else the makespan
	// Expected is the mean over how tosses fall, Best and Worst its extremes (expect);
	// they are Time where nothing is tossed.
	Expected, Best, Worst trace.Time
	Why                   string // why the strategy does not apply or cannot run; else ""
	Err                   error  // what kept it from running: a *replay.DeadlockError, say

	Races   plan.Races         // that the plan holds
	Asked   []machine.Question // what the plan asked of the machine's profile
	Program *replay.Program    // if causes were asked for
	Window  plan.Interval      // that was asked for; none: {}
	Machine machine.Machine    // that it was planned for
}

// Compare plans and simulates every selection on one workload, side by side on
// the machine's cores, and returns the outcomes in the order of the
// selections. The results do not depend on the number of cores. done is called
// as each finishes, from several goroutines; nil is fine.
func Compare(w *workload.Workload, m machine.Machine, sel []plan.Selection, o replay.Options, done func()) ([]Outcome, error) {
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
			out[i], err = Run(w, m, s, o)
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
// inside kernels. A strategy that does not apply is an
// Outcome with its reason, not an error.
func Run(w *workload.Workload, m machine.Machine, s plan.Selection, o replay.Options) (Outcome, error) {
	o.Name = s.Strategy.Name
	if set := s.Strategy.String(s.Values); set != "" {
		o.Name += " " + set
	}
	if !s.Strategy.Inside {
		o.Level = min(o.Level, replay.Workgroups)
	}
	o.Estimated = w.Run.Estimated
	out := Outcome{Selection: s, Window: plan.Interval{Start: o.From, End: o.To}}
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return out, err
	}
	var p *replay.Program
	var planned machine.Machine
	met := plan.ClockOf(w, &m)
	m.Pace, m.Asked = met.Pace(&m, 0), &machine.Questions{}
	asMeasured := s.Strategy.Exact && m.Regime == machine.AsCaptured
	if asMeasured {
		m.Pace = 0
	}
	settling := replay.Options{Name: o.Name, Estimated: o.Estimated, Stop: o.Stop}
	again := o.Level > replay.Kernels // workgroups are recorded where an iteration lies: known only then
	if !again {
		settling = o // costs a quarter more, less than another replay
	}
	for range plan.PaceRounds {
		planned = m
		p, out.Races, err = s.Strategy.Programs(w, m, s.Values)
		var na *plan.NotApplicable
		if errors.As(err, &na) {
			out.Why = na.Why
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out.Result, out.Err = replay.Simulate(m, p, settling)
		if errors.Is(out.Err, replay.ErrStopped) {
			return out, out.Err
		}
		if out.Err != nil {
			// A deadlock, or a workgroup that fits no compute unit of this machine, is
			// what the strategy comes to here.
			out.Why, out.Result, out.Time = "cannot run: "+out.Err.Error(), nil, 0
			return out, nil //nolint:nilerr // the outcome carries it
		}
		out.Time, out.Asked, out.Machine = plan.StepTime(w, out.Result.Run), m.Asked.List(), planned
		if s.Strategy.Bound && !s.Strategy.Exact { // of schedules, those that overlap iterations count by the mean
			out.Time = min(out.Time, plan.StepsOf(w, out.Result.Run).Mean())
		}
		before := m.Pace
		if m.Pace = met.Pace(&m, out.Time); asMeasured || math.Abs(m.Pace-before) < plan.PaceClose {
			break
		}
	}
	if err := out.expect(w, m, o.Stop); err != nil || out.Result == nil {
		return out, err
	}
	if o.Causes {
		out.Program = p
	}
	if !again {
		return out, nil
	}
	planned.Asked = nil
	if is, rounds := plan.StepsOf(w, out.Result.Run).Typical(); o.To == 0 && rounds == 1 {
		o.From, o.To = is.Start, max(1, is.End)
	}
	out.Result, err = replay.Simulate(planned, p, o)
	return out, err
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
	base := trace.Never
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

func Abs(t trace.Time) trace.Time { return max(t, -t) }
