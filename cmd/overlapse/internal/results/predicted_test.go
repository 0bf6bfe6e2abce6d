package results

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/trace"
)

// A prediction is of a step without the profiler. Where the captures and their estimate without it do not agree on whether it came
// true, that is said.
func TestPredictedAgainstMeasured(t *testing.T) {
	for _, c := range []struct {
		predicted, with, without float64
		want                     string
	}{
		{-0.10, -0.10, -0.11, "measured -11.0 % by estimate without the profiler (-10.0 % with it): within the interval. With it: B is"},
		{-0.10, -0.10, -0.10, "measured -10.0 %: within the interval. B is"},
		{-0.05, -0.032, -0.027, "undecided, as these differ"}, // within with it
		{0.049, 0.082, 0.023, "undecided, as these differ"},   // on both sides
		{0.05, -0.03, -0.02, "(-3.0 % with it): outside. With it: B is"},
	} {
		d := &Difference{Change: c.with, Explanation: "B is faster.", A: side{Time: 1e6}}
		took := [2]map[string]trace.Time{{"": 1e6}, {"": trace.Time(1e6 * (1 + c.without))}}
		d.verify(&Row{answer: answer{Strategy: "multistream", Change: c.predicted, Chance: verdict.Chance{Error: 0.02}}}, took)
		if !strings.Contains(d.Explanation, c.want) {
			t.Errorf("%+v: %s, want %q", c, d.Explanation, c.want)
		}
	}
}
