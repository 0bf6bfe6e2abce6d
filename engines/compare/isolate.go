package compare

import (
	"errors"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A captured duration includes the interference of the captured schedule: kernels that ran
// alongside collectives had fewer compute units and less memory bandwidth, collectives
// alongside kernels were slower. Strategies start from durations alone. Isolate estimates
// them:
//
//  1. An operation is disturbed if compute or a collective ran alongside it on its
//     rank. What was not disturbed took its captured time alone (rule L1).
//  2. A disturbed operation of which the capture holds undisturbed instances (the
//     same kernel, grid and sizes on the same rank; the same collective) takes
//     their median alone, if that is less than its captured time (rule L2).
//  3. Of the others, the captured schedule is simulated with interference, every
//     operation at its captured start, and the duration alone is scaled by captured
//     over simulated until both agree (a fixed point). It is never longer than
//     captured. Where the machine has a law for it, as for GEMMs and collectives,
//     it is within what that law does on the capture's undisturbed operations (rule L3).
//
// The remaining difference between simulated and captured durations is the residual that
// Isolation reports. The workload is returned as a copy; captured times stay unchanged.
func Isolate(w *workload.Workload, m machine.Machine, stop func() bool) (*workload.Workload, error) {
	if w.Isolation != nil {
		return w, nil
	}
	copied := *w
	w = &copied
	w.Ops, w.Collectives = slices.Clone(w.Ops), slices.Clone(w.Collectives)
	s := newIsolation(w, m)
	w.Isolation = &s.Isolation
	if len(s.open) == 0 {
		return w, nil
	}
	err := s.solve(stop)
	if errors.Is(err, replay.ErrStopped) {
		return nil, err
	}
	if err != nil { // the machine cannot run the captured schedule
		for i := range w.Ops {
			w.Ops[i].Alone = 0
		}
		for i := range w.Collectives {
			w.Collectives[i].Alone = 0
		}
		s.Why = err.Error()
	}
	return w, nil
}

// Maximum number of rounds of the fixed point, and the largest relative difference between
// simulated and captured durations at convergence.
const (
	isolationRounds = 6
	isolationClose  = 0.002
)

// An isolation is the estimation of one workload's durations alone.
type isolation struct {
	workload.Isolation
	w    *workload.Workload
	m    machine.Machine
	open []subject // disturbed operations
}

// A subject is a disturbed operation: a compute kernel, or a collective on all its ranks.
type subject struct {
	op       *workload.Op         // nil: a collective
	coll     *workload.Collective // nil: a kernel
	captured trace.Time
	least    trace.Time // by the machine's law; 0 without a law
	most     trace.Time // by the law, or captured
	known    bool       // from undisturbed instances
}

// alone points to the subject's duration alone.
func (s *subject) alone() *trace.Time {
	if s.op != nil {
		return &s.op.Alone
	}
	return &s.coll.Alone
}

func newIsolation(w *workload.Workload, m machine.Machine) *isolation {
	s := &isolation{w: w, m: m}
	disturbed, beside := coRunners(w)
	s.CoRunners = beside
	known := undisturbed(w, disturbed, &m)
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Kind != trace.Compute || op.Dur() <= 0 {
			continue
		}
		s.Operations++
		if !disturbed.ops[i] {
			continue
		}
		x := subject{op: op, captured: op.Dur()}
		x.least, x.most = known.gemms.around(gemmLaw(op, &m))
		s.start(x, known.ops[kernelClass(w, op)])
	}
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if len(c.Members) == 0 || c.Transfer() <= 0 {
			continue
		}
		s.Operations++
		if !disturbed.collectives[i] {
			continue
		}
		x := subject{coll: c, captured: c.Transfer()}
		x.least, x.most = known.transfers.around(collectiveLaw(c, &m))
		s.start(x, known.collectives[collectiveClass(c)])
	}
	s.Disturbed = len(s.open)
	s.score(nil)
	return s
}

// gemmLaw is the profile's time of a GEMM alone, ns; 0 for other kernels and for element
// types without a law.
func gemmLaw(op *workload.Op, m *machine.Machine) trace.Time {
	sh := op.Shape
	if sh.Kind != workload.GEMM || sh.ElemSize != 2 {
		return 0
	}
	if op.Tiling.TileM <= 0 || op.Tiling.TileN <= 0 {
		return plan.Duration(max(0, m.Tiling(sh.M, sh.N, sh.K).Seconds))
	}
	t := m.WithTile(sh.M, sh.N, sh.K, op.Tiling.TileN, op.Tiling.TileM) // the library sees the transpose
	return plan.Duration(max(0, t.Seconds))
}

