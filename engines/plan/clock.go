package plan

import (
	"math"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Clock is the power demand of a workload on a GPU and the clock at which it was
// captured.
type Clock struct {
	demand machine.Demand // of one iteration on one GPU; its Time as captured
	met    float64        // relative clock of the capture
	short  bool           // captured on another GPU whose power limit had not lowered its clock, though it would: nor does this one's
}

// ClockOf derives both from the captured operations. The demand is that of a schedule that changes some: what it leaves out
// draws no power (rule P4).
func ClockOf(w *workload.Workload, m *machine.Machine, sc Scenario, by Changes) Clock {
	c := capturedClock(w, m, sc)
	if by.Runs == nil || c.demand.Time == 0 {
		return c
	}
	of, n := workload.IterationsOf(by.Workload)
	laws, per := &cost.Laws{Machine: m, Workload: by.Workload}, float64(w.World*max(1, n-1))
	for id, times := range by.Runs {
		if times == 1 || n > 0 && of[id] < 0 || n > 1 && of[id] == 0 {
			continue
		}
		var one Clock
		one.add(laws, &by.Workload.Ops[id])
		more := float64(times-1) / per
		c.demand.Matrix += more * one.demand.Matrix
		c.demand.Memory += more * one.demand.Memory
		c.demand.Link += more * one.demand.Link
	}
	return c
}

// capturedClock is ClockOf of the captured schedule.
func capturedClock(w *workload.Workload, m *machine.Machine, sc Scenario) Clock {
	c := Clock{met: 1}
	step := MeasuredSteps(w).Time()
	if !m.Clock.Known() || !(m.GPU.Flops.Value > 0) || step <= 0 {
		return c
	}
	c.demand = machine.Demand{Time: Seconds(step)}
	laws := &cost.Laws{Machine: m, Workload: w}
	of, n := workload.IterationsOf(w)
	// seconds on all ranks: of compute up to the middle of the iterations; of waits for ranks that nobody captured
	loaded, polled := 0.0, 0.0
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Collective < 0 {
			loaded += Seconds(op.DurAlone())
		}
		if n == 0 || of[i] >= 0 {
			if n < 2 || of[i] > 0 { // in the first of several, ranks wait for each other, as Steps.Time knows
				c.add(laws, op)
				if op.Collective >= 0 {
					polled += Seconds(w.Collectives[op.Collective].Late)
				}
			}
			if op.Collective < 0 {
				loaded -= Seconds(op.DurAlone()) / 2
			}
		}
	}
	per := float64(w.World * max(1, n-1))
	c.demand.Matrix /= per
	c.demand.Memory /= per
	c.demand.Link /= per
	if r := w.Rescaled; r != nil { // the same relative clock as in the capture, or the steady one of another GPU (rule Y1)
		if other := r.On.Profile != m.Profile; other {
			on := capturedClock(r.Of, &r.On, Scenario{Clock: SettledClock})
			c.met = on.met
			c.short = sc.Clock == CapturedClock && on.met == 1 && r.On.Clock.Settled(on.demand) < 1-r.On.Matmul.RunSpread.Value
		} else {
			c.met = capturedClock(r.Of, &r.On, sc).met
		}
		c.demand.At = c.met
		return c
	}
	if sc.Clock == CapturedClock {
		c.demand.Time += sc.Rest
		c.met = m.Clock.Settled(c.demand)
	} else {
		captured := c
		captured.demand.Link += polled / per
		c.met = captured.shown(w, m, loaded/float64(w.World))
	}
	c.demand.At = c.met
	return c
}

// shown is the relative clock of the capture, derived from GEMMs whose times alone are
// measured. Without such GEMMs it is what the law of the matrix library says; a reading
// within twice the spread of runs of the full clock or of the settled one counts as the
// nearer of the two. Without GEMMs of the library, and in a short burst, it is the full
// clock, if that lasts for the seconds that the GPUs had computed (rule P6).
func (c Clock) shown(w *workload.Workload, m *machine.Machine, loaded float64) float64 {
	near := m.Matmul.RunSpread.Value
	settled := m.Clock.Settled(c.demand)
	if known, took, all := LibraryGEMMs(w, m, false); took > all/2 {
		if at := known / took / m.Clock.InPlace.Or(1); at < 1-near {
			return max(at, settled)
		}
		return 1
	}
	known, took, all := LibraryGEMMs(w, m, true)
	lasts := m.Clock.Lasts(0, m.Clock.Draw(c.demand, 1))
	switch {
	case took > all/2 && loaded > burst*lasts:
	case loaded > lasts:
		return settled
	default:
		return 1
	}
	at := min(1, known/took/m.Clock.InPlace.Or(1))
	c.demand.At = at
	settled = m.Clock.Settled(c.demand)
	switch far, low := 1-at, math.Abs(at/settled-1); {
	case min(far, low) > 2*near:
		return at
	case far <= low:
		return 1
	}
	return settled
}

