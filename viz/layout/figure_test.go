package layout

import (
	"compress/gzip"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/rocprof"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Warps that a profiler looked into are rows of their workgroups, of which the heading counts those.
func TestFigureOfWarps(t *testing.T) {
	run := drawn("CC", "CC", "CC", "CC")
	for i := range run.Lanes {
		if l := &run.Lanes[i]; l.Kind == trace.Persistent {
			l.ID, l.Sub = l.ID/2, int32(l.ID%2)
		}
	}
	figure := must.Have(Figure11(View{Run: run}, Figure{}))(t)
	var headings []string
	for _, tl := range []*Timeline{figure, New([]View{{Run: run}})} {
		for _, row := range tl.Rows {
			if row.Kind == GroupHeading {
				headings = append(headings, row.Label)
			}
		}
	}
	if got, want := strings.Join(headings, "; "), "WG 0, 2 warps; WG 1, 2 warps; workgroups (2, 4 warps)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// drawn builds a run of one rank from timelines, a line a persistent
// workgroup, a column 10 ns: C and R a tile for this rank and for a peer, each
// letter run one tile; s the store of the tile before it, w waiting, v and V vacant,
// p an instant in which the tile before it issues a put.
func drawn(lines ...string) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	gpu := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None})
	kernel := b.Add(trace.Span{Name: b.Intern("fused"), Kind: trace.Compute, Lane: gpu, Parent: trace.None, Attr: trace.None})
	for id, line := range lines {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(id), Peer: trace.None})
		for i := 0; i < len(line); {
			n := i + 1
			for n < len(line) && line[n] == line[i] {
				n++
			}
			addDrawn(&b, line[i], trace.Span{Start: trace.Time(10 * i), End: trace.Time(10 * n), Lane: lane, Parent: kernel})
			if line[i] != 'v' && line[i] != 'V' {
				b.Span(kernel).End = max(b.Span(kernel).End, trace.Time(10*n))
			}
			i = n
		}
	}
	return b.Finish(trace.Options{Name: "drawn"})
}

func addDrawn(b *trace.Builder, letter byte, s trace.Span) {
	tile := func(peer int32) {
		s.Kind = trace.Workgroup
		s.Attr = b.AddWorkgroup(trace.WorkgroupAttr{Persistent: int32(s.Lane), CU: trace.None, Peer: peer, Row: trace.None, Col: trace.None})
		wg := b.Add(s)
		s.Kind, s.Parent = trace.PhaseCompute, wg
		b.Add(s)
	}
	last := trace.SpanID(b.Len() - 1)
	for b.Span(last).Kind != trace.Workgroup && b.Span(last).Parent != trace.None {
		last = b.Span(last).Parent
	}
	s.Attr = trace.None
	switch letter {
	case 'C':
		tile(0)
	case 'R':
		tile(1)
	case 's':
		b.Span(last).End = s.End
		s.Kind, s.Parent, s.Attr = trace.PhaseStore, last, b.Span(last).Attr
		b.Add(s)
	case 'p':
		b.Span(last).End = s.End
		s.Kind, s.Parent, s.Name, s.End = trace.PhasePut, last, b.Intern("put"), s.Start
		b.Add(s)
	case 'v', 'V':
		s.Kind, s.Parent = trace.PhaseWait, trace.None
		b.Add(s)
	case 'w':
		s.Kind = trace.Workgroup
		wg := b.Add(s)
		s.Kind, s.Parent = trace.PhaseWait, wg
		b.Add(s)
	}
}

