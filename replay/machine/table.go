package machine

import (
	"cmp"
	"math"
	"slices"
)

// A Table is rows of numbers in SI units, such as a measured curve. The columns are
// documented where the table is declared.
//
// Invariant: rows are in ascending order, compared column by column.
type Table struct {
	Rows   [][]float64
	Source string
	Mark   Mark
}

// Known reports whether the table has rows.
func (t Table) Known() bool { return t.Mark != Unknown && len(t.Rows) > 0 }

// Copy is a table whose rows may change.
func (t Table) Copy() Table {
	t.Rows = slices.Clone(t.Rows)
	for i, r := range t.Rows {
		t.Rows[i] = slices.Clone(r)
	}
	return t
}

// A point is a point of a curve.
type point struct{ X, Y float64 }

// curve returns two columns of a table.
func (t Table) curve(x, y int) []point {
	points := make([]point, len(t.Rows))
	for i, r := range t.Rows {
		points[i] = point{r[x], r[y]}
	}
	return points
}

// at interpolates y at x, linearly in the logarithms of both. Beyond the ends it is the
// value of the end. The points are positive and in ascending order of x; there is at least
// one.
func at(points []point, x float64) float64 {
	i, found := slices.BinarySearchFunc(points, x, func(p point, x float64) int { return cmp.Compare(p.X, x) })
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
