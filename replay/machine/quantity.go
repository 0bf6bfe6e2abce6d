package machine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Mark says how far a number can be trusted.
type Mark uint8

// The marks. Sourced is the zero value: Source says who measured or states it.
const (
	Sourced Mark = iota
	Assumed      // nobody measured it on this machine; Source says what it was taken from
	Unknown      // there is no number: Value is 0; Source says what was looked for
)

// markKeys are the words that carry a mark in a profile: "source: ...", "assumed: ...", "unknown: ...".
var markKeys = [...]string{"source", "assumed", "unknown"}

func (m Mark) String() string { return [...]string{"", "assumed", "unknown"}[m] }

// A Quantity is a number in SI units (bytes, bytes a second, seconds, flop a
// second, counts) with where it comes from.
type Quantity struct {
	Value  float64
	Unit   string // as written in the profile: "GB/s"; "" for counts and ratios
	Source string // paper and section, file and rows, or data sheet
	Mark   Mark
}

// Known reports whether there is a number.
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
	return formatNumber(q.Value/scaleOf(q.Unit)) + " " + q.Unit
}

// A dimension is what a number measures, and by that which units it may have.
type dimension uint8

const (
	count dimension = iota
	ratio
	size // bytes
	rate // bytes a second
	span // seconds
	flops
	numDimensions
)

var dimensionNames = [numDimensions]string{"a count", "a ratio", "bytes", "bytes a second", "a time", "flop a second"}

func (d dimension) String() string { return dimensionNames[d] }

// A unit is one way to write a dimension. Those of a dimension stand largest first.
type unit struct {
	dim   dimension
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
	{rate, "TB/s", 1e12},
	{rate, "GB/s", 1e9},
	{rate, "MB/s", 1e6},
	{rate, "B/s", 1},
	{span, "s", 1},
	{span, "ms", 1e-3},
	{span, "us", 1e-6},
	{span, "ns", 1e-9},
	{flops, "PFLOP/s", 1e15},
	{flops, "TFLOP/s", 1e12},
	{flops, "GFLOP/s", 1e9},
}

// scaleOf is what one of the unit is in SI units; 1 for no unit.
func scaleOf(name string) float64 {
	for _, u := range units {
		if u.name == name {
			return u.scale
		}
	}
	return 1
}

// unitNames lists a dimension's units for an error's cure.
func unitNames(d dimension) string {
	var names []string
	for _, u := range units {
		if u.dim == d {
			names = append(names, u.name)
		}
	}
	return strings.Join(names, ", ")
}

// parseQuantity reads "381 GB/s" as a number of dimension d.
func parseQuantity(s string, d dimension) (Quantity, error) {
	number, name, _ := strings.Cut(strings.TrimSpace(s), " ")
	name = strings.TrimSpace(name)
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return Quantity{}, fmt.Errorf("%q is no number", s)
	}
	if v < 0 {
		return Quantity{}, fmt.Errorf("%q is negative", s)
	}
	if d == count && v != math.Trunc(v) {
		return Quantity{}, fmt.Errorf("%q is no whole number", s)
	}
	if d == count || d == ratio {
		if name != "" {
			return Quantity{}, fmt.Errorf("%q has a unit, but this is %v", s, d)
		}
		return Quantity{Value: v}, nil
	}
	for _, u := range units {
		if u.name == name && u.dim == d {
			return Quantity{Value: v * u.scale, Unit: name}, nil
		}
	}
	if name == "" {
		return Quantity{}, fmt.Errorf("%q has no unit; %v in %s expected", s, d, unitNames(d))
	}
	return Quantity{}, fmt.Errorf("%q: unit %q; %v in %s expected", s, name, d, unitNames(d))
}

// usualUnit is the unit that calibration writes a dimension in.
func usualUnit(d dimension) string {
	switch d {
	case size:
		return "B"
	case rate:
		return "GB/s"
	case span:
		return "us"
	case flops:
		return "TFLOP/s"
	}
	return ""
}

// formatNumber writes at most ten significant digits, so that a value that was
// multiplied by a unit's scale comes back as it was written.
func formatNumber(v float64) string { return strconv.FormatFloat(roundTo(v, 10), 'f', -1, 64) }

// roundTo rounds to so many significant digits.
func roundTo(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v // only for what is no finite number
	}
	return r
}

// formatCell writes one cell of a table in the unit that reads best.
func formatCell(v float64, d dimension) string {
	switch d {
	case count, ratio:
		return formatNumber(v)
	case size:
		for _, u := range units {
			if u.dim == size && v >= u.scale && math.Mod(v, u.scale) == 0 {
				return formatNumber(v/u.scale) + " " + u.name
			}
		}
		return formatNumber(v) + " B"
	case span:
		return formatNumber(v/1e-6) + " us"
	case rate:
		return formatNumber(v/1e9) + " GB/s"
	}
	return formatNumber(v/1e12) + " TFLOP/s"
}
