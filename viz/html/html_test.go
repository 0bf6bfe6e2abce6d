package html

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func render(t testing.TB, rep Report) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Write(&b, rep))
	return b.String()
}

// document is the JSON of a page.
func document(t testing.TB, page string) data {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<script type="application/json" id="data">`)
	text, _, ok2 := strings.Cut(rest, "</script>")
	if !ok || !ok2 {
		t.Fatal("the page has no data")
	}
	var d data
	must.Do(t, json.Unmarshal([]byte(text), &d))
	return d
}

// spans reads a panel's spans as page/data.js does.
func spans(t testing.TB, p *panel) []segment {
	t.Helper()
	z := must.Have(gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(p.Spans))))(t)
	b := must.Have(io.ReadAll(z))(t)
	read := func(f func([]byte) (int64, int)) int64 {
		v, n := f(b)
		if n <= 0 {
			t.Fatalf("%d bytes before the end: no number", len(b))
		}
		b = b[n:]
		return v
	}
	number := func() int64 {
		return read(func(b []byte) (int64, int) {
			v, n := binary.Uvarint(b)
			return int64(v), n
		})
	}
	signed := func() int64 { return read(binary.Varint) }
	first := map[int]bool{}
	n := 0
	p.each(0, func(r *row) {
		first[n], first[n+r.Spans] = true, true
		n += r.Spans + r.Marks
	})
	out := make([]segment, n)
	for i := range out {
		out[i].start = trace.Time(signed())
	}
	for i := range out {
		if !first[i] {
			out[i].start += out[i-1].end
		}
		out[i].end = out[i].start + trace.Time(number())
	}
	for i := range out {
		out[i].kind = uint8(number())
	}
	for i := range out {
		out[i].name = int32(number())
	}
	for i := range out {
		out[i].detail = int32(signed())
		if !first[i] {
			out[i].detail += out[i-1].detail
		}
	}
	if len(b) > 0 {
		t.Fatalf("%d bytes after the last span", len(b))
	}
	return out
}

// dump writes a panel as text: what a reader of the page sees, row by row.
func dump(t testing.TB, d data, p *panel, detail func(int32) string) string {
	var b strings.Builder
	all := spans(t, p)
	for _, s := range p.Sections {
		fmt.Fprintf(&b, "%s | %s | %s\n", s.Title, s.Time, s.Group)
		for _, r := range s.Rows {
			fmt.Fprintf(&b, "  %s", r.Label)
			if r.Cluster {
				b.WriteString(" (new cluster)")
			}
			if r.Of != "" {
				b.WriteString(" of " + r.Of)
			}
			b.WriteString("\n")
			for _, g := range all[:r.Spans+r.Marks] {
				fmt.Fprintf(&b, "    %6d %6d %-20s %s %s\n", g.start, g.end-g.start, d.Kinds[g.kind].Label, d.Names[g.name], detail(g.detail))
			}
			all = all[r.Spans+r.Marks:]
		}
	}
	return strings.ReplaceAll(regexp.MustCompile(` +\n`).ReplaceAllString(b.String(), "\n"), "  \n", "\n")
}

func TestData(t *testing.T) {
	page := render(t, sample())
	d := document(t, page)
	golden(t, "lanes.golden", dump(t, d, d.Lanes, func(i int32) string { return d.Details[i] }))
	golden(t, "workgroups.golden", dump(t, d, d.Workgroups, func(i int32) string { return fmt.Sprintf("tile %d", i-1) }))
	if again := render(t, sample()); again != page {
		t.Error("the same report, written twice, differs")
	}
}

func TestPage(t *testing.T) {
	// What is around the data, the style and the scripts.
	page := render(t, sample())
	page = regexp.MustCompile(`(?s)(<style>|id="data">|id="echarts">|<script>).*?(</style>|</script>)`).ReplaceAllString(page, "$1…$2")
	page = regexp.MustCompile(`sha256-.*?&#39;`).ReplaceAllString(page, "sha256-…&#39;")
	golden(t, "page.golden", page)
}

// Whatever the parts of a page say, they cannot become markup or code.
func TestHostileText(t *testing.T) {
	page := render(t, hostile())
	if n := strings.Count(page, "<script"); n != 3 {
		t.Errorf("%d script elements, want 3", n)
	}
	if n := strings.Count(page, "</script"); n != 3 {
		t.Errorf("%d ends of scripts, want 3", n)
	}
	for _, page := range []string{page, render(t, hostile())} {
		for _, bad := range []string{"<img", "<svg/", "<image"} {
			if strings.Contains(page, bad) {
				t.Errorf("%q reached the page", bad)
			}
		}
	}
	d := document(t, page)
	if want := strings.ToValidUTF8(evil(3), "\ufffd"); !slices.Contains(d.Names, want) {
		t.Errorf("the names %q lack %q", d.Names, want)
	}
}

