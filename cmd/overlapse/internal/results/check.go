package results

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A check is a quantity of an iteration that must not grow.
type check struct {
	Name   string     `json:"name"`
	A      trace.Time `json:"a_ns"`
	B      trace.Time `json:"b_ns"`
	Growth float64    `json:"growth"` // B less A, of A's time
	Noise  float64    `json:"noise"`  // two standard errors of the growth, from the iterations of both; 0: too few
	Failed bool       `json:"failed"` // it grew by more than allowed, and by more than noise
}

// quantities are what is checked, as a sample has them.
var quantities = [...]string{"step time", "exposed communication", "waiting for ranks"}

// A sample has the quantities of one iteration, ns, means over ranks.
type sample [len(quantities)]float64

// samplesOf are those of each iteration after the first.
func samplesOf(w *workload.Workload) []sample {
	ran, overlaps := plan.MeasuredSteps(w).Ran()
	if overlaps || len(ran) < 3 {
		return nil
	}
	list := make([]sample, len(ran)-1)
	for i := range list {
		list[i][0] = float64(ran[i+1].End - ran[i].End)
	}
	overlap.States(w.Run, nil, func(s overlap.State) {
		if s.Is != overlap.Transferring && s.Is != overlap.Waiting {
			return
		}
		for i := range list {
			part := float64(min(s.End, ran[i+1].End)-max(s.Start, ran[i].End)) / float64(len(w.Run.Ranks))
			if part > 0 {
				list[i][1] += part
				if s.Is == overlap.Waiting {
					list[i][2] += part
				}
			}
		}
	})
	w.UnseenWaits(func(op *workload.Op, late trace.Time) { // which are transfer to the states
		for i := range list {
			if op.Start >= ran[i].End && op.Start < ran[i+1].End {
				list[i][2] += float64(late) / float64(len(w.Run.Ranks))
			}
		}
	})
	return list
}

// squaredError is the variance of the mean of a quantity over iterations.
func squaredError(list []sample, of int) float64 {
	var sum, squares float64
	for _, s := range list {
		sum += s[of]
	}
	n := float64(len(list))
	for _, s := range list {
		squares += (s[of] - sum/n) * (s[of] - sum/n)
	}
	return squares / max(1, n-1) / n
}

// quantities are those of a side.
func (s *side) quantities() (q [len(quantities)]trace.Time) {
	t := s.times()
	return [...]trace.Time{cmp.Or(s.Unprofiled, s.Time), t.Transfer + t.Waiting, t.Waiting}
}

// Check compares the quantities: none may grow by more than a fraction of A's time.
func (d *Difference) Check(above float64) {
	for i := range d.Phases {
		d.Phases[i].Check(above)
	}
	if d.Phases != nil {
		return
	}
	a, b := d.A.quantities(), d.B.quantities()
	whole := float64(max(1, a[0]))
	for i, name := range quantities {
		c := check{Name: name, A: a[i], B: b[i], Growth: float64(b[i]-a[i]) / whole}
		if len(d.A.samples) > 0 && len(d.B.samples) > 0 {
			c.Noise = 2 * math.Sqrt(squaredError(d.A.samples, i)+squaredError(d.B.samples, i)) / whole
		}
		c.Failed = c.Growth > above && c.Growth > c.Noise
		d.Checks = append(d.Checks, c)
	}
	d.above = above
}

// Failed says which quantities grew too much, and what makes the difference; "" if none.
func (d *Difference) Failed() string {
	var failed []string
	for _, p := range d.Each() {
		for _, c := range p.Checks {
			if c.Failed {
				failed = append(failed, p.title()+p.sentence(&c))
			}
		}
	}
	if failed == nil {
		return ""
	}
	return strings.Join(failed, "; ") + ". " + d.Explanation
}

func (d *Difference) sentence(c *check) string {
	noise := "its noise is not known, with fewer than three steps"
	switch {
	case c.Noise > 0 && c.Growth > d.above && !c.Failed:
		noise = fmt.Sprintf("within the noise of ± %.1f %%", 100*c.Noise)
	case c.Noise > 0:
		noise = fmt.Sprintf("noise ± %.1f %%", 100*c.Noise)
	}
	return fmt.Sprintf("%s %s of A's step (%s, then %s), allowed %s; %s",
		c.Name, trace.Percent(c.Growth), trace.Micros(c.A), trace.Micros(c.B), trace.Percent(d.above), noise)
}

func (c *check) verdict() string {
	if c.Failed {
		return "FAILED"
	}
	return "ok"
}

// checked is the table of the checks; nil: nothing was checked.
func (d *Difference) checked() *cli.Table {
	if d.Checks == nil {
		return nil
	}
	t := &cli.Table{
		Title:   d.title() + fmt.Sprintf("checks: at most %s of A's step may be added", trace.Percent(d.above)),
		Columns: []string{"", "A", "B", "growth", "noise ±", "result"},
	}
	for i := range d.Checks {
		c := &d.Checks[i]
		noise := "unknown"
		if c.Noise > 0 {
			noise = fmt.Sprintf("%.1f %%", 100*c.Noise)
		}
		t.Add(c.Name, trace.Micros(c.A), trace.Micros(c.B), trace.Percent(c.Growth), noise, c.verdict())
	}
	return t
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Out     string        `xml:"system-out"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the checks as a test suite, a test a quantity.
func (d *Difference) WriteJUnit(w io.Writer) error {
	suite := struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}{Name: "overlapse: " + d.A.Name + " and " + d.B.Name}
	for _, p := range d.Each() {
		for i := range p.Checks {
			c := &p.Checks[i]
			one := junitCase{Class: d.B.Name, Name: p.title() + c.Name, Out: p.sentence(c)}
			if c.Failed {
				suite.Failures++
				one.Failure = &junitFailure{p.sentence(c), p.Explanation}
			}
			suite.Cases = append(suite.Cases, one)
		}
	}
	suite.Tests = len(suite.Cases)
	text, err := xml.MarshalIndent(suite, "", " ")
	if err == nil {
		_, err = io.WriteString(w, xml.Header+string(text)+"\n")
	}
	return err
}
