package dataset

import (
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
)

// A variable is numbers that a fit changes by one factor: times are multiplied by it and rates divided, so that laws are
// linear in most factors.
type variable struct {
	numbers     []*float64
	start       []float64 // the numbers at a factor of 1
	rate        bool
	least, most float64 // of the factor
	open        bool    // a fit that comes to a bound is none
	factor      float64
}

// bounds are those of parameters, by their keys or the last part of them, in SI units; others have to be positive. Some stand for
// none at the least: where compute does not disturb a collective, rows scatter around no factor.
var bounds = map[string][2]float64{
	"clock.exponent": {0.1, 0.9}, "clock.knee": {0.01, 1.4}, "clock.memory": {0.01, 0.8}, "clock.link": {0.01, 0.8}, "exposed": {1e-4, 1},
	"link": {1e9, 1e13}, "smooth": {2, 6}, "beside_library": {1e-4, 100}, "beside_tiles": {1e-4, 100}, "beside_memory": {1e-4, 100},
	"beside_latency": {1e-9, 1}, "wait": {1e-12, 1},
}

// newVariable is a number with which others may change. One that is not known begins between its bounds.
func newVariable(key string, q *machine.Quantity, rate bool) *variable {
	b, bound := bounds[key]
	if !bound {
		b, bound = bounds[key[strings.LastIndex(key, ".")+1:]]
	}
	begin := (b[0] + b[1]) / 2
	if !bound {
		b, begin = [2]float64{1e-15, 1e15}, 1e-6 // anywhere: laws are linear in these
	}
	if q.Mark = machine.Sourced; !(q.Value > 0) {
		q.Value = begin
	}
	v := &variable{rate: rate, open: !bound, factor: 1, least: b[0] / q.Value, most: b[1] / q.Value}
	if rate {
		v.least, v.most = q.Value/b[1], q.Value/b[0]
	}
	v.add(&q.Value)
	return v
}

func (v *variable) add(number *float64) {
	v.numbers, v.start = append(v.numbers, number), append(v.start, *number)
}

// set changes the numbers to a factor within the bounds.
func (v *variable) set(factor float64) {
	v.factor = max(v.least, min(v.most, factor))
	for i, x := range v.numbers {
		if *x = v.start[i] * v.factor; v.rate {
			*x = v.start[i] / v.factor
		}
	}
}

// minimise lowers the sum of the sizes of errors over variables: by the steps of Levenberg and Marquardt, over squares that are
// weighted so that they add up to the sizes. It is false where the errors do not tell variables apart, and where one comes to a
// bound that it should not.
func minimise(free []*variable, errors func() []float64) bool {
	at, damping := errors(), firstDamping
	for gained := true; gained; {
		slopes := make([][]float64, len(free))
		for i, v := range free {
			x, h := v.factor, v.factor*1e-3 // the law of the clock is solved to 1e-5
			if x+h > v.most {
				h = -h
			}
			v.set(x + h)
			for r, e := range errors() {
				slopes[i] = append(slopes[i], (e-at[r])/h)
			}
			v.set(x)
		}
		if _, apart := stepOf(free, slopes, at, 0); !apart && damping == firstDamping {
			return false
		}
		for gained = false; !gained && damping < 1e6; damping *= 10 {
			from := make([]float64, len(free))
			step, _ := stepOf(free, slopes, at, damping)
			for i, x := range step {
				from[i] = free[i].factor
				free[i].set(from[i] + x)
			}
			now := errors()
			if gained = sizes(now) < sizes(at)*(1-1e-6); gained {
				at, damping = now, max(1e-8, damping/1000)
				continue
			}
			for i, v := range free {
				v.set(from[i])
			}
		}
	}
	return !slices.ContainsFunc(free, func(v *variable) bool { return v.open && (v.factor == v.least || v.factor == v.most) })
}

const (
	firstDamping = 1e-3
	leastSize    = 0.01 // of an error from which its size counts, not its square
)

func sizes(errors []float64) (sum float64) {
	for _, e := range errors {
		e = math.Abs(e)
		sum += max(e-leastSize/2, min(e, leastSize)*e/(2*leastSize))
	}
	return sum
}

// stepOf is the step that lowers errors most, with variables that it would take beyond their bounds held there. apart is false
// where some variables do the same.
func stepOf(free []*variable, slopes [][]float64, at []float64, damping float64) (step []float64, apart bool) {
	held := make([]bool, len(free))
	for again := true; again; {
		a := make([][]float64, len(free)) // the normal equations, each with its right side
		for i := range free {
			a[i] = make([]float64, len(free)+1)
			for r, e := range at {
				w := slopes[i][r] / max(math.Abs(e), leastSize)
				for j := range free {
					if !held[i] && !held[j] {
						a[i][j] += w * slopes[j][r]
					}
				}
				a[i][len(free)] -= w * e
			}
			a[i][i] *= 1 + damping
		}
		step, apart = solve(a)
		again = false
		for i, v := range free {
			if out := v.factor == v.least && step[i] < 0 || v.factor == v.most && step[i] > 0; out && !held[i] {
				held[i], again = true, true
			}
		}
	}
	return step, apart
}

// solve solves the equations of a symmetric matrix, each with its right side; unknowns on which nothing depends are 0. unique
// is false where the equations do not settle the others.
func solve(a [][]float64) (x []float64, unique bool) {
	x, unique = make([]float64, len(a)), true
	diagonal := make([]float64, len(a))
	for i := range a {
		diagonal[i] = a[i][i]
	}
	for i, d := range diagonal {
		if !(a[i][i] > 1e-9*d) { // what the others do not explain of it
			unique = unique && d == 0
			continue
		}
		for r := range a {
			if f := a[r][i] / a[i][i]; r != i {
				for j := i; j <= len(a); j++ {
					a[r][j] -= f * a[i][j]
				}
			}
		}
	}
	for i, d := range diagonal {
		if a[i][i] > 1e-9*d {
			x[i] = a[i][len(a)] / a[i][i]
		}
	}
	return x, unique
}

// An estimate is one number of several. Where it is one of them, which: else -1.
type estimate func(v []float64) (value float64, which int)

func mean(v []float64) (float64, int) {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v)), -1
}

func middle(v []float64) (float64, int)  { return median(slices.Clone(v)), -1 }
func last(v []float64) (float64, int)    { return v[len(v)-1], len(v) - 1 }
func largest(v []float64) (float64, int) { return slices.Max(v), slices.Index(v, slices.Max(v)) }
func least(v []float64) (float64, int)   { return slices.Min(v), slices.Index(v, slices.Min(v)) }

// median of the values; 0 for none. The values are reordered.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// off is the residual of one row.
func off(predicted, measured float64) float64 { return math.Abs(predicted/measured - 1) }

// residual is the median of what predictions are off by.
func residual(c *calibration, rows []Row, of func(c *calibration, r *Row) (predicted, measured float64)) float64 {
	var all []float64
	for i := range rows {
		all = append(all, off(of(c, &rows[i])))
	}
	return median(all)
}
