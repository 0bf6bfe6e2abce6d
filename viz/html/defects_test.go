package html

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Defect 3: the wheel scrolls rows and page, zooms with Ctrl and pans with Shift.
func TestBrowserWheel(t *testing.T) {
	t.Parallel()
	type view struct{ Start, End float64 }
	var got struct {
		Plain, Ctrl, Shift bool // whether the browser may scroll
		Whole, Zoomed, Far view
	}
	visit(t, render(t, sample()), `
const t = overlapse.lanes, box = t.stage.getBoundingClientRect(), out = {Whole: {...t.view}};
const wheel = (init) => {
  const e = new WheelEvent("wheel", {clientX: box.x + 500, clientY: box.y + 80, bubbles: true, cancelable: true, ...init});
  return t.canvas.firstElementChild.dispatchEvent(e);
};
out.Plain = wheel({deltaY: 120});
out.Ctrl = wheel({deltaY: -120, ctrlKey: true});
await frame();
out.Zoomed = {...t.view};
out.Shift = wheel({deltaY: 240, shiftKey: true});
await frame();
out.Far = {...t.view};
return out;`, &got)
	if !got.Plain || got.Ctrl || got.Shift {
		t.Errorf("the browser scrolls by a wheel: %v, with Ctrl: %v, with Shift: %v", got.Plain, got.Ctrl, got.Shift)
	}
	if z := got.Zoomed.End - got.Zoomed.Start; z > 90_000 || z < 50_000 || got.Far.Start <= got.Zoomed.Start {
		t.Errorf("from %v to %v to %v", got.Whole, got.Zoomed, got.Far)
	}
}

// Defect 4: on a narrow screen bars run from the names to the right, and nothing is wider than the screen.
func TestBrowserNarrow(t *testing.T) {
	t.Parallel()
	var got struct {
		Left, Right, Page, Width float64
	}
	visit(t, render(t, sample()), `
document.body.style.width = "390px";
document.body.style.padding = "12px";
overlapse.bars.draw();
const chart = overlapse.bars.chart;
return {Left: chart.convertToPixel({xAxisIndex: 0}, 0), Right: chart.convertToPixel({xAxisIndex: 0}, 100000), Page: document.body.scrollWidth, Width: chart.getWidth()};`, &got)
	if got.Width > 390 || got.Right-got.Left < 60 || got.Left < 60 || got.Page > 390 {
		t.Errorf("bars of %+v", got)
	}
}

// Defect 20: the page opens at an address and writes it, and timelines say what they are.
func TestBrowserAddress(t *testing.T) {
	t.Parallel()
	type shown struct {
		Runs       []string
		Start, End float64
		Found      string
	}
	var got struct {
		Opened    shown
		Hash      string
		Role      []string
		Label     string
		Malformed string
	}
	visit(t, render(t, sample()), `
const t = overlapse.lanes, out = {};
location.hash = "#strategy=fused&t=10us-40us&find=gemm_fused";
await frame();
await frame();
out.Opened = {Runs: t.controls.runs.filter((b) => b.checked).map((b) => b.dataset.name), Start: t.view.start, End: t.view.end, Found: document.querySelector("#timeline .found").textContent};
t.zoomTo(20000, 30000);
for (let i = 0; i < 6; i++) await frame();
out.Hash = location.hash;
out.Role = [t.scroller.getAttribute("role"), t.canvas.getAttribute("role"), t.picked.getAttribute("role")];
out.Label = t.scroller.getAttribute("aria-label");
location.hash = "#strategy=%00&t=x-y&rank=%ZZ&t=5ms-1ms&find=%3Cb%3E";
await frame();
out.Malformed = document.querySelector("#timeline .found").textContent;
return out;`, &got)
	o := got.Opened
	if strings.Join(o.Runs, "|") != "fused (order=aware)" || o.Start < 9_999 || o.Start > 10_001 || o.End < 39_999 || o.End > 40_001 || o.Found != "1 found" {
		t.Errorf("the address opens %+v", o)
	}
	if want := "#strategy=fused&find=gemm_fused&t=20us-30us"; !strings.HasPrefix(got.Hash, want) {
		t.Errorf("the address is %q, want %q", got.Hash, want)
	}
	if strings.Join(got.Role, " ") != "application img status" || !strings.HasPrefix(got.Label, "Timeline of queues: 3 ranks") {
		t.Errorf("roles %v, label %q", got.Role, got.Label)
	}
	if got.Malformed != "0 found" {
		t.Errorf("after a malformed address: %q", got.Malformed)
	}
}

