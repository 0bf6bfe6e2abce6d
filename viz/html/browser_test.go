package html

import (
	"bytes"
	"context"
	"encoding/json"
	stdhtml "html"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// browser finds Chromium. Without one the test is skipped, or fails where
// OVERLAPSE_NEED_BROWSER=1 says that there must be one.
func browser(t testing.TB) string {
	t.Helper()
	missing := t.Skip
	if os.Getenv("OVERLAPSE_NEED_BROWSER") == "1" {
		missing = t.Fatal
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing("no Chromium on the path (apt-get install chromium)")
	return ""
}

// probe is what a script found in a page, and what went wrong there.
type probe struct {
	Value     json.RawMessage
	Errors    []string // uncaught, of the page
	Refused   []string // by the page's policy
	Resources []string // asked for from anywhere
	Console   string   // standard error of the browser
}

// driver runs first in the page and waits for it to be drawn. Its own hash is added
// to the page's policy, which stays in force for everything else.
const driver = `
const found = {Errors: [], Refused: [], Resources: []};
addEventListener("error", (e) => found.Errors.push(String(e.message)));
addEventListener("unhandledrejection", (e) => found.Errors.push(String(e.reason)));
document.addEventListener("securitypolicyviolation", (e) => found.Refused.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
const frame = () => new Promise((done) => setTimeout(done, 60));
addEventListener("load", async () => {
  for (let i = 0; i < 100 && !window.overlapse; i++) await frame();
  try {
    found.Value = await (async () => { BODY })();
  } catch (e) {
    found.Errors.push("driver: " + e.stack);
  }
  found.Resources = performance.getEntriesByType("resource").map((r) => r.name);
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});`

// quiet are the flags of a browser without a window, that asks no network for anything.
func quiet(profile string) []string {
	return []string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + profile,
	}
}

// visit opens the page in a browser that resolves no name, runs the body of an
// async function in it, and decodes what it returns into value.
func visit(t *testing.T, page, body string, value any, flags ...string) probe {
	t.Helper()
	chromium := browser(t)
	script := strings.Replace(driver, "BODY", body, 1)
	page = strings.Replace(page, "script-src ", "script-src "+stdhtml.EscapeString(hash(script))+" ", 1)
	page = strings.Replace(page, "<title>", "<script>"+script+"</script><title>", 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "report.html")
	must.Do(t, os.WriteFile(file, []byte(page), 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	args := append(append(quiet(filepath.Join(dir, "profile")),
		"--enable-logging=stderr", "--window-size=1400,1000", "--virtual-time-budget=30000", "--dump-dom"), flags...)
	cmd := exec.CommandContext(ctx, chromium, append(args, "file://"+file)...)
	cmd.WaitDelay = time.Second
	var console strings.Builder
	cmd.Stderr = &console
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", chromium, err, console.String())
	}
	m := regexp.MustCompile(`(?s)<pre id="found">(.*?)</pre>`).FindSubmatch(dom)
	if m == nil {
		t.Fatalf("the page did not come to its end\n%s", console.String())
	}
	var p probe
	must.Do(t, json.Unmarshal([]byte(stdhtml.UnescapeString(string(m[1]))), &p))
	for _, line := range strings.Split(console.String(), "\n") {
		if strings.Contains(line, "CONSOLE") {
			p.Console += line + "\n"
		}
	}
	if len(p.Errors)+len(p.Refused)+len(p.Resources) > 0 || p.Console != "" {
		t.Errorf("errors %q, refused %q, asked for %q, console %q", p.Errors, p.Refused, p.Resources, p.Console)
	}
	if value != nil && len(p.Errors) == 0 {
		if err := json.Unmarshal(p.Value, value); err != nil {
			t.Fatalf("%v in %s", err, p.Value)
		}
	}
	return p
}

// drawn is what a timeline says that it drew.
type drawn struct{ Rows, Spans, Rects, Texts, Marks int }

// inks counts the distinct colours of a canvas, on a grid of points.
const inks = `
const inks = (host) => {
  const seen = new Set();
  for (const c of host.querySelectorAll("canvas")) {
    const {data} = c.getContext("2d").getImageData(0, 0, c.width, c.height);
    for (let i = 0; i < data.length; i += 4 * 7) if (data[i + 3] === 255) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  }
  return [...seen].map((c) => "#" + c.toString(16).padStart(6, "0"));
};`

func TestBrowserDraws(t *testing.T) {
	t.Parallel()
	var got struct {
		Lanes, Workgroups           drawn
		BarInks, LaneInks, WorkInks []string
		Labels                      []string
		Legend                      string
	}
	visit(t, render(t, sample()), unfold+inks+`
const {lanes, workgroups, bars} = overlapse;
bars.chart.getZr().flush();
return {
  Lanes: lanes.drawn, Workgroups: workgroups.drawn,
  BarInks: inks(bars.host), LaneInks: inks(lanes.canvas), WorkInks: inks(workgroups.canvas),
  Labels: [...workgroups.labels.querySelectorAll(".lane")].map((e) => e.textContent), Legend: document.querySelector("#workgroups .legend").textContent,
};`, &got)
	// Both runs: seven kernels and copies and seven states with their names, five thin states and two gaps without. Annotations are hidden by default.
	if want := (drawn{Rows: 8, Spans: 21, Rects: 21, Texts: 14}); got.Lanes != want {
		t.Errorf("lanes drew %+v, want %+v", got.Lanes, want)
	}
	// Eight workgroups of nine segments, three stores and a slice each.
	if want := (drawn{Rows: 8, Spans: 8 * 13, Rects: 8 * 9, Marks: 8 * 4}); got.Workgroups.Rows != want.Rows ||
		got.Workgroups.Spans != want.Spans || got.Workgroups.Rects != want.Rects || got.Workgroups.Marks != want.Marks {
		t.Errorf("workgroups drew %+v, want %+v", got.Workgroups, want)
	}
	if want := "WG 1 WG 5 WG 2 WG 6 WG 3 WG 7 WG 0 WG 4"; strings.Join(got.Labels, " ") != want {
		t.Errorf("rows are %q, want them by the end of computation: %s", got.Labels, want)
	}
	for name, c := range map[string]struct{ inks, want []string }{
		"bars":       {got.BarInks, []string{"#56b4e9", "#e69f00", "#cc79a7", "#0072b2", "#a6a6a6"}},
		"lanes":      {got.LaneInks, []string{"#56b4e9", "#cc79a7", "#0072b2"}},
		"workgroups": {got.WorkInks, []string{"#56b4e9", "#9c5a00", "#f0e442", "#999999"}},
	} {
		for _, w := range c.want {
			if !strings.Contains(strings.Join(c.inks, " "), w) {
				t.Errorf("%s: no pixel is %s", name, w)
			}
		}
	}
	for _, w := range []string{"compute for rank +1", "store to a peer", "local slice complete", "wait"} {
		if !strings.Contains(got.Legend, w) {
			t.Errorf("the legend lacks %q: %q", w, got.Legend)
		}
	}
}

func TestBrowserZooms(t *testing.T) {
	t.Parallel()
	var got map[string]struct{ Start, End float64 }
	visit(t, render(t, sample()), `
const t = overlapse.lanes, views = {};
const note = async (name) => { await frame(); views[name] = {...t.view}; };
const press = async (key, name) => { t.scroller.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})); await note(name); };
await note("whole");
await press("w", "in");
await press("d", "right");
await press("a", "back");
await press("s", "out");
const box = t.stage.getBoundingClientRect(), at = (x, y) => ({clientX: box.x + x, clientY: box.y + y, bubbles: true, cancelable: true});
t.stage.dispatchEvent(new MouseEvent("mousedown", {...at(200, 80), shiftKey: true}));
t.stage.dispatchEvent(new MouseEvent("mousemove", {...at(400, 80), buttons: 1, shiftKey: true}));
t.stage.dispatchEvent(new MouseEvent("mouseup", {...at(400, 80), shiftKey: true}));
await note("measured");
await press("f", "range");
views.asked = {start: 200 / (box.width - 14) * 100000, end: 400 / (box.width - 14) * 100000};
await press("0", "everything");
const wheel = new WheelEvent("wheel", {...at(500, 80), deltaY: -120, ctrlKey: true});
Object.defineProperty(wheel, "wheelDelta", {value: 120}); // made by hand, it has the wrong sign
t.canvas.firstElementChild.dispatchEvent(wheel);
await note("wheel");
for (const [type, x, buttons] of [["mousedown", 500, 1], ["mousemove", 450, 1], ["mousemove", 400, 1], ["mouseup", 400, 0]]) {
  t.canvas.firstElementChild.dispatchEvent(new MouseEvent(type, {...at(x, 80), buttons}));
}
await note("drag");
await press("0", "again");
const line = t.lines.find((l) => l.row && l.row.label === "stream 20");
t.select({i: line.row.from, line});
await press("f", "fit");
const { origin, scale } = t.geometry, x = (at) => origin + at * scale, left = parseFloat(t.hover.style.left) + 1.5;
views.outline = {start: left - x(t.spans.start[line.row.from]), end: left + parseFloat(t.hover.style.width) - 3 - x(t.spans.end[line.row.from])};
for (let i = 0; i < 60; i++) t.zoom(0.5, 70000);
await note("least");
return views;`, &got)
	width := func(name string) float64 { return got[name].End - got[name].Start }
	near := func(a, b, within float64) bool { return a-b < within && b-a < within }
	if width("whole") != 100_000 || !near(width("in"), 72_000, 1) || !near(got["in"].Start, 14_000, 1) {
		t.Errorf("W zooms from %v to %v", got["whole"], got["in"])
	}
	if !near(got["right"].Start, 14_000+0.18*72_000, 1) || !near(width("right"), 72_000, 1) || !near(got["back"].Start, 14_000, 1) {
		t.Errorf("D and A move from %v to %v and back to %v", got["in"], got["right"], got["back"])
	}
	if !near(width("out"), 100_000, 1) || !near(width("everything"), 100_000, 1) {
		t.Errorf("S zooms out to %v, 0 to %v", got["out"], got["everything"])
	}
	if a := got["asked"]; !near(got["range"].Start, a.Start, 100) || !near(got["range"].End, a.End, 100) {
		t.Errorf("dragging with Shift zooms to %v, want %v", got["range"], a)
	}
	if w := width("wheel"); w > 95_000 || w < 50_000 {
		t.Errorf("Ctrl and the wheel zoom to %v", got["wheel"])
	}
	if !near(width("drag"), width("wheel"), 1) || got["drag"].Start < got["wheel"].Start+1000 {
		t.Errorf("dragging moves from %v to %v", got["wheel"], got["drag"])
	}
	if f := got["fit"]; f.Start > 62_000 || f.End < 97_000 || width("fit") > 50_000 {
		t.Errorf("F shows %v for a span from 62000 to 97000", f)
	}
	if o := got["outline"]; !near(o.Start, 0, 1) || !near(o.End, 0, 1) {
		t.Errorf("behind F the outline is %v px from the selected span", o)
	}
	if w := width("least"); !near(w, 40, 1) {
		t.Errorf("the closest view is %v ns", w)
	}
}

func TestBrowserTellsAboutSpans(t *testing.T) {
	t.Parallel()
	var got struct {
		Tip, Picked, Other []string
		Found              string
		Rows, Annotated    int
	}
	visit(t, render(t, sample()), `
const t = overlapse.lanes, box = t.stage.getBoundingClientRect();
const line = t.lines.find((l) => l.row && l.row.label === "stream 20");
const x = t.geometry.origin + 80000 * t.geometry.scale, y = t.geometry.top + line.top + 8;
const at = {clientX: box.x + x, clientY: box.y + y, bubbles: true};
t.stage.dispatchEvent(new MouseEvent("mousemove", at));
const lines = (e) => [...e.children].map((c) => c.textContent);
const out = {Tip: lines(t.tip)};
t.stage.dispatchEvent(new MouseEvent("mousedown", at));
t.stage.dispatchEvent(new MouseEvent("mouseup", at));
out.Picked = lines(t.picked);
out.Rows = t.drawn.rows;
t.controls.detail.click();
out.Annotated = t.drawn.rows;
t.find.value = "nvjet";
t.find.dispatchEvent(new Event("input"));
out.Found = document.querySelector("#timeline .found").textContent;
t.find.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
out.Other = lines(t.picked);
return out;`, &got)
	tip := "ncclDevKernel_SendRecv|communication|62.00 µs + 35.00 µs|captured, rank 0, stream 20|grid 24×1×1 = 24 workgroups · workgroup 544×1×1 = 544 threads · collective all_to_all · group 0, 2 ranks · bytes 64 MiB in, 64 MiB out · waits for peers 500 ns, the last is rank 1 · transfer 34.5 µs · rate 972.6 GB/s a rank"
	if strings.Join(got.Tip, "|") != tip {
		t.Errorf("the tooltip says %q", got.Tip)
	}
	if strings.Join(got.Picked, "|") != strings.ReplaceAll(tip, "|", "| · ") {
		t.Errorf("below it stands %q", got.Picked)
	}
	if got.Annotated != got.Rows+2 {
		t.Errorf("with annotations %d rows, without %d", got.Annotated, got.Rows)
	}
	if got.Found != "2 found" || got.Other[0] != "nvjet_sm90_tst_128x256" {
		t.Errorf("search: %q, then %q", got.Found, got.Other)
	}
}

func TestBrowserPrintsDarkPages(t *testing.T) {
	t.Parallel()
	type look struct {
		Paper  string
		Widths []float64
		Open   bool // nothing is folded
	}
	var got struct{ Screen, Print look }
	visit(t, render(t, sample()), `
const look = () => ({
  Paper: getComputedStyle(document.documentElement).backgroundColor,
  Widths: [overlapse.bars.chart.getWidth(), overlapse.lanes.size.width],
  Open: document.querySelectorAll("details.more:not([open])").length === 0,
});
const out = {Screen: look()};
dispatchEvent(new Event("beforeprint"));
out.Print = look();
return out;`, &got, "--blink-settings=preferredColorScheme=0")
	if got.Screen.Open || !got.Print.Open {
		t.Errorf("nothing folded: on screen %v, printed %v", got.Screen.Open, got.Print.Open)
	}
	if got.Screen.Paper != "rgb(22, 23, 26)" || got.Print.Paper != "rgb(255, 255, 255)" {
		t.Errorf("on screen %s, printed %s", got.Screen.Paper, got.Print.Paper)
	}
	for i, w := range got.Print.Widths {
		if w > 1030 || w >= got.Screen.Widths[i] {
			t.Errorf("chart %d is %v px wide on paper of 1030, %v on the screen", i, w, got.Screen.Widths[i])
		}
	}
}

func TestBrowserHostileText(t *testing.T) {
	t.Parallel()
	var got struct {
		Pwned   any
		Title   string
		Markup  int
		Tip     []string
		Heading string
	}
	visit(t, render(t, hostile()), `
const t = overlapse.lanes, line = t.lines.find((l) => l.row && !l.row.strip), box = t.stage.getBoundingClientRect(), g = t.geometry;
t.stage.dispatchEvent(new MouseEvent("mousemove", {clientX: box.x + g.origin + 500 * g.scale, clientY: box.y + g.top + line.top + 8, bubbles: true}));
t.controls.runs[0].click();
overlapse.bars.chart.dispatchAction({type: "showTip", seriesIndex: 0, dataIndex: 0});
await frame();
return {
  Pwned: window.pwned ?? null, Title: document.title, Markup: document.querySelectorAll("img, image, svg script, svg [onload], script[src]").length,
  Tip: [...t.tip.children].map((c) => c.textContent), Heading: document.querySelector("h1").textContent,
};`, &got)
	if got.Pwned != nil {
		t.Errorf("hostile text ran as code: %v", got.Pwned)
	}
	if got.Markup != 0 {
		t.Errorf("hostile text became %d elements", got.Markup)
	}
	if !strings.HasPrefix(got.Heading, "10</script><script>window.pwned=1</script><img") {
		t.Errorf("the heading reads %q", got.Heading)
	}
	if len(got.Tip) == 0 || !strings.HasPrefix(got.Tip[0], "3</script><script>") {
		t.Errorf("the tooltip reads %q", got.Tip)
	}
}

// A million spans are carried one by one, and few rectangles are drawn of them.
func TestBrowserManySpans(t *testing.T) {
	t.Parallel()
	run := manySpans(1_000_000)
	var got struct {
		Whole, Close drawn
		Text         int
	}
	visit(t, render(t, Report{Title: "many", Runs: []Named{{Name: "many", Run: run}}}), `
const t = overlapse.lanes, whole = t.drawn;
t.zoomTo(100e6, 100e6 + 50e3);
await frame();
return {Whole: whole, Close: t.drawn};`, &got)
	if got.Whole.Spans < 900_000 || got.Whole.Rects > 12*1400 || got.Whole.Rects < 12 {
		t.Errorf("everything: %+v", got.Whole)
	}
	if got.Close.Spans < 50 || got.Close.Spans > 90 || got.Close.Rects < got.Close.Spans-12 || got.Close.Texts < 50 {
		t.Errorf("50 µs of twelve queues with a kernel every 9 µs: %+v", got.Close)
	}
}

// The first screen has the verdict, the bars, how to get the strategy and the timeline, and
// the rest of the page is folded. Nothing is wider than the page.
func TestBrowserFirstScreen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size           string
		width, bottoms float64
	}{{"1400,900", 1400, 900}, {"800,900", 800, 1100}} {
		var got struct {
			Bottoms     []float64
			Wide, Tall  float64
			Shown, Open []string
			Rank        string
		}
		rep := sample()
		rep.Shown, rep.Rank = []int{0, 1}, 1
		rep.Tables[0].Folded = true
		visit(t, render(t, rep), `
return {
  Bottoms: [".verdict", "[data-chart]", "#how", ".scroller"].map((s) => document.querySelector(s).getBoundingClientRect().bottom),
  Wide: document.documentElement.scrollWidth, Tall: document.documentElement.scrollHeight,
  Open: [...document.querySelectorAll("details[open]")].map((d) => d.id),
};`, &got, "--window-size="+c.size)
		for i, b := range got.Bottoms {
			if b > c.bottoms || b < 20 {
				t.Errorf("%s: part %d ends at %v px", c.size, i, b)
			}
		}
		if got.Wide > c.width || got.Tall > 1600 || len(got.Open) > 0 {
			t.Errorf("%s: a page of %v by %v px, open %q", c.size, got.Wide, got.Tall, got.Open)
		}
	}
}

