package html

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// changedReport compares a captured run with several schedules; what the recommended one changes stands between both.
func changedReport() Report {
	rep := sample()
	captured := rep.Runs[0].Run
	work := []overlap.Operation{{Name: "gemm", Layer: "model.layers.12", Kind: trace.Compute, Start: 1000, End: 4000}}
	changes, _ := overlap.ChangesOf(captured.Ranks, append(work, overlap.Operation{Name: "all_to_all", Kind: trace.Collective, Lane: 1, Start: 62_000, End: 97_000}), work, 100_000)
	said := "removed 1 all_to_all " + strings.Repeat("and what else a long sentence has to say, ", 12)
	rep.Runs = []Named{rep.Runs[0], {Name: "what changes", Note: said, Run: changes}, rep.Runs[1]}
	for _, name := range []string{"chart", "rare 1", "rare 2", "rare 3"} {
		rep.Runs = append(rep.Runs, Named{Name: name, Run: captured})
	}
	rep.Shown = []int{0, 1, 2}
	rep.Changes = &Chart{Unit: "%", Parts: []Part{{"less time", "#009e73"}}, Bars: []Line{{Name: "chart", Values: []float64{-3}, Key: "chart"}}}
	return rep
}

// The page shows what changes: between both runs in a heading as high as its sentence, in a range's sums side by side, with numbers of
// layers where names have no room. Schedules that are neither shown nor in the chart of changes are behind a button.
func TestBrowserShowsWhatChanges(t *testing.T) {
	t.Parallel()
	var got struct {
		Chips, All, One                []string
		Code, Button                   string
		Lines, Narrow                  int
		High, Text                     float64
		Head                           string
		Rows                           []string
		Number                         []string
		Whole, Zoomed, InField, Change float64
	}
	visit(t, render(t, changedReport()), `
const t = overlapse.lanes, out = {};
const chips = () => [...document.querySelectorAll("#timeline .chip")].filter((c) => c.offsetWidth).map((c) => c.textContent);
out.Chips = chips();
const more = document.querySelector("#timeline button.chip");
more.click();
out.All = chips();
more.click();
t.controls.only("rare 2");
out.One = chips();
for (const box of t.controls.runs) box.checked = box.defaultChecked;
t.controls.apply();
const pre = document.querySelector("#how pre");
out.Code = pre.querySelector("code").textContent;
out.Button = pre.querySelector("button").textContent;
const heading = () => t.lines.find((l) => l.section?.changes);
out.Lines = heading().titles.length;
out.High = heading().height;
document.body.style.width = "700px";
dispatchEvent(new Event("resize"));
out.Narrow = heading().titles.length;
document.body.style.width = "";
dispatchEvent(new Event("resize"));
t.measure(0, 100000);
out.Head = [...t.picked.querySelectorAll("th")].map((c) => c.textContent).join("|");
out.Rows = [...t.picked.querySelectorAll("tbody tr")].map((r) => [...r.cells].map((c) => c.textContent).join("|"));
const fill = t.pen.fillText.bind(t.pen);
out.Number = [];
t.pen.fillText = (text, ...at) => { out.Number.push(text); fill(text, ...at); };
t.draw();
delete t.pen.fillText;
const width = () => t.view.end - t.view.start, press = (target) => target.dispatchEvent(new KeyboardEvent("keydown", {key: "w", bubbles: true}));
scrollTo(0, 0);
out.Whole = width();
press(t.find);
out.InField = width();
press(document.body);
out.Zoomed = width();
return out;`, &got)
	if want := []string{"captured", "what changes", "fused (order=aware)", "chart", "3 more ▸", "annotations", "critical path"}; !slices.Equal(got.Chips, want) {
		t.Errorf("chips %q, want %q", got.Chips, want)
	}
	if len(got.All) != len(got.Chips)+3 || !slices.Contains(got.All, "fewer ◂") || !slices.Contains(got.One, "rare 2") || slices.Contains(got.One, "rare 3") {
		t.Errorf("all chips are %q, with one that is shown %q", got.All, got.One)
	}
	if got.Code != "line one\n    line two" || got.Button != "copy" {
		t.Errorf("code %q with button %q", got.Code, got.Button)
	}
	if got.Lines < 2 || got.High != float64(10+16*got.Lines) || got.Narrow != 3 {
		t.Errorf("the heading has %d lines in %v px, %d on a narrow page", got.Lines, got.High, got.Narrow)
	}
	if want := "|captured: count|time|fused (order=aware): count|time|difference"; got.Head != want {
		t.Errorf("the table of a range has %q, want %q", got.Head, want)
	}
	for _, want := range []string{"nvjet_sm90_tst_128x256|1|60.00 µs|0|0 ns|-60.00 µs", "gemm_fused|0|0 ns|1|"} {
		if !slices.ContainsFunc(got.Rows, func(row string) bool { return strings.HasPrefix(row, want) }) {
			t.Errorf("no %q among %q", want, got.Rows)
		}
	}
	if !slices.Contains(got.Number, "12") {
		t.Errorf("no number of a layer among %q", got.Number)
	}
	if got.InField != got.Whole || got.Zoomed >= got.Whole {
		t.Errorf("W zooms from %v to %v, and to %v in a field", got.Whole, got.Zoomed, got.InField)
	}
}

// The axis of workgroups ends with the schedules that are chosen, and all of it stays in sight, or the part that is.
func TestBrowserFitsWorkgroups(t *testing.T) {
	t.Parallel()
	rep := Report{Title: "pairs", Parts: []layout.Part{{Name: "gemm → all_to_all", Ops: []int32{1, 2}}}, Runs: []Named{
		{Name: "bulk", Says: "turn the overlap off", Run: pairRun("bulk", 0)}, {Name: "fused", Run: pairRun("fused", 9000)},
	}}
	var got struct {
		Both, One, Again, Part [2]float64
		Title                  string
	}
	visit(t, render(t, rep), unfold+`
const t = overlapse.workgroups, view = () => [t.view.start, t.view.end], out = {Both: view(), Title: t.lines[0].section.title};
t.controls.runs[1].click();
out.One = view();
t.controls.runs[1].click();
out.Again = view();
t.zoomTo(10000, 20000);
t.controls.runs[1].click();
out.Part = view();
return out;`, &got)
	both, one := [2]float64{0, 99_000}, [2]float64{0, 90_000}
	if got.Both != both || got.One != one || got.Again != both || got.Part != [2]float64{10_000, 20_000} {
		t.Errorf("views %+v", got)
	}
	if want := "turn the overlap off · 90.00 µs"; got.Title != want {
		t.Errorf("the title is %q, want %q", got.Title, want)
	}
}
