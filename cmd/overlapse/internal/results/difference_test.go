package results

import (
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A chart of states has compute as a whole: what is merely no longer overlapped is neither more nor less. Other groups stay as they are.
func TestChartOfStates(t *testing.T) {
	change := func(group string, is string, d trace.Time) overlap.Change {
		return overlap.Change{Group: group, Name: is, Diff: d}
	}
	u := cli.UnitOf(5_000_000)
	c := chart([]overlap.Change{
		change(overlap.ByState, overlap.Overlapping.String(), -3_000_000), change(overlap.ByState, overlap.Computing.String(), 2_900_000),
		change(overlap.ByState, overlap.Transferring.String(), 400_000),
	}, u)
	if len(c.Bars) != 2 || c.Bars[0].Name != "transfer" || c.Bars[1].Name != "compute" || c.Bars[1].Note != "-100.0 µs" {
		t.Errorf("bars %+v", c.Bars)
	}
	if c := chart([]overlap.Change{change(overlap.ByKernel, "gemm", 0)}, u); c != nil {
		t.Errorf("no difference has a chart: %+v", c)
	}
}
