package dataset

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

// A perRow is something of each row, in SI units; NaN where the row does not have it.
type perRow func(c *calibration, r *Row) float64

// A check is what a number that was found says of a row.
type check func(c *calibration, r *Row, found float64) (predicted, measured float64)

// A direct number or table is read off rows without a trial.
type direct struct {
	key   string
	how   string // the profile says it as the source
	rows  string // selection; said where there are none
	read  func(c *calibration) reading
	check check // the residual is of all rows; nil: as read says
}

func (d direct) checkedBy(of check) direct {
	d.check = of
	return d
}

// itself is the check of a number that is found in each row: by as much as the rows differ.
func itself(value perRow) check {
	return func(c *calibration, r *Row, found float64) (predicted, measured float64) {
		return found, value(c, r)
	}
}

func special(key, how, rows string, read func(c *calibration) reading) direct {
	return direct{key: key, how: how, rows: rows, read: read}
}

// one is a number of the rows' values.
func one(key, how, rows string, value perRow, of estimate) direct {
	return special(key, how, rows, func(c *calibration) (f reading) {
		var values []float64
		if f.rows, values = c.values(rows, value); len(values) > 0 {
			var at int
			if f.value, at = of(values); at >= 0 {
				f.single = f.rows[at : at+1]
			}
		}
		return f
	})
}

// slope is that of the line of least relative error through values over something; of a rate, its reciprocal.
func slope(key, how, rows string, over, value perRow) direct {
	return special(key, how, rows, func(c *calibration) (f reading) {
		points, values := c.values(rows, value)
		intercept, slope, ok := c.line(points, over, value)
		if !ok {
			return f
		}
		if f.rows, f.value = points, slope; find(&c.m, key).Dims[0] == machine.Rate {
			f.value = 1 / slope
		}
		if len(values) > 2 {
			f.residual = residual(c, points, func(c *calibration, r *Row) (predicted, measured float64) {
				return intercept + slope*over(c, r), value(c, r)
			})
		}
		return f
	})
}

// table has the median of the values by fields.
func table(key, how, rows string, value perRow, by ...string) direct {
	return special(key, how, rows, func(c *calibration) (f reading) {
		var values []float64
		f.rows, values = c.values(rows, value)
		columns := func(r *Row) (at [3]float64) {
			for i, name := range by {
				at[i] = number(r, name)
			}
			return at
		}
		repeats := map[[3]float64][]float64{}
		for i, v := range values {
			at := columns(&f.rows[i])
			repeats[at] = append(repeats[at], v)
		}
		for at, v := range repeats {
			f.table = append(f.table, append(at[:len(by):len(by)], median(v)))
		}
		f.residual = residual(c, f.rows, func(c *calibration, r *Row) (predicted, measured float64) {
			return median(repeats[columns(r)]), value(c, r)
		})
		return f
	})
}

// values are those of the rows that have one.
func (c *calibration) values(rows string, value perRow) (of []Row, values []float64) {
	for _, r := range c.where(rows) {
		if v := value(c, &r); !math.IsNaN(v) {
			of, values = append(of, r), append(values, v)
		}
	}
	return of, values
}

// A reading is what was found: nothing where rows is empty.
type reading struct {
	value    float64     // SI units, or
	table    [][]float64 // unsorted
	rows     []Row
	single   []Row // of them, where value is that of one row
	residual float64
	why      string // the rows cannot be of the base's machine
}

// line is the straight line of least relative squares of y over x.
func (c *calibration) line(rows []Row, x, y perRow) (intercept, slope float64, ok bool) {
	var n, sx, sxx, sy, sxy float64
	for i := range rows {
		at, value := x(c, &rows[i]), y(c, &rows[i])
		w := 1 / (value * value)
		n, sx, sxx, sy, sxy = n+w, sx+w*at, sxx+w*at*at, sy+w*value, sxy+w*at*value
	}
	d := n*sxx - sx*sx
	slope = (n*sxy - sx*sy) / d
	return (sy - slope*sx) / n, slope, d > 1e-12*n*sxx
}

// run reads the number or table.
func (d direct) run(c *calibration) {
	f := d.read(c)
	if d.check != nil {
		f.residual = residual(c, f.rows, func(c *calibration, r *Row) (predicted, measured float64) {
			return d.check(c, r, f.value)
		})
	} else if len(f.single) > 0 {
		f.rows = f.single
	}
	c.settle(d.key, d.how, d.rows, f)
}

// settle rounds what was read of a parameter into c.m and notes it with its source. Where there are no rows, as need
// says, or they contradict each other, the base's value stays.
func (c *calibration) settle(key, how, need string, f reading) {
	fit, e := fit{Key: key, Rule: how, Rows: f.rows}, find(&c.m, key)
	source := how + ": " + idList(f.rows)
	if f.residual > 0 {
		source += fmt.Sprintf(", residual %.1f %%", 100*f.residual)
	}
	switch {
	case f.why != "":
		fit.Kept = f.why
	case !fresh(f.rows):
		fit.Rows, fit.Missing = nil, need
	case e.Table != nil && len(f.table) == 0:
		e.Omit()
	case e.Table != nil:
		*e.Table, fit.Residual = machine.Table{Rows: tidy(f.table, e.Dims), Source: source}, f.residual
	case !(f.value > 0) || e.Dims[0].Check(f.value) != nil:
		fit.Kept = "the rows contradict each other: " + how + " gives no number that a machine can have"
		if !math.IsNaN(f.value) && !math.IsInf(f.value, 0) {
			fit.Kept = fmt.Sprintf("the rows contradict each other: %s gives %v", how, newQuantity(f.value, e, ""))
		}
	default:
		*e.Quantity, fit.Residual = newQuantity(f.value, e, source), f.residual
	}
	fit.Value = e.String()
	c.found.Fits = append(c.found.Fits, fit)
}

// newQuantity rounds to four digits in the unit that the profile uses already.
func newQuantity(v float64, e machine.Entry, source string) machine.Quantity {
	unit := cmp.Or(e.Quantity.Unit, machine.UsualUnit(e.Dims[0]))
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
