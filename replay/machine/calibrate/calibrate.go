// Package calibrate reads a machine's parameters off micro-benchmarks measured
// on it: one rule a parameter, each with its residual.
package calibrate

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
)

// A Fit is one number of a profile as calibration found it.
type Fit struct {
	Key      string  // "fabric.egress"
	Value    string  // as the profile writes it; "19 rows" for a table
	Rule     string  // how it is read off the rows
	Rows     []Row   // that it was read off
	Residual float64 // median of |rule/row - 1| over Rows, 0 where the rule passes through them; of a law its mean error over left-out rows
	Kept     string  // why the base's value stays although there are rows
	Missing  string  // the rows that would settle it, where there were none
}

// A Result is a calibrated profile.
type Result struct {
	Machine machine.Machine
	Fits    []Fit    // of every parameter that calibration can read, in the order of reading
	Choices []Choice // how each law was read
	Rows    int      // that anything was read off
}

// A rule reads one number or table off the rows.
type rule struct {
	key  string
	how  string // the profile says it as the source
	need string // said where there are no rows for it
	read func(c *calibration) reading
}

// A reading is what a rule found: nothing where rows is empty.
type reading struct {
	value    float64     // SI units, or
	table    [][]float64 // unsorted
	rows     []Row
	residual float64
	why      string // the rows cannot be of the base's machine
}

// A calibration is under way: rules read c.rows, and from c.m what earlier rules found.
type calibration struct {
	rows []Row // without those that are left out for a trial
	all  []Row
	m    machine.Machine
	wait map[string]float64 // by strategy: seconds that collectives wait for free compute units, where rows count it
}

// A step is a rule or a law.
type step interface {
	run(c *calibration, refit bool) ([]Fit, Choice)
}

// Calibrate reads a profile off rows of micro-benchmarks. What no row settles
// (data-sheet facts, footprints, gaps that only traces show) stays as base has
// it, and so does a law that base predicts better (rule E6). Only isolated measurements are
// read: rows of strategies are for validation, and nothing is fitted to them. Where rows are
// of the base's own machine, what its tables have recorded counts with them. The error is
// for rows of which none can be read.
func Calibrate(rows []Row, base machine.Machine) (Result, error) { return fitted(rows, base, false) }

// fitted is Calibrate. With refit every parameter that rows settle is replaced, even where the base
// predicts left-out rows better: for rows that the base itself was read off.
func fitted(rows []Row, base machine.Machine, refit bool) (Result, error) {
	c := &calibration{rows: slices.Concat(rows, recorded(&base, rows)), m: clone(base), wait: map[string]float64{}}
	c.all = c.rows
	var res Result
	read := map[string]bool{}
	for _, s := range steps() {
		fits, choice := s.run(c, refit)
		res.Fits = append(res.Fits, fits...)
		if choice.Rows > 0 {
			res.Choices = append(res.Choices, choice)
		}
	}
	for _, key := range profile.DropIncomplete(&c.m) {
		i := slices.IndexFunc(res.Fits, func(f Fit) bool { return f.Key == key })
		if i >= 0 {
			res.Fits[i].Value, res.Fits[i].Kept = find(&c.m, key).String(), "others that belong to it are missing"
		}
	}
	for _, f := range res.Fits {
		for i := range f.Rows {
			if f.Rows[i].ID != recordedID {
				read[f.Rows[i].File+f.Rows[i].ID] = true
			}
		}
	}
	res.Machine, res.Rows = c.m, len(read)
	if len(rows) > 0 && res.Rows == 0 {
		return res, fmt.Errorf("none of %d rows is an isolated benchmark that a profile is read off (samples/capture/README.md lists them)", len(rows))
	}
	return res, nil
}

