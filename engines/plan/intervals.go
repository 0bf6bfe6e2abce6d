package plan

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Times is what an iteration consists of on each rank; their sum is the time of an
// iteration. Of several iterations it is the mean of those after the first, or of all if
// they overlap; of the typical one where some are left out. work is that of the run that the iterations were collected
// from, time that of an
// iteration; 0: Steps.Time.
func (c *Steps) Times(work overlap.Work, time trace.Time) []overlap.Times {
	in, n := c.intervals()
	return work.PerIteration(in, n, cmp.Or(time, c.Time()))
}

// Iteration is Times with the intervals that they are of.
func (c *Steps) Iteration(work overlap.Work, time trace.Time) *overlap.Iteration {
	of := &overlap.Iteration{Each: c.Times(work, time)}
	of.In, of.Of = c.intervals()
	of.Mean = overlap.MeanOf(of.Each)
	return of
}

// WaitedFor is the rank that others wait for in iterations that nothing disturbed, of the phase that times are of; or nil.
func (c *Steps) WaitedFor(work overlap.Work) *overlap.LateRank {
	rounds := c.rounds()
	if c.only > 0 {
		kept := rounds[:0]
		for i, round := range rounds {
			if c.Has(i) {
				kept = append(kept, round)
			}
		}
		rounds = kept
	} else if _, _, out := c.Disturbed(); out > 0 {
		ran, _ := c.Ran()
		kept := make([][]Interval, 0, len(rounds))
		for _, i := range c.undisturbed(ran) {
			kept = append(kept, rounds[i])
		}
		rounds = kept
	}
	return work.WaitedFor(rounds)
}

// rounds are all iterations by rank row, each from the end of the one before; one without iterations.
func (c *Steps) rounds() (each [][]Interval) {
	if ran, _ := c.Ran(); len(ran) < 2 {
		in, _ := c.intervals()
		return [][]Interval{in}
	}
	for i := range c.each {
		round := slices.Clone(c.rows(c.each[i]))
		for row := range round {
			x := &round[row]
			if x.Start > x.End { // did not run there
				*x = Interval{}
			}
			if i > 0 {
				x.Start = each[i-1][row].End
			}
			x.End = max(x.Start, x.End)
		}
		each = append(each, round)
	}
	return each
}

// intervals are, by rank row, the time in which so many iterations ran.
func (c *Steps) intervals() (in []Interval, n int) {
	in, n = c.byRank()
	return c.rows(in), n
}

// rows are intervals by rank row.
func (c *Steps) rows(byRank []Interval) []Interval {
	if c.captured == nil {
		return byRank
	}
	rows := make([]Interval, len(c.captured))
	for row, rank := range c.captured {
		rows[row] = byRank[rank]
	}
	return rows
}

func (c *Steps) byRank() (in []Interval, n int) {
	ran, overlap := c.Ran()
	whole := c.whole
	if c.only > 0 {
		return slices.Repeat([]Interval{c.median()}, c.ranks), 1
	}
	if len(ran) == 1 {
		whole = ran[0]
	}
	if _, _, out := c.Disturbed(); out > 0 {
		whole = c.typical(ran)
		ran = ran[:1]
	}
	in = slices.Repeat([]Interval{whole}, c.ranks)
	if len(ran) < 2 {
		return in, 1
	}
	for r := range in {
		in[r] = Interval{Start: trace.Infinity}
		for i := range c.each {
			if x := c.each[i][r]; x.Start < x.End {
				if !overlap && in[r].Start == trace.Infinity {
					x.Start = x.End
				}
				extend(&in[r], x.Start, x.End)
			}
		}
	}
	n = len(ran)
	if !overlap {
		n--
	}
	return in, n
}

// Steady is, by rank, from the end of the first iteration to the end of the run; of a single iteration, from its start to
// its end; of a phase, its median iteration; without iterations, the whole run.
func (c *Steps) Steady() []Interval {
	if c.only > 0 {
		return slices.Repeat([]Interval{c.median()}, c.ranks)
	}
	in := slices.Repeat([]Interval{{End: c.Whole().End}}, c.ranks)
	for r := range in {
		switch len(c.each) {
		case 0:
		case 1:
			if in[r] = c.each[0][r]; in[r].Start == trace.Infinity { // did not run there
				in[r] = Interval{}
			}
		default:
			in[r].Start = c.each[0][r].End
		}
	}
	return in
}
