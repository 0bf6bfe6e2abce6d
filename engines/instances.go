package engines

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// overlaps are the operations and collectives with others alongside them.
type overlaps struct {
	ops         []trace.Time       // by op: ns alongside others, at most its duration
	waits       []trace.Time       // by op: ns alongside collectives that waited for captured ranks
	moves       []trace.Time       // by op: ns alongside transfers of collectives
	collectives []trace.Time       // by row: ns of the transfer alongside compute or another collective, on the rank with most
	beside      []bool             // by op: shares time with another one on its rank, or a member of its collective does
	with        [][]workload.CoRun // by collective: compute alongside its transfer
}

// copied reports whether a rank is a copy of a captured one.
func copied(w *workload.Workload, rank int) bool { return rank < len(w.Copies) && w.Copies[rank] }

// coRunners finds the operations that ran alongside others. Copies do not disturb: captured
// copies are simulated without bandwidth (rule L1).
func coRunners(w *workload.Workload) overlaps {
	d := overlaps{
		make([]trace.Time, len(w.Ops)), make([]trace.Time, len(w.Ops)), make([]trace.Time, len(w.Ops)),
		make([]trace.Time, len(w.Collectives)),
		make([]bool, len(w.Ops)), make([][]workload.CoRun, len(w.Collectives)),
	}
	onRank := make([]trace.Time, len(w.Collectives))
	meet := func(a, b *workload.Op) { // b disturbs a
		d.beside[a.ID] = true
		if a.Collective < 0 {
			d.ops[a.ID] = min(a.Dur(), d.ops[a.ID]+min(a.End, b.End)-max(a.Start, b.Start))
			if b.Collective >= 0 {
				c := &w.Collectives[b.Collective]
				if c.Sender == 0 { // a message comes when its sender has computed it, under any profiler
					d.waits[a.ID] += max(0, min(a.End, b.End, w.Met(b)-c.Late)-max(a.Start, b.Start))
				}
				d.moves[a.ID] += max(0, min(a.End, b.End, c.Depart)-max(a.Start, b.Start, w.Met(b)))
			}
			return
		}
		c := &w.Collectives[a.Collective]
		both := min(c.Depart, b.End) - max(c.Arrive, b.Start)
		if both <= 0 || b.Collective == a.Collective {
			return
		}
		onRank[a.Collective] = min(c.Transfer(), onRank[a.Collective]+both)
		if b.Collective < 0 && !copied(w, b.Rank) {
			d.with[a.Collective] = append(d.with[a.Collective], workload.CoRun{Op: b.ID, Time: both})
		}
	}
	for _, ids := range w.Ranks {
		clear(onRank)
		var running []int32
		for _, id := range ids {
			op := &w.Ops[id]
			if op.Kind == trace.Copy || op.Dur() <= 0 {
				continue
			}
			running = slices.DeleteFunc(running, func(r int32) bool { return w.Ops[r].End <= op.Start })
			for _, r := range running {
				if other := &w.Ops[r]; other.Queue != op.Queue { // of one stream, the later one waits in its prologue
					meet(op, other)
					meet(other, op)
				}
			}
			running = append(running, id)
		}
		for i, t := range onRank {
			d.collectives[i] = max(d.collectives[i], t)
		}
	}
	for i := range w.Collectives {
		members := w.Collectives[i].Members
		if slices.ContainsFunc(members, func(id int32) bool { return d.beside[id] }) {
			for _, id := range members {
				d.beside[id] = true
			}
		}
	}
	return d
}

// An instanceClass is the properties that instances of one operation share, on any rank.
type instanceClass struct {
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
	c := instanceClass{name: op.Name, wgs: op.Tiling.WGs, shape: op.Shape, isCompute: true}
	c.shape.Evidence = ""
	if a := w.Run.Setup(w.Run.Kernel(w.Run.Spans[op.Span])); c.wgs == 0 {
		c.wgs = int(a.Grid[0]) * int(max(1, a.Grid[1])) * int(max(1, a.Grid[2]))
	}
	return c
}

func collectiveClass(c *workload.Collective) instanceClass {
	return instanceClass{coll: c.Op, bytes: c.Bytes, ranks: len(c.Members), channels: c.Channels}
}

// instances are the operations of one class.
type instances struct {
	undisturbed []float64 // ns, without the clock of their ranks
	subjects    []int32   // rows of isolation.open
}

// Instances count as equally disturbed up to a difference of their disturbed shares, and
// as different work if their durations spread further than clocks and placement explain:
// undisturbed instances of one kernel differ by 2 % in the median, and by at most 20 %
// between the 10th and the 90th percentile, in the captures of samples/measurements.
const (
	alikeShare = 0.05
	alikeWork  = 1.25
)

// alone is the duration alone, ns, of the class by its least disturbed instances: the
// median of their own estimates. same is false if these differ too much to be the same
// work, as kernels of unknown sizes may be.
func (k *instances) alone(open []subject) (median float64, same bool) {
	took := slices.Clone(k.undisturbed)
	least := 0.0
	if len(took) == 0 {
		least = 1
		for _, i := range k.subjects {
			least = min(least, open[i].share)
		}
	}
	for _, i := range k.subjects {
		if x := &open[i]; x.share <= least+alikeShare {
			took = append(took, x.own()/x.clock)
		}
	}
	slices.Sort(took)
	n := len(took) - 1
	return took[n/2], took[n*9/10] <= alikeWork*took[n/10]
}

// A place is the position of a kernel in an iteration of its rank: the number of it among the instances of
// its class there.
type place struct {
	class  instanceClass
	at, of int
}