// run reads a rule into c.m. Where the rows contradict each other the base's value stays.
func (r rule) run(c *calibration, _ bool) ([]Fit, Choice) {
	f := r.read(c)
	fit := Fit{Key: r.key, Rule: r.how, Rows: f.rows, Residual: f.residual}
	e := find(&c.m, r.key)
	switch {
	case !fresh(f.rows):
		fit.Rows, fit.Residual, fit.Missing = nil, 0, r.need
	case f.why != "":
		fit.Residual, fit.Kept = 0, f.why
	case e.Table != nil && len(f.table) == 0:
		e.Omit()
	case e.Table != nil:
		*e.Table = machine.Table{Rows: tidy(f.table, e.Dims), Source: r.source(f)}
	case !(f.value > 0) || e.Dims[0].Check(f.value) != nil:
		fit.Residual, fit.Kept = 0, "the rows contradict each other: "+r.how+" gives no number that a machine can have"
		if !math.IsNaN(f.value) && !math.IsInf(f.value, 0) {
			fit.Kept = fmt.Sprintf("the rows contradict each other: %s gives %v", r.how, newQuantity(f.value, e, ""))
		}
	default:
		*e.Quantity = newQuantity(f.value, e, r.source(f))
	}
	fit.Value = e.String()
	return []Fit{fit}, Choice{}
}

