package calibrate

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
)

// A perRow is something of each row, in SI units.
type perRow func(c *calibration, r *Row) float64

// A direct number or table is read off rows without a trial: of each row a value, and of the values
// one, a line or a table; or all of that by read.
type direct struct {
	key   string
	how   string                                                                    // the profile says it as the source
	rows  string                                                                    // selection; said where there are none
	value perRow                                                                    // NaN: not of this row
	of    estimate                                                                  // a number of the values; or
	over  perRow                                                                    // the number is the slope of the values over this; of a rate, its reciprocal; or
	by    func(r *Row) [3]float64                                                   // the table has the median of the values by so many of these as it has columns before it
	check func(c *calibration, r *Row, found float64) (predicted, measured float64) // the residual is of all rows; nil: none, or of the line or table
	read  func(c *calibration) reading
}

// A reading is what was found: nothing where rows is empty.
type reading struct {
	value    float64     // SI units, or
	table    [][]float64 // unsorted
	rows     []Row
	residual float64
	why      string // the rows cannot be of the base's machine
}

// reading evaluates the rows.
func (d *direct) reading(c *calibration) (f reading) {
	if d.read != nil {
		return d.read(c)
	}
	var values []float64
	rows := c.where(d.rows)
	for i := range rows {
		if v := d.value(c, &rows[i]); !math.IsNaN(v) {
			values, f.rows = append(values, v), append(f.rows, rows[i])
		}
	}
	if len(values) == 0 {
		return f
	}
	check, e := d.check, find(&c.m, d.key)
	switch {
	case d.by != nil:
		repeats := map[[3]float64][]float64{}
		for i, v := range values {
			repeats[d.by(&f.rows[i])] = append(repeats[d.by(&f.rows[i])], v)
		}
		for k, v := range repeats {
			f.table = append(f.table, append(k[:len(e.Dims)-1:len(e.Dims)-1], median(v)))
		}
		check = func(c *calibration, r *Row, _ float64) (predicted, measured float64) {
			return median(repeats[d.by(r)]), d.value(c, r)
		}
	case d.over != nil:
		intercept, slope, ok := c.line(f.rows, d.over, d.value)
		if !ok {
			return reading{}
		}
		if f.value = slope; e.Dims[0] == machine.Rate {
			f.value = 1 / slope
		}
		if check == nil && len(values) > 2 {
			check = func(c *calibration, r *Row, _ float64) (predicted, measured float64) {
				return intercept + slope*d.over(c, r), d.value(c, r)
			}
		}
	default:
		which := 0
		if f.value, which = d.of(values); which >= 0 && check == nil {
			f.rows = f.rows[which : which+1]
		}
	}
	if check != nil {
		f.residual = residual(c, f.rows, func(c *calibration, r *Row) (predicted, measured float64) { return check(c, r, f.value) })
	}
	return f
}

// line is the straight line of least relative error of y over x.
func (c *calibration) line(rows []Row, x, y perRow) (intercept, slope float64, ok bool) {
	var a [][]float64
	var values []float64
	for i := range rows {
		a, values = append(a, []float64{1, x(c, &rows[i])}), append(values, y(c, &rows[i]))
	}
	v, ok := solve(a, values, values)
	if !ok {
		return 0, 0, false
	}
	return v[0], v[1], true
}

// run reads the number or table into c.m. Where the rows contradict each other the base's value stays.
func (d direct) run(c *calibration, _ bool) ([]Fit, Choice) {
	f := d.reading(c)
	fit := Fit{Key: d.key, Rule: d.how, Rows: f.rows, Residual: f.residual}
	source := sourceOf(d.how, f.rows, f.residual)
	e := find(&c.m, d.key)
	switch {
	case !fresh(f.rows):
		fit.Rows, fit.Residual, fit.Missing = nil, 0, d.rows
	case f.why != "":
		fit.Residual, fit.Kept = 0, f.why
	case e.Table != nil && len(f.table) == 0:
		e.Omit()
	case e.Table != nil:
		*e.Table = machine.Table{Rows: tidy(f.table, e.Dims), Source: source}
	case !(f.value > 0) || e.Dims[0].Check(f.value) != nil:
		fit.Residual, fit.Kept = 0, "the rows contradict each other: "+d.how+" gives no number that a machine can have"
		if !math.IsNaN(f.value) && !math.IsInf(f.value, 0) {
			fit.Kept = fmt.Sprintf("the rows contradict each other: %s gives %v", d.how, newQuantity(f.value, e, ""))
		}
	default:
		*e.Quantity = newQuantity(f.value, e, source)
	}
	fit.Value = e.String()
	return []Fit{fit}, Choice{}
}

// sourceOf is what the profile says of what was read off rows.
func sourceOf(how string, rows []Row, residual float64) string {
	s := how + ": " + idList(rows)
	if residual > 0 {
		s += fmt.Sprintf(", residual %.1f %%", 100*residual)
	}
	return s
}

// newQuantity rounds to four digits in the unit that the profile uses already.
func newQuantity(v float64, e profile.Entry, source string) machine.Quantity {
	unit := e.Quantity.Unit
	if unit == "" {
		unit = machine.UsualUnit(e.Dims[0])
	}
	return machine.Quantity{Value: machine.RoundTo(v/machine.ScaleOf(unit), 4) * machine.ScaleOf(unit), Unit: unit, Source: source}
}

// tidy rounds a table's measured columns as the profile writes them and sorts its rows.
func tidy(rows [][]float64, dims []machine.Dimension) [][]float64 {
	for _, row := range rows {
		for i, d := range dims {
			switch d {
			case machine.Span:
				row[i] = machine.RoundTo(row[i]/1e-6, 4) * 1e-6
			case machine.Rate, machine.Ratio:
				row[i] = machine.RoundTo(row[i], 4)
			}
		}
	}
	slices.SortFunc(rows, slices.Compare[[]float64])
	return rows
}
