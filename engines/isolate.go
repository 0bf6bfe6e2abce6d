package engines

import (
	"errors"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A captured duration includes the interference of the captured schedule: kernels that ran
// alongside collectives had fewer compute units and less memory bandwidth, collectives
// alongside kernels were slower. Strategies start from durations alone. Isolate estimates
// them:
//
//  1. An operation is disturbed if compute or a collective of another stream ran alongside it on its
//     rank. What was not disturbed took its captured time alone (rule L1).
//  2. The captured schedule is simulated with interference, every disturbed operation at
//     its captured start. Simulated time over time alone is the operation's stretch, and
//     captured time over stretch an estimate of its time alone. The times alone are then
//     replaced by the estimates, and so on until they stay (a fixed point, rule L1).
//  3. Instances of the same kernel, grid and sizes, or of the same collective, take the
//     same time alone, on all ranks. The estimate of the instances of which the smallest
//     share was disturbed, best nothing, holds for the others: it has the least of the
//     model's error (rule L1).
//  4. A time alone is never longer than captured. Where the machine has a law for it, as
//     for GEMMs and collectives, it is within what that law does on the capture's
//     undisturbed operations (rule L1).
//
// A kernel alongside which a collective waited for a captured rank takes the time alone of undisturbed
// instances at its place in another iteration or on another rank, where there are any, and has the
// duration that it would have without the wait (rule L7, calm.go).
//
// Where step 3 took a time alone from other instances, simulated against captured time is
// an independent check of the interference in the model: the residual that Isolation
// reports. The workload is returned as a copy; captured times stay unchanged.
func Isolate(w *workload.Workload, m machine.Machine, stop func() bool) (*workload.Workload, error) {
	if w.Isolation != nil {
		return w, nil
	}
	w = w.Copy()
	for i := range w.Ops {
		limitTraffic(&w.Ops[i], &m)
	}
	s := newIsolation(w, m)
	s.Memo = &workload.Memo{}
	w.Isolation = &s.Isolation
	if len(s.open) == 0 {
		return w, nil
	}
	err := s.solve(stop)
	if err == nil {
		err = s.calm(stop)
	}
	if errors.Is(err, replay.ErrStopped) {
		return nil, err
	}
	if err != nil { // the machine cannot run the captured schedule
		for i := range w.Ops {
			w.Ops[i].Alone, w.Ops[i].Calm = 0, 0
		}
		for i := range w.Collectives {
			w.Collectives[i].Alone = 0
		}
		s.Why = err.Error()
	}
	return w, nil
}

// notItsOwn is the rate, relative to the memory's, from which the tensors of an operator are
// not what one kernel moves: a compiled graph lists all its inputs. Caches give less.
const notItsOwn = 4

// limitTraffic limits a kernel's traffic to what the memory moves in the captured time; the
// rest hit a cache. Of a kernel that would need several times that, nothing is known
// (rule M1).
func limitTraffic(op *workload.Op, m *machine.Machine) {
	most := m.GPU.Memory.Value * plan.Seconds(op.Dur())
	switch all := op.Read + op.Write; {
	case op.Kind != trace.Compute || most <= 0 || all <= most:
	case all > notItsOwn*most && (op.Shape.Kind == workload.Elementwise || op.Moves && op.Shape.Kind == workload.NoShape):
		op.Read, op.Write = 0, 0
	default:
		op.Read, op.Write = op.Read*most/all, op.Write*most/all
	}
}

// Maximum number of rounds of the fixed point, and the largest relative change of the sum
// of durations alone at convergence, of compute and of collectives.
const (
	isolationRounds = 4
	isolationClose  = 0.002
)

// An isolation is the estimation of one workload's durations alone.
type isolation struct {
	workload.Isolation
	w       *workload.Workload
	m       machine.Machine
	open    []subject // disturbed operations
	classes []instances
	clock   []float64 // by rank: duration of its matrix kernels relative to the ranks' mean
	beside  []bool    // by op: shares time with others, or is a collective of which a member does
}

// A subject is a disturbed operation: a compute kernel, or a collective on all its ranks.
type subject struct {
	op       *workload.Op         // nil: a collective
	coll     *workload.Collective // nil: a kernel
	captured trace.Time
	least    trace.Time // by the machine's law; 0 without a law
	most     trace.Time // by the law, or captured
	clock    float64    // of its rank, for matrix kernels; else 1
	twin     float64    // of a kernel alongside a wait: ns alone of instances at its place, without the clock of their ranks; 0: none
	waited   float64    // of the time alongside others, 0 to 1: alongside collectives that waited for captured ranks
	share    float64    // of its captured duration, 0 to 1, alongside others
	stretch  float64    // simulated duration over duration alone; at least 1
	borrowed bool       // its duration alone is that of other instances
}

// alone points to the subject's duration alone.
func (s *subject) alone() *trace.Time {
	if s.op != nil {
		return &s.op.Alone
	}
	return &s.coll.Alone
}

// kind is 0 for compute and 1 for a collective.
func (s *subject) kind() int {
	if s.op != nil {
		return 0
	}
	return 1
}

// own is the subject's own estimate of its duration alone.
func (s *subject) own() float64 { return float64(s.captured) / s.stretch }

func newIsolation(w *workload.Workload, m machine.Machine) *isolation {
	s, costs := &isolation{w: w, m: m}, &cost.Laws{Machine: &m, Workload: w}
	disturbed := coRunners(w)
	s.CoRunners, s.beside = disturbed.with, disturbed.beside
	known := knowns{classes: map[instanceClass][]subject{}}
	var classes []instanceClass // as s.open
	var laws []trace.Time
	add := func(x subject, beside trace.Time, class instanceClass, law trace.Time) {
		if s.Operations++; beside == 0 {
			known.add(x, class, law)
			return
		}
		x.share = float64(beside) / float64(x.captured)
		if x.op != nil {
			x.waited = min(1, float64(disturbed.waits[x.op.ID])/float64(beside))
		}
		s.open, classes, laws = append(s.open, x), append(classes, class), append(laws, law)
	}
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind == trace.Compute && op.Dur() > 0 {
			add(subject{op: op, captured: op.Dur()}, disturbed.ops[i], kernelClass(w, op), gemmLaw(op, costs))
		}
	}
	for i := range w.Collectives {
		if c := &w.Collectives[i]; len(c.Members) > 0 && c.Transfer() > 0 {
			add(subject{coll: c, captured: c.Transfer()}, disturbed.collectives[i], collectiveClass(c), collectiveLaw(c, costs))
		}
	}
	for kind := range known.laws {
		slices.Sort(known.laws[kind])
	}
	s.clock = known.clocks(w)
	places := s.places(disturbed.ops)
	rows := map[instanceClass]int{}
	for i := range s.open {
		row, ok := rows[classes[i]]
		if !ok {
			row = len(s.classes)
			rows[classes[i]] = row
			s.classes = append(s.classes, instances{})
			for _, k := range known.classes[classes[i]] {
				s.classes[row].undisturbed = append(s.classes[row].undisturbed, float64(k.captured)/s.clockOf(k.op))
			}
		}
		s.classes[row].subjects = append(s.classes[row].subjects, int32(i))
		x := &s.open[i]
		x.clock, x.stretch = s.clockOf(x.op), 1
		if x.waited > 0 {
			x.twin = places.of(x.op)
		}
		x.least, x.most = known.laws[x.kind()].around(laws[i])
		x.least, x.most = min(x.least, x.captured), min(x.most, x.captured)
		*x.alone() = x.most // at first
	}
	s.Disturbed = len(s.open)
	s.score(nil)
	return s
}

