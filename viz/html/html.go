// Package html writes a report: one HTML file with charts, timelines and
// tables, self-contained.
//
//	Report ──bars───────▶ go-echarts options ─┐                 ┌─ECharts─────▶ bars
//	       ──lanes──────▶ panel of rows       ├─▶ JSON in page ─┤
//	       ──workgroups─▶ panel of rows      ─┤                 ├─page/*.js───▶ timelines
//	       ──useGraphs──▶ shares over time   ─┘                 └─page/use.js─▶ utilisation
//	       ──tables─────▶ html/template ───────────────────────────────────────▶ tables
//
// A page without scripts has the numbers of its bars as tables, and says that its drawings need them.
//
// Names in a report come from traces and are untrusted text. They reach the page
// as escaped HTML or as strings of a JSON document, never as markup or code,
// and the page's policy lets only the scripts run that this package wrote.
package html

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// A Report is everything that the page shows. It is plain data. Empty parts are left out of the page.
type Report struct {
	Title      string
	Verdict    []string      // the recommendation, then how sure it is and why
	Facts      []Fact        // shown below the title: machine, capture, model error
	HowTitle   string        // of How
	How        []Step        // how to get the recommended strategy
	Changes    *Chart        // of the time of a step by each strategy, above the bars; nil: none
	ChangesTo  string        // below it: which strategies it leaves out
	Strategies []Bar         // in the order they are shown
	Captured   trace.Time    // the captured schedule's time, a line across all bars; 0: none
	Heading    string        // of the bars; "": "Strategies"
	Runs       []Named       // in the order they are shown, one below the other on one time axis
	Shown      []int         // runs that timelines show at first; nil: the first and the three shortest others
	Rank       int           // that timelines show at first if there are many, as in trace.Rank.ID
	Parts      []layout.Part // pairs that the workgroups of runs are compared on; nil: each kernel
	Inside     bool          // what to look at is inside kernels: the workgroups are open
	Numbers    *Table        // every number of the bars; nil: none
	Tables     []Table       // idle causes, evidence, ledger
	Others     []Report      // of which the changes are shown alone, with their Heading: of other phases
}

// A Fact is a short statement about the whole report.
type Fact struct{ Name, Value string }

// A Step is a part of how to get a strategy: text, and what to write as it stands.
type Step struct{ Text, Code string }

// A Bar is one strategy.
type Bar struct {
	Name          string          // with its settings: "decompose chunks=4"
	Note          string          // beside it: its time and change
	Time          trace.Time      // of an iteration; 0 if it did not run
	overlap.Times                 // what Time consists of, mean of ranks
	Ranks         []overlap.Times // by rank
}

// A Named is a run with its name in the report.
type Named struct {
	Name  string // in addresses
	Says  string // on the page; "": Name
	Note  string // printed next to its time: "−22.8 %"; may be ""
	Time  string // of an iteration, as the other parts of the page have it; "": the length of the run is shown
	Run   *trace.Run
	Start trace.Time       // of its first iteration: timelines show all runs from there
	Gaps  []overlap.Reason // why queues were stalled, where known
	// CopyOf is as of layout.View; the lanes of copies are not drawn.
	CopyOf []int
	Layer  func(trace.Span) string // for which module a collective is, and what it does: "blocks.3 all_gather"; nil or "": not known
	Use    []Use                   // what its ranks use over time; nil: counts of kernels and copies
}

// A Table is rows of text under a heading.
type Table struct {
	Title   string
	Note    string // a sentence above the table
	Columns []Column
	Rows    [][]string
	Chart   *Chart // shown above the rows; nil: none
	Folded  bool   // until the reader opens it
}

// A Column is the header of a column. Numbers are right-aligned and sorted by value.
type Column struct {
	Name   string
	Number bool
}

// Number reports whether a column has numbers.
func (t Table) Number(column int) bool { return column < len(t.Columns) && t.Columns[column].Number }

// A numbered table has a chart, which is one of the page's charts.
type numbered struct {
	Table
	Nth int
}

