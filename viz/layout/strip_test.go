package layout

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// timelineOf makes a run of one rank from a line per queue, a column a microsecond: C is
// compute, X a collective, D a copy.
func timelineOf(lines ...string) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0})
	kinds := map[rune]trace.Kind{'C': trace.Compute, 'X': trace.Collective, 'D': trace.Copy}
	for id, line := range lines {
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: int64(id), Peer: trace.None})
		for at := 0; at < len(line); at++ {
			kind, ok := kinds[rune(line[at])]
			if !ok {
				continue
			}
			from := at
			for at+1 < len(line) && line[at+1] == line[from] {
				at++
			}
			b.Add(trace.Span{Kind: kind, Start: trace.Time(from) * 1000, End: trace.Time(at+1) * 1000, Name: b.Intern(kind.String()), Lane: lane, Parent: trace.None, Attr: trace.None})
		}
	}
	return b.Finish(trace.Options{KeepZero: true})
}

// letters draws a row, a column a microsecond.
func letters(tl *Timeline, row, columns int) string {
	var out strings.Builder
	for _, c := range tl.Merge(nil, row, 0, trace.Time(columns)*1000, columns, 0) {
		out.WriteByte(c.Class.Ink().Letter)
	}
	return out.String()
}

// The heading of a rank shows compute, overlap, transfer and copies, and idle
// time with its cause.
func TestStrip(t *testing.T) {
	run := timelineOf(
		".CCCCC......CCC.",
		"....XXXX....DD..",
		"..DDD....D......")
	tl := New([]View{{Run: run, Gaps: []overlap.Reason{
		{Rank: 0, Queue: 0, Start: 6000, End: 9000, Cause: "flag"},
		{Rank: 0, Queue: 0, Start: 9000, End: 12000, Cause: "host"},
		{Rank: 0, Queue: 1, Start: 8000, End: 12000, Cause: "flag"},
	}}})
	if !tl.Rows[0].Strip || tl.Rows[0].Kind != RankHeading {
		t.Fatalf("the first row is %+v", tl.Rows[0])
	}
	if got, want := letters(tl, 0, 16), " CCCOOXX-D--CCC "; got != want {
		t.Errorf("the strip is %q, want %q", got, want)
	}
	var causes []string
	for _, id := range tl.Rows[0].Spans {
		if tl.Class(0, id) == vacant {
			causes = append(causes, tl.Run(0).NameOf(tl.Span(0, id)))
		}
	}
	if got, want := strings.Join(causes, "; "), "idle: flag; idle: host"; got != want {
		t.Errorf("idle time is %q, want %q", got, want)
	}
	classes, _ := tl.Present()
	if len(classes) != 5 {
		t.Errorf("the legend has %v", classes)
	}
}

// A run whose ranks all have strips has one too.
func TestStripOfRuns(t *testing.T) {
	run := timelineOf("CCXX")
	tl := New([]View{{Run: run, Name: "a"}, {Run: run, Name: "b"}})
	for row, want := range map[int]string{0: "CCXX", 1: "CCXX", 3: "CCXX"} {
		if got := letters(tl, row, 4); got != want || !tl.Rows[row].Strip {
			t.Errorf("row %d %q shows %q, want %q", row, tl.Rows[row].Label, got, want)
		}
	}
}

