package dataset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
)

// A law is parameters that are read together: they are where the errors of its prediction over its rows are least. Ways of
// reading them, each with more freedom than those before, are tried on rows that are left out: the base profile's
// parameters are replaced only by a way that predicts those better (rule E6).
type law struct {
	name    string   // "library.all_reduce, few channels"
	keys    []string // of its parameters
	need    string   // the rows that would settle it, if there are none
	rows    func(c *calibration) []Row
	predict func(c *calibration, r *Row) (predicted, measured float64) // by c.m; not positive if c.m does not say
	weight  func(measured float64) float64                             // of a row's error, from its seconds; nil: all alike
	reads   func(key string, r *Row) bool                              // whether the row tells of a parameter; nil: each does
	// what the row has beside the machine's parameters; may be nil
	beside func(c *calibration, r *Row) *machine.Quantity
	ways   []way
}

// A way of reading a law off rows.
type way struct {
	how    string                    // the profile says it as the source
	keys   []string                  // the parameters that it settles
	scaled bool                      // they are the base's times one factor
	fit    func(c *calibration) bool // nil: where the law's errors are least
}

// A choice is how a law was read.
type choice struct {
	Law  string
	Rows int     // that it was tried on
	Base float64 // mean error of the base profile over those rows
	Err  float64 // mean error over left-out rows of the way that was chosen
	How  string  // that way; "" if the base's parameters stay
}

// mostError is the error that counts for a row, at most, so that a single row does not
// decide.
const mostError = 1

// errors are those of c.m over rows, times weights whose mean is 1.
func (l *law) errors(c *calibration, rows []Row, of func(predicted, measured float64) float64) []float64 {
	list, sum := make([]float64, len(rows)), 0.0
	for i := range rows {
		predicted, measured := l.predict(c, &rows[i])
		weight := 1.0
		if l.weight != nil {
			weight = l.weight(measured)
		}
		list[i], sum = of(predicted, measured)*weight, sum+weight
	}
	for i := range list {
		list[i] *= float64(len(rows)) / sum
	}
	return list
}

// muchBetter is the error of a way over that of the base, or of a way with less freedom, from which on it is taken: smaller
// differences are those between parts of the rows.
const muchBetter = 0.99

// error is the mean error of c.m over rows: |log(predicted/measured)|.
func (l *law) error(c *calibration, rows []Row) float64 {
	if len(rows) == 0 {
		return 0
	}
	e, _ := mean(l.errors(c, rows, func(predicted, measured float64) float64 {
		if !(predicted > 0 && measured > 0) {
			return mostError
		}
		return min(mostError, math.Abs(math.Log(predicted/measured)))
	}))
	return e
}

// run reads the law.
func (l law) run(c *calibration) {
	rows, before := l.rows(c), c.m
	read := choice{Law: l.name, Rows: len(rows)}
	var chosen *way
	if fresh(rows) {
		l.fit(c, way{})
		read.Base = l.error(c, rows)
		read.Err = read.Base
		best := c
		for i, e := range l.leaveOut(c, rows) {
			if trial := c.copy(); e < muchBetter*read.Err && l.fit(trial, l.ways[i]) {
				chosen, best, read.Err, read.How = &l.ways[i], trial, e, l.ways[i].how
			}
		}
		c.m, c.wait = best.m, best.wait
	}
	if len(rows) > 0 {
		c.found.Choices = append(c.found.Choices, read)
	}
	for _, key := range l.keys {
		e, f := find(&c.m, key), reading{rows: rows, residual: read.Err}
		switch {
		case !fresh(rows):
		case chosen == nil || !slices.Contains(chosen.keys, key):
			f.why = fmt.Sprintf("the base predicts the rows within %.1f %%, a fit no better", 100*read.Base)
		case e.Table != nil:
			f.table = e.Table.Rows
		case e.Quantity.Value == find(&before, key).Quantity.Value: // what a fit left as it was stays the base's
			f.rows, f.why, *e.Quantity = nil, "none of the rows is of it", *find(&before, key).Quantity
		default:
			f.value = e.Quantity.Value
		}
		c.settle(key, read.How, l.need, f)
	}
}

// leaveOut is the mean error of each way over rows that it was not fitted to: the
// configurations are divided into parts, and each part is predicted by a fit to the others.
func (l *law) leaveOut(c *calibration, rows []Row) []float64 {
	parts, n := partsOf(rows)
	left, kept := make([][]Row, n), make([][]Row, n)
	for i := range rows {
		p := parts[configuration(&rows[i])]
		left[p] = append(left[p], rows[i])
	}
	for i := range c.rows {
		in, ok := parts[configuration(&c.rows[i])]
		for p := range kept {
			if !ok || p != in {
				kept[p] = append(kept[p], c.rows[i])
			}
		}
	}
	errs := make([]float64, len(l.ways))
	for part, out := range left {
		train := c.copy()
		train.rows = kept[part]
		for i := range l.ways {
			e := float64(mostError)
			if trial := train.copy(); l.fit(trial, l.ways[i]) {
				e = l.error(trial, out)
			}
			errs[i] += e * float64(len(out)) / float64(len(rows))
		}
	}
	return errs
}

// fewConfigurations is the number up to which each configuration is left out by itself;
// above it, a fifth of them at a time.
const fewConfigurations = 12

// partsOf divides the configurations of rows into n parts. The order of the rows does not
// matter.
func partsOf(rows []Row) (parts map[string]int, n int) {
	var all []string
	for i := range rows {
		all = append(all, configuration(&rows[i]))
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(hash(a), hash(b)), cmp.Compare(a, b)) })
	all = slices.Compact(all)
	n = 5
	if len(all) <= fewConfigurations {
		n = len(all)
	}
	parts = map[string]int{}
	for i, s := range all {
		parts[s] = i % n
	}
	return parts, n
}

// copy is a calibration that a trial may write into.
func (c *calibration) copy() *calibration {
	t := *c
	t.m = clone(c.m)
	return &t
}

// fit has the parameters of a way, as far as rows tell of them, further variables and what rows have beside them where the
// errors over the rows are least. It is false where the rows do not settle them.
func (l *law) fit(c *calibration, w way, free ...*variable) bool {
	if w.fit != nil {
		return w.fit(c)
	}
	rows := l.rows(c)
	for _, key := range w.keys {
		e := find(&c.m, key)
		switch {
		case l.reads != nil && !slices.ContainsFunc(rows, func(r Row) bool { return l.reads(key, &r) }):
		case len(free) == 0 || !w.scaled:
			v := newVariable(key, e.Quantity, e.Dims[0] == machine.Rate || e.Dims[0] == machine.Flops)
			if e.Quantity != &c.m.Clock.Link && strings.HasSuffix(key, ".link") { // no more than leaves a GPU
				v.least = max(v.least, e.Quantity.Value/c.m.Fabric.Egress.Value)
			}
			free = append(free, v)
		default:
			free[0].add(&e.Quantity.Value)
		}
	}
	for i := 0; i < len(rows) && l.beside != nil; i++ {
		if q := l.beside(c, &rows[i]); q != nil && !slices.ContainsFunc(free, func(v *variable) bool { return v.numbers[0] == &q.Value }) {
			free = append(free, newVariable("wait", q, false))
		}
	}
	return len(rows) >= len(free) && len(free) > 0 && minimise(free, func() []float64 {
		return l.errors(c, rows, func(predicted, measured float64) float64 { return predicted/measured - 1 })
	})
}
