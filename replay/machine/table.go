package machine

import (
	"cmp"
	"math"
	"slices"
)

// A Table is rows of numbers in SI units, as in a measured curve. What the
// columns are is said where the table is declared.
//
// Invariant: rows are in ascending order, compared column by column.
type Table struct {
	Rows   [][]float64
	Source string
	Mark   Mark
}

// Known reports whether there are numbers.
func (t Table) Known() bool { return t.Mark != Unknown && len(t.Rows) > 0 }

// A point of a curve.
type point struct{ x, y float64 }

// curve is two columns of a table.
func (t Table) curve(x, y int) []point {
	points := make([]point, len(t.Rows))
	for i, r := range t.Rows {
		points[i] = point{r[x], r[y]}
	}
	return points
}

// at interpolates y at x, straight in the logarithms of both; beyond the ends
// the value of the end holds. The points are in ascending order of x and
// positive; there is at least one.
func at(points []point, x float64) float64 {
	i, found := slices.BinarySearchFunc(points, x, func(p point, x float64) int { return cmp.Compare(p.x, x) })
	switch {
	case found:
		return points[i].y
	case i == 0:
		return points[0].y
	case i == len(points):
		return points[i-1].y
	}
	a, b := points[i-1], points[i]
	f := math.Log(x/a.x) / math.Log(b.x/a.x)
	return math.Exp((1-f)*math.Log(a.y) + f*math.Log(b.y))
}
