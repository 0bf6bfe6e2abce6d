package score

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine/dataset"
)

// everything is the name under which scores of all strategies stand.
const everything = "all"

// A Score is how well one strategy's rows are predicted.
type Score struct {
	Strategy string  `json:"-"`
	N        int     `json:"n"`
	Median   float64 `json:"median"` // of |error|
	P90      float64 `json:"p90"`
}

// Scores are the errors by strategy, in the order of engines.All, and over all rows
// last. Rows without a prediction are left out, and noisy ones.
func Scores(checks []Check) (scores []Score) {
	for _, name := range append(engines.Names(), everything) {
		if s := scoreOf(checks, name); s.N > 0 {
			scores = append(scores, s)
		}
	}
	return scores
}

// scoreOf is the score of a strategy, or of everything.
func scoreOf(checks []Check, name string) Score {
	var errs []float64
	for _, c := range checks {
		if c.Why == "" && !c.Row.Noisy && c.of(name) {
			errs = append(errs, math.Abs(c.Error()))
		}
	}
	return score(name, errs)
}

// of reports whether a check is of a strategy, or of everything.
func (c *Check) of(name string) bool { return name == everything || name == c.Row.Strategy }

// score is that of some errors; of none, the median and the percentile are no numbers.
func score(name string, errs []float64) Score {
	if slices.Sort(errs); len(errs) == 0 {
		return Score{name, 0, math.NaN(), math.NaN()}
	}
	return Score{name, len(errs), quantile(errs, 0.5), quantile(errs, 0.9)}
}

// quantile interpolates between the two nearest of sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	lo := int(at)
	hi := min(lo+1, len(sorted)-1)
	return sorted[lo] + (at-float64(lo))*(sorted[hi]-sorted[lo])
}

// A Choice is one workload that was measured under several strategies: which was
// best, which the prediction picks, and what trusting it costs.
type Choice struct {
	Workload  string
	Best      string  // measured
	Predicted string  // fastest, of the rows with a prediction
	Regret    float64 // measured time of the predicted best over that of the best, less one
}

// A Regret is what choosing by prediction costs over several workloads.
type Regret struct {
	Workloads int     `json:"workloads"`
	Top1      int     `json:"top1"` // the predicted best is the measured best
	Mean      float64 `json:"mean"`
}

// Choices groups rows by workload and says what choosing by prediction costs on
// each. Rows without a prediction cannot be chosen, but they can be the best.
// Noisy rows are neither.
func Choices(checks []Check) (choices []Choice, of Regret) {
	var keys []string
	groups := map[string][]Check{}
	for _, c := range checks {
		if c.Row.Noisy {
			continue
		}
		k := workloadKey(c.Row)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], c)
	}
	for _, k := range keys {
		best, take := groups[k][0], -1
		for i, c := range groups[k] {
			if c.Row.Us < best.Row.Us {
				best = c
			}
			if c.Why == "" && (take < 0 || c.Predicted < groups[k][take].Predicted) {
				take = i
			}
		}
		if take < 0 || len(groups[k]) < 2 {
			continue
		}
		picked := groups[k][take].Row
		regret := picked.Us/best.Row.Us - 1
		choices = append(choices, Choice{k, RowName(best.Row), RowName(picked), regret})
		of.Workloads++
		of.Mean += regret
		if regret == 0 {
			of.Top1++
		}
	}
	of.Mean /= float64(max(1, of.Workloads))
	return choices, of
}

// workloadKey is what rows of one workload have in common.
func workloadKey(row dataset.Row) string {
	k := row.Workload
	s := fmt.Sprintf("%s %s on %d ranks", k.Kind, k.Name, row.World)
	for _, n := range []struct {
		name string
		n    int64
	}{{"m", k.M}, {"n", k.N}, {"k", k.K}, {"batch", k.Batch}, {"tables", k.Tables}, {"tiles", int64(k.Tiles)}} {
		if n.n > 0 {
			s += fmt.Sprintf(" %s=%d", n.name, n.n)
		}
	}
	if k.Collective != "" {
		s += " " + k.Collective
	}
	if row.Params.Iterations > 0 {
		s += ", in a loop"
	}
	switch {
	case k.Kind == "step": // a question for each capture
		s += " from " + row.Trace
		if len(row.Params.Tokens) > 0 {
			s += fmt.Sprint(" for ", row.Params.Tokens)
		}
	case row.Params.Graph:
		s += ", as a graph"
	}
	return s
}

