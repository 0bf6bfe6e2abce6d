package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/dataset"
	"github.com/overlapse/overlapse/replay/machine"
)

// A variable is a number that linear and search change.
type variable struct {
	*machine.Quantity
	rate        bool    // times are linear in its reciprocal
	least, most float64 // of linear: smaller solutions are least, and if that is 0, no fit; of search: its bounds
}

// set writes the number or, of a rate, its reciprocal.
func (v variable) set(x float64) {
	if v.Mark = machine.Sourced; v.rate {
		x = 1 / x
	}
	v.Value = x
}

// of are the variables of keys, which have to be positive.
func (c *calibration) of(keys ...string) (free []variable) {
	for _, key := range keys {
		e := find(&c.m, key)
		free = append(free, variable{Quantity: e.Quantity, rate: e.Dims[0] == machine.Rate || e.Dims[0] == machine.Flops})
	}
	return free
}

// linear is the least sum of squares of relative errors over the law's rows, of a law that is
// linear in the variables. It is false where the rows do not settle them.
func (l *law) linear(c *calibration, free []variable) bool {
	rows := l.rows(c)
	times := func() (list []float64) {
		for i := range rows {
			t, _ := l.predict(c, &rows[i])
			list = append(list, t)
		}
		return list
	}
	const from = 1e-6 // any number: the law is linear
	for _, v := range free {
		v.set(from)
	}
	at := times()
	a, left, size := make([][]float64, len(rows)), make([]float64, len(rows)), make([]float64, len(rows))
	for i := range rows {
		_, size[i] = l.predict(c, &rows[i])
		left[i] = size[i] - at[i]
	}
	for _, v := range free {
		v.set(2 * from)
		for i, t := range times() {
			a[i] = append(a[i], t-at[i])
			left[i] += t - at[i]
		}
		v.set(from)
	}
	x, ok := solve(a, left, size)
	if !ok {
		return false
	}
	for i, v := range free {
		value := x[i] * from
		if v.least == 0 && !(value > 0) {
			return false
		}
		v.set(max(v.least, value))
	}
	return true
}

// solve is least squares of a·x = y, each row weighted by 1/size. ok is false where the rows
// do not settle x.
func solve(a [][]float64, y, size []float64) (x []float64, ok bool) {
	if len(a) == 0 || len(a) < len(a[0]) || len(a[0]) == 0 {
		return nil, false
	}
	n := len(a[0])
	normal := make([][]float64, n)
	diagonal := make([]float64, n)
	for i := range normal {
		normal[i] = make([]float64, n+1)
		for r := range a {
			w := 1 / (size[r] * size[r])
			for j := range n {
				normal[i][j] += w * a[r][i] * a[r][j]
			}
			normal[i][n] += w * a[r][i] * y[r]
		}
		diagonal[i] = normal[i][i]
	}
	for i := range n {
		pivot := normal[i][i]
		if !(pivot > 1e-12*diagonal[i]) { // what the other columns do not explain of this one
			return nil, false
		}
		for r := range n {
			if f := normal[r][i] / pivot; r != i {
				for j := i; j <= n; j++ {
					normal[r][j] -= f * normal[i][j]
				}
			}
		}
	}
	for i := range n {
		x = append(x, normal[i][n]/normal[i][i])
	}
	return x, true
}

// search lowers a loss over variables, within their bounds: one after the other, then all
// along the way that this took them, which follows a valley (Powell).
func search(free []variable, loss func() float64) {
	was, now := make([]float64, len(free)), make([]float64, len(free))
	for range 20 {
		for i, v := range free {
			was[i] = v.Value
			v.set(lowest(func(x float64) float64 {
				v.set(x)
				return loss()
			}, v.least, v.most))
			now[i] = v.Value
		}
		move := func(t float64) float64 {
			for i, v := range free {
				v.set(max(v.least, min(v.most, now[i]+t*(now[i]-was[i]))))
			}
			return loss()
		}
		move(lowest(move, 0, 8))
	}
}

// lowest is where f is least between a and b, to 1e-4, by golden section: f
// falls, then rises.
func lowest(f func(float64) float64, a, b float64) float64 {
	const g = 0.6180339887498949
	x, y := b-g*(b-a), a+g*(b-a)
	fx, fy := f(x), f(y)
	for b-a > 1e-4 {
		if fx < fy {
			b, y, fy = y, x, fx
			x = b - g*(b-a)
			fx = f(x)
		} else {
			a, x, fx = x, y, fy
			y = a + g*(b-a)
			fy = f(y)
		}
	}
	return (a + b) / 2
}

// grid sets q to where f is least of n values from from/per on in steps of 1/per, the first
// of equals, and returns that least.
func grid(q *float64, from, per float64, n int, f func() float64) float64 {
	best, least := *q, math.Inf(1)
	for i := range n {
		*q = (from + float64(i)) / per
		if v := f(); v < least {
			best, least = *q, v
		}
	}
	*q = best
	return f()
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

func middle(v []float64) (float64, int) { return median(slices.Clone(v)), -1 }
func last(v []float64) (float64, int)   { return v[len(v)-1], len(v) - 1 }
func most(v []float64) (float64, int)   { return slices.Max(v), slices.Index(v, slices.Max(v)) }
func least(v []float64) (float64, int)  { return slices.Min(v), slices.Index(v, slices.Min(v)) }

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
func residual(c *calibration, rows []dataset.Row, of func(c *calibration, r *dataset.Row) (predicted, measured float64)) float64 {
	var all []float64
	for i := range rows {
		all = append(all, off(of(c, &rows[i])))
	}
	return median(all)
}
