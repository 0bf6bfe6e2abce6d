package html

import (
	"bytes"
	"strings"
	"testing"
)

func sweep() Sweep {
	return Sweep{
		Title: "sweep", Axes: []string{"input", "strategy", "links", "chunks"},
		Best: Table{Title: "Fastest", Columns: []Column{{"input", false}, {"time", true}}, Rows: [][]string{{"b", "10 µs"}, {"a", "7 µs"}}},
		Cells: []SweepCell{
			{At: []string{"a", "bulk", "1", ""}, Time: 9},
			{At: []string{"a", "decompose", "1", "2"}, Time: 8},
			{At: []string{"a", "decompose", "1", "4"}, Time: 7}, // the fastest of its place
			{At: []string{`b</script><script>window.pwned=1</script>`, "bulk", "1", ""}, Time: 10},
			{At: []string{`b</script><script>window.pwned=1</script>`, "decompose", "1", "2"}, Time: 0}, // does not apply
		},
	}
}

// Without scripts the page has the times of the first two axes; with them, the chart is replaced.
func TestBrowserSweep(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteSweep(&b, sweep()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"<title>Time, µs, by input and strategy</title>", "<title>input a, strategy decompose: 7</title>", ">10</text>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, `class="small mid dark"`); n != 3 {
		t.Errorf("%d places have a time, want 3", n)
	}
	var got struct {
		Pwned    any
		Drawings int
		Cells    []string
		Sorted   string
	}
	visit(t, page, `
document.querySelector("#best th:nth-child(2) button").click();
return {
  Pwned: window.pwned ?? null, Drawings: document.querySelectorAll("#chart .drawing").length,
  Cells: [...document.querySelectorAll("#chart td")].map((e) => e.textContent), Sorted: document.querySelector("#best td").textContent,
};`, &got)
	if got.Pwned != nil || got.Drawings != 0 || strings.Join(got.Cells, "|") != "9.00|7.00|10.0|" || got.Sorted != "a" {
		t.Errorf("%+v", got)
	}
}
