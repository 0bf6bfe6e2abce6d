package svg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/viztest"
)

func file(t testing.TB, d *Drawing) string {
	t.Helper()
	var b bytes.Buffer
	if n, err := d.WriteTo(&b); err != nil || int(n) != b.Len() {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	return b.String()
}

// run is a GEMM and an all-to-all on two streams of one rank; the all-to-all is longer by a time.
func run(name, kernel string, longer trace.Time) *trace.Run {
	b := new(trace.Builder)
	rank := b.AddRank(trace.Rank{World: 1, Device: trace.Device{Name: "NVIDIA H200"}})
	lane := func(id int64) trace.LaneID {
		return b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: id, Peer: trace.None})
	}
	gemm := b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: 1})
	comm := b.AddComm(trace.Comm{Op: trace.AllToAll, Group: trace.None, Peer: trace.None})
	nccl := b.AddKernel(trace.Kernel{Comm: comm, Op: trace.None, Origin: 2})
	span := func(k trace.Kind, name string, l trace.LaneID, attr int32, start, end trace.Time) trace.SpanID {
		return b.Add(trace.Span{Start: start, End: end, Name: b.Intern(name), Lane: l, Parent: trace.None, Attr: attr, Kind: k})
	}
	parent := span(trace.Compute, kernel, lane(7), gemm, 1000, 61_000)
	span(trace.Collective, "ncclDevKernel_SendRecv", lane(20), nccl, 62_000, 90_000+longer)
	for wg := range 2 {
		l := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		for tile := range 3 {
			attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(2*tile + wg), Persistent: int32(wg), Peer: 3, Row: trace.None, Col: trace.None})
			at := trace.Time(1000 + 20_000*tile)
			w := b.Add(trace.Span{Start: at, End: at + 20_000, Name: b.Intern(kernel), Lane: l, Parent: parent, Attr: attr, Kind: trace.Workgroup})
			b.Add(trace.Span{Start: at + 15_000, End: at + 20_000, Name: b.Intern(""), Lane: l, Parent: w, Attr: attr, Kind: trace.PhaseStore})
		}
	}
	return b.Finish(trace.Options{Name: name, Simulated: true})
}

func TestTimeline(t *testing.T) {
	views := []layout.View{
		{Run: run("bulk", "gemm", 0), Gaps: []layout.Gap{{Queue: 7, From: 61_000, To: 90_000, Cause: "flag"}}},
		{Run: run("fused", "gemm", 9000)},
	}
	viztest.Golden(t, "lanes.svg", file(t, Timeline(layout.New(views), Options{Title: "two strategies", Path: true})))
	compared, err := layout.Compared(views, 0, layout.Part{Name: "gemm → all_to_all", Ops: []int32{1, 2}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	viztest.Golden(t, "part.svg", file(t, Timeline(compared, Options{Title: "a pair", Width: 800})))
	viztest.Golden(t, "window.svg", file(t, Timeline(layout.New(views), Options{
		Title: "a window", From: 60_000, To: 70_000, Width: 600, Show: func(row int) bool { return row > 0 },
	})))
}

// Segments narrower than a pixel share it, so that the size does not grow with the number of spans.
func TestTimelineOfManySpans(t *testing.T) {
	size := func(n int) int {
		b := new(trace.Builder)
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{}), Peer: trace.None})
		for i := range n {
			kind := trace.Compute
			if i%3 == 0 {
				kind = trace.Copy
			}
			b.Add(trace.Span{Start: trace.Time(10 * i), End: trace.Time(10*i + 7), Name: b.Intern("k"), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: kind})
		}
		d := Timeline(layout.New([]layout.View{{Run: b.Finish(trace.Options{})}}), Options{})
		return len(d.Inline())
	}
	if few, many := size(5000), size(100_000); many > few+few/2 || many > 60_000 {
		t.Errorf("%d bytes for 5,000 spans, %d for 100,000", few, many)
	}
}

func TestRows(t *testing.T) {
	viztest.Golden(t, "rows.svg", file(t, Rows(Graph{
		Title: "Utilisation", To: 100_000, Width: 700,
		Groups: []Group{{"bulk", []Quantity{
			{Name: "SMs", Color: "#56b4e9", Most: 1, Points: []Point{{0, 0}, {1000, 1}, {61_000, 0.25}, {90_000, 0}}},
			{Name: "links", Color: "#cc79a7", Most: 450, Unit: "GB/s", Points: []Point{{62_000, 311}}},
			{Name: "nothing", Color: "#000000", Points: nil},
		}}},
	})))
}

func TestDifferences(t *testing.T) {
	c := Deltas{Title: "Differences by state", Write: func(v float64) string { return fmt.Sprintf("%+.0f µs", v) }, Width: 700}
	c.Rows = []Delta{{"exposed communication", -566}, {"compute", 243}, {"idle", 0}}
	c.Desc = c.Describe()
	viztest.Golden(t, "differences.svg", file(t, Differences(c)))
	for _, rows := range [][]Delta{nil, {{"a", 0}}, {{"a", 3}, {"b", 1}}, {{"a", -3}}} {
		c.Rows = rows
		text := file(t, Differences(c))
		wellFormed(t, text)
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%v: %s", rows, text)
		}
	}
}

// elements counts the elements of a document, which must be well-formed.
func elements(text string) (map[string]int, error) {
	found := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if e, ok := token.(xml.StartElement); ok {
			found[e.Name.Local]++
		}
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	if _, err := elements(text); err != nil {
		t.Errorf("%v in %s", err, text)
	}
}

// Whatever a trace's names hold, they stay text: the document is well-formed and has the
// elements of the same trace with harmless names, and each name twice gives the same bytes.
func TestHostileText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.Just(`</text><script>alert(1)</script>`), rapid.Just(`"><image href="x"/>`), rapid.Just("\x00\x1b]0;\xff]]>\u202e")).Draw(t, "name")
		draw := func(name string) string {
			v := []layout.View{{Run: run(name, name, 0), Name: name}, {Run: run(name, name, 5), Name: name}}
			var b strings.Builder
			for _, d := range []*Drawing{
				Timeline(layout.New(v), Options{Title: name}),
				Rows(Graph{Title: name, Groups: []Group{{name, []Quantity{{Name: name, Color: "#000000"}}}}}),
				Differences(Deltas{Title: name, Desc: name, Rows: []Delta{{name, 1}, {name, -1}}, Write: func(float64) string { return name }}),
			} {
				b.WriteString(d.Inline())
			}
			return b.String()
		}
		got := draw(name)
		found, err := elements("<all>" + got + "</all>")
		if err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		for element := range found {
			if !strings.Contains(" all svg title desc rect text path g ", " "+element+" ") {
				t.Fatalf("name %q became <%s>", name, element)
			}
		}
		if got != draw(name) {
			t.Fatal("two drawings of the same differ")
		}
	})
}
