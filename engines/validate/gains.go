package validate

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines"
)

// A Gain is what the rows of one strategy changed on hardware, as a share of the
// time of bulk. Nothing of it is predicted.
type Gain struct {
	Strategy            string
	Rows                int
	Median, Best, Worst float64 // time over that of the fastest bulk row of the workload, less one
	Slower              int     // rows that took longer than bulk
}

// Gains are what strategies changed in the operators and models of a dataset, in
// the order of engines.All. Steps have no bulk row and are left out, and noisy rows.
func Gains(results []SetResult) []Gain {
	changes := map[string][]float64{}
	for _, r := range results {
		bulk := map[string]float64{}
		for _, c := range r.Checks {
			if k := workloadKey(c.Row); plain(c.Row) && (bulk[k] == 0 || c.Row.Us < bulk[k]) {
				bulk[k] = c.Row.Us
			}
		}
		for _, c := range r.Checks {
			if us := bulk[workloadKey(c.Row)]; us > 0 && !c.Row.Noisy {
				changes[c.Row.Strategy] = append(changes[c.Row.Strategy], c.Row.Us/us-1)
			}
		}
	}
	var gains []Gain
	for _, e := range engines.All() {
		all := changes[e.Name]
		if len(all) == 0 || e.Plain {
			continue
		}
		slices.Sort(all)
		g := Gain{Strategy: e.Name, Rows: len(all), Median: quantile(all, 0.5), Best: all[0], Worst: all[len(all)-1]}
		for _, x := range all {
			if x > 0 {
				g.Slower++
			}
		}
		gains = append(gains, g)
	}
	return gains
}

func (w *tables) gains(results []SetResult) {
	w.printf("\n## What strategies changed, as measured\n\nTime over that of the fastest bulk row of the same workload, less one; negative is faster. Nothing here is predicted.\n\n")
	w.head(1, "strategy", "rows", "median", "best", "worst", "slower than bulk")
	for _, g := range Gains(results) {
		w.row(g.Strategy, fmt.Sprint(g.Rows), signed(g.Median), signed(g.Best), signed(g.Worst), fmt.Sprint(g.Slower))
	}
}

// signed writes a share as a percentage with its sign.
func signed(x float64) string {
	if math.Abs(x) < 0.0005 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*x)
}