// Defect 19: tables fit the paper, and those without rows have no heading.
func TestBrowserPrintsTables(t *testing.T) {
	t.Parallel()
	rep := sample()
	long := strings.Repeat("a long reason ", 30) + strings.Repeat("unbreakable", 20)
	rep.Tables = append(rep.Tables, Table{Title: "Nothing", Columns: []Column{{"empty", false}}}, Table{
		Title: "Wide", Columns: []Column{{"one", false}, {"two", false}, {"three", true}, {"four", false}},
		Rows: [][]string{{long, long, "1 ms", long}},
	})
	page := render(t, rep)
	if strings.Contains(page, "Nothing") {
		t.Error("an empty table has a heading")
	}
	var widths []float64
	visit(t, strings.Replace(page, "@media print", "@media all", 1), `
dispatchEvent(new Event("beforeprint"));
return [...document.querySelectorAll("table")].map((e) => e.getBoundingClientRect().width);`, &widths)
	for i, w := range widths {
		if w > 1031 {
			t.Errorf("table %d is %v px wide on paper of 1030", i, w)
		}
	}
}

// Defect 16: bars of CUTLASS kernels are captioned with what they are instances of.
func TestCaptionsAreShort(t *testing.T) {
	rep := sample()
	run := *rep.Runs[0].Run
	run.Names = append([]string(nil), run.Names...)
	for i, name := range run.Names {
		if name == "nvjet_sm90_tst_128x256" {
			run.Names[i] = "void cutlass::Kernel2<cutlass_80_tensorop_gemm>(T)"
		}
	}
	rep.Runs[0].Run = &run
	d := document(t, render(t, rep))
	for i, short := range d.Short {
		if d.Names[i] == "void cutlass::Kernel2<cutlass_80_tensorop_gemm>(T)" && short == "cutlass_80_tensorop_gemm" {
			return
		}
	}
	t.Errorf("captions %v of %q", d.Short, d.Names)
}

// Defect 2: the reader chooses a kernel or pair, and every strategy shows it from the same start.
func TestBrowserComparesParts(t *testing.T) {
	t.Parallel()
	rep := Report{Title: "parts", Captured: 1000}
	for _, x := range []struct {
		name        string
		from, gemm2 trace.Time
	}{{"bulk", 5000, 200}, {"fused", 0, 100}} {
		b := new(trace.Builder)
		rank := b.AddRank(trace.Rank{ID: 0})
		for op, length := range []trace.Time{1000, x.gemm2} {
			attr := b.AddKernel(trace.Kernel{Origin: int32(op), Op: trace.None, Comm: trace.None})
			s := trace.Span{Kind: trace.Compute, Name: b.Intern("gemm"), Lane: queue(b, rank, 7), Parent: trace.None, Attr: attr, Start: x.from + trace.Time(op)*2000}
			s.End = s.Start + length
			s.Parent = b.Add(s)
			s.Kind, s.Lane = trace.Workgroup, b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, Peer: trace.None})
			s.Attr = b.AddWorkgroup(trace.WorkgroupAttr{Persistent: 0, Peer: trace.None, Row: trace.None, Col: trace.None})
			b.Add(s)
		}
		rep.Runs = append(rep.Runs, Named{Name: x.name, Run: b.Finish(trace.Options{Name: x.name, Simulated: true, KeepZero: true})})
	}
	var got struct {
		Kernels []string
		First   [][2]float64
		Second  [][2]float64
		Titles  []string
	}
	visit(t, render(t, rep), unfold+`
const t = overlapse.workgroups, select = t.controls.lists[0].select, out = {Kernels: [...select.options].map((o) => o.value)};
const bars = () => t.lines.filter((l) => l.row?.cluster).map((l) => [t.spans.start[l.row.from], t.spans.end[l.row.from]]);
out.First = bars();
location.hash = "#wg.kernel=" + encodeURIComponent("gemm, operation 1");
await frame();
out.Second = bars();
out.Titles = t.lines.filter((l) => l.section).map((l) => l.section.title);
return out;`, &got)
	if strings.Join(got.Kernels, "|") != "gemm, operation 0|gemm, operation 1" {
		t.Errorf("the kernels are %q", got.Kernels)
	}
	if want := [][2]float64{{0, 1000}, {0, 1000}}; !slices.Equal(got.First, want) {
		t.Errorf("the first kernel is at %v", got.First)
	}
	if want := [][2]float64{{0, 200}, {0, 100}}; !slices.Equal(got.Second, want) {
		t.Errorf("the second kernel is at %v", got.Second)
	}
	if strings.Join(got.Titles, "|") != "bulk · 200 ns|fused · 100 ns, −50.0 %, −100 ns against bulk" {
		t.Errorf("titles %q", got.Titles)
	}
}

