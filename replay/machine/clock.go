package machine

import (
	"math"
)

// A Clock is the law of the clock under the power limit. GEMMs draw power for their flop,
// and less at a lower clock and voltage; memory and links draw power for the bytes they
// move. In units of the draw of a GPU that only runs GEMMs at full clock, one iteration
// draws
//
//	draw = Matrix·c^(1/Exponent − 1) + Memory·(its seconds) + Link·(its seconds)
//
// where c is the clock relative to the full one. The average over Hold may reach Knee per
// second: a GPU keeps its full clock until its average reaches Knee, then the clock at
// which the draw stays there (rule P1).
type Clock struct {
	Knee     Quantity // sustainable draw
	Exponent Quantity // of the relative clock over the share of time in which GEMMs may run
	Memory   Quantity // draw of memory at full bandwidth
	Link     Quantity // draw of a collective that moves data
	InPlace  Quantity // rate of a GEMM between other kernels relative to alone, at the same clock
	Hold     Quantity // averaging time of the draw
}

// A Demand is the work of one GPU in one of many iterations.
type Demand struct {
	Matrix float64 // seconds of its GEMMs at GPU.Flops
	Memory float64 // seconds of other kernels' traffic at GPU.Memory
	Link   float64 // seconds in which its collectives move data
	Time   float64 // seconds from the start of one iteration to the start of the next
	At     float64 // relative clock at which an iteration takes Time; 0: to be found
}

// Known reports whether the profile has a clock law.
func (c Clock) Known() bool { return c.Knee.Value > 0 && c.Exponent.Value > 0 }

// DurationAt is the demand's Time at another relative clock: only GEMMs get slower. If At
// is 0, the Time is that of the given clock.
func (d Demand) DurationAt(clock float64) float64 {
	if d.At == 0 {
		return d.Time
	}
	return d.Time + d.Matrix*(1/clock-1/d.At)
}

// Draw is the demand's average draw at a relative clock.
func (c Clock) Draw(d Demand, clock float64) float64 {
	return c.energy(d, clock) / d.DurationAt(clock)
}

func (c Clock) energy(d Demand, clock float64) float64 {
	return d.Matrix*math.Pow(clock, 1/c.Exponent.Value-1) + c.Memory.Or(0)*d.Memory + c.Link.Or(0)*d.Link
}

// Settled is the relative clock of a GPU after many iterations of a demand: the highest at
// which its draw is sustainable. It is 1 if the profile has no clock law.
func (c Clock) Settled(d Demand) float64 {
	if !c.Known() || !(d.Time > 0) || c.Draw(d, 1) <= c.Knee.Value {
		return 1
	}
	low, high := lowestClock, 1.0
	for high-low > 1e-5 {
		if mid := (low + high) / 2; c.Draw(d, mid) > c.Knee.Value {
			high = mid
		} else {
			low = mid
		}
	}
	return low
}

// lowestClock is the lower end of the law: at lower clocks GPUs are limited by
// temperature, not by power.
const lowestClock = 0.3

// Lasts is the number of seconds for which a GPU keeps its full clock at a draw, from the
// given average; +Inf if the draw is sustainable.
func (c Clock) Lasts(before, draw float64) float64 {
	switch {
	case !c.Known() || draw <= c.Knee.Value:
		return math.Inf(1)
	case !(c.Hold.Value > 0) || before >= c.Knee.Value:
		return 0
	}
	return c.Hold.Value * math.Log((draw-before)/(draw-c.Knee.Value))
}

// Warmed is the average draw after some seconds at a draw, from the given average. It does
// not exceed the sustainable draw.
func (c Clock) Warmed(before, draw, seconds float64) float64 {
	if !(c.Hold.Value > 0) {
		return min(draw, c.Knee.Value)
	}
	return min(draw+(before-draw)*math.Exp(-seconds/c.Hold.Value), c.Knee.Value)
}
