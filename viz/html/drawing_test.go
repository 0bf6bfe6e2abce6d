package html

import (
	"bytes"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/viztest"
)

func drawing(t testing.TB, r Report, o Picture) string {
	t.Helper()
	d, err := r.Draw(o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if n, err := d.WriteTo(&b); err != nil || int(n) != b.Len() {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	return b.String()
}

// streamsRun is a GEMM and an all-to-all on two streams of one rank; the all-to-all is longer by a time.
func streamsRun(name, kernel string, longer trace.Time) *trace.Run {
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

func TestDraw(t *testing.T) {
	r := Report{Parts: []layout.Part{{Name: "gemm → all_to_all", Ops: []int32{1, 2}}}, Runs: []Named{
		{Name: "bulk", Run: streamsRun("bulk", "gemm", 0), Gaps: []overlap.Reason{{Queue: 7, Start: 61_000, End: 90_000, Cause: "flag"}}},
		{Name: "fused", Run: streamsRun("fused", "gemm", 9000)},
	}}
	viztest.Golden(t, "lanes.svg", drawing(t, r, Picture{Title: "two strategies", Path: true}))
	viztest.Golden(t, "part.svg", drawing(t, r, Picture{Title: "a pair", Width: 800, Kernel: r.Parts[0].Name}))
	viztest.Golden(t, "window.svg", drawing(t, r, Picture{Title: "a window", From: 60_000, To: 70_000, Width: 600}))
	if _, err := r.Draw(Picture{Rank: 1}); err == nil {
		t.Error("a rank that no run has is drawn")
	}
}

// The page's figure and its script draw the same rows, marks and gaps.
func TestFigureShowsThePanel(t *testing.T) {
	rep := sample()
	rep.Shown, rep.Rank = []int{0, 1}, 1
	d, names, err := newData(rep)
	if err != nil {
		t.Fatal(err)
	}
	d.Lanes.Pick = "rank 1"
	figure := rep.figure(d.Lanes, names, "queues").Inline()
	for _, s := range d.Lanes.Sections {
		for _, r := range s.Rows {
			if shown := s.Group == "rank 1" && !r.Detail; shown != strings.Contains(figure, ">"+s.Group+" · "+r.Label+"<") && r.Strip {
				t.Errorf("%s of %s, %s: shown %v in %s", r.Label, s.Name, s.Group, shown, figure)
			}
		}
	}
	if n := strings.Count(figure, ">nvjet_sm90_tst_128x256<"); n != 1 {
		t.Errorf("the GEMM of rank 1 is drawn %d times", n)
	}
}

// Segments narrower than a pixel are merged, so that the size does not grow with the number of spans.
func TestDrawManySpans(t *testing.T) {
	size := func(n int) int {
		b := new(trace.Builder)
		lane := queue(b, b.AddRank(trace.Rank{}), 0)
		for i := range n {
			kind := trace.Compute
			if i%3 == 0 {
				kind = trace.Copy
			}
			b.Add(trace.Span{Start: trace.Time(10 * i), End: trace.Time(10*i + 7), Name: b.Intern("k"), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: kind})
		}
		return len(drawing(t, Report{Runs: []Named{{Run: b.Finish(trace.Options{})}}}, Picture{}))
	}
	if few, many := size(5000), size(100_000); many > few+few/2 || many > 80_000 {
		t.Errorf("%d bytes for 5,000 spans, %d for 100,000", few, many)
	}
}
