package machine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Mark is the reliability of a number.
type Mark uint8

// The marks. Sourced is the zero value: Source is the measurement or document.
const (
	Sourced Mark = iota
	Assumed      // not measured on this machine; Source says where it was taken from
	Unknown      // no number: Value is 0; Source says what was looked for
)

// markKeys are the keys of a mark in a profile: "source: ...", "assumed: ...", "unknown:
// ...".
var markKeys = [...]string{"source", "assumed", "unknown"}

func (m Mark) String() string { return [...]string{"", "assumed", "unknown"}[m] }

// A Quantity is a number in SI units (bytes, bytes per second, seconds, flop per second,
// counts) and its source.
type Quantity struct {
	Value  float64
	Unit   string // as written in the profile: "GB/s"; "" for counts and ratios
	Source string // paper and section, file and rows, or data sheet
	Mark   Mark
}

// Known reports whether the quantity has a number.
func (q Quantity) Known() bool { return q.Mark != Unknown }

// Or is the value, or d where it is unknown.
func (q Quantity) Or(d float64) float64 {
	if q.Known() {
		return q.Value
	}
	return d
}

// String is the value as the profile writes it.
func (q Quantity) String() string {
	if !q.Known() {
		return "unknown"
	}
	if q.Unit == "" {
		return formatNumber(q.Value)
	}
	return formatNumber(q.Value/ScaleOf(q.Unit)) + " " + q.Unit
}

// A Dimension is the kind of a number, which determines its units.
type Dimension uint8

// The dimensions.
const (
	Count Dimension = iota
	Ratio
	size // bytes
	Rate // bytes per second
	Span // seconds
	Flops
	frequency // hertz
	numDimensions
)

var dimensionNames = [numDimensions]string{"a count", "a ratio", "bytes", "bytes a second", "a time", "flop a second", "a frequency"}

func (d Dimension) String() string { return dimensionNames[d] }

// A unit is one notation of a dimension. The units of a dimension are ordered largest
// first.
type unit struct {
	dim   Dimension
	name  string
	scale float64
}

var units = [...]unit{
	{size, "GiB", 1 << 30},
	{size, "MiB", 1 << 20},
	{size, "KiB", 1 << 10},
	{size, "GB", 1e9},
	{size, "MB", 1e6},
	{size, "kB", 1e3},
	{size, "B", 1},
	{Rate, "TB/s", 1e12},
	{Rate, "GB/s", 1e9},
	{Rate, "MB/s", 1e6},
	{Rate, "B/s", 1},
	{Span, "s", 1},
	{Span, "ms", 1e-3},
	{Span, "us", 1e-6},
	{Span, "ns", 1e-9},
	{Flops, "PFLOP/s", 1e15},
	{Flops, "TFLOP/s", 1e12},
	{Flops, "GFLOP/s", 1e9},
	{frequency, "GHz", 1e9},
	{frequency, "MHz", 1e6},
}

// ScaleOf is the value of one unit in SI units; 1 for no unit.
func ScaleOf(name string) float64 {
	for _, u := range units {
		if u.name == name {
			return u.scale
		}
	}
	return 1
}

// unitNames lists a dimension's units for error messages.
func unitNames(d Dimension) string {
	var names []string
	for _, u := range units {
		if u.dim == d {
			names = append(names, u.name)
		}
	}
	return strings.Join(names, ", ")
}

// parseQuantity reads "381 GB/s" as a number of dimension d.
func parseQuantity(s string, d Dimension) (Quantity, error) {
	number, name, _ := strings.Cut(strings.TrimSpace(s), " ")
	name = strings.TrimSpace(name)
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return Quantity{}, fmt.Errorf("%q is no number", s)
	}
	if v < 0 {
		return Quantity{}, fmt.Errorf("%q is negative", s)
	}
	if d == Count && v != math.Trunc(v) {
		return Quantity{}, fmt.Errorf("%q is no whole number", s)
	}
	if d == Count || d == Ratio {
		if name != "" {
			return Quantity{}, fmt.Errorf("%q has a unit, but this is %v", s, d)
		}
		return Quantity{Value: v}, d.check(s, v)
	}
	for _, u := range units {
		if u.name == name && u.dim == d {
			return Quantity{Value: v * u.scale, Unit: name}, d.check(s, v*u.scale)
		}
	}
	if name == "" {
		return Quantity{}, fmt.Errorf("%q has no unit; %v in %s expected", s, d, unitNames(d))
	}
	return Quantity{}, fmt.Errorf("%q: unit %q; %v in %s expected", s, name, d, unitNames(d))
}

// limits are the least and the largest value of a dimension that a machine may have, besides 0.
// Beyond them, times of replays are no whole numbers of nanoseconds, or memory runs out.
var limits = [numDimensions][2]float64{
	Count: {1, 1e9}, Ratio: {1e-9, 1e9}, size: {1, 1e18}, Rate: {1e3, 1e18}, Span: {1e-12, 1e6}, Flops: {1e6, 1e24}, frequency: {1e3, 1e15},
}

// Check is an error if a value is out of the limits.
func (d Dimension) Check(v float64) error { return d.check(formatCell(v, d), v) }

func (d Dimension) check(text string, v float64) error {
	if in := limits[d]; v != 0 && !(v >= in[0] && v <= in[1]) {
		unit := ScaleOf(UsualUnit(d))
		return fmt.Errorf("%q is not between %s", text, strings.TrimSpace(fmt.Sprintf("%g and %g %s",
			in[0]/unit, in[1]/unit, UsualUnit(d))))
	}
	return nil
}

// UsualUnit is the unit that calibration writes a dimension in.
func UsualUnit(d Dimension) string {
	switch d {
	case size:
		return "B"
	case Rate:
		return "GB/s"
	case Span:
		return "us"
	case Flops:
		return "TFLOP/s"
	case frequency:
		return "MHz"
	}
	return ""
}

// formatNumber writes at most ten significant digits, so that a value scaled by a unit is
// written as it was read.
func formatNumber(v float64) string { return strconv.FormatFloat(RoundTo(v, 10), 'f', -1, 64) }

// RoundTo rounds to the given number of significant digits.
func RoundTo(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v // not a finite number
	}
	return r
}

// formatCell writes one cell of a table in the unit that reads best.
func formatCell(v float64, d Dimension) string {
	switch d {
	case Count, Ratio:
		return formatNumber(v)
	case size:
		for _, u := range units {
			if u.dim == size && v >= u.scale && math.Mod(v, u.scale) == 0 {
				return formatNumber(v/u.scale) + " " + u.name
			}
		}
		return formatNumber(v) + " B"
	case Span:
		return formatNumber(v/1e-6) + " us"
	case Rate:
		return formatNumber(v/1e9) + " GB/s"
	}
	return formatNumber(v/1e12) + " TFLOP/s"
}

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
