package score

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/verdict"
)

// A Change is what one row changed against its reference, as measured and as predicted:
// logarithms of the ratio of times.
type Change struct {
	Set                 string
	Predicted, Measured float64
	Evidence            verdict.Evidence
	PFaster             float64 // from the other sets
}

// Changes are those of all rows that can be compared.
func Changes(results []SetResult) []Change {
	var all []Change
	for _, r := range results {
		for _, c := range r.Checks {
			if c.Compared {
				all = append(all, Change{r.Set.Name, math.Log1p(c.Change), math.Log1p(c.Measured), c.Evidence, c.Confidence.Chance.PFaster})
			}
		}
	}
	return all
}

// Fit is the model under which measured changes are likeliest (rule E8).
func Fit(changes []Change) verdict.Model {
	model := func(p []float64) verdict.Model {
		return verdict.Model{
			Order: math.Exp(p[0]), Kernels: math.Exp(p[1]), Change: math.Exp(p[2]), Spread: math.Exp(p[3]),
			Poor: math.Exp(max(0, p[4])), Loss: p[5], Unknown: math.Exp(p[6]),
		}
	}
	return model(ascend([]float64{-4, -4, -2, -2, 0.5, 0, -2}, func(p []float64) float64 {
		m, sum := model(p), 0.0
		for _, c := range changes {
			sum += math.Log(m.Density(c.Measured, c.Predicted, c.Evidence)) + math.Log(m.Anything(c.Measured))
		}
		return sum
	}))
}

// bound is the largest parameter that ascend tries, and the negative of the least.
const bound = 12

// ascend is the maximum of f near p: it changes one parameter after the other by a step, and
// halves the step where none gains.
func ascend(p []float64, f func([]float64) float64) []float64 {
	best := f(p)
	for step := 1.0; step > 1e-4; {
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

// A Calibration is how well probabilities of changes came true.
type Calibration struct {
	N       int
	Brier   float64 // mean square of the probability less what happened
	Normal  float64 // the same of a normal curve around the predicted change
	Nothing float64 // the same of the share of faster rows, for all
	Bins    []Bin
}

// A Bin is the rows with a probability of at least From and less than the next bin's.
type Bin struct {
	From, Mean float64 // Mean of the probabilities
	N, Faster  int     // Faster: at least 1 % faster, as measured
}

// heldOut are the models of each set, fitted to the other sets; to all if there is one.
func heldOut(changes []Change) map[string]verdict.Model {
	models := map[string]verdict.Model{}
	for _, x := range changes {
		if _, ok := models[x.Set]; ok {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(changes), func(y Change) bool { return y.Set == x.Set })
		if len(others) == 0 {
			others = changes
		}
		models[x.Set] = Fit(others)
	}
	return models
}

// Calibrate compares probabilities with what happened.
func Calibrate(changes []Change) Calibration {
	c, sigma, rate := Calibration{N: len(changes)}, 0.0, 0.0
	for _, from := range []float64{0, 0.05, 0.2, 0.5, verdict.Likely, 0.95} {
		c.Bins = append(c.Bins, Bin{From: from})
	}
	n, less := float64(len(changes)), math.Log1p(verdict.Faster)
	for _, x := range changes {
		sigma += (x.Measured - x.Predicted) * (x.Measured - x.Predicted) / n
		if x.Measured < less {
			rate += 1 / n
		}
	}
	for _, x := range changes {
		happened := 0.0
		if x.Measured < less {
			happened = 1
		}
		square := func(p float64) float64 { return (p - happened) * (p - happened) / n }
		c.Brier += square(x.PFaster)
		c.Normal += square(0.5 * math.Erfc((x.Predicted-less)/math.Sqrt(2*sigma)))
		c.Nothing += square(rate)
		b := len(c.Bins) - 1
		for x.PFaster < c.Bins[b].From {
			b--
		}
		c.Bins[b].N++
		c.Bins[b].Faster += int(happened)
		c.Bins[b].Mean += x.PFaster
	}
	for i := range c.Bins {
		c.Bins[i].Mean /= float64(max(1, c.Bins[i].N))
	}
	return c
}
