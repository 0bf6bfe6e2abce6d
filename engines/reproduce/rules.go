package reproduce

import (
	"fmt"
	"math"
)

// A Quantity is what a published number counts. It decides the formula and the tolerance.
type Quantity string

// The quantities. a is the measure of the strategy, b of the baseline.
const (
	Reduction Quantity = "reduction" // 1 - a/b
	Speedup   Quantity = "speedup"   // b/a, published as a ratio
	Gain      Quantity = "gain"      // b/a - 1, published in percent
	Share     Quantity = "share"     // a, a fraction of 1
	Time      Quantity = "time"      // a, seconds
	Count     Quantity = "count"     // a, as many digits as published
	Order     Quantity = "order"     // the sign of the difference between two points
)

// These tolerances were stated before any replay was compared with them, by kind of
// quantity and not by claim.
const (
	leastShare   = 0.05  // of 1: reductions, gains and shares may be off by 5 points,
	shareOf      = 0.25  // or by 25 % of their value
	speedupOf    = 0.10  // speedups and other ratios: 10 %
	timeOf       = 0.25  // absolute times: 25 %
	countOff     = 0.051 // counts are published to one digit behind the point
	effect       = 0.03  // a published effect above 3 % needs the same sign here
	pointsWithin = 0.80  // share of a claim's points within tolerance that counts as reproduced
)

// within reports whether a number of a replay is within tolerance of the published one.
func (q Quantity) within(published, here float64) bool {
	off := math.Abs(here - published)
	switch q {
	case Reduction, Gain, Share:
		return off <= max(leastShare, shareOf*math.Abs(published))
	case Speedup:
		return off <= speedupOf*published
	case Time:
		return off <= timeOf*published
	case Count:
		return off <= countOff
	default: // Order
		return published*here > 0
	}
}

// sign is -1, 0 or 1: which way an effect goes, if it is above the least one. Quantities
// that are no effect have none.
func (q Quantity) sign(x float64) int {
	switch q {
	case Reduction, Gain:
	case Speedup:
		x--
	case Order:
		return int(math.Copysign(1, x))
	default:
		return 0
	}
	switch {
	case x > effect:
		return 1
	case x < -effect:
		return -1
	}
	return 0
}

// sameSign reports whether a published effect goes the same way here. Effects of up to 3 %
// have no sign to miss.
func (q Quantity) sameSign(published, here float64) bool {
	s := q.sign(published)
	switch {
	case s == 0:
		return true
	case q == Speedup:
		return float64(s)*(here-1) > 0
	default:
		return float64(s)*here > 0
	}
}

// A Status is the result of a claim.
type Status string

// The results.
const (
	Reproduced    Status = "reproduced"
	NotReproduced Status = "not reproduced"
	NotCheckable  Status = "not checkable" // the reason is in the paper or in what it needs
)

// judge is the status of a claim with points: reproduced if enough of them are within
// tolerance and every effect has the published sign.
func judge(points []PointResult) Status {
	within := 0
	for _, p := range points {
		if p.Why != "" || !p.SameSign {
			return NotReproduced
		}
		if p.Within {
			within++
		}
	}
	if float64(within) < pointsWithin*float64(len(points)) {
		return NotReproduced
	}
	return Reproduced
}

// Count is the number of points within tolerance, of those whose published effect has a sign,
// and of those that have the same sign here.
func (r *ClaimResult) Count() (within, signed, sameSign int) {
	for _, p := range r.Points {
		if p.Within {
			within++
		}
		if p.As.sign(p.Published) != 0 {
			signed++
			if p.SameSign {
				sameSign++
			}
		}
	}
	return within, signed, sameSign
}

// Format writes a number of this quantity.
func (q Quantity) Format(x float64) string {
	switch q {
	case Reduction, Gain, Share:
		return fmt.Sprintf("%.1f %%", 100*x)
	case Speedup:
		return fmt.Sprintf("%.3f", x)
	case Time:
		return fmt.Sprintf("%.4g µs", 1e6*x)
	case Order:
		return map[bool]string{true: "more", false: "less"}[x > 0]
	}
	return fmt.Sprintf("%.4g", x)
}