// collectiveLaw is the profile's time of a collective's transfer alone, ns.
func collectiveLaw(c *workload.Collective, m *machine.Machine) trace.Time {
	n := len(c.Members)
	if n < 2 || c.Bytes <= 0 {
		return 0
	}
	channels := c.Channels
	if channels == 0 {
		channels = max(1, m.Library.ChannelsFor(c.Op, c.Bytes))
	}
	return plan.Duration(max(0, m.Library.Time(c.Op, c.Bytes, n, channels)))
}

// start adds a subject with the median of its undisturbed instances, if there are any.
func (s *isolation) start(x subject, instances []trace.Time) {
	x.least, x.most = min(x.least, x.captured), min(x.most, x.captured)
	*x.alone() = x.most
	if len(instances) > 0 {
		slices.Sort(instances)
		x.known = true
		*x.alone() = min(x.captured, instances[(len(instances)-1)/2])
	}
	s.open = append(s.open, x)
}

// solve runs the fixed point.
func (s *isolation) solve(stop func() bool) error {
	for s.Rounds = 1; ; s.Rounds++ {
		simulated, err := s.simulate(stop)
		if err != nil {
			return err
		}
		worst := 0.0
		for i := range s.open {
			x := &s.open[i]
			if x.known || simulated[i] <= 0 {
				continue
			}
			next := trace.Time(float64(*x.alone())*float64(x.captured)/float64(simulated[i]) + 0.5)
			next = max(1, x.least, min(x.most, next))
			worst = max(worst, math.Abs(float64(next)/float64(*x.alone())-1))
			*x.alone() = next
		}
		if worst < isolationClose || s.Rounds == isolationRounds {
			s.score(simulated)
			return nil
		}
	}
}

// simulate runs the captured schedule with interference, every operation at its captured
// start, and returns the simulated durations of the subjects.
func (s *isolation) simulate(stop func() bool) ([]trace.Time, error) {
	pl, err := plan.NewPlanner(s.w, s.m, plan.Scenario{})
	if err != nil {
		return nil, err
	}
	pl.Anchored = true
	p := pl.Write(nil)
	result, err := replay.Simulate(s.m, p, replay.Options{Name: "captured with interference", Stop: stop})
	if err != nil {
		return nil, err
	}
	type interval struct{ start, end trace.Time }
	ran := make([]interval, len(s.w.Ops))
	for _, span := range result.Run.Spans {
		if id := plan.OriginOf(result.Run, span); id >= 0 {
			ran[id] = interval{span.Start, span.End}
		}
	}
	took := make([]trace.Time, len(s.open))
	for i, x := range s.open {
		if x.op != nil {
			took[i] = ran[x.op.ID].end - ran[x.op.ID].start
			continue
		}
		first, last := trace.Time(0), trace.Infinity
		for _, id := range x.coll.Members {
			first, last = max(first, ran[id].start), min(last, ran[id].end)
		}
		took[i] = last - first
	}
	return took, nil
}

// score computes the effect of the captured schedule on the subjects and the residual of
// the simulation.
func (s *isolation) score(simulated []trace.Time) {
	var captured, alone [2]float64
	var off []float64
	for i := range s.open {
		x, of := &s.open[i], 0
		if x.coll != nil {
			of = 1
		}
		captured[of] += float64(x.captured)
		alone[of] += float64(*x.alone())
		if simulated != nil {
			off = append(off, math.Abs(float64(simulated[i])/float64(x.captured)-1))
		}
	}
	ratio := func(of int) float64 {
		if alone[of] == 0 {
			return 1
		}
		return captured[of] / alone[of]
	}
	s.Compute, s.Collective = ratio(0), ratio(1)
	if len(off) > 0 {
		slices.Sort(off)
		s.Median, s.P90 = off[(len(off)-1)/2], off[(len(off)-1)*9/10]
	}
}

// overlaps are the operations and collectives with others alongside them.
type overlaps struct {
	ops         []bool // by op
	collectives []bool // by row
}