// burst is the length of a capture, relative to the time for which the full clock lasts from
// rest, that moves the average draw too little to lower the clock: the error of the law of
// GEMMs then exceeds what it could show.
const burst = 0.1

// add adds one operation to the demand.
func (c *Clock) add(laws *cost.Laws, op *workload.Op) {
	w, m := laws.Workload, laws.Machine
	switch {
	case op.Collective >= 0:
		c.demand.Link += Seconds(w.Collectives[op.Collective].TransferAlone())
	case op.Shape.Kind == workload.GEMM || op.Flops > 0: // a GEMM faster than the profile's draws power for its own time
		c.demand.Matrix += min(Seconds(op.DurAlone()), max(op.Flops, op.Shape.Flops())/m.GPU.Flops.Value)
	case op.Matrix() && w.BatchOf(op).Phase != workload.Decode: // there it waits for weights, or for keys and values
		c.demand.Matrix += unsizedRate * occupied(op, m) * Seconds(op.DurAlone())
	default:
		c.demand.Memory += moving(laws, op)
	}
}

// unsizedRate is the share of the matrix rate at which attention and convolutions of unknown sizes compute: that
// of FlashAttention-3 forward on an H100, 740 of 989 TFLOP/s (its section 4.1; rule P8).
const unsizedRate = 0.75

// occupied is the share of the CUs on which an operation can have workgroups; 1 where its number is not known.
func occupied(op *workload.Op, m *machine.Machine) float64 {
	if wgs, cus := float64(op.Tiling.WGs), m.GPU.CUs.Value; wgs > 0 && wgs < cus {
		return wgs / cus
	}
	return 1
}

// LibraryGEMMs returns, in seconds: the profile's time at full clock of the matrix
// library's GEMMs (those measured alone, or with law all of them), their captured time,
// and the captured time of all GEMMs. The first of several iterations does not count, as in
// Steps.Time.
func LibraryGEMMs(w *workload.Workload, m *machine.Machine, law bool) (known, took, all float64) {
	of, n := workload.IterationsOf(w)
	laws := cost.Laws{Machine: m, Workload: w}
	var tilings cost.Memo[*workload.Kernel, machine.Tiling]
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Shape.Kind != workload.GEMM || op.Shape.Guessed != 0 || n > 1 && of[i] < 1 {
			continue
		}
		all += Seconds(op.DurAlone())
		if t := tilings.Of(op.Kernel, func() machine.Tiling { return laws.Tiling(op) }); op.Tiling.Persistent &&
			(t.Measured || law && !op.Compiled) {
			known += t.Seconds
			took += Seconds(op.DurAlone())
		}
	}
	return known, took, all
}

// Pace is Scenario.Pace for iterations that take step ns at the pace of sc; for step 0,
// the initial pace (rule P4). It is 0 if the clock is unknown.
func (c Clock) Pace(m *machine.Machine, sc Scenario, step trace.Time) float64 {
	switch {
	case sc.Clock == FullClock:
		return c.met
	case step <= 0:
		return 1
	}
	return c.met / c.Settled(m, sc, step)
}

// Settled is the relative clock at which iterations settle that take step at the pace of
// sc.
func (c Clock) Settled(m *machine.Machine, sc Scenario, step trace.Time) float64 {
	if c.demand.Time == 0 || step <= 0 || c.short {
		return 1
	}
	return m.Clock.Settled(c.Demand(sc, step))
}

// Demand is the power demand of iterations that take step at the pace of sc.
func (c Clock) Demand(sc Scenario, step trace.Time) machine.Demand {
	d := c.demand
	d.Time, d.At = Seconds(step)+sc.Rest, c.met/max(sc.Pace, 1e-3)
	return d
}

// Paced is the duration at the current pace of an operation that lasts dur alone in the
// capture: GEMMs slow down with the clock, other kernels as far as they are not
// memory-bound (rule P5).
func (pl *Planner) Paced(op *workload.Op, dur trace.Time) trace.Time {
	slow := trace.Time(float64(dur)*pl.Scenario.Pace + 0.5)
	switch {
	case !(pl.Scenario.Pace > 0):
		return dur
	case op.Matrix():
		return slow
	case op.Read+op.Write > 0:
		if floor := trace.Time(1e9 * moving(pl.Laws(), op)); float64(dur) > boundByMemory*float64(floor) {
			return max(slow, floor)
		}
	}
	return dur
}

// moving is the seconds in which memory moves the bytes of an operation, at most its time; all of it if its traffic is
// unknown.
func moving(laws *cost.Laws, op *workload.Op) float64 {
	took := Seconds(op.DurAlone())
	if load := laws.MemoryLoad(op); load > 0 {
		return took * min(1, load)
	}
	return took
}

// boundByMemory is the maximum duration of a memory-bound kernel, relative to the time of
// its traffic.
const boundByMemory = 1.03

// Seconds is a time in seconds.
func Seconds(t trace.Time) float64 { return float64(t) / 1e9 }
