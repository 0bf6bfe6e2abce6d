package verdict

import (
	"fmt"
	"math"
)

// Faster is the change from which a schedule counts as faster than the captured one: 1 % less
// time. Likely is the probability from which it is called likely.
const (
	Faster = -0.01
	Likely = 0.8
)

// A Chance is what measured changes say about a predicted one.
type Chance struct {
	PFaster float64 `json:"p_faster"` // probability that the schedule takes at least 1 % less time than the captured one
	Error   float64 `json:"error"`    // half the width of the change's 80 % interval, relative to the captured schedule: 0.03 is 3 points

	// Unproven is that the prediction may be worth nothing, as for a setting that never ran on hardware: PFaster allows for that, and
	// Error is of a change around none rather than around the predicted one.
	Unproven bool `json:"unproven,omitempty"`
}

// Evidence is what the reliability of a predicted change depends on, besides its size.
type Evidence struct {
	OtherKernels bool    // kernels are split, merged or replaced; else the captured ones run in another order
	Rest         float64 // share of the captured device time that the schedule does not touch
	Spread       float64 // ln of the slowest over the fastest time, over dispatch orders
	Poor         int     // caveats that widen the error
	Unproven     int     // caveats that widen it twice
	Copied       bool    // ranks that nobody captured are copies of others
	Untested     int     // caveats after which the prediction may be worth nothing
	profiled     bool    // the estimate of the time without the profiler decides the sign of the change
	Why          string  // the strongest caveat, else what speaks for the prediction
	none         bool    // no schedule that can run: a bound, or hardware that nobody has
}

// A Model is the distribution of the measured change, given the predicted one and its evidence
// (rule E8). Changes are logarithms of the time over the captured schedule's. The measured
// change is the predicted one, for captured kernels in another order plus Loss, and an error
// with Student's t distribution of three degrees of freedom. Its scale is the root of the sum
// of the squares of
//
//	(Order or Kernels) × (1 - Evidence.Rest)    by Evidence.OtherKernels
//	Change × |predicted change|
//	Spread × Evidence.Spread
//
// times the root of what caveats add to its square, each Poor² - 1, unproven ones Poor⁴ - 1, and ranks that nobody
// captured copiedRanks² - 1, and of
// the square of noise, by which two runs of one schedule
// differ. After each untested caveat the prediction holds in one of
// two cases. In the others nothing is known: the change is around Faster, with even odds on
// either side, as far away as measured changes are from 0 (Unknown), less for what the schedule leaves alone. So each
// caveat moves a probability towards one half and never away.
type Model struct {
	Order, Kernels, Change, Spread, Poor, Loss, Unknown float64
}

// noise is the scale of the change between two measured times of one schedule: those of two processes
// differ by 0.32 % in the median over 62 steps (again_us in samples/measurements), and a change has two.
const noise = 0.006

// copiedRanks is how many times larger the error is where the other ranks were not captured: 1,090 measured changes of two and
// four ranks, predicted from the captures of rank 0 alone, are likeliest with it (rule E8).
const copiedRanks = 1.1

// untested is the probability that a prediction holds after a caveat of which nothing is known.
const untested = 0.5

// cumulative is Student's t distribution of three degrees of freedom.
func cumulative(t float64) float64 {
	u := t / math.Sqrt(3)
	return 0.5 + (u/(1+u*u)+math.Atan(u))/math.Pi
}

// density is its density.
func density(t float64) float64 {
	u := 1 + t*t/3
	return 2 / (math.Pi * math.Sqrt(3) * u * u)
}

// trust is the probability that the prediction holds.
func trust(e Evidence) float64 { return math.Pow(untested, float64(e.Untested)) }

// errorOf is the location and the scale of the change where x is predicted; logarithms.
func (m Model) errorOf(x float64, e Evidence) (at, scale float64) {
	own := m.Order
	if e.OtherKernels {
		own = m.Kernels
	} else {
		x += m.Loss
	}
	twice := m.Poor * m.Poor
	wider := 1 + float64(e.Poor)*(twice-1) + float64(e.Unproven)*(twice*twice-1)
	if e.Copied {
		wider += copiedRanks*copiedRanks - 1
	}
	return x, math.Hypot(noise, math.Hypot(math.Hypot(own*(1-e.Rest), m.Change*x), m.Spread*e.Spread)*math.Sqrt(wider))
}

// unknown is the scale of the change, around Faster, where the prediction does not hold.
func (m Model) unknown(e Evidence) float64 { return math.Hypot(noise, m.Unknown*(1-e.Rest)) }

// Below is the probability that the change is below y where x is predicted; logarithms.
func (m Model) Below(y, x float64, e Evidence) float64 {
	w := trust(e)
	at, scale := m.errorOf(x, e)
	return w*cumulative((y-at)/scale) + (1-w)*cumulative((y-math.Log1p(Faster))/m.unknown(e))
}

// Density is that of the change at y where x is predicted; logarithms.
func (m Model) Density(y, x float64, e Evidence) float64 {
	w := trust(e)
	at, scale := m.errorOf(x, e)
	return w*density((y-at)/scale)/scale + (1-w)*density((y-math.Log1p(Faster))/m.unknown(e))/m.unknown(e)
}

// Anything is the density of measured changes at y, whatever was predicted.
func (m Model) Anything(y float64) float64 { return density(y/m.Unknown) / m.Unknown }

// chance is that of a predicted change, relative to the captured schedule's time: -0.1 is
// 10 % less. It is above -1.
func (m Model) chance(change float64, e Evidence) Chance {
	x := math.Log1p(change)
	return Chance{
		PFaster:  m.Below(math.Log1p(Faster), x, e),
		Unproven: e.Untested > 0,
		Error:    (math.Exp(m.quantile(0.9, x, e)) - math.Exp(m.quantile(0.1, x, e))) / 2,
	}
}

// quantile is the change below which a share q of the distribution lies.
func (m Model) quantile(q, x float64, e Evidence) float64 {
	lo, hi := -20.0, 20.0
	for range 60 {
		if mid := (lo + hi) / 2; m.Below(mid, x, e) < q {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// PercentOf is a probability in whole percent; never 0 or 100.
func PercentOf(p float64) string {
	switch {
	case p < 0.005:
		return "<1 %"
	case p > 0.995:
		return ">99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}