// source is what the profile says of a number.
func (r rule) source(f reading) string {
	s := r.how + ": " + idList(f.rows)
	if f.residual > 0 {
		s += fmt.Sprintf(", residual %.1f %%", 100*f.residual)
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

// clone copies what calibration may write into.
func clone(m machine.Machine) machine.Machine {
	for _, e := range profile.Entries(&m) {
		if e.Table != nil {
			*e.Table = e.Table.Copy()
		}
	}
	return m
}

// find is the entry of a key that the schema has.
func find(m *machine.Machine, key string) profile.Entry {
	for _, e := range profile.Entries(m) {
		if e.Key == key {
			return e
		}
	}
	panic("machine: no key " + key)
}

// steps lists rules and laws in an order in which each finds what it builds on.
func steps() []step {
	list := slices.Concat(
		of(launchRules()...), of(memoryRules()...), of(clusterRules()...), of(gemmLaw()), of(matmulRules()...),
		of(ownedLaw()), of(compiledRules()...), of(clockLaw()), of(clockRules()...), of(fabricRules()...),
	)
	for _, op := range profile.RecordedOps {
		list = append(list, channelLaw(op), latencyLaw(op), linkLaw(op), timesRule(op))
	}
	return append(list, of(coRunLaws()...)...)
}

func of[T step](list ...T) (steps []step) {
	for _, s := range list {
		steps = append(steps, s)
	}
	return steps
}

// pick is the rows that a predicate holds for.
func (c *calibration) pick(keep func(r *Row) bool) []Row {
	var list []Row
	for i := range c.rows {
		if keep(&c.rows[i]) {
			list = append(list, c.rows[i])
		}
	}
	return list
}

// kind is the isolated rows of a kind of which all tests hold.
func (c *calibration) kind(kind string, tests ...func(r *Row) bool) []Row {
	return c.pick(func(r *Row) bool {
		return r.Workload.Kind == kind && r.Strategy == "isolated" && !slices.ContainsFunc(tests, func(test func(r *Row) bool) bool { return !test(r) })
	})
}

// seconds is a row's time less what timing adds.
func (c *calibration) seconds(r Row) float64 {
	if r.Params.Kernel {
		return r.Us * 1e-6
	}
	return max(r.Us*1e-6-c.m.Launch.Timing.Value, 1e-9)
}

// median of the values; 0 for none. The values are reordered.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// middle is the median of a value over the rows that have one.
func middle(rows []Row, value func(r *Row) (v float64, ok bool)) (f reading) {
	var all []float64
	for i := range rows {
		if v, ok := value(&rows[i]); ok {
			all, f.rows = append(all, v), append(f.rows, rows[i])
		}
	}
	f.value = median(all)
	return f
}

// best is the largest value over rows.
func best(rows []Row, value func(r *Row) float64) (f reading) {
	for i := range rows {
		if v := value(&rows[i]); v > f.value {
			f.value, f.rows = v, rows[i:i+1]
		}
	}
	return f
}

// medians is a table of the median over repeats of what rows have, by a key of so many columns.
func medians(rows []Row, columns int, key func(r *Row) [3]float64, value func(r *Row) float64) reading {
	f := reading{rows: rows}
	repeats := map[[3]float64][]float64{}
	for i := range rows {
		k := key(&rows[i])
		repeats[k] = append(repeats[k], value(&rows[i]))
	}
	middle := map[[3]float64]float64{}
	for k, values := range repeats {
		middle[k] = median(values)
		f.table = append(f.table, append(k[:columns:columns], middle[k]))
	}
	f.residual = residual(rows, func(r Row) (predicted, measured float64) { return middle[key(&r)], value(&r) })
	return f
}

// slope is the line over the points of rows, of which b is the value; nothing where the rows
// do not settle it.
func slope(rows []Row, x, y func(r *Row) float64) (f reading, a, b float64) {
	var points []machine.Point
	for i := range rows {
		points = append(points, machine.Point{X: x(&rows[i]), Y: y(&rows[i])})
	}
	a, b, ok := line(points)
	if !ok {
		return reading{}, 0, 0
	}
	return reading{value: b, rows: rows, residual: residual(points, func(p machine.Point) (predicted, measured float64) { return a + b*p.X, p.Y })}, a, b
}

// residual is the median of what predictions are off by.
func residual[T any](list []T, of func(T) (predicted, measured float64)) float64 {
	var all []float64
	for _, x := range list {
		all = append(all, off(of(x)))
	}
	return median(all)
}

// Off is the residual of one row.
func off(predicted, measured float64) float64 { return math.Abs(predicted/measured - 1) }

// solve is least squares of a·x = y, each row weighted by 1/y so that errors
// are relative. ok is false where the rows do not settle x.
func solve(a [][]float64, y []float64) (x []float64, ok bool) { return solveWeighted(a, y, y) }

// solveWeighted is least squares of a·x = y, each row weighted by 1/size.
func solveWeighted(a [][]float64, y, size []float64) (x []float64, ok bool) {
	if len(a) == 0 || len(a) < len(a[0]) {
		return nil, false
	}
	n := len(a[0])
	normal := make([][]float64, n)
	for i := range normal {
		normal[i] = make([]float64, n+1)
		for r := range a {
			w := 1 / (size[r] * size[r])
			for j := range n {
				normal[i][j] += w * a[r][i] * a[r][j]
			}
			normal[i][n] += w * a[r][i] * y[r]
		}
	}
	for i := range n {
		p := i
		for r := i + 1; r < n; r++ {
			if math.Abs(normal[r][i]) > math.Abs(normal[p][i]) {
				p = r
			}
		}
		normal[i], normal[p] = normal[p], normal[i]
		pivot := normal[i][i]
		if math.Abs(pivot) < 1e-30 {
			return nil, false
		}
		for r := range n {
			if r == i {
				continue
			}
			f := normal[r][i] / pivot
			for j := i; j <= n; j++ {
				normal[r][j] -= f * normal[i][j]
			}
		}
	}
	x = make([]float64, n)
	for i := range x {
		x[i] = normal[i][n] / normal[i][i]
	}
	return x, true
}

// line is the straight line y = a + b·x of least relative error.
func line(points []machine.Point) (a, b float64, ok bool) {
	if len(points) < 2 {
		return 0, 0, false
	}
	var left [][]float64
	var y []float64
	for _, p := range points {
		left = append(left, []float64{1, p.X})
		y = append(y, p.Y)
	}
	x, ok := solve(left, y)
	if !ok {
		return 0, 0, false
	}
	return x[0], x[1], true
}