// coRunners finds the operations that ran alongside others and, by collective, the compute
// kernel that ran alongside its transfer for longest: an op, or -1. Copies do not disturb:
// captured copies are simulated without bandwidth (rule L4).
func coRunners(w *workload.Workload) (d overlaps, beside []int32) {
	d = overlaps{make([]bool, len(w.Ops)), make([]bool, len(w.Collectives))}
	beside = slices.Repeat([]int32{-1}, len(w.Collectives))
	longest := make([]trace.Time, len(w.Collectives))
	meet := func(a, b *workload.Op) { // b disturbs a
		if a.Collective < 0 {
			d.ops[a.ID] = true
			return
		}
		c := &w.Collectives[a.Collective]
		both := min(c.Depart, b.End) - max(c.Arrive, b.Start)
		if both <= 0 || b.Collective == a.Collective {
			return
		}
		d.collectives[a.Collective] = true
		if b.Collective < 0 && both > longest[a.Collective] {
			longest[a.Collective], beside[a.Collective] = both, b.ID
		}
	}
	for _, ids := range w.Ranks {
		var running []int32
		for _, id := range ids {
			op := &w.Ops[id]
			if op.Kind == trace.Copy || op.Dur() <= 0 {
				continue
			}
			running = slices.DeleteFunc(running, func(r int32) bool { return w.Ops[r].End <= op.Start })
			for _, r := range running {
				meet(op, &w.Ops[r])
				meet(&w.Ops[r], op)
			}
			running = append(running, id)
		}
	}
	return d, beside
}

// An instanceClass is the properties that instances of one operation share.
type instanceClass struct {
	rank      int
	name      string
	wgs       int
	shape     workload.Shape
	coll      trace.CollectiveOp
	bytes     int64
	ranks     int
	channels  int
	isCompute bool
}

func kernelClass(w *workload.Workload, op *workload.Op) instanceClass {
	c := instanceClass{rank: op.Rank, name: op.Name, wgs: op.Tiling.WGs, shape: op.Shape, isCompute: true}
	c.shape.Evidence = ""
	if a := w.Run.Kernel(w.Run.Spans[op.Span]); a != nil && c.wgs == 0 {
		c.wgs = int(a.Grid[0]) * int(max(1, a.Grid[1])) * int(max(1, a.Grid[2]))
	}
	return c
}

func collectiveClass(c *workload.Collective) instanceClass {
	return instanceClass{coll: c.Op, bytes: c.Bytes, ranks: len(c.Members), channels: c.Channels}
}

// instances are durations of undisturbed operations by class, and their ratios to the
// machine's laws.
type instances struct {
	ops         map[instanceClass][]trace.Time
	collectives map[instanceClass][]trace.Time
	gemms       ratios
	transfers   ratios
}

func undisturbed(w *workload.Workload, d overlaps, m *machine.Machine) instances {
	found := instances{ops: map[instanceClass][]trace.Time{}, collectives: map[instanceClass][]trace.Time{}}
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind == trace.Compute && op.Dur() > 0 && !d.ops[i] {
			class := kernelClass(w, op)
			found.ops[class] = append(found.ops[class], op.Dur())
			found.gemms.add(op.Dur(), gemmLaw(op, m))
		}
	}
	for i := range w.Collectives {
		if c := &w.Collectives[i]; len(c.Members) > 0 && c.Bytes > 0 && !d.collectives[i] {
			class := collectiveClass(c)
			found.collectives[class] = append(found.collectives[class], c.Transfer())
			found.transfers.add(c.Transfer(), collectiveLaw(c, m))
		}
	}
	slices.Sort(found.gemms)
	slices.Sort(found.transfers)
	return found
}

// ratios are captured times of undisturbed operations over the law's, ascending.
type ratios []float64

func (r *ratios) add(took, law trace.Time) {
	if law > 0 {
		*r = append(*r, float64(took)/float64(law))
	}
}

// around bounds the time alone of an operation with a law: by the 10th and 90th percentile
// of the ratios or, without ratios, from below by the law, which holds at full clock.
// Without a law there are no bounds.
func (r ratios) around(law trace.Time) (least, most trace.Time) {
	switch n := len(r); {
	case law <= 0:
		return 0, trace.Infinity
	case n == 0:
		return law, trace.Infinity
	default:
		return trace.Time(r[(n-1)/10] * float64(law)), trace.Time(r[(n-1)*9/10]*float64(law)) + 1
	}
}
