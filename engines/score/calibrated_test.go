package score

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A profile that was not made for a machine, h100, is calibrated with one run of capture.py on
// two H200, and predicts rows of other sizes about as well as the shipped h200, which is read
// off many measurements; half of the rows, chosen at random, do nearly as well (rule E6). The
// golden has median and 90th percentile of the errors, that of loops, and the regret.
func TestCalibratedByOneCapture(t *testing.T) {
	if !longtest.Asked() {
		t.Skip("long")
	}
	d := must.Have(dataset.Open(samples + "/measurements"))(t)
	h100 := must.Have(machine.Load("h100"))(t)
	h200 := must.Have(machine.Load("h200"))(t)
	set := func(name string) *dataset.Set {
		return &d.Sets[slices.IndexFunc(d.Sets, func(s dataset.Set) bool { return s.Name == name })]
	}
	rows := set("h200x2-capture").Rows
	fit := func(rows []dataset.Row) machine.Machine {
		res := must.Have(dataset.CalibrateMachine(rows, h100))(t)
		return res.Machine
	}
	half := func(seed uint64) []dataset.Row {
		rng := rand.New(rand.NewPCG(seed, 0))
		return slices.DeleteFunc(slices.Clone(rows), func(dataset.Row) bool { return rng.IntN(2) == 0 })
	}
	var got strings.Builder
	for _, c := range []struct {
		name string
		m    machine.Machine
	}{
		{"h200", h200}, {"h100", h100}, {"h100, calibrated", fit(rows)}, {"h100, half of the rows", fit(half(1))}, {"h100, another half", fit(half(2))},
	} {
		var checks []Check
		for _, name := range []string{"h200x2-sixth", "h200x2-seventh"} {
			s := set(name)
			found := must.Have(predictRows(s.Rows, Inputs{
				Machine: func(row dataset.Row) (machine.Machine, error) { return c.m.Sized(row.World) },
				Trace:   func(r dataset.Row) (*trace.Run, error) { return format.Open(d.Path(s, r.Trace), format.Options{}) },
			}))(t)
			checks = append(checks, found...)
		}
		var all, loops Score
		for _, s := range Scores(checks) {
			switch s.Strategy {
			case "all":
				all = s
			case "multistream":
				loops = s
			}
		}
		_, regret := Choices(checks)
		fmt.Fprintf(&got, "%-24s %d rows: median %.1f %%, 90th percentile %.1f %%; multistream %.1f %%; regret %.1f %%\n",
			c.name, all.N, 100*all.Median, 100*all.P90, 100*loops.Median, 100*regret.Mean)
	}
	golden(t, "testdata/calibrated.golden", got.String())
}