func evil(i int) string {
	return fmt.Sprintf(`%d</script><script>window.pwned=1</script><img src=x onerror="window.pwned=2"><svg/onload=window.pwned=3>{a|b}{b}__f__window.pwned=4__f__`+"\u2028\x1b[31m\xff\x00'\"`${window.pwned=5}", i)
}

// hostile is a report whose every text comes from an attacker.
func hostile() Report {
	b := new(trace.Builder)
	rank := b.AddRank(trace.Rank{ID: trace.None, Source: evil(1), Device: trace.Device{Name: evil(2)}})
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None, Name: evil(4)})
	group := b.AddGroup(trace.Group{Name: evil(5)})
	comm := b.AddComm(trace.Comm{Group: group, Peer: trace.None})
	attr := b.AddKernel(trace.Kernel{Comm: comm, Op: trace.None, Origin: trace.None})
	k := b.Add(trace.Span{End: 1000, Name: b.Intern(evil(3)), Lane: lane, Parent: trace.None, Attr: attr, Kind: trace.Collective})
	wgs := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, Peer: trace.None, Name: evil(6)})
	w := b.Add(trace.Span{End: 1000, Name: b.Intern(evil(3)), Lane: wgs, Parent: k, Attr: trace.None, Kind: trace.Workgroup})
	b.Add(trace.Span{Start: 500, End: 1000, Name: b.Intern(evil(7)), Lane: wgs, Parent: w, Attr: trace.None, Kind: trace.PhaseWait})
	return Report{
		Title:      evil(10),
		Facts:      []Fact{{evil(11), evil(12)}},
		Captured:   1500,
		Strategies: []Bar{{Name: evil(13), Note: evil(14), Time: 1000}},
		Runs:       []Named{{Name: evil(16), Note: evil(17), Run: b.Finish(trace.Options{Name: evil(18)})}, {Name: evil(19), Run: bulkRun()}},
		Numbers:    &Table{Columns: []Column{{evil(24), true}}, Rows: [][]string{{evil(25)}}},
		Tables:     []Table{{Title: evil(20), Note: evil(21), Columns: []Column{{evil(22), true}}, Rows: [][]string{{evil(23)}}}},
	}
}

// A report asks for nothing, and has the charts' library in it.
func TestSelfContained(t *testing.T) {
	page := strings.ReplaceAll(render(t, sample()), "http://www.w3.org/2000/svg", "") // a name that nothing is read from
	for _, bad := range []string{"https:", "http:", "src=", "href=", "@import", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("a page contains %q", bad)
		}
	}
	var b strings.Builder
	must.Do(t, Write(&b, sample()))
	if !strings.Contains(b.String(), base64.StdEncoding.EncodeToString(library)) || !strings.Contains(unpack(library), "Licensed to the Apache Software Foundation") {
		t.Error("a report does not carry ECharts and its notice")
	}
}

// A page without scripts says what is missing, and has every table.
func TestWithoutScripts(t *testing.T) {
	page := render(t, sample())
	for _, want := range []string{"<noscript><p class=\"warning\">Charts, timelines, search and sorting need JavaScript.", `<td class="number">100.0</td>`, "<td>peer skew</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A report can be shown in a terminal.
func TestReportIsPlain(t *testing.T) {
	var b strings.Builder
	must.Do(t, Write(&b, hostile()))
	for _, r := range b.String() {
		if r != '\n' && r != '\t' && guard.Line(string(r)) != string(r) {
			t.Fatalf("%U is in a report", r)
		}
	}
}

// asset is the SHA-384 of dist/echarts.min.js of the version that package-lock.json pins.
const asset = "pPi0zxBAoDu6+JXW/C68UZLvBUUtU+7zonhif43rqj7pxsGyqyqzcian2Rj37Rss"

// The pins agree, and the lock file holds hashes and no place to download from.
func TestPins(t *testing.T) {
	lock := must.Have(os.ReadFile("package-lock.json"))(t)
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("package-lock.json names a host")
	}
	if !bytes.Contains(lock, []byte(`"echarts": "`+echartsVersion+`"`)) {
		t.Errorf("package-lock.json does not pin ECharts %s", echartsVersion)
	}
	sum := sha512.Sum384([]byte(unpack(library)))
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != asset {
		t.Errorf("the embedded ECharts has SHA-384 %s, want %s", got, asset)
	}
}
