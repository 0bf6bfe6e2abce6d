package html

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

func TestGapsLieBetweenSpans(t *testing.T) {
	for _, c := range []struct{ spans, gaps, want string }{
		{"", "..gggg", "..gggg"},
		{"aa....bb", "..gggg", "aaggggbb"},
		{"aa....bb", "gggggggggg", "aaggggbbgg"},
		{"aa..bb..cc", ".ggg.ggg.hh", "aaggbbggcch"},
		{"aa....bb", "..gg.h", "aagg.hbb"},
	} {
		segments := func(line string) (list []segment) {
			for start := 0; start < len(line); {
				end := start
				for end < len(line) && line[end] == line[start] {
					end++
				}
				if line[start] != '.' {
					list = append(list, segment{start: trace.Time(start), end: trace.Time(end), kind: line[start]})
				}
				start = end
			}
			return list
		}
		var got []byte
		for _, s := range between(segments(c.spans), segments(c.gaps)) {
			if int(s.start) < len(got) {
				t.Errorf("%s and %s: one segment lies on another at %d", c.spans, c.gaps, s.start)
			}
			got = append(got, strings.Repeat(".", int(s.start)-len(got))...)
			got = append(got, strings.Repeat(string(s.kind), int(s.end-s.start))...)
		}
		if string(got) != c.want {
			t.Errorf("%s and %s: %s, want %s", c.spans, c.gaps, got, c.want)
		}
	}
}

func TestEncodeIsReadBack(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		var p panel
		var want []segment
		for range rapid.IntRange(1, 4).Draw(rt, "rows") {
			var r row
			var at trace.Time
			for range rapid.IntRange(0, 20).Draw(rt, "spans") {
				at += trace.Time(rapid.Int64Range(0, 1<<40).Draw(rt, "gap"))
				g := segment{start: at, kind: 3, name: rapid.Int32Range(0, 1<<20).Draw(rt, "name"), detail: rapid.Int32Range(0, 1<<30).Draw(rt, "detail")}
				at += trace.Time(rapid.Int64Range(0, 1<<40).Draw(rt, "duration"))
				g.end = at
				r.spans = append(r.spans, g)
			}
			want = append(want, r.spans...)
			p.Sections = append(p.Sections, section{Rows: []row{r}})
		}
		must.Do(rt, p.encode())
		if diff := cmp.Diff(want, spans(t, &p), cmp.AllowUnexported(segment{}), cmpopts.EquateEmpty()); diff != "" {
			rt.Errorf("-want +got\n%s", diff)
		}
	})
}

// Merging keeps to the limit, loses no time that a span began or ended at the
// edge of, and spares the first rows.
func TestFit(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := panel{FirstRows: 1}
		var s section
		for range 3 {
			var r row
			var at trace.Time
			for range rapid.IntRange(50, 200).Draw(t, "spans") {
				at += trace.Time(rapid.Int64Range(0, 50).Draw(t, "gap"))
				end := at + trace.Time(rapid.Int64Range(0, 100).Draw(t, "duration"))
				r.spans = append(r.spans, segment{start: at, end: end, kind: uint8(rapid.IntRange(1, 3).Draw(t, "kind"))})
				r.marks = append(r.marks, segment{start: at, end: at, kind: 4})
				at = end
			}
			s.Rows = append(s.Rows, r)
		}
		p.Sections = []section{s}
		before := p
		before.Sections = []section{{Rows: append([]row(nil), s.Rows...)}}
		for i, r := range s.Rows {
			before.Sections[0].Rows[i].marks = append([]segment(nil), r.marks...)
		}
		most := p.count(0) * 2 / 3
		d := newDictionary()
		p.fit(d, most)
		if n := p.count(0); n > most {
			t.Fatalf("%d spans, at most %d allowed", n, most)
		}
		if p.Note == "" {
			t.Error("merged silently")
		}
		spared := p.count(0)-p.count(1) == before.count(0)-before.count(1)
		if roomy := before.count(0)-before.count(1) <= most/2; roomy && !spared {
			t.Error("the first row was merged although there was room for it")
		}
		for i, r := range p.Sections[0].Rows {
			old := before.Sections[0].Rows[i].spans
			if r.spans[0].start != old[0].start || r.spans[len(r.spans)-1].end != old[len(old)-1].end {
				t.Error("a row begins or ends elsewhere")
			}
			n := 0
			for _, g := range r.spans {
				var k int
				if _, err := fmt.Sscanf(d.names[g.name], "%d spans", &k); err != nil {
					k = 1
				}
				n += k
			}
			if n != len(old) {
				t.Errorf("blocks stand for %d spans of %d", n, len(old))
			}
		}
	})
}