// drawRows writes a row a line: when its computation ended, its marks, its cells.
func drawRows(tl *Timeline, cells int) string {
	var b strings.Builder
	for i, row := range tl.Rows {
		if row.Kind < LaneRow {
			fmt.Fprintf(&b, "%s\n", row.Label)
			continue
		}
		fmt.Fprintf(&b, "%*s%s  done %d  marks", 2*row.Depth, "", row.Label, row.ComputeEnd)
		for _, m := range row.Marks {
			fmt.Fprintf(&b, " %c%d", m.Kind.Glyph(), m.At)
		}
		b.WriteString(" |")
		for _, c := range tl.Merge(nil, i, tl.Start, tl.End, cells, 0) {
			b.WriteByte(c.Class.Ink().Letter)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

func TestFigureChoices(t *testing.T) {
	run := drawn("RC", "RC", "RC")
	for _, c := range []struct {
		figure Figure
		rows   int // workgroups
		err    string
	}{
		{Figure{}, 3, ""},
		{Figure{Rows: 2}, 2, ""},
		{Figure{Rows: -1}, 3, ""},
		{Figure{Rank: 1}, 0, "rank row 1: the run has 1"},
		{Figure{Launch: 1}, 0, `launch 1 of kernel "fused": there are 1`},
	} {
		tl, err := Figure11(View{Run: run}, c.figure)
		if got := fmt.Sprint(err); err != nil && got != c.err || err == nil && c.err != "" {
			t.Errorf("%+v: error %v, want %q", c.figure, err, c.err)
		}
		rows := 0
		for i := 0; err == nil && i < len(tl.Rows); i++ {
			if tl.Leaf(i) {
				rows++
			}
		}
		if rows != c.rows {
			t.Errorf("%+v: %d workgroups, want %d", c.figure, rows, c.rows)
		}
	}
	if _, err := Figure11(View{Run: kernelsOnly()}, Figure{}); err == nil || !strings.Contains(err.Error(), "no workgroups") {
		t.Errorf("a run of kernels: error %v", err)
	}
}

func kernelsOnly() *trace.Run {
	var b trace.Builder
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{}), Peer: trace.None})
	b.Add(trace.Span{End: 10, Kind: trace.Compute, Lane: lane, Parent: trace.None, Attr: trace.None})
	return b.Finish(trace.Options{})
}

// TestFigureMeasured checks on a real run what Figure 11 is to show: a fused
// kernel of 132 persistent workgroups on H200, remote tiles first.
func TestFigureMeasured(t *testing.T) {
	const path = "../../samples/moe-down-fused-wg/gemm_moe_down_fused_aware_rank1_wg_trace.csv.gz"
	f := must.Have(os.Open(path))(t)
	defer f.Close()
	z := must.Have(gzip.NewReader(f))(t)
	run := must.Have(rocprof.ReadWG(z, path))(t)
	tl := must.Have(Figure11(View{Run: run}, Figure{}))(t)
	var last trace.Time
	slicesDone := 0
	for i, row := range tl.Rows {
		if row.Kind == GroupHeading {
			if n := row.After - i - 1; n != 16 || row.Lanes != 16 {
				t.Errorf("a cluster of %d workgroups, %d lanes", n, row.Lanes)
			}
			last = 0
			continue
		}
		if row.ComputeEnd < last {
			t.Errorf("%s ends its computation at %d, the row before it at %d", row.Label, row.ComputeEnd, last)
		}
		last = row.ComputeEnd
		remote := func(id trace.SpanID) bool { return tl.Class(i, id).remote() }
		local := func(id trace.SpanID) bool { return tl.Class(i, id) == Local }
		lastRemote := len(row.Spans) - 1
		for ; lastRemote > 0 && !remote(row.Spans[lastRemote]); lastRemote-- {
		}
		if first := slices.IndexFunc(row.Spans, local); first < lastRemote {
			t.Errorf("%s computes span %d for itself before span %d for a peer", row.Label, first, lastRemote)
		}
		for _, m := range row.Marks {
			switch {
			case m.Kind == SliceDone:
				slicesDone++
			case m.Kind != StoreIssued || slices.ContainsFunc(row.Marks, func(o Mark) bool { return o.Kind == SliceDone && o.At < m.At }):
				t.Errorf("%s: %s at %d", row.Label, m.Kind, m.At)
			}
		}
	}
	if len(tl.Rows) != 2+32 || slicesDone != 4 { // 2 of 8 tiles stay
		t.Errorf("%d rows, %d local slices complete; want 34 and 4", len(tl.Rows), slicesDone)
	}
}

// TestFigureSender: of several kernels, the one that sends is shown, even if
// another has more workgroups.
func TestFigureSender(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	at := trace.Time(0)
	for _, k := range []struct {
		name  string
		tiles int
		peer  int32
	}{{"plain", 5, 0}, {"fused", 2, 1}, {"fused", 3, 1}, {"unknown", 9, trace.None}} {
		kernel := b.Add(trace.Span{
			Name: b.Intern(k.name), Kind: trace.Compute, Start: at, End: at + 10, Parent: trace.None, Attr: trace.None,
			Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None}),
		})
		for i := range k.tiles {
			b.Add(trace.Span{
				Kind: trace.Workgroup, Start: at, End: at + 10, Parent: kernel, Attr: b.AddWorkgroup(trace.WorkgroupAttr{Peer: k.peer}),
				Lane: b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(i), Peer: trace.None}),
			})
		}
		at += 10
	}
	run := b.Finish(trace.Options{})
	for _, c := range []struct {
		figure Figure
		title  string
		rows   int
	}{
		{Figure{}, "fused on rank 0, launch 1 of 2", 3},
		{Figure{Launch: 1}, "fused on rank 0, launch 2 of 2", 4},
	} {
		tl := must.Have(Figure11(View{Run: run}, c.figure))(t)
		if tl.Title != c.title || len(tl.Rows) != c.rows {
			t.Errorf("%+v: %q, %d rows; want %q, %d", c.figure, tl.Title, len(tl.Rows), c.title, c.rows)
		}
	}
}