// Defects 8 and 15: vacant time is a class of its own that a legend explains, and in
// eight colours, without colours and in ASCII every class looks different.
func TestInksDiffer(t *testing.T) {
	type look struct {
		basic uint8
		shade rune
	}
	looks, letters, rgb := map[look]Class{}, map[byte]Class{}, map[uint32]Class{}
	for _, c := range Classes() {
		ink := c.Ink()
		if was, found := looks[look{ink.Basic, ink.Shade}]; found || ink.Basic == 0 || ink.Basic > 7 {
			t.Errorf("%s looks like %s in eight colours (%d %c)", c, was, ink.Basic, ink.Shade)
		}
		if was, found := letters[ink.Letter]; found {
			t.Errorf("%s and %s are both %c", c, was, ink.Letter)
		}
		if was, found := rgb[ink.RGB]; found {
			t.Errorf("%s has the colour of %s", c, was)
		}
		looks[look{ink.Basic, ink.Shade}], letters[ink.Letter], rgb[ink.RGB] = c, c, c
	}
	if len(Classes()) != int(numClasses)-1 {
		t.Errorf("the legend has %d of %d classes", len(Classes()), numClasses-1)
	}
	if store.Ink().Basic == remote1.Ink().Basic || vacant.Ink().RGB == 0 {
		t.Error("store and compute for a peer have one colour, or vacant time is black")
	}
}

// Defect 13: what limited a rank has the colours of what it is limited by.
func TestLimitsAreColoured(t *testing.T) {
	var b trace.Builder
	lane := b.Lane(trace.Lane{Kind: trace.Annotation, Rank: b.AddRank(trace.Rank{ID: 0}), Peer: trace.None, Name: limitName})
	for i, name := range []string{"compute", "memory", "egress", "dma", "host"} {
		at := trace.Time(i) * 1000
		b.Add(trace.Span{Kind: trace.Marker, Start: at, End: at + 1000, Name: b.Intern(name), Lane: lane, Parent: trace.None, Attr: trace.None})
	}
	tl := New([]View{{Run: b.Finish(trace.Options{Simulated: true, KeepZero: true})}})
	if got := letters(tl, 1, 5); got != "CMXD-" {
		t.Errorf("%s is %q", tl.Rows[1].Label, got)
	}
}

// A kernel that sends from inside is no pure compute on a rank of which only the kernels are recorded: the
// record of another rank has its puts, or its stores to a peer. Beside recorded puts the strip is exact.
func TestStripOfKernelsThatSend(t *testing.T) {
	for _, puts := range []bool{true, false} {
		var b trace.Builder
		for id := range 2 {
			rank := b.AddRank(trace.Rank{ID: id, World: 2})
			queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None})
			b.Add(trace.Span{Kind: trace.Compute, Start: 0, End: 2000, Name: b.Intern("before"), Lane: queue, Parent: trace.None, Attr: trace.None})
			kernel := b.Add(trace.Span{Kind: trace.Compute, Start: 2000, End: 8000, Name: b.Intern("gemm + all_to_all"), Lane: queue, Parent: trace.None, Attr: trace.None})
			switch {
			case id > 0:
			case puts:
				link := b.Lane(trace.Lane{Kind: trace.Link, Rank: rank, Peer: 1})
				b.Add(trace.Span{Kind: trace.Transfer, Start: 3000, End: 5000, Name: b.Intern("gemm + all_to_all"), Lane: link, Parent: trace.None, Attr: trace.None})
			default:
				on := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, Peer: trace.None})
				tile := b.AddWorkgroup(trace.WorkgroupAttr{Peer: 1, Persistent: 0, Row: trace.None, Col: trace.None})
				wg := b.Add(trace.Span{Kind: trace.Workgroup, Start: 2000, End: 8000, Name: b.Intern("gemm + all_to_all"), Lane: on, Parent: kernel, Attr: tile})
				b.Add(trace.Span{Kind: trace.PhaseStore, Start: 6000, End: 8000, Name: b.Intern("store"), Lane: on, Parent: wg, Attr: tile})
			}
		}
		tl, want := New([]View{{Run: b.Finish(trace.Options{KeepZero: true})}}), []string{"CCOOOOOO", "CCOOOOOO"}
		if puts {
			want[0] = "CCCOOCCC"
		}
		for row := range tl.Rows {
			if r := &tl.Rows[row]; r.Kind == RankHeading && letters(tl, row, 8) != want[r.Rank] {
				t.Errorf("puts %v: rank %d is %q, want %q", puts, r.Rank, letters(tl, row, 8), want[r.Rank])
			}
		}
	}
}
