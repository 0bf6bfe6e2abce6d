package html

import (
	"bytes"
	"strings"
	"testing"
)

func sweep() Sweep {
	return Sweep{
		Title: "sweep", Axes: []string{"input", "machine", "what if", "strategy", "chunks"}, Scenario: 3,
		Best: Table{Title: "Fastest", Columns: []Column{{"input", false}, {"time", true}}, Rows: [][]string{{"b", "10 µs"}, {"a", "7 µs"}}},
		Cells: []SweepCell{
			{At: []string{"a", "m1", "default", "bulk", ""}, Time: 9, Change: 0},
			{At: []string{"a", "m1", "default", "decompose", "2"}, Time: 8, Change: -11},
			{At: []string{"a", "m1", "default", "decompose", "4"}, Time: 7, Change: -22}, // the fastest of its place
			{At: []string{"a", "m1", "links=2", "decompose", "4"}, Time: 1, Change: -80}, // another scenario
			{At: []string{"a", "m2", "default", "decompose", "4"}, Time: 5, Change: 12},  // another machine
			{At: []string{`b</script><script>window.pwned=1</script>`, "m1", "default", "bulk", ""}, Time: 1000, Change: 1},
			{At: []string{`b</script><script>window.pwned=1</script>`, "m1", "default", "decompose", "2"}, Time: 0}, // does not apply
		},
	}
}

// The page has the changes of the first two axes, a table a machine, and mixes no scenarios. Colours are those of changes: an input that takes
// long is not red.
func TestBrowserSweep(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteSweep(&b, sweep()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	var got struct {
		Pwned  any
		Heads  []string
		Cells  []string
		Slow   string
		Sorted string
	}
	visit(t, page, `
document.querySelector("#best th:nth-child(2) button").click();
return {
  Pwned: window.pwned ?? null,
  Heads: [...document.querySelectorAll("#chart h3")].map((e) => e.textContent),
  Cells: [...document.querySelectorAll("#chart td")].map((e) => e.textContent),
  Slow: document.querySelectorAll("#chart td")[2].style.background, Sorted: document.querySelector("#best td").textContent,
};`, &got)
	if got.Pwned != nil || strings.Join(got.Heads, "|") != "machine m1|machine m2" || strings.Join(got.Cells, "|") != "0.00|-22.0|1.00|||12.0||" || got.Sorted != "a" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Slow, " 4%") { // 1 of at most 22 %
		t.Errorf("an input of 1000 µs that changes by 1 %% is %q", got.Slow)
	}
}
