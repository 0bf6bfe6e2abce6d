package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/dataset"
)

// A law is parameters that are read together. Its ways of reading them are tried on rows
// that are left out: the base profile's parameters are replaced only by a way that predicts
// those better (rule E6).
type law struct {
	name    string   // "library.all_reduce, few channels"
	keys    []string // of its parameters
	need    string   // the rows that would settle it, if there are none
	rows    func(c *calibration) []dataset.Row
	predict func(c *calibration, r *dataset.Row) (predicted, measured float64) // by c.m; not positive if c.m does not say
	weight  func(measured float64) float64                                     // of a row's error, from its seconds; nil: all alike
	settle  func(c *calibration)                                               // of the rows, not of the machine: for the base; may be nil
	ways    []way                                                              // each with more freedom than those before
}

// A way of reading a law off rows.
type way struct {
	how  string   // the profile says it as the source
	keys []string // the parameters that it settles
	fit  func(c *calibration) bool
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

// error is the mean error of c.m over rows: |log(predicted/measured)|.
func (l *law) error(c *calibration, rows []dataset.Row) float64 {
	var sum, weights float64
	for i := range rows {
		e, w := float64(mostError), 1.0
		p, m := l.predict(c, &rows[i])
		if p > 0 && m > 0 {
			e = min(mostError, math.Abs(math.Log(p/m)))
		}
		if l.weight != nil {
			w = l.weight(m)
		}
		sum, weights = sum+e*w, weights+w
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// run reads the law. With refit the way with most freedom that the rows settle is taken, whatever the
// left-out rows say.
func (l law) run(c *calibration) {
	rows, before := l.rows(c), c.m
	read := choice{Law: l.name, Rows: len(rows)}
	var chosen *way
	if fresh(rows) {
		if l.settle != nil {
			l.settle(c)
		}
		read.Base = l.error(c, rows)
		read.Err = read.Base
		var errs []float64
		if !c.refit {
			errs = l.leaveOut(c, rows)
		}
		best := c
		for i := range l.ways {
			trial := c.copy()
			if !c.refit && errs[i] >= read.Err || !l.ways[i].fit(trial) {
				continue
			}
			chosen, best = &l.ways[i], trial
			if !c.refit {
				read.Err = errs[i]
			}
		}
		c.m, c.wait = best.m, best.wait
		if chosen != nil {
			read.How = chosen.how
		}
		if c.refit {
			read.Err = l.error(c, rows)
		}
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
func (l *law) leaveOut(c *calibration, rows []dataset.Row) []float64 {
	parts := partsOf(rows)
	most := 0
	for _, p := range parts {
		most = max(most, p+1)
	}
	errs := make([]float64, len(l.ways))
	for part := range most {
		var out []dataset.Row
		for i := range rows {
			if parts[configuration(&rows[i])] == part {
				out = append(out, rows[i])
			}
		}
		train := c.copy()
		train.rows = slices.DeleteFunc(slices.Clone(c.rows), func(r dataset.Row) bool {
			p, ok := parts[configuration(&r)]
			return ok && p == part
		})
		for i := range l.ways {
			e := float64(mostError)
			if trial := train.copy(); l.ways[i].fit(trial) {
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

// partsOf divides the configurations of rows into parts. The order of the rows does not
// matter.
func partsOf(rows []dataset.Row) map[string]int {
	var all []string
	for i := range rows {
		all = append(all, configuration(&rows[i]))
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(hash(a), hash(b)), cmp.Compare(a, b)) })
	all = slices.Compact(all)
	n := 5
	if len(all) <= fewConfigurations {
		n = max(1, len(all))
	}
	parts := map[string]int{}
	for i, s := range all {
		parts[s] = i % n
	}
	return parts
}

// copy is a calibration that a trial may write into.
func (c *calibration) copy() *calibration {
	t := *c
	t.m = clone(c.m)
	return &t
}

// scaled is a way that changes parameters of the base by one factor, the median of measured over
// predicted: times are multiplied by it and rates divided.
func (l *law) scaled(how string, keys ...string) way {
	return way{how: how, keys: keys, fit: func(c *calibration) bool {
		var all []float64
		for _, r := range l.rows(c) {
			if p, m := l.predict(c, &r); p > 0 && m > 0 {
				all = append(all, m/p)
			}
		}
		f := median(all)
		for _, v := range c.of(keys...) {
			if v.Value *= f; v.rate {
				v.Value /= f * f
			}
		}
		return f > 0
	}}
}

// solved is a way that settles all parameters of a law that is linear in them.
func (l *law) solved(how string) way {
	return way{how: how, keys: l.keys, fit: func(c *calibration) bool { return l.linear(c, c.of(l.keys...)) }}
}