// places are kernels by their place in an iteration.
type places struct {
	at    []place             // by op; of 0: in no iteration, or no compute kernel
	alone map[place][]float64 // ns, of undisturbed ones on any rank, without the clock of their ranks
}

// places finds them; beside is, by op, the time alongside others.
func (s *isolation) places(beside []trace.Time) places {
	p := places{make([]place, len(s.w.Ops)), map[place][]float64{}}
	iteration, n := workload.IterationsOf(s.w)
	type round struct {
		class           instanceClass
		rank, iteration int
	}
	count := map[round]int{}
	each := func(f func(op *workload.Op, r round)) {
		for i := range s.w.Ops {
			if op := &s.w.Ops[i]; op.Kind == trace.Compute && op.Dur() > 0 && (n == 0 || iteration[i] >= 0) {
				f(op, round{kernelClass(s.w, op), op.Rank, int(iteration[i])})
			}
		}
	}
	each(func(op *workload.Op, r round) {
		p.at[op.ID] = place{class: r.class, at: count[r]}
		count[r]++
	})
	each(func(op *workload.Op, r round) {
		at := &p.at[op.ID]
		if at.of = count[r]; beside[op.ID] == 0 {
			p.alone[*at] = append(p.alone[*at], float64(op.Dur())/s.clockOf(op))
		}
	})
	return p
}

// of is the median time alone of undisturbed kernels at an op's place, ns; 0: there are none, or they
// differ too much to be the same work.
func (p places) of(op *workload.Op) float64 {
	took := slices.Sorted(slices.Values(p.alone[p.at[op.ID]]))
	if n := len(took) - 1; n >= 0 && took[n] <= alikeWork*took[0] {
		return took[n/2]
	}
	return 0
}

// knowns are undisturbed operations by class, and their ratios to the machine's laws, of compute
// and of collectives.
type knowns struct {
	classes map[instanceClass][]subject
	laws    [2]ratios
}

func (k *knowns) add(x subject, class instanceClass, law trace.Time) {
	if x.coll != nil && x.coll.Bytes <= 0 {
		return
	}
	k.classes[class] = append(k.classes[class], x)
	if law > 0 {
		k.laws[x.kind()] = append(k.laws[x.kind()], float64(x.captured)/float64(law))
	}
}

// clocks is, by rank, the duration of its undisturbed matrix kernels relative to the mean
// of the ranks' for the same kernels: GPUs of one job run at different clocks.
func (k *knowns) clocks(w *workload.Workload) []float64 {
	ratios := make([][]float64, w.World)
	for _, class := range k.classes {
		sum, n := make([]float64, w.World), make([]float64, w.World)
		for _, x := range class {
			if x.op != nil && x.op.Matrix() {
				sum[x.op.Rank] += float64(x.captured)
				n[x.op.Rank]++
			}
		}
		all, ranks := 0.0, 0.0
		for r := range sum {
			if n[r] > 0 {
				all, ranks = all+sum[r]/n[r], ranks+1
			}
		}
		for r := range sum {
			if n[r] > 0 && ranks == float64(w.World) {
				ratios[r] = append(ratios[r], sum[r]/n[r]*ranks/all)
			}
		}
	}
	clocks := make([]float64, w.World)
	for r := range clocks {
		clocks[r] = 1
		if slices.Sort(ratios[r]); len(ratios[r]) > 0 {
			clocks[r] = ratios[r][(len(ratios[r])-1)/2]
		}
	}
	return clocks
}

// ratios are captured times of undisturbed operations over the law's, ascending.
type ratios []float64

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

// A Slowdown is what collectives added to compute kernels beside them, as instances of the same kernels show that ran
// beside nothing in the same capture: a measured time, of no model.
type Slowdown struct {
	Time        trace.Time // of an iteration, mean over captured ranks; of the whole run without iterations
	Kernels     int        // that ran beside collectives, on all captured ranks and in all iterations
	Collectives [trace.Barrier + 1]int
}

// leastInstances is how many instances of a kernel with nothing beside them tell its time alone.
const leastInstances = 3

// SlowdownOf measures it. Kernels of which too few instances ran alone, or whose instances alone are different
// work, add nothing.
func SlowdownOf(w *workload.Workload) (s Slowdown) {
	beside := coRunners(w)
	of, n := workload.IterationsOf(w)
	alone, slowed := map[instanceClass][]trace.Time{}, map[instanceClass][]int32{}
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Kind != trace.Compute || copied(w, op.Rank) || op.Dur() <= 0 || n > 0 && of[i] < 0 {
			continue
		}
		switch class := kernelClass(w, op); {
		case beside.ops[i] == 0:
			alone[class] = append(alone[class], op.Dur())
		case float64(beside.moves[i]) > alikeShare*float64(op.Dur()):
			slowed[class] = append(slowed[class], int32(i))
		}
	}
	met := map[int32]bool{}
	for class, ids := range slowed {
		took := slices.Sorted(slices.Values(alone[class]))
		last := len(took) - 1
		if len(took) < leastInstances || float64(took[last*9/10]) > alikeWork*float64(took[last/10]) {
			continue
		}
		for _, id := range ids {
			s.Time += w.Ops[id].Dur() - took[last/2]
			s.Kernels++
			met[id] = true
		}
	}
	early := map[int32]bool{} // by group: a part of a collective of which the last part is to come
	for i := range w.Collectives {
		c := &w.Collectives[i]
		early[c.Group] = slices.ContainsFunc(beside.with[i], func(c workload.CoRun) bool { return met[c.Op] }) || early[c.Group]
		if early[c.Group] && !c.Earlier {
			s.Collectives[c.Op]++
		}
		early[c.Group] = early[c.Group] && c.Earlier
	}
	s.Time /= trace.Time(max(1, n) * max(1, w.Captured))
	return s
}
