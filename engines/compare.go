package engines

import (
	"errors"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Outcome is what one strategy came to on a workload.
type Outcome struct {
	Selection
	Result *replay.Result // nil where Why says that it does not apply
	Time   trace.Time     // of one step where the trace marks steps, else the makespan
	// Expected is the mean over how tosses fall, Best and Worst its extremes (expect);
	// they are Time where nothing is tossed.
	Expected, Best, Worst trace.Time
	Why                   string // why the strategy does not apply or cannot run; else ""
	Err                   error  // what kept it from running: a *replay.DeadlockError, say

	races   races              // that the plan holds
	asked   []machine.Question // what the plan asked of the machine's profile
	program *replay.Program    // if causes were asked for
	window  interval           // that was asked for; none: {}
	machine machine.Machine    // that it was planned for
}

// Compare plans and simulates every selection on one workload, side by side on
// the machine's cores, and returns the outcomes in the order of the
// selections. The results do not depend on the number of cores. done is called
// as each finishes, from several goroutines; nil is fine.
func Compare(w *workload.Workload, m machine.Machine, sel []Selection, o replay.Options, done func()) ([]Outcome, error) {
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
func Run(w *workload.Workload, m machine.Machine, s Selection, o replay.Options) (Outcome, error) {
	o.Name = s.Engine.Name
	if set := s.Engine.String(s.Values); set != "" {
		o.Name += " " + set
	}
	if !s.Engine.Inside {
		o.Level = min(o.Level, replay.Workgroups)
	}
	o.Estimated = w.Run.Estimated
	out := Outcome{Selection: s, window: interval{o.From, o.To}}
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return out, err
	}
	var p *replay.Program
	var planned machine.Machine
	met := clockOf(w, &m)
	m.Pace, m.Asked = met.pace(&m, 0), &machine.Questions{}
	asMeasured := s.Engine.Exact && m.Regime == machine.AsCaptured
	if asMeasured {
		m.Pace = 0
	}
	settling := replay.Options{Name: o.Name, Estimated: o.Estimated, Stop: o.Stop}
	again := o.Level > replay.Kernels // workgroups are recorded where an iteration lies: known only then
	if !again {
		settling = o // costs a quarter more, less than another replay
	}
	for range paceRounds {
		planned = m
		p, out.races, err = s.Engine.planned(w, m, s.Values)
		var na *NotApplicable
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
		out.Time, out.asked, out.machine = StepTime(w, out.Result.Run), m.Asked.List(), planned
		if s.Engine.Bound && !s.Engine.Exact { // of schedules, those that overlap iterations count by the mean
			out.Time = min(out.Time, stepsOf(w, out.Result.Run).mean())
		}
		before := m.Pace
		if m.Pace = met.pace(&m, out.Time); asMeasured || math.Abs(m.Pace-before) < paceClose {
			break
		}
	}
	if err := out.expect(w, m, o.Stop); err != nil || out.Result == nil {
		return out, err
	}
	if o.Causes {
		out.program = p
	}
	if !again {
		return out, nil
	}
	planned.Asked = nil
	if is, rounds := stepsOf(w, out.Result.Run).typical(); o.To == 0 && rounds == 1 {
		o.From, o.To = is.start, max(1, is.end)
	}
	out.Result, err = replay.Simulate(planned, p, o)
	return out, err
}

// StepTime is the time of one iteration in a simulated run: the median distance
// between the ends of successive ones, the last device operation of any rank
// counting, so that what the first one waited for (other ranks, a cold host)
// does not weigh. Of iterations that overlap it is the mean, filling and
// draining the pipeline included, waiting for other ranks at its start not. One has its length; without any, the whole
// run's time is returned.
func StepTime(w *workload.Workload, run *trace.Run) trace.Time {
	return stepsOf(w, run).time()
}

// stepsOf gathers the iterations of a simulated run.
func stepsOf(w *workload.Workload, run *trace.Run) *steps {
	c := newSteps(w)
	for _, s := range run.Spans {
		if op := OriginOf(run, s); op >= 0 {
			c.add(&w.Ops[op], s.Start, s.End)
		}
	}
	return c
}

// MeasuredStepTime is StepTime of the captured run.
func MeasuredStepTime(w *workload.Workload) trace.Time {
	c := newSteps(w)
	for i := range w.Ops {
		c.add(&w.Ops[i], w.Ops[i].Start, w.Ops[i].End)
	}
	return c.time()
}

// steps gathers when each iteration began and ended on every rank.
type steps struct {
	of    []int32      // by op: its iteration, or -1
	each  [][]interval // by iteration, rank
	whole interval
	ranks int
}

type interval struct{ start, end trace.Time }

func (i *interval) extend(start, end trace.Time) {
	i.start, i.end = min(i.start, start), max(i.end, end)
}

func newSteps(w *workload.Workload) *steps {
	of, n := iterations(w)
	c := &steps{ranks: w.World, of: of, each: make([][]interval, n), whole: interval{start: trace.Never}}
	for i := range c.each {
		c.each[i] = slices.Repeat([]interval{{start: trace.Never}}, w.World)
	}
	return c
}

func (c *steps) add(op *workload.Op, start, end trace.Time) {
	c.whole.extend(start, end)
	if i := c.of[op.ID]; i >= 0 {
		c.each[i][op.Rank].extend(start, end)
	}
}

// ran lists the iterations that ran, over all ranks, and whether any began on a
// rank before the one before it had ended there.
func (c *steps) ran() (all []interval, overlap bool) {
	for i, ranks := range c.each {
		x := interval{start: trace.Never}
		for r, y := range ranks {
			x.extend(y.start, y.end)
			overlap = overlap || i > 0 && y.start < c.each[i-1][r].end
		}
		if x.start != trace.Never {
			all = append(all, x)
		}
	}
	return all, overlap
}

func (c *steps) time() trace.Time {
	ran, overlap := c.ran()
	n := len(ran)
	switch {
	case c.whole.start == trace.Never:
		return 0
	case n == 0:
		return c.whole.end - c.whole.start
	case n == 1:
		return ran[0].end - ran[0].start
	case overlap:
		return (c.filled(ran) + ran[n-1].end - ran[0].end) / trace.Time(n)
	}
	return between(ran, func(i interval) trace.Time { return i.end })
}

// mean is the time from the first iteration's start to the last one's end, over their number.
func (c *steps) mean() trace.Time {
	ran, _ := c.ran()
	if len(ran) == 0 {
		return max(0, c.whole.end-c.whole.start)
	}
	return (ran[len(ran)-1].end - ran[0].start) / trace.Time(len(ran))
}

// filled is how long the first of overlapping iterations takes on the rank that
// nobody kept waiting.
func (c *steps) filled(ran []interval) trace.Time {
	least := ran[0].end - ran[0].start
	for _, x := range c.each[0] {
		if x.end > x.start {
			least = min(least, x.end-x.start)
		}
	}
	return least
}

// between is the median distance of successive intervals' ends or starts.
func between(ran []interval, of func(interval) trace.Time) trace.Time {
	var d []trace.Time
	for i := 1; i < len(ran); i++ {
		d = append(d, of(ran[i])-of(ran[i-1]))
	}
	slices.Sort(d)
	return d[(len(d)-1)/2]
}

// steady is when, on each rank, all but the first iteration begin to count, and
// how many those are; with one or none, the whole run and 1.
func (c *steps) steady() (from []trace.Time, n int) {
	if len(c.each) == 0 {
		return make([]trace.Time, c.ranks), 1
	}
	from = make([]trace.Time, c.ranks)
	if len(c.each) > 1 {
		for r, x := range c.each[0] {
			from[r] = x.end
		}
	}
	return from, max(1, len(c.each)-1)
}

// OriginOf is the workload op that a simulated kernel or copy stands for, or -1.
func OriginOf(run *trace.Run, s trace.Span) int32 {
	if k := run.Kernel(s); k != nil {
		return k.Origin
	}
	if c := run.Copy(s); c != nil {
		return c.Origin
	}
	return trace.None
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
		id := OriginOf(run, s)
		if id < 0 {
			continue
		}
		op := &w.Ops[id]
		r.Ops++
		off := max(abs(s.Start+shift-op.Start), abs(s.End+shift-op.End))
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

func abs(t trace.Time) trace.Time { return max(t, -t) }
