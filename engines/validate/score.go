package validate

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/replay/dataset"
)

// A Score is how well one strategy's rows are predicted.
type Score struct {
	Strategy string  `json:"-"`
	N        int     `json:"n"`
	Median   float64 `json:"median"` // of |error|
	P90      float64 `json:"p90"`
}

// Scores are the errors by strategy, in the order of engines.All, and over all rows
// last. Rows without a prediction are left out, and noisy ones.
func Scores(checks []Check) []Score {
	by := map[string][]float64{}
	var all []float64
	for _, c := range checks {
		if c.Why == "" && !c.Row.Noisy {
			by[c.Row.Strategy] = append(by[c.Row.Strategy], math.Abs(c.Error()))
			all = append(all, math.Abs(c.Error()))
		}
	}
	var scores []Score
	for _, name := range engines.Names() {
		if len(by[name]) > 0 {
			scores = append(scores, score(name, by[name]))
		}
	}
	if len(all) > 0 {
		scores = append(scores, score("all", all))
	}
	return scores
}

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

// Choices groups rows by workload and says what choosing by prediction costs on
// each. Rows without a prediction cannot be chosen, but they can be the best.
// Noisy rows are neither.
func Choices(checks []Check) []Choice {
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
	var choices []Choice
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
		choices = append(choices, Choice{k, RowName(best.Row), RowName(picked), picked.Us/best.Row.Us - 1})
	}
	return choices
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

// A ChangeScore is how well changes against the reference are predicted. The reference of a step
// is the captured variant, of other workloads the bulk row with the fewest settings.
type ChangeScore struct {
	N      int     `json:"n"`      // rows that are predicted, and so is their reference
	Median float64 `json:"median"` // of |predicted change - measured change|, as shares of the reference's time
	P90    float64 `json:"p90"`
	Right  int     `json:"signs_right"` // changes over 2 % that are predicted with the right sign
	Over   int     `json:"signs"`       // changes over 2 %
}

// ChangesOf compares the rows of a strategy, of all if it is "", with their references. Of
// the changes over 2 %, those of a row without a prediction, or whose reference has none,
// count as wrong; rows whose trace is not included do not count. A predicted change of
// under 0.2 % is none.
func ChangesOf(checks []Check, strategy string) ChangeScore {
	const none = 0.002
	refs := references(checks)
	var c ChangeScore
	var off []float64
	for i, x := range checks {
		ref, ok := refs[workloadKey(x.Row)]
		if x.Row.Noisy || !ok || ref == i || strategy != "" && x.Row.Strategy != strategy || x.Why == errAbsent.Error() {
			continue
		}
		base := checks[ref]
		measured := x.Row.Us/base.Row.Us - 1
		over := math.Abs(measured) > compare.RunsDiffer
		if over {
			c.Over++
		}
		if x.Why != "" || base.Why != "" {
			continue
		}
		predicted := x.Predicted/base.Predicted - 1
		off = append(off, math.Abs(predicted-measured))
		if over && math.Abs(predicted) > none && (predicted > 0) == (measured > 0) {
			c.Right++
		}
	}
	if c.N = len(off); c.N > 0 {
		s := score("", off)
		c.Median, c.P90 = s.Median, s.P90
	}
	return c
}

// Signs are the changes of over 2 % that are predicted with the right sign, in words; "" if
// there are none.
func (c ChangeScore) Signs() string {
	if c.Over == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", c.Right, c.Over)
}

// references are the rows that others of their workload are compared with, by
// index and workload.
func references(checks []Check) map[string]int {
	refs := map[string]int{}
	for i, c := range checks {
		base := plain
		if c.Row.Workload.Kind == "step" {
			base = exact
		}
		k := workloadKey(c.Row)
		if ref, ok := refs[k]; base(c.Row) && (!ok || len(RowName(c.Row)) < len(RowName(checks[ref].Row))) {
			refs[k] = i
		}
	}
	return refs
}

// A Refusal is a reason for which rows have no prediction, and how many.
type Refusal struct {
	Why string
	N   int
}

// Refusals are the reasons, the most frequent first.
func Refusals(checks []Check) []Refusal {
	var list []Refusal
	for _, c := range checks {
		if c.Why == "" {
			continue
		}
		i := slices.IndexFunc(list, func(r Refusal) bool { return r.Why == c.Why })
		if i < 0 {
			i = len(list)
			list = append(list, Refusal{Why: c.Why})
		}
		list[i].N++
	}
	slices.SortStableFunc(list, func(a, b Refusal) int { return b.N - a.N })
	return list
}