// An address of the workgroups' timeline unfolds it.
func TestBrowserAddressUnfolds(t *testing.T) {
	t.Parallel()
	var got []bool
	visit(t, render(t, sample()), `
const section = document.getElementById("workgroups"), out = [section.open];
location.hash = "#wg.find=gemm";
await frame();
await frame();
out.push(section.open);
return out;`, &got)
	if !slices.Equal(got, []bool{false, true}) {
		t.Errorf("open before and after: %v", got)
	}
}

// Shift and drag sums up a range: states of the ranks, then kernels by name.
func TestBrowserMeasuresRanges(t *testing.T) {
	t.Parallel()
	var got struct {
		Title string
		Rows  [][]string
	}
	visit(t, render(t, sample()), `
const t = overlapse.lanes;
t.controls.runs[1].click(); // the captured run only
t.measure(31000, 97000);
return {Title: t.picked.querySelector("b").textContent, Rows: [...t.picked.querySelectorAll("tbody tr")].map((r) => [...r.cells].map((c) => c.textContent))};`, &got)
	if got.Title != "66.00 µs from 31.00 µs to 97.00 µs (F zooms to it)" {
		t.Errorf("the range is %q", got.Title)
	}
	var rows []string
	for _, r := range got.Rows {
		rows = append(rows, strings.Join(r, "|"))
	}
	for _, want := range []string{
		"ranks: transfer|2|69.00 µs|52.3 %|34.50 µs|34.50 µs|34.50 µs",
		"ranks: compute alone|2|60.00 µs|45.5 %|60.00 µs|60.00 µs|60.00 µs",
		"nvjet_sm90_tst_128x256|2|60.00 µs|45.5 %|60.00 µs|60.00 µs|60.00 µs",
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(rows, "\n"))
		}
	}
}

// Defect 14: bars count marks that would hide what they mark, on all rows, and the legend says so.
func TestBrowserCrowdedMarks(t *testing.T) {
	t.Parallel()
	type look struct {
		Marks int
		Hint  string
	}
	var got struct{ Far, Close look }
	b := new(trace.Builder)
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	for wg := range 2 {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(wg), Persistent: int32(wg), CU: trace.None, Peer: 1, Row: trace.None, Col: trace.None})
		s := trace.Span{Kind: trace.Workgroup, Lane: lane, End: 1_000_000, Name: b.Intern("k"), Parent: trace.None, Attr: attr}
		s.Parent = b.Add(s)
		for i := range 1 + 499*wg { // the second has many
			at := trace.Time(i) * 2000
			b.Add(trace.Span{Kind: trace.PhasePut, Lane: lane, Start: at, End: at, Name: b.Intern("put"), Parent: s.Parent, Attr: attr})
		}
	}
	rep := Report{Title: "marks", Runs: []Named{{Name: "fused", Run: b.Finish(trace.Options{KeepZero: true})}}}
	visit(t, render(t, rep), unfold+`
const t = overlapse.workgroups, look = () => ({Marks: t.drawn.marks, Hint: t.hinted.textContent}), out = {Far: look()};
t.zoomTo(0, 20000);
await frame();
out.Close = look();
return out;`, &got)
	if want := (look{0, "bars count: put issued"}); got.Far != want {
		t.Errorf("from afar %+v, want %+v", got.Far, want)
	}
	if want := (look{1 + 11, ""}); got.Close != want {
		t.Errorf("closer up %+v, want %+v", got.Close, want)
	}
}