// clockOf is the relative duration of an operation on its rank because of the rank's clock.
func (s *isolation) clockOf(op *workload.Op) float64 {
	if op == nil || !op.Matrix() {
		return 1
	}
	return s.clock[op.Rank]
}

// gemmLaw is the profile's time of a GEMM alone, ns; 0 for other kernels and for element
// types without a law.
func gemmLaw(op *workload.Op, laws *cost.Laws) trace.Time {
	if op.Shape.Kind != workload.GEMM || op.Shape.ElemSize != 2 {
		return 0
	}
	return plan.Duration(max(0, laws.Tiling(op).Seconds))
}

// collectiveLaw is the profile's time of a collective's transfer alone, ns; 0 for one that no law is of, and for an operation
// that takes several times the law: not what the law has in it sets its time, nor how the time grows with the size.
func collectiveLaw(c *workload.Collective, laws *cost.Laws) trace.Time {
	if slices.ContainsFunc(laws.Workload.Slow, func(s workload.SlowCollective) bool { return s.Op == c.Op }) {
		return 0
	}
	return plan.Duration(laws.Captured(c))
}

// solve runs the fixed point.
func (s *isolation) solve(stop func() bool) error {
	s.estimate() // of undisturbed instances
	for s.Rounds = 1; ; s.Rounds++ {
		simulated, err := s.simulate(stop)
		if err != nil {
			return err
		}
		for i := range s.open {
			if x := &s.open[i]; simulated[i] > 0 {
				x.stretch = max(1, float64(simulated[i])/float64(*x.alone()))
			}
		}
		changed := s.estimate()
		if changed < isolationClose || s.Rounds == isolationRounds {
			s.score(simulated)
			return nil
		}
	}
}

