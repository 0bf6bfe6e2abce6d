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

// A Point of a curve.
type Point struct{ X, Y float64 }

// curve is two columns of a table.
func (t Table) curve(x, y int) []Point {
	points := make([]Point, len(t.Rows))
	for i, r := range t.Rows {
		points[i] = Point{r[x], r[y]}
	}
	return points
}

// at interpolates y at x, straight in the logarithms of both; beyond the ends
// the value of the end holds. The points are in ascending order of x and
// positive; there is at least one.
func at(points []Point, x float64) float64 {
	i, found := slices.BinarySearchFunc(points, x, func(p Point, x float64) int { return cmp.Compare(p.X, x) })
	switch {
	case found:
		return points[i].Y
	case i == 0:
		return points[0].Y
	case i == len(points):
		return points[i-1].Y
	}
	a, b := points[i-1], points[i]
	f := math.Log(x/a.X) / math.Log(b.X/a.X)
	return math.Exp((1-f)*math.Log(a.Y) + f*math.Log(b.Y))
}