// A ChangeScore is how well changes against the reference are predicted.
type ChangeScore struct {
	// Of |predicted change - measured change|, as shares of the reference's time, over rows that are predicted, and
	// so is their reference.
	Score
	Right int `json:"signs_right"` // changes over 2 % that are predicted with the right sign
	Over  int `json:"signs"`       // changes over 2 %
}

// ChangesOf compares the rows of a strategy, or of everything, with their references. Of
// the changes over 2 %, those of a row without a prediction, or whose reference has none,
// count as wrong; rows whose trace is not there do not count. A predicted change of
// under 0.2 % is none.
func ChangesOf(checks []Check, strategy string) (s ChangeScore) {
	const none = 0.002
	var off []float64
	for i, base := range references(checks) {
		c := &checks[i]
		if c.Row.Noisy || base == nil || base == c || !c.of(strategy) || c.absent {
			continue
		}
		predicted, measured := c.against(base)
		over := math.Abs(measured) > runsDiffer
		if over {
			s.Over++
		}
		if c.Why != "" || base.Why != "" {
			continue
		}
		off = append(off, math.Abs(predicted-measured))
		if over && math.Abs(predicted) > none && (predicted > 0) == (measured > 0) {
			s.Right++
		}
	}
	if len(off) > 0 {
		s.Score = score(strategy, off)
	}
	return s
}

// against is what a row changes against its reference.
func (c *Check) against(base *Check) (predicted, measured float64) {
	return c.Predicted/base.Predicted - 1, c.Row.Us/base.Row.Us - 1
}

// signs are the changes of over 2 % that are predicted with the right sign, in words; "" if
// there are none.
func (s ChangeScore) signs() string {
	if s.Over == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", s.Right, s.Over)
}

// references are the rows that others of their workload are compared with, by row; nil: none. The reference of a step
// is the captured variant, of other workloads the row under bulk, with the fewest settings.
func references(checks []Check) []*Check {
	of := map[string]*Check{}
	for i := range checks {
		row := checks[i].Row
		e, _ := engines.Named(row.Strategy)
		base := e.Kind == plan.Plain
		if row.Workload.Kind == "step" {
			base = e.Kind == plan.Exact
		}
		k := workloadKey(row)
		if ref := of[k]; base && (ref == nil || len(RowName(row)) < len(RowName(ref.Row))) {
			of[k] = &checks[i]
		}
	}
	list := make([]*Check, len(checks))
	for i := range checks {
		list[i] = of[workloadKey(checks[i].Row)]
	}
	return list
}

// Refusals are the reasons for which rows have no prediction, each with their number, the most frequent first.
func Refusals(checks []Check) iter.Seq2[string, int] {
	var reasons []string
	rows := map[string]int{}
	for _, c := range checks {
		if c.Why == "" {
			continue
		}
		if rows[c.Why]++; rows[c.Why] == 1 {
			reasons = append(reasons, c.Why)
		}
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return rows[b] - rows[a] })
	return func(yield func(why string, n int) bool) {
		for _, why := range reasons {
			if !yield(why, rows[why]) {
				return
			}
		}
	}
}

// gains are what rows of a strategy changed on hardware, in rising order: the time over that of the fastest bulk row of
// the workload, less one. Nothing of it is predicted. Steps have no bulk row and are left out, and noisy rows.
func gains(results []SetResult, strategy string) (changes []float64) {
	for _, r := range results {
		bulk := map[string]float64{}
		for _, c := range r.Checks {
			e, _ := engines.Named(c.Row.Strategy)
			if k := workloadKey(c.Row); e.Kind == plan.Plain && (bulk[k] == 0 || c.Row.Us < bulk[k]) {
				bulk[k] = c.Row.Us
			}
		}
		for _, c := range r.Checks {
			if us := bulk[workloadKey(c.Row)]; us > 0 && !c.Row.Noisy && c.Row.Strategy == strategy {
				changes = append(changes, c.Row.Us/us-1)
			}
		}
	}
	slices.Sort(changes)
	return changes
}

// runsDiffer is the relative difference between two runs of one program: rows measured
// twice differ by 1.4 to 1.8 % in the median, decompositions by 2 %
// (samples/measurements).
const runsDiffer = 0.02
