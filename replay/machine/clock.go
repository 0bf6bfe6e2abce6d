package machine

import "math"

// A Clock is how far the clock falls under load. The board's power is capped. A
// GEMM draws power for the flop it does, and less of it at a lower clock and
// voltage; memory and links draw theirs for the bytes they move. In units of
// what a GPU draws that does nothing but GEMMs at full clock:
//
//	draw = Matrix·c^(1/Exponent − 1) + Memory·(its seconds) + Link·(its seconds)
//
// an iteration, where c is the clock relative to the full one. On average over
// Hold it may come to Knee a second: a GPU keeps its full clock until its
// average gets there, then the clock at which the draw stays there
// (samples/measurements/2026-11-21-h200-power, rules P1 and P2).
type Clock struct {
	Knee     Quantity // draw that can be kept up
	Exponent Quantity // of the relative clock over the share of the time that GEMMs may be busy
	Memory   Quantity // draw of memory at full rate
	Link     Quantity // draw of a collective that moves data
	InPlace  Quantity // rate of a GEMM between other kernels relative to alone, at one clock
	Hold     Quantity // time over which draw is averaged
}

// A Demand is what one GPU does in one iteration of many.
type Demand struct {
	Matrix float64 // seconds that its GEMMs would take at GPU.Flops
	Memory float64 // seconds that other kernels' traffic takes at GPU.Memory
	Link   float64 // seconds in which its collectives move data
	Time   float64 // seconds from the start of an iteration to that of the next
	At     float64 // relative clock at which it takes that Time; 0 where that is to be found
}

// Known reports whether the profile has a clock that falls.
func (c Clock) Known() bool { return c.Knee.Value > 0 && c.Exponent.Value > 0 }

// DurationAt is the demand's at another relative clock: only its GEMMs get slower.
// Where At is 0 it takes its Time at whichever clock is asked for.
func (d Demand) DurationAt(clock float64) float64 {
	if d.At == 0 {
		return d.Time
	}
	return d.Time + d.Matrix*(1/clock-1/d.At)
}

// Draw is the demand's average at a relative clock.
func (c Clock) Draw(d Demand, clock float64) float64 {
	return c.energy(d, clock) / d.DurationAt(clock)
}

func (c Clock) energy(d Demand, clock float64) float64 {
	return d.Matrix*math.Pow(clock, 1/c.Exponent.Value-1) + c.Memory.Or(0)*d.Memory + c.Link.Or(0)*d.Link
}

// Settled is the relative clock of a GPU that does iterations of a demand for
// long: the highest at which its draw can be kept up. It is 1 where the profile
// knows no clock.
func (c Clock) Settled(d Demand) float64 {
	if !c.Known() || !(d.Time > 0) || c.Draw(d, 1) <= c.Knee.Value {
		return 1
	}
	low, high := LowestClock, 1.0
	for high-low > 1e-5 {
		if mid := (low + high) / 2; c.Draw(d, mid) > c.Knee.Value {
			high = mid
		} else {
			low = mid
		}
	}
	return low
}

// lowestClock is as far as the law goes: GPUs on their lowest clocks are too hot
// rather than drawing too much.
const LowestClock = 0.3

// Lasts is for how many seconds a GPU keeps its full clock at a draw, where the
// average was before when that began; +Inf where the draw can be kept up.
func (c Clock) Lasts(before, draw float64) float64 {
	switch {
	case !c.Known() || draw <= c.Knee.Value:
		return math.Inf(1)
	case !(c.Hold.Value > 0) || before >= c.Knee.Value:
		return 0
	}
	return c.Hold.Value * math.Log((draw-before)/(draw-c.Knee.Value))
}

// Warmed is the average draw after so many seconds of one, where it was before
// when they began. It stays at what can be kept up once it is there.
func (c Clock) Warmed(before, draw, seconds float64) float64 {
	if !(c.Hold.Value > 0) {
		return min(draw, c.Knee.Value)
	}
	return min(draw+(before-draw)*math.Exp(-seconds/c.Hold.Value), c.Knee.Value)
}
