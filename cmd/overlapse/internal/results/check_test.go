package results

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// steps are samples of these step times.
func steps(times ...float64) (list []sample) {
	for _, t := range times {
		list = append(list, sample{t, t / 10, 0})
	}
	return list
}

// A growth within the noise of the steps is no failure; the same growth of steady steps is.
func TestCheckNoise(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []sample
		want string
	}{
		{"steady", steps(999, 1000, 1001), steps(1049, 1050, 1051), "step time +5.0 %"},
		{"noisy", steps(900, 1000, 1100), steps(950, 1050, 1150), ""},
		{"unknown", nil, steps(1049, 1050, 1051), "step time +5.0 %"},
	} {
		d := differenceOf(side{Name: "a", Time: 1000, samples: c.a, items: []overlap.Item{{Group: byStrategy, Name: "bulk", Time: 1000}}},
			side{Name: "x\x1b\x00<", Time: 1050, samples: c.b, items: []overlap.Item{{Group: byStrategy, Name: "bulk", Time: 1050}}})
		d.Check(0.03)
		if got := d.Failed(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", c.name, got)
		}
		var b strings.Builder
		must.Do(t, d.WriteJUnit(&b))
		var suite struct {
			Failures int `xml:"failures,attr"`
			Cases    []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		}
		if err := xml.Unmarshal([]byte(b.String()), &suite); err != nil || len(suite.Cases) != 3 || (suite.Failures == 1) != (c.want != "") || (suite.Cases[0].Failure != nil) != (c.want != "") {
			t.Errorf("%s: %v %+v\n%s", c.name, err, suite, b.String())
		}
	}
}

// Where the times without the profiler tell of another change than the captures, they come first, and are what is checked.
func TestWithoutProfiler(t *testing.T) {
	compared := func(took [2]map[string]trace.Time) Difference {
		d := differenceOf(side{Name: "a", Time: 93_000_000, steps: 2}, side{Name: "b", Time: 72_000_000, steps: 2})
		d.withoutProfiler(took)
		d.Check(0.03)
		return d
	}
	same := compared([2]map[string]trace.Time{{"": 93_000_000}, {"": 72_000_000}})
	if none := compared([2]map[string]trace.Time{}); same.Explanation != none.Explanation || same.Failed() != "" || !strings.HasPrefix(same.Explanation, "B is 21.00 ms per step (22.6 %) faster.") {
		t.Errorf("a profiler that changes nothing changes what is said: %q, %q", same.Explanation, none.Explanation)
	}
	d := compared([2]map[string]trace.Time{{"": 65_000_000}, {"": 69_000_000}})
	if want := "Without the profiler, by estimate: B is 4000.0 µs per step (6.2 %) slower. With it: B is 21.00 ms per step (22.6 %) faster."; !strings.HasPrefix(d.Explanation, want) {
		t.Error(d.Explanation)
	}
	if failed := d.Failed(); !strings.HasPrefix(failed, "step time +6.2 % of A's step (65.00 ms, then 69.00 ms), allowed +3.0 %") {
		t.Error(failed)
	}
}
