package score

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/verdict"
)

// compared are the rows that were compared with their references.
func compared(results []SetResult) (rows []*Check) {
	for _, r := range results {
		for i := range r.Checks {
			if r.Checks[i].Compared {
				rows = append(rows, &r.Checks[i])
			}
		}
	}
	return rows
}

// logs are the logarithms of the ratios of times, as predicted and as measured.
func (c *Check) logs() (predicted, measured float64) {
	return math.Log1p(c.Change), math.Log1p(c.Measured)
}

// startOfFit is where a fit begins: the parameters of modelOf.
var startOfFit = []float64{-4, -4, -2, -2, 0.5, 0, -2}

// modelOf is the model of the logarithms, but for Loss, of its numbers.
func modelOf(p []float64) verdict.Model {
	return verdict.Model{
		Order: math.Exp(p[0]), Kernels: math.Exp(p[1]), Change: math.Exp(p[2]), Spread: math.Exp(p[3]),
		Poor: math.Exp(max(0, p[4])), Loss: p[5], Unknown: math.Exp(p[6]),
	}
}

// likeliest are the parameters near p under which measured changes are likeliest, found with steps of one size to another.
func likeliest(p []float64, from, to float64, rows []*Check) []float64 {
	return ascend(p, from, to, func(p []float64) float64 {
		m, sum := modelOf(p), 0.0
		for _, c := range rows {
			predicted, measured := c.logs()
			sum += math.Log(m.Density(measured, predicted, c.Evidence)) + math.Log(m.Anything(measured))
		}
		return sum
	})
}

// bound is the largest parameter that ascend tries, and the negative of the least.
const bound = 12

// ascend is the maximum of f near p: it changes one parameter after the other by a step, and
// halves the step where none gains, down to a last one.
func ascend(p []float64, step, last float64, f func([]float64) float64) []float64 {
	best := f(p)
	for step > last {
		improved := false
		for i := range p {
			for _, by := range []float64{step, -step} {
				next := slices.Clone(p)
				next[i] = min(bound, max(-bound, p[i]+by))
				if got := f(next); got > best {
					p, best, improved = next, got, true
					break
				}
			}
		}
		if !improved {
			step /= 2
		}
	}
	return p
}

// A calibration is how well probabilities of changes came true.
type calibration struct {
	N       int
	Brier   float64 // mean square of the probability less what happened
	Normal  float64 // the same of a normal curve around the predicted change
	Nothing float64 // the same of the share of faster rows, for all
	Bins    []bin
}

// A bin is the rows with a probability of at least From and less than the next bin's.
type bin struct {
	From, Mean float64 // Mean of the probabilities
	N, Faster  int     // Faster: at least 1 % faster, as measured
}

// program is what was measured, in any set and on any machine: rows of one are no independent evidence.
func (c *Check) program() string { return c.Row.Workload.Kind + " " + c.Row.Workload.Name }

// heldOut are the models of each program, fitted to the other programs; to all if there is one.
func heldOut(rows []*Check) map[string]verdict.Model {
	all := likeliest(startOfFit, 1, 1e-3, rows)
	models := map[string]verdict.Model{}
	for _, x := range rows {
		of := x.program()
		if _, ok := models[of]; ok {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(rows), func(y *Check) bool { return y.program() == of })
		if len(others) == 0 {
			others = rows
		}
		models[of] = modelOf(likeliest(all, 0.125, 1e-3, others))
	}
	return models
}

// calibrationOf compares probabilities with what happened.
func calibrationOf(rows []*Check) calibration {
	c, sigma, rate := calibration{N: len(rows)}, 0.0, 0.0
	for _, from := range []float64{0, 0.05, 0.2, 0.5, verdict.Likely, 0.95} {
		c.Bins = append(c.Bins, bin{From: from})
	}
	n, less := float64(len(rows)), math.Log1p(verdict.Faster)
	for _, x := range rows {
		predicted, measured := x.logs()
		sigma += (measured - predicted) * (measured - predicted) / n
		if measured < less {
			rate += 1 / n
		}
	}
	for _, x := range rows {
		happened, p := 0.0, x.Confidence.Chance.PFaster
		predicted, measured := x.logs()
		if measured < less {
			happened = 1
		}
		square := func(p float64) float64 { return (p - happened) * (p - happened) / n }
		c.Brier += square(p)
		c.Normal += square(0.5 * math.Erfc((predicted-less)/math.Sqrt(2*sigma)))
		c.Nothing += square(rate)
		b := len(c.Bins) - 1
		for p < c.Bins[b].From {
			b--
		}
		c.Bins[b].N++
		c.Bins[b].Faster += int(happened)
		c.Bins[b].Mean += p
	}
	for i := range c.Bins {
		c.Bins[i].Mean /= float64(max(1, c.Bins[i].N))
	}
	return c
}