// The title says of a simulated run that nobody measured its workgroups.
func TestFigureTitles(t *testing.T) {
	run := *drawn("RCC", "RCC")
	for simulated, want := range map[bool]string{true: "modelled workgroups of fused on rank 0 (not measured)", false: "fused on rank 0"} {
		run.Simulated = simulated
		tl, err := Figure11(View{Run: &run}, Figure{})
		if err != nil || tl.Title != want {
			t.Errorf("simulated %v: %q, %v, want %q", simulated, tl.Title, err, want)
		}
	}
}

// The class of what is computed for a peer says how many ranks further on it is, around the end of the ranks.
func TestDestinations(t *testing.T) {
	for _, c := range []struct {
		rank, peer int
		want       Class
	}{{0, 0, Local}, {0, 1, remote1}, {0, 2, remote2}, {0, 3, remote3}, {3, 0, remote1}, {3, 2, remote3}, {1, 7, remote3}, {1, trace.None, Local}} {
		var b trace.Builder
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: b.AddRank(trace.Rank{ID: c.rank, World: max(4, c.peer+1)}), Peer: trace.None})
		b.Add(trace.Span{
			Kind: trace.Workgroup, End: 10, Name: b.Intern("wg"), Lane: lane, Parent: trace.None,
			Attr: b.AddWorkgroup(trace.WorkgroupAttr{Peer: int32(c.peer)}),
		})
		r := b.Finish(trace.Options{})
		if got := destination(r, r.Spans[0]); got != c.want {
			t.Errorf("rank %d for %d: %s, want %s", c.rank, c.peer, got, c.want)
		}
	}
}

// The title and the bounds say by how much a rank's kernel ended before that of the slowest rank, where clocks agree.
func TestFigureSlowest(t *testing.T) {
	for _, c := range []struct {
		from  trace.Time // of rank 1's kernel, of 60 ns; rank 0's is from 0 to 50
		title string
		ends  trace.Time
	}{
		{10, "fused on rank 0, ends 20 ns before rank 1", 70},
		{-20, "fused on rank 0", 50},
		{900, "fused on rank 0", 50}, // no time is shared
	} {
		var b trace.Builder
		for id, at := range []trace.Time{0, c.from} {
			rank := b.AddRank(trace.Rank{ID: id, World: 2})
			s := trace.Span{Kind: trace.Compute, Start: at, End: at + trace.Time(50+10*id), Name: b.Intern("fused")}
			s.Parent, s.Attr = trace.None, trace.None
			s.Lane = b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None})
			s.Parent = b.Add(s)
			s.Kind, s.Attr = trace.Workgroup, b.AddWorkgroup(trace.WorkgroupAttr{Peer: 1})
			s.Lane = b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, Peer: trace.None})
			b.Add(s)
		}
		run := b.Finish(trace.Options{})
		tl := must.Have(Figure11(View{Run: run}, Figure{}))(t)
		if got := tl.Bounds().To - tl.Start; tl.Title != c.title || got != c.ends {
			t.Errorf("rank 1 from %d: %q to %d, want %q to %d", c.from, tl.Title, got, c.title, c.ends)
		}
	}
}

// Three lanes of ranges and more are below a heading that starts out closed; fewer are lanes of the rank.
func TestAnnotationHeading(t *testing.T) {
	for lanes, want := range map[int]string{2: "rank 0; annotations 0; annotations 1", 3: "rank 0; annotations (3); annotations 0; annotations 1; annotations 2"} {
		var b trace.Builder
		rank := b.AddRank(trace.Rank{})
		for id := range lanes {
			b.Add(trace.Span{
				Kind: trace.Marker, End: 10, Name: b.Intern("range"), Parent: trace.None, Attr: trace.None,
				Lane: b.Lane(trace.Lane{Kind: trace.Annotation, Rank: rank, ID: int64(id), Peer: trace.None}),
			})
		}
		var got []string
		for _, row := range New([]View{{Run: b.Finish(trace.Options{})}}).Rows {
			got = append(got, row.Label)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%d lanes: %s, want %s", lanes, strings.Join(got, "; "), want)
		}
	}
}