// The script for pictures draws a page, or a part of it as lines and text.
func TestPictures(t *testing.T) {
	t.Parallel()
	browser(t)
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	must.Do(t, os.WriteFile(page, []byte(render(t, sample())), 0o600))
	picture := func(address, name, width, height string, part ...string) []byte {
		file := filepath.Join(dir, name)
		if out, err := exec.Command("../../samples/pictures/picture.sh", append([]string{page + address, file, width, height}, part...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return must.Have(os.ReadFile(file))(t)
	}
	size := func(name string, text []byte) image.Point {
		c, err := png.DecodeConfig(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return image.Pt(c.Width, c.Height)
	}
	if got := size("page", picture("", "page.png", "900", "500")); got != image.Pt(900, 500) {
		t.Errorf("the page is drawn with %v px", got)
	}
	whole, part := picture("", "whole.png", "800", "300", "timeline"), picture("#t=60us-70us", "part.png", "800", "300", "timeline")
	if size("whole", whole) != image.Pt(800, 300) || bytes.Equal(whole, part) {
		t.Error("a range of time is drawn as the whole")
	}
	for _, part := range []string{"timeline", "workgroups"} {
		pdf := picture("", part+".pdf", "800", "300", part)
		if n := bytes.Count(pdf, []byte("/Type /Page\n")); !bytes.HasPrefix(pdf, []byte("%PDF-")) || n != 1 || bytes.Contains(pdf, []byte("/Subtype /Image")) {
			t.Errorf("%s: %d pages of %d bytes, or with pixels", part, n, len(pdf))
		}
	}
}

// unfold opens what is folded.
const unfold = `
for (const d of document.querySelectorAll("details")) d.open = true;
await frame();
await frame();
`
