package machine

import "math"

// A Clock is how far the clock falls under load. The board's power is capped,
// and power grows with the busy fraction u of the matrix pipes times a power
// of the clock, so that
//
//	relative clock = min(1, (Knee/u)^Exponent)
//
// (MODEL_STUDY R9). The cap acts on an average over tens of milliseconds.
type Clock struct {
	Knee     Quantity // busy fraction from which on the clock falls
	Exponent Quantity
}

// Relative is the clock as a fraction of the full one while the matrix pipes
// are busy a fraction u of the time, in terms of GPU.Flops: flop done over
// elapsed seconds times GPU.Flops. It is 1 where the profile knows no clock.
func (c Clock) Relative(u float64) float64 {
	if !c.Knee.Known() || !c.Exponent.Known() || u <= c.Knee.Value {
		return 1
	}
	return math.Pow(c.Knee.Value/u, c.Exponent.Value)
}
