package html

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/viz/layout"
)

// Error bars reach from the time less its error to the time plus it; a strategy that did not
// run has no bar; tips say what each rank does.
func TestChartOfStrategies(t *testing.T) {
	rep := sample()
	rep.Strategies[1].Name = "fu{sed|}"
	c := rep.chart()
	if len(c.Bars) != 3 || c.Unit != "µs" || c.Mark != 100 {
		t.Fatalf("%+v", c)
	}
	for i, b := range c.Bars {
		if want := []float64{100, 70, 60}[i]; b.sum() != want {
			t.Errorf("%s: the parts are %v together, want %v", b.Name, b.sum(), want)
		}
	}
	if tip := c.Bars[1].Tip; !strings.Contains(tip, "mean of ranks: compute 20.00 µs, overlapped 40.00 µs, transfer") ||
		!strings.Contains(tip, "\nrank 0: compute 60.00 µs, transfer 8.000 µs, idle 2.000 µs\nrank 1: ") {
		t.Errorf("the tip is %q", tip)
	}
	if hidden := []string{"100.0 µs", "60.00 µs  bound  100 % hidden"}; c.Bars[0].Note != hidden[0] || c.Bars[2].Note != hidden[1] {
		t.Errorf("beside the bars stands %q and %q, want %q", c.Bars[0].Note, c.Bars[2].Note, hidden)
	}
	c.Bars[1].Error = 5 // as of a change
	b := must.Have(json.Marshal(c.option()))(t)
	text := string(b)
	if want := `[{"coord":[65,1]},{"coord":[75,1]}]`; strings.Count(text, `"coord"`) != 2 || !strings.Contains(text, want) {
		t.Errorf("no error bar %s in %s", want, text)
	}
	if !strings.Contains(text, "fu(sed/)") || strings.Contains(text, "fu{") {
		t.Error("a name keeps what means something in ECharts' texts")
	}
}

// The workgroups' timeline compares strategies that have workgroups with the first of them,
// and a page shows the rank asked for.
func TestWorkgroupsAreOfStrategiesThatHaveSome(t *testing.T) {
	rep := Report{Parts: []layout.Part{{Name: "gemm → all_to_all", Ops: []int32{1, 2}}}, Runs: []Named{
		{Name: "captured", Run: partRun("captured", 0, 0)}, {Name: "bulk", Run: pairRun("bulk", 0)}, {Name: "fused", Run: pairRun("fused", 9000)},
	}}
	p := rep.workgroups(newDictionary())
	var titles []string
	for _, s := range p.Sections {
		titles = append(titles, s.Title)
	}
	if want := []string{"bulk · 90.00 µs", "fused · 99.00 µs, +10.0 %, +9.000 µs against bulk"}; !slices.Equal(titles, want) || !slices.Equal(p.Shown, []int{1, 2}) {
		t.Errorf("%q, runs %v, want %q", titles, p.Shown, want)
	}
}

// Of many lanes those of one rank are shown at first, and those of the runs asked for.
func TestShownAtFirst(t *testing.T) {
	for _, rank := range []int{0, 2, 9} {
		rep := Report{Strategies: []Bar{{Name: "a", Time: 1}}, Rank: rank, Shown: []int{1}, Runs: []Named{{Name: "a", Run: manySpans(24)}, {Name: "b", Run: manySpans(24)}}}
		p := rep.lanes(newDictionary())
		if want := fmt.Sprintf("rank %d", rank%9); p.Pick != want || !slices.Equal(p.Shown, []int{1}) {
			t.Errorf("rank %d: shows %q of runs %v, want %q", rank, p.Pick, p.Shown, want)
		}
	}
}