func manySpans(n int) *trace.Run {
	b := new(trace.Builder)
	for id := range 4 {
		rank := b.AddRank(trace.Rank{ID: id})
		for q := range int64(3) {
			lane := queue(b, rank, q)
			for i := range n / 12 {
				start := trace.Time(i*9000 + (i*7919)%3000)
				b.Add(trace.Span{
					Start: start, End: start + 5000 + trace.Time(i*104729%900), Name: b.Intern(fmt.Sprintf("kernel_%d", i%97)),
					Lane: lane, Parent: trace.None, Attr: trace.None, Kind: []trace.Kind{trace.Compute, trace.Collective, trace.Copy}[i%7%3],
				})
			}
		}
	}
	return b.Finish(trace.Options{})
}

// A report of a million workgroups, ECharts included, can be mailed.
func TestReportSize(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a report of a million workgroups")
	}
	page := render(t, Report{Title: "large", Runs: []Named{{Name: "run", Run: tiledRun(999_000)}}})
	n := 0
	document(t, page).Workgroups.each(0, func(r *row) { n += r.Spans })
	if n < 999_000 {
		t.Errorf("the page has %d workgroups", n)
	}
	if len(page) > 3_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

func BenchmarkWriteKernels(b *testing.B)    { benchmarkWrite(b, manySpans(1_000_000)) }
func BenchmarkWriteWorkgroups(b *testing.B) { benchmarkWrite(b, tiledRun(999_000)) }
func BenchmarkWritePhases(b *testing.B)     { benchmarkWrite(b, fusedRun(83_000, 16)) } // 1 M spans and marks on 83,000 rows

func benchmarkWrite(b *testing.B, run *trace.Run) {
	var size int
	for b.Loop() {
		var buf bytes.Buffer
		must.Do(b, Write(&buf, Report{Title: "benchmark", Runs: []Named{{Name: "run", Run: run}}}))
		size = buf.Len()
	}
	b.ReportMetric(float64(size)/float64(len(run.Spans)), "B/span")
}

// tiledRun is a kernel on each of two ranks, whose workgroups run on 1056 slots.
func tiledRun(workgroups int) *trace.Run {
	b := new(trace.Builder)
	noise := rand.New(rand.NewPCG(1, 2))
	for id := range 2 {
		rank := b.AddRank(trace.Rank{ID: id, World: 2})
		attr := b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: int32(id)})
		kernel := b.Add(trace.Span{End: 1, Name: b.Intern("gemm"), Lane: queue(b, rank, 7), Parent: trace.None, Attr: attr, Kind: trace.Compute})
		const slots = 1056
		var last trace.Time
		for slot := range slots {
			lane := b.Lane(trace.Lane{Kind: trace.Slot, Rank: rank, ID: int64(slot / 8), Sub: int32(slot % 8), Peer: trace.None})
			at := trace.Time(slot % 97)
			for wg := slot; wg < workgroups/2; wg += slots {
				attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(wg), Peer: int32(wg/slots) % 2, CU: int32(slot / 8), Row: trace.None, Col: trace.None})
				end := at + 5000 + trace.Time(noise.IntN(600))
				b.Add(trace.Span{Start: at, End: end, Name: b.Intern("gemm"), Lane: lane, Parent: kernel, Attr: attr, Kind: trace.Workgroup})
				at = end
			}
			last = max(last, at)
		}
		b.Span(kernel).End = last
	}
	return b.Finish(trace.Options{Name: "tiled", Simulated: true})
}
