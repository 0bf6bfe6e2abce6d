package score

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace/overlap"
)

// A quantity is what a published number counts. It decides the formula and the tolerance.
type quantity string

// The quantities. a is the measure of the strategy, b of the baseline.
const (
	reduction quantity = "reduction" // 1 - a/b
	speedup   quantity = "speedup"   // b/a, published as a ratio
	gain      quantity = "gain"      // b/a - 1, published in percent
	share     quantity = "share"     // a, a fraction of 1
	time      quantity = "time"      // a, seconds
	count     quantity = "count"     // a, as many digits as published
	bandwidth quantity = "bandwidth" // a, bytes per second
	order     quantity = "order"     // the sign of the difference between two points
)

// tolerances are by how much a number may be off, the same for all claims: by so much, or by a share of what was
// published. That of an effect is a quarter of it, so that a model that predicts nothing, or the same for everything, is outside.
var tolerances = map[quantity]struct{ least, of float64 }{
	reduction: {0.02, 0.25}, speedup: {0.02, 0.25}, gain: {0.02, 0.25}, share: {0.02, 0.25},
	time: {0, 0.25}, bandwidth: {0, 0.15}, count: {0.051, 0}, // counts are published to one digit behind the point
}

const (
	leastEffect  = 0.02 // a published effect above 2 % needs the same sign; an order needs a difference of 2 %,
	orderOf      = 0.5  // or of half of the published difference
	pointsWithin = 0.80 // share of a claim's points within tolerance that counts as reproduced
)

// effect is what a number says that a strategy gains, as a fraction; ok is false for
// quantities that are no effect.
func (q quantity) effect(x float64) (e float64, ok bool) {
	switch q {
	case reduction, gain:
		return x, true
	case speedup:
		return x - 1, true
	}
	return 0, false
}

// within reports whether a number of a replay is within tolerance of the published one.
func (q quantity) within(published, here float64) bool {
	if q == order {
		least := leastEffect
		if math.Abs(published) < 1 {
			least = max(least, orderOf*math.Abs(published))
		}
		return published*here > 0 && math.Abs(here) >= least
	}
	size, isEffect := q.effect(published)
	if !isEffect {
		size = published
	}
	return math.Abs(here-published) <= max(tolerances[q].least, tolerances[q].of*math.Abs(size))
}

// Signed reports whether a published number has a sign to miss: an effect above the least one.
func (q quantity) Signed(published float64) bool {
	e, ok := q.effect(published)
	return ok && math.Abs(e) > leastEffect
}

// sameSign reports whether a published effect goes the same way here.
func (q quantity) sameSign(published, here float64) bool {
	e, _ := q.effect(published)
	h, _ := q.effect(here)
	return !q.Signed(published) || e*h > 0
}

// A Status is the result of a claim.
type Status string

// The results.
const (
	Reproduced    Status = "reproduced"
	NotReproduced Status = "not reproduced"
	NotCheckable  Status = "not checkable" // the reason is in the paper or in what it needs
	NotScored     Status = "not scored"    // every point is apart
)

// judge is the status of a claim with points: reproduced if enough of those that are scored are
// within tolerance and every effect has the published sign, or if bandwidths are within it in the
// median.
func judge(points []Point) Status {
	claim := []Claim{{Points: points}}
	if here, _ := BandwidthErrors(claim); len(here) > 0 {
		return map[bool]Status{true: Reproduced, false: NotReproduced}[overlap.UpperMedian(here) <= tolerances[bandwidth].of]
	}
	missed := slices.ContainsFunc(points, func(p Point) bool { return p.Apart == "" && (p.Why != "" || !p.SameSign) })
	switch t := TallyOf(claim); {
	case t.Points == 0:
		return NotScored
	case missed || float64(t.Within) < pointsWithin*float64(t.Points):
		return NotReproduced
	}
	return Reproduced
}

// BandwidthErrors are the relative errors of the bandwidths of claims that are scored, in rising
// order, and those of a model that knows links only: each bandwidth is the rate of the slowest one.
func BandwidthErrors(claims []Claim) (here, links []float64) {
	for _, c := range claims {
		for _, p := range c.Points {
			if p.As == bandwidth && p.Apart == "" {
				here, links = append(here, math.Abs(p.Here/p.Published-1)), append(links, math.Abs(p.Links/p.Published-1))
			}
		}
	}
	slices.Sort(here)
	slices.Sort(links)
	return here, links
}

// A Tally counts points, and beside them what models without any knowledge reach: one that
// predicts no effect, one that predicts the median published effect of its paper for every
// point, and one that always gains. Points that are apart do not count.
type Tally struct {
	Points, Within int
	Effects        int // reductions, gains and speedups
	Signed         int // effects above the least one

	EffectsWithin, NothingWithin       int     // of Effects
	SignedWithin, ConstantWithin       int     // of Signed
	SameSign, Gains                    int     // of Signed: the published sign here; positive
	Error, NothingError, ConstantError float64 // sums over Effects of absolute differences, fractions
}

// TallyOf counts the points of claims. The median effects are those of these claims, by paper.
func TallyOf(claims []Claim) (t Tally) {
	effects := map[string][]float64{} // published, by paper
	for _, c := range claims {
		for _, p := range c.Points {
			if e, ok := p.As.effect(p.Published); ok && p.Apart == "" {
				effects[c.Paper] = append(effects[c.Paper], e)
			}
		}
	}
	for _, c := range claims {
		constant := overlap.UpperMedian(effects[c.Paper])
		for i := range c.Points {
			if p := &c.Points[i]; p.Apart == "" {
				t.add(p, constant)
			}
		}
	}
	return t
}

func (t *Tally) add(p *Point, constant float64) {
	count := func(n *int, hit bool) {
		if hit {
			*n++
		}
	}
	t.Points++
	count(&t.Within, p.Within)
	e, ok := p.As.effect(p.Published)
	if !ok {
		return
	}
	here, _ := p.As.effect(p.Here)
	t.Effects++
	t.Error, t.NothingError, t.ConstantError = t.Error+math.Abs(here-e), t.NothingError+math.Abs(e), t.ConstantError+math.Abs(constant-e)
	count(&t.EffectsWithin, p.Within)
	count(&t.NothingWithin, gain.within(e, 0))
	if !p.As.Signed(p.Published) {
		return
	}
	t.Signed++
	count(&t.SignedWithin, p.Within)
	count(&t.ConstantWithin, gain.within(e, constant))
	count(&t.SameSign, p.SameSign)
	count(&t.Gains, e > 0)
}

// Format writes a number of this quantity.
func (q quantity) Format(x float64) string {
	switch q {
	case reduction, gain, share:
		return fmt.Sprintf("%.1f %%", 100*x)
	case speedup:
		return fmt.Sprintf("%.3f", x)
	case time:
		return fmt.Sprintf("%.4g µs", 1e6*x)
	case bandwidth:
		return fmt.Sprintf("%.1f GB/s", x/1e9)
	case order:
		return map[bool]string{true: "more", false: "less"}[x > 0]
	}
	return fmt.Sprintf("%.4g", x)
}