// estimate sets the durations alone from captured durations and stretches. It returns by
// how much the sum of all changed, relative to it: the larger of compute and collectives.
func (s *isolation) estimate() float64 {
	var before, after [2]float64
	for c := range s.classes {
		k := &s.classes[c]
		all, same := k.alone(s.open)
		for _, i := range k.subjects {
			x := &s.open[i]
			of, next := x.kind(), x.own()
			switch x.borrowed = x.twin > 0 || same && x.share > alikeShare; {
			case x.twin > 0:
				next = x.twin * x.clock
			case x.borrowed:
				next = all * x.clock
			}
			before[of] += float64(*x.alone())
			*x.alone() = max(1, x.least, min(x.most, trace.Time(next+0.5)))
			after[of] += float64(*x.alone())
		}
	}
	return max(math.Abs(after[0]-before[0])/max(1, before[0]), math.Abs(after[1]-before[1])/max(1, before[1]))
}

// simulate runs the disturbed part of the captured schedule with interference, every
// operation at its captured start, and returns the simulated durations of the subjects.
func (s *isolation) simulate(stop func() bool) ([]trace.Time, error) {
	pl, err := plan.NewPlanner(s.w, s.m, plan.Scenario{})
	if err != nil {
		return nil, err
	}
	pl.AtCapturedStarts(s.beside)
	p := pl.Write()
	result, err := replay.Simulate(s.m, p, replay.Options{Name: "captured with interference", Stop: stop})
	if err != nil {
		return nil, err
	}
	ran := s.intervalsOf(result)
	took := make([]trace.Time, len(s.open))
	for i, x := range s.open {
		if x.op != nil {
			took[i] = ran[x.op.ID].End - ran[x.op.ID].Start
			continue
		}
		first, last := trace.Time(0), trace.Infinity
		for _, id := range x.coll.Members {
			first, last = max(first, ran[id].Start), min(last, ran[id].End)
		}
		took[i] = last - first
	}
	return took, nil
}

// intervalsOf is from when to when each operation ran; zero: it did not run.
func (s *isolation) intervalsOf(result *replay.Result) []plan.Interval {
	ran := make([]plan.Interval, len(s.w.Ops))
	for _, span := range result.Run.Spans {
		if id := plan.OriginOf(result.Run, span); id >= 0 {
			ran[id] = plan.Interval{Start: span.Start, End: span.End}
		}
	}
	return ran
}

// score computes the effect of the captured schedule on the subjects and the residual of
// the simulation over those whose duration alone is that of other instances.
func (s *isolation) score(simulated []trace.Time) {
	var captured, alone [2]float64
	var off []float64
	for i := range s.open {
		x := &s.open[i]
		of := x.kind()
		captured[of] += min(float64(x.captured), float64(*x.alone())*x.stretch) // more is waiting for other ranks
		alone[of] += float64(*x.alone())
		if simulated != nil && x.borrowed {
			off = append(off, math.Abs(float64(simulated[i])/float64(x.captured)-1))
		}
	}
	ratio := func(of int) float64 {
		if alone[of] == 0 {
			return 1
		}
		return captured[of] / alone[of]
	}
	s.Compute, s.Collective, s.Checked = ratio(0), ratio(1), len(off)
	if len(off) > 0 {
		slices.Sort(off)
		s.Median, s.P90 = off[(len(off)-1)/2], off[(len(off)-1)*9/10]
	}
}
