package html

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/viz/layout"
)

// Columns sort by a button, numbers by value with sign and unit; long tables filter by words.
func TestBrowserTables(t *testing.T) {
	t.Parallel()
	rep := Report{Title: "tables", Tables: []Table{{Title: "Long", Columns: []Column{{"name", false}, {"change", true}}}}}
	for _, row := range []string{"fused rank 0|−2.4 %", "fused rank 1|+16.1 %", "bulk rank 0|900 ns", "bulk rank 1|1.2 µs", "a|3", "b|4", "c|5", "d|–", "e|6", "f|7", "g|8", "h|9"} {
		rep.Tables[0].Rows = append(rep.Tables[0].Rows, strings.Split(row, "|"))
	}
	var got struct {
		Up, Down, Filtered []string
		Sort, Found        string
		Tag                string
	}
	visit(t, render(t, rep), `
const button = document.querySelector("th:nth-child(2) button"), input = document.querySelector(".filter"), out = {};
const names = () => [...document.querySelectorAll("tbody tr")].filter((r) => !r.hidden).map((r) => r.cells[0].textContent);
button.focus();
out.Tag = document.activeElement.tagName;
button.click();
out.Up = names();
out.Sort = button.parentElement.getAttribute("aria-sort");
button.click();
out.Down = names();
input.value = "rank FUSED";
input.dispatchEvent(new Event("input"));
out.Filtered = names();
out.Found = document.querySelector(".found").textContent;
return out;`, &got)
	if want := "d,fused rank 0,a,b,c,e,f,g,h,fused rank 1,bulk rank 0,bulk rank 1"; strings.Join(got.Up, ",") != want {
		t.Errorf("ascending %q, want %s", got.Up, want)
	}
	if got.Down[0] != "bulk rank 1" || got.Sort != "ascending" || got.Tag != "BUTTON" {
		t.Errorf("%+v", got)
	}
	if want := "fused rank 1,fused rank 0"; strings.Join(got.Filtered, ",") != want || got.Found != " 2 of 12 rows" {
		t.Errorf("filtered %q, %q", got.Filtered, got.Found)
	}
}

// On a page of 1400 px a breakdown of usual length stands on one line.
func TestBrowserTableWidth(t *testing.T) {
	t.Parallel()
	rep := sample()
	rep.Numbers.Rows[0][2] = "compute 85 %, exposed communication 14 %, copies 1 %"
	var lines float64
	visit(t, render(t, rep), `
const cell = document.querySelector("#numbers tbody td:last-child"), range = document.createRange();
range.selectNodeContents(cell);
return new Set([...range.getClientRects()].map((r) => r.top)).size;`, &lines)
	if lines != 1 {
		t.Errorf("the breakdown takes %v lines", lines)
	}
}

// All runs start at 0 of one axis, with their first iterations; what some ranks do before is
// to the left of what the page shows at first.
func TestBrowserAnchor(t *testing.T) {
	t.Parallel()
	rep := sample()
	rep.Runs[0].Start = 40_000 // of 100,000
	var got struct {
		First, All struct{ Start, End float64 }
		Starts     []float64
		Title      string
	}
	visit(t, render(t, rep), `
const t = overlapse.lanes, out = {First: {...t.view}};
out.Starts = t.panel.sections.map((s) => Math.min(...s.rows.map((r) => t.spans.start[r.from])));
out.Title = t.panel.sections[0].time;
t.scroller.dispatchEvent(new KeyboardEvent("keydown", {key: "0", bubbles: true}));
await frame();
out.All = {...t.view};
return out;`, &got)
	if got.First.Start != 0 || got.First.End != 70_000 || int(got.All.Start-0.5) != -40_000 || got.All.End != 70_000 {
		t.Errorf("shows %v, then %v", got.First, got.All)
	}
	if len(got.Starts) < 3 || got.Starts[0] != -40_000 || got.Starts[2] != 0 || got.Title != "60.00 µs" {
		t.Errorf("runs start at %v, the first takes %s", got.Starts, got.Title)
	}
}

// The critical path is a line below the rows that it runs on, which a box switches on.
func TestBrowserCriticalPath(t *testing.T) {
	t.Parallel()
	var got struct {
		Off, On, Zoomed, Hops int
		Holes                 float64
		Hash                  string
	}
	visit(t, render(t, sample()), `
const t = overlapse.lanes, out = {Off: t.drawn.path};
t.controls.path.click();
await frame();
out.On = t.drawn.path;
const hops = t.hops[0];
out.Hops = hops.length;
out.Holes = hops.slice(1).reduce((sum, hop, i) => sum + Math.abs(hop.start - hops[i].end), 0);
t.zoomTo(99600, 99900); // after the end
await frame();
out.Zoomed = t.drawn.path;
for (let i = 0; i < 6; i++) await frame();
out.Hash = location.hash;
return out;`, &got)
	if got.Off != 0 || got.On < 4 || got.Zoomed != 0 || got.Hops < 3 || got.Holes != 0 || !strings.Contains(got.Hash, "path=on") {
		t.Errorf("%+v", got)
	}
}

// A pair under two strategies: on one clock from its first kernel, with the difference of the
// ends, a line at the end of the first, and the largest gaps labelled where they are.
func TestBrowserLabelsGaps(t *testing.T) {
	t.Parallel()
	rep := Report{Title: "pair", Parts: []layout.Part{{Name: "gemm → all_to_all", Ops: []int32{1, 2}}, {Name: "gemm", Ops: []int32{1}}}}
	rep.Runs = []Named{{Name: "bulk", Run: pairRun("bulk", 0)}, {Name: "fused", Run: pairRun("fused", 9000)}}
	var got struct {
		Titles, Gaps []string
		Labels       int
		Kernels      []string
		Other        []string
	}
	visit(t, render(t, rep), unfold+`
const t = overlapse.workgroups, sections = () => t.lines.filter((l) => l.section).map((l) => l.section);
const out = {Titles: sections().map((s) => s.title), Labels: t.drawn.labels, Gaps: sections()[1].gaps.map((g) => g.from + " " + g.to + " " + g.text)};
const select = t.controls.lists[0].select;
out.Kernels = [...select.options].map((o) => o.text);
select.value = out.Kernels[1];
select.dispatchEvent(new Event("change"));
out.Other = sections().map((s) => s.title);
return out;`, &got)
	if want := "bulk · 90.00 µs|fused · 99.00 µs, +10.0 %, +9.000 µs against bulk"; strings.Join(got.Titles, "|") != want {
		t.Errorf("headings %q, want %s", got.Titles, want)
	}
	if want := "60000 64000 idle: unknown 4.000 µs|64000 99000 transfer 35.00 µs"; strings.Join(got.Gaps, "|") != want || got.Labels != 4 {
		t.Errorf("%d labels, gaps %q, want %s", got.Labels, got.Gaps, want)
	}
	if strings.Join(got.Kernels, "|") != "gemm → all_to_all|gemm" || strings.Join(got.Other, "|") != "bulk · 60.00 µs|fused · 60.00 µs, ±0.0 %, ±0 ns against bulk" {
		t.Errorf("kernels %q, of the second %q", got.Kernels, got.Other)
	}
}