// The assets are in the repository. These lines, which need npm and the network,
// put there what package-lock.json pins, to change its version.
//
//go:generate npm ci --ignore-scripts --no-audit --no-fund
//go:generate npm run --silent embed

//go:embed page
var page embed.FS

// echartsVersion is that of the charts' library.
const echartsVersion = "5.6.0"

// library is ECharts, compressed.
//
//go:embed assets/echarts.min.js.gz
var library []byte

// unpack decompresses ECharts.
func unpack(library []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(library))
	if err != nil {
		panic(err) // embedded at build time
	}
	b, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// view is what page.html is filled with.
type view struct {
	Report
	Policy                string
	Style                 template.CSS
	Data, ECharts, Script template.JS
	EChartsVersion        string
	Chart                 *Chart // nil: none
	ChangesNth            int
	Lanes, Workgroups     bool // there are timelines of that kind
	Use                   *useGraphs
	Tables                []numbered
}

// Write writes the report to w. No character that a terminal must not get is in it.
func Write(w io.Writer, rep Report) error {
	v := view{
		Report:         rep,
		Style:          template.CSS(pageFile("page.css")),
		Script:         template.JS(script()),
		EChartsVersion: echartsVersion,
		ECharts:        template.JS(base64.StdEncoding.EncodeToString(library)),
		Chart:          rep.chart(),
		Use:            rep.useGraphs(),
	}
	d, err := newData(rep)
	if err != nil {
		return fmt.Errorf("report %q: %w", rep.Title, err)
	}
	v.Lanes, v.Workgroups = d.Lanes != nil, d.Workgroups != nil
	if v.Use != nil {
		d.Use = v.Use.List
	}
	v.Policy = policy(string(v.Script), unpack(library))
	if v.Chart != nil {
		d.Charts = append(d.Charts, v.Chart.option())
	}
	var tables []Table
	for _, other := range rep.Others {
		tables = append(tables, Table{Title: other.Heading, Chart: other.Changes})
	}
	for _, t := range append(tables, rep.Tables...) {
		if len(t.Rows) == 0 && (t.Chart == nil || len(t.Chart.Bars) == 0) {
			continue
		}
		if t.Chart != nil && len(t.Chart.Bars) == 0 {
			t.Chart = nil
		}
		v.Tables = append(v.Tables, numbered{t, len(d.Charts)})
		if t.Chart != nil {
			d.Charts = append(d.Charts, t.Chart.option())
		}
	}
	if v.ChangesNth = len(d.Charts); rep.Changes != nil {
		d.Charts = append(d.Charts, rep.Changes.option())
	}
	var text bytes.Buffer
	if err := json.NewEncoder(guard.JSON(&text)).Encode(d); err != nil { // escapes <, > and &, so that no name can end the script
		return fmt.Errorf("report %q: %w", rep.Title, err)
	}
	v.Data = template.JS(text.String())
	if err := fill(w, "page.html", v); err != nil {
		return fmt.Errorf("report %q: %w", rep.Title, err)
	}
	return nil
}

// fill writes a page whose gaps are filled with the fields of v. Texts are escaped for where they stand.
func fill(w io.Writer, name string, v any) error {
	t, err := template.ParseFS(page, "page/"+name)
	if err != nil {
		return err
	}
	return t.Execute(guard.Writer(w), v)
}

func pageFile(name string) string {
	b, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // embedded at build time
	}
	return string(b)
}

// script is the page's own code, in the order that its files need.
func script() string {
	var b strings.Builder
	b.WriteString("\"use strict\";\n(() => {\n")
	for _, name := range []string{"node.js", "tables.js", "data.js", "use.js", "paint.js", "timeline.js", "input.js", "address.js", "page.js"} {
		b.WriteString(pageFile(name))
	}
	b.WriteString("})();\n")
	return b.String()
}

// policy is the page's content security policy: no network, and of scripts
// only those whose hash it states.
func policy(scripts ...string) string {
	p := "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
	for _, s := range scripts {
		p += " " + hash(s)
	}
	return p
}

func hash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
